//! Reads records back with the reader and the built-in schemas.

use etw_event::{Clock, ClockType, FileTime, HeaderKind, Origin, Record, Ticks};
use etw_schema::{Located, Resolver};

use super::{KernelEvent, ManifestEvent, RecordBuffer, Stamp};

/// The bytes of words, as a trace has them.
pub(crate) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The decoded words of a record: the kind of header, the event's names, and its fields as text, with lower-case
/// hexadecimal.
///
/// Fails unless the schema is of the very version, and the payload is used to the last byte.
pub(crate) fn decode(resolver: &mut Resolver, words: &[u64]) -> (HeaderKind, String, Vec<(String, String)>) {
    let clock = Clock::new(ClockType::SystemTime, Ticks(0), FileTime(0), 0);
    let origin = Origin { clock, ..Origin::default() };
    let bytes = bytes_of(words);
    let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
    assert_eq!(record.stride_bytes(), bytes.len());
    let compiled = resolver.resolve(&record).unwrap_or_else(|reason| panic!("{reason}")).clone();
    let mut located = Located::new();
    let event = compiled.locate(&record, &mut located);
    let schema = event.schema();
    let names = [schema.task_name.as_deref(), schema.opcode_name.as_deref()].map(Option::unwrap_or_default);
    let names = names.join("/");
    // The merge step's classes are known as version 0, which stands for all.
    if record.kind() != HeaderKind::Full64 {
        assert_eq!(schema.descriptor.version, record.descriptor().version, "{names}");
    }
    assert!(event.error().is_none() && event.rest().is_empty(), "{names}: {:?}", event.rest());
    let text_of = |text: String| match text.trim_start_matches('[').starts_with("0x") {
        true => text.to_ascii_lowercase(),
        false => text,
    };
    let fields =
        event.iter().map(|field| (field.name().to_owned(), text_of(field.text().to_string()))).collect();
    (record.kind(), names, fields)
}

/// The fields of an event after it was written and read.
pub(crate) fn fields_of(event: &impl KernelEvent) -> Vec<(String, String)> {
    let mut buffer = RecordBuffer::new();
    assert!(buffer.put(&Stamp::new(Ticks(1), 2, 3), event));
    let mut resolver = Resolver::new();
    decode(&mut resolver, buffer.words()).2
}

/// The text of one field.
pub(crate) fn text_of(event: &impl KernelEvent, name: &str) -> String {
    let fields = fields_of(event);
    fields.into_iter().find(|(field, _)| field == name).unwrap().1
}

/// Compares all fields.
pub(crate) fn check(event: &impl KernelEvent, expected: &[(&str, &str)]) {
    let fields = fields_of(event);
    let fields: Vec<_> = fields.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(fields, expected);
}

/// Compares all fields of a manifest event, and its header.
pub(crate) fn check_manifest(event: &impl ManifestEvent, expected: &[(&str, &str)]) {
    let mut buffer = RecordBuffer::new();
    let stamp = Stamp { time: Ticks(1), process_id: 2, thread_id: 3, cpu_times: Some((4, 5)) };
    assert!(buffer.put_manifest(&stamp, event));
    let words = buffer.records().next().unwrap();
    let bytes = bytes_of(words);
    let origin = Origin::default();
    let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
    assert_eq!((record.provider_id(), record.descriptor()), (event.provider(), event.descriptor()));
    assert_eq!((record.process_id(), record.thread_id()), (Some(2), Some(3)));
    assert_eq!((record.raw_time(), record.cpu_times()), (Ticks(1), Some((4, 5))));
    let fields = decode(&mut Resolver::new(), words).2;
    let fields: Vec<_> = fields.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(fields, expected);
}
