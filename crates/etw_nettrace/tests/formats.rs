//! Generated traces of each format.

#![allow(clippy::unwrap_used, reason = "a test")]

use etw_event::{Guid, PointerSize};
use etw_nettrace::{Damage, Definition, Event, FieldType, Item, Items, Label, OpenError, TraceFile};
use etw_testkit::nettrace::{Block, Row, START, Writer, definition, samples};

/// Everything in a trace.
#[derive(Default)]
struct Contents<'a> {
    events: Vec<(Event<'a>, Definition)>,
    damage: Vec<Damage>,
    sequence_points: usize,
    lost: u64,
    is_ended: bool,
}

fn read(bytes: &[u8]) -> Contents<'_> {
    let mut items = TraceFile::open(bytes).unwrap().items();
    let mut contents = Contents::default();
    while let Some(item) = items.next() {
        match item {
            Item::Event(event) => {
                contents.events.push((event, Items::definition(&items, event.definition).clone()));
            }
            Item::Damage(damage) => contents.damage.push(damage),
            Item::SequencePoint(_) => contents.sequence_points += 1,
            _ => {}
        }
    }
    (contents.lost, contents.is_ended) = (items.lost(), items.is_ended());
    contents
}

fn sample(name: &str) -> Vec<u8> {
    samples().into_iter().find(|(sample, _)| *sample == name).unwrap().1
}

#[test]
fn headers() {
    for (name, bytes) in samples() {
        let file = TraceFile::open(&bytes).unwrap();
        let header = file.header();
        assert_eq!(header.start_time.to_string(), "2024-02-03T04:05:06.0070000Z", "{name}");
        assert_eq!((header.start_ticks.0, header.frequency), (5_000, 1_000_000));
        assert_eq!((header.process_id, header.processors), (Some(77), Some(4)), "{name}");
        assert_eq!(header.pointer_size, PointerSize::Eight);
        assert!(!name.contains('6') || header.properties == [("Machine".to_owned(), "m".to_owned())]);
    }
    let version = |version: u8| [b"Nettrace\0\0\0\0", &[version, 0, 0, 0][..], &[0; 8]].concat();
    assert_eq!(TraceFile::open(&version(7)).unwrap_err(), OpenError::Version { version: 7 });
    assert!(matches!(TraceFile::open(&version(6)).unwrap_err(), OpenError::Header { .. }));
    assert_eq!(TraceFile::open(b"Nettrace").unwrap_err(), OpenError::NotTrace);
    assert_eq!(TraceFile::open(b"").unwrap_err(), OpenError::NotTrace);
}

#[test]
fn format_3_has_stacks_in_events() {
    let bytes = sample("format3");
    let contents = read(&bytes);
    assert_eq!((contents.damage, contents.lost, contents.is_ended), (vec![], 0, true));
    let [(nested, of_nested), (bare, of_bare)] = &contents.events[..] else { panic!() };
    assert_eq!((of_nested.name.as_str(), of_nested.version, of_nested.level), ("Nested", 2, 4));
    let FieldType::Object(members) = &of_nested.fields[0].field_type else { panic!() };
    assert_eq!((of_nested.fields[0].name.as_str(), members[0].name.as_str()), ("outer", "inner"));
    assert_eq!((nested.thread_id, nested.processor), (Some(8), None));
    assert_eq!(nested.activity_id, Guid::from_bytes([1; 16]));
    assert!(nested.stack.addresses().eq([1]));
    assert_eq!((bare.payload, of_bare.event_id, of_bare.fields.len()), (&b"raw"[..], 2, 0));
}

#[test]
fn format_5_has_arrays_stacks_and_losses() {
    for name in ["format5", "format5-plain"] {
        let bytes = sample(name);
        let contents = read(&bytes);
        assert_eq!(
            (contents.damage, contents.sequence_points, contents.is_ended),
            (vec![], 1, true),
            "{name}"
        );
        let [(first, definition), (second, _)] = &contents.events[..] else { panic!("{name}") };
        assert_eq!(definition.opcode, Some(24));
        let types: Vec<_> = definition.fields.iter().map(|field| field.field_type.clone()).collect();
        let array = |element: FieldType| FieldType::Array(Box::new(element));
        assert_eq!(types, [array(FieldType::UInt8), array(FieldType::Utf16Unit), FieldType::Utf16String]);
        assert_eq!((first.thread_id, first.processor, first.process_id), (Some(8), Some(1), Some(77)));
        assert_eq!(first.related_activity_id, Guid::from_bytes([2; 16]));
        assert!(first.stack.addresses().eq([0x1000, 0x2000]));
        assert_eq!((first.lost_before, second.lost_before), (0, 2));
        // The sequence point knows of two more.
        assert_eq!(contents.lost, 4, "{name}");
        assert_eq!(second.time.0, START as i64 + 4);
    }
}

#[test]
fn format_6_has_threads_labels_and_new_types() {
    for name in ["format6", "format6-plain"] {
        let bytes = sample(name);
        let contents = read(&bytes);
        assert_eq!(
            (contents.damage, contents.sequence_points, contents.is_ended),
            (vec![], 1, true),
            "{name}"
        );
        let [(all, definition), (cpu, of_cpu), (switch, of_switch)] = &contents.events[..] else { panic!() };
        let ids = |event: &Event<'_>| (event.process_id, event.thread_id);
        assert_eq!(ids(all), (Some(100), Some(1000)));
        assert_eq!(ids(cpu), (Some(200), Some(2000)));
        assert_eq!(ids(switch), (Some(300), Some(3000)), "the index is used again");
        assert_eq!((of_cpu.name.as_str(), of_switch.name.as_str()), ("cpu", "cswitch"));
        assert_eq!((definition.level, definition.version, definition.opcode), (3, 1, Some(32)));
        assert_eq!((definition.keywords, definition.message.as_deref()), (0x40, Some("m")));
        assert_eq!(definition.provider_id, Some(Guid::from_bytes([0xAB; 16])));
        assert_eq!(definition.fields.len(), 9);
        assert_eq!(definition.fields[3].field_type, FieldType::FixedArray(Box::new(FieldType::Int16), 2));
        assert_eq!(
            (all.activity_id, all.related_activity_id),
            (Guid::from_bytes([0x11; 16]), Guid::from_bytes([0x22; 16]))
        );
        let labels: Vec<Label<'_>> = all.labels.collect();
        assert_eq!(labels.len(), 10);
        assert_eq!(labels[4], Label::Text("key".into(), "value".into()));
        assert_eq!((&labels[5], &labels[9]), (&Label::Number("n".into(), -5), &Label::Version(5)));
        assert!(cpu.labels.is_empty() && all.stack.addresses().eq([0xAAAA]));
        assert!(switch.stack.as_bytes().is_empty());
        // Two before the second event, one known to the sequence point, and one to the removed thread. After the flush
        // of the threads nothing is known of the numbers before 50.
        assert_eq!(contents.lost, 2 + 1 + 2, "{name}");
    }
}

#[test]
fn missing_rows_are_damage() {
    let row = |metadata, sequence| Row { metadata, sequence, stack: 9, time: START, ..Row::default() };
    let bytes = Writer::new(5)
        .definitions(&[(1, definition("P", 1, "E", &[0; 4]))])
        .events(true, &[row(1, 1), row(2, 2)])
        .block(Block::Stack, &[1, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0])
        .block(Block::Event, &[1])
        .finish();
    let contents = read(&bytes);
    assert_eq!(contents.events.len(), 1);
    let what: Vec<&str> = contents.damage.iter().map(|damage| damage.what).collect();
    assert_eq!(
        what,
        [
            "an event's stack is missing",
            "an event has no definition; it is left out",
            "a block does not have all its stacks",
            "a block of events has no header",
        ]
    );
}

#[test]
fn damaged_files_are_read_on() {
    for (name, bytes) in samples() {
        let whole = read(&bytes).events.len();
        for len in 0..bytes.len() {
            if let Ok(file) = TraceFile::open(&bytes[..len]) {
                let mut items = file.items();
                let count = items.by_ref().filter(|item| matches!(item, Item::Event(_))).count();
                assert!(count <= whole && !items.is_ended(), "{name} {len}");
            }
        }
        for at in 0..bytes.len() {
            for bits in [0xFF, 1, 0x80, 0x40] {
                let mut broken = bytes.clone();
                broken[at] ^= bits;
                if let Ok(file) = TraceFile::open(&broken) {
                    assert!(file.items().take(10_000).count() < 10_000, "{name} {at}");
                }
            }
        }
    }
}
