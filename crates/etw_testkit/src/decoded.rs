//! Records as the reader and the built-in schemas read them back.

use etw_event::{Clock, ClockType, FileTime, HeaderKind, Origin, Record, Ticks};
use etw_schema::{Located, Resolver};

/// Returns the bytes of words, as a trace has them.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Decodes the words of a record. Returns the kind of header, the event's names, and its fields as text, with lower-case
/// hexadecimal.
///
/// # Panics
///
/// Panics unless the schema is of the very version, and the payload is used to the last byte.
pub fn decode(resolver: &mut Resolver, words: &[u64]) -> (HeaderKind, String, Vec<(String, String)>) {
    let clock = Clock::new(ClockType::SystemTime, Ticks(0), FileTime(0), 0);
    let origin = Origin { clock, ..Origin::default() };
    let bytes = bytes_of(words);
    let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap_or_else(|error| panic!("{error}"));
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
