//! Reads records back with the reader and the built-in schemas.

use etw_event::{Origin, Record, Ticks};
use etw_schema::Resolver;
use etw_testkit::decoded::{bytes_of, decode};

use super::{KernelEvent, ManifestEvent, RecordBuffer, Stamp};

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
