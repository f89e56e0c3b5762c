//! Traces rewritten by a callback: events that are changed, added and left out.

use std::fs;
use std::path::Path;

use openetw::etl::encode::{EventMetadata, RecordBuilder};
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::relog::{Assignment, EditError, EventCopy, RelogError, Relogger};
use openetw::{
    Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, HookId, Level, PointerSize, Ticks, Trace,
};

/// In-types of TraceLogging.
const UTF16: u8 = 1;
const ANSI: u8 = 2;
const UINT8: u8 = 4;
const INT32: u8 = 7;
const UINT32: u8 = 8;
const DOUBLE: u8 = 12;
const BOOLEAN: u8 = 13;
const GUID: u8 = 15;
const SID: u8 = 19;
const COUNTED_UTF16: u8 = 22;
const COUNTED_ANSI: u8 = 23;

const PROVIDER: Guid = Guid::from_u128(0x11223344_5566_7788_99aa_bbccddeeff00);

fn clock() -> Clock {
    Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000)
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn counted(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u16).to_le_bytes(), text].concat()
}

/// Returns an event with a field of each kind, between two numbers.
fn every_kind(number: u32) -> RecordBuilder {
    let metadata = EventMetadata::new("Kinds")
        .field("Number", UINT32)
        .field("Wide", UTF16)
        .field("Narrow", ANSI)
        .field("Counted", COUNTED_UTF16)
        .field("CountedNarrow", COUNTED_ANSI)
        .field("Small", UINT8)
        .field("Signed", INT32)
        .field("Real", DOUBLE)
        .field("Truth", BOOLEAN)
        .field("Id", GUID)
        .field("User", SID)
        .structure("Inner", 2)
        .field("Name", UTF16)
        .field("Size", UINT32)
        .field("Last", UINT32)
        .build();
    let payload = [
        number.to_le_bytes().to_vec(),
        wide("wide\0"),
        b"narrow\0".to_vec(),
        counted(&wide("counted")),
        counted(b"narrow"),
        vec![1],
        (-1i32).to_le_bytes().to_vec(),
        1.5f64.to_le_bytes().to_vec(),
        1u32.to_le_bytes().to_vec(),
        PROVIDER.to_bytes().to_vec(),
        vec![1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0],
        wide("inner\0"),
        7u32.to_le_bytes().to_vec(),
        0x1234_5678u32.to_le_bytes().to_vec(),
    ];
    let descriptor = EventDescriptor { channel: 11, level: Level(4), ..EventDescriptor::default() };
    RecordBuilder::event(PointerSize::Eight, PROVIDER, &descriptor)
        .process(4711, 1)
        .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
        .payload(&payload.concat())
}

/// Writes events of every kind on two processors.
fn write_source(path: &Path, count: u32) {
    let mut writer =
        EtlWriter::new(fs::File::create(path).unwrap(), WriterOptions::new(clock(), 8192, 2)).unwrap();
    for number in 0..count {
        let record = every_kind(number).time(Ticks(2000 + i64::from(number))).build().unwrap();
        writer.write((number % 2) as u16, &record).unwrap();
    }
    writer.finish(FileTime(0)).unwrap();
}

/// Returns the texts of the fields of all events of the provider, and checks that they are intact and in order.
fn texts(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut texts = Vec::new();
    let mut trace = Trace::open_file(path).unwrap();
    trace
        .for_each_event(|event| {
            if event.record.provider_id() == PROVIDER {
                let text = |field: &&str| event.find_path(field).unwrap().text().to_string();
                texts.push(fields.iter().map(text).collect());
            }
        })
        .unwrap();
    let statistics = trace.statistics();
    assert_eq!((statistics.inversions, statistics.damage_count, statistics.failed), (0, 0, 0));
    texts
}

#[test]
fn a_callback_changes_adds_and_leaves_out_events() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    write_source(&source, 100);
    let mut trace = Trace::open_file(&source).unwrap();
    let mut others = 0;
    let relogged = Relogger::new()
        .rewrite(&mut trace, &output, |event, out| {
            if event.record.provider_id() != PROVIDER {
                others += 1;
                out.inject(event);
                return Ok(());
            }
            match event.get::<u32>("Number")? % 4 {
                // Left out.
                0 => {}
                1 => out.inject(event),
                // Changed.
                2 => {
                    let mut copy = EventCopy::from_event(event);
                    copy.set("Wide", "a much longer text than before")?;
                    copy.set("Last", 99)?;
                    copy.set_process(1, 2)?;
                    out.inject_copy(&copy);
                }
                // Doubled, with a new event of another kind.
                _ => {
                    out.inject(event);
                    out.inject(event);
                    out.inject_new(every_kind(1000))?;
                }
            }
            Ok(())
        })
        .unwrap();
    let found = texts(&output, &["Number", "Wide", "Last"]);
    let last = 0x1234_5678.to_string();
    let mut expected: Vec<Vec<String>> = Vec::new();
    let mut expect = |number: u32, wide: &str, last: &str| {
        expected.push(vec![number.to_string(), wide.to_owned(), last.to_owned()]);
    };
    for number in 0..100 {
        match number % 4 {
            0 => {}
            1 => expect(number, "wide", &last),
            2 => expect(number, "a much longer text than before", "99"),
            _ => {
                expect(number, "wide", &last);
                expect(number, "wide", &last);
                expect(1000, "wide", &last);
            }
        }
    }
    assert_eq!(found, expected);
    assert_eq!(relogged.events, expected.len() as u64 + others);
    let mut processes = Vec::new();
    let mut trace = Trace::open_file(&output).unwrap();
    trace
        .for_each_record(|record| {
            if record.provider_id() == PROVIDER {
                processes.push((record.process_id(), record.thread_id()));
            }
        })
        .unwrap();
    assert_eq!(processes.iter().filter(|ids| **ids == (Some(1), Some(2))).count(), 25);
    // An error of the callback leaves no file.
    let failed =
        Relogger::new()
            .overwrite(true)
            .rewrite(&mut trace, directory.path().join("c.etl"), |_, _| Err("enough".into()));
    assert!(
        matches!(&failed, Err(RelogError::Rewrite(error)) if error.to_string() == "enough"),
        "{failed:?}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn every_kind_of_field_takes_values_that_fit() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    write_source(&source, 2);
    let long = "ä".repeat(3000);
    for (field, value, shown) in [
        ("wide", "", ""),
        ("Wide", long.as_str(), long.as_str()),
        ("Narrow", "n", "n"),
        ("Counted", "longer than before", "longer than before"),
        ("Counted", "", ""),
        ("CountedNarrow", "longer than before", "longer than before"),
        ("Small", "255", "255"),
        ("Small", "0x10", "16"),
        ("Signed", "-2147483648", "-2147483648"),
        ("Signed", "0xFFFFFFFF", "-1"),
        ("Real", "-0.25", "-0.25"),
        ("Truth", "false", "false"),
        ("Id", "{00000000-0000-0000-0000-000000000001}", "{00000000-0000-0000-0000-000000000001}"),
        ("Inner.Name", "another", "another"),
        ("Inner.Size", "8", "8"),
    ] {
        let mut trace = Trace::open_file(&source).unwrap();
        let assignment: Assignment = format!("{field}={value}").parse().unwrap();
        let relogger = Relogger::new().overwrite(true);
        let (relogged, counts) = relogger.write_with(&mut trace, &output, &[assignment]).unwrap();
        assert_eq!((relogged.events_lost, counts), (0, vec![2]), "{field}={value}");
        let known = if field == "wide" { "Wide" } else { field };
        let found = texts(&output, &["Number", known, "Inner.Size", "Last"]);
        for (number, texts) in found.iter().enumerate() {
            let size = if field == "Inner.Size" { "8" } else { "7" };
            let expected = [&number.to_string(), shown, size, &0x1234_5678.to_string()];
            assert_eq!(texts[0], expected[0]);
            assert_eq!(texts[1].to_lowercase(), expected[1], "{field}={value}");
            assert_eq!(texts[2..], expected[2..], "{field}={value}");
        }
        assert_eq!(found.len(), 2);
    }
}

#[test]
fn values_that_do_not_fit_are_refused_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    write_source(&source, 2);
    let large = format!("Wide={}", "x".repeat(40_000));
    for (assignment, message) in [
        ("Small=256", "'256' does not fit in field 'Small' (UInt8)"),
        ("Small=-1", "'-1' does not fit in field 'Small' (UInt8)"),
        ("Small=many", "'many' does not fit in field 'Small' (UInt8)"),
        ("Signed=2147483648", "'2147483648' does not fit in field 'Signed' (Int32)"),
        ("Real=x", "'x' does not fit in field 'Real' (Double)"),
        ("Id=x", "'x' does not fit in field 'Id' (GUID)"),
        ("User=x", "field 'User' cannot be set: it is of type SID"),
        ("Inner=x", "field 'Inner' cannot be set: it is a struct"),
        (&large, "a record has at most 65535"),
        ("Absent=1", "no event has the field Absent"),
        ("Inner.Absent=1", "no event has the field Inner.Absent"),
    ] {
        let mut trace = Trace::open_file(&source).unwrap();
        let assignments = [assignment.parse().unwrap()];
        let refused = Relogger::new().write_with(&mut trace, &output, &assignments).unwrap_err().to_string();
        assert!(refused.starts_with("nothing was written: ") && refused.contains(message), "{refused}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "{assignment}");
    }
}

#[test]
fn classic_events_of_the_kernel_change_too() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    let mut writer =
        EtlWriter::new(fs::File::create(&source).unwrap(), WriterOptions::new(clock(), 8192, 1)).unwrap();
    // Process/Start: keys and ids, no SID, three texts; and a context switch, whose header has no process.
    let payload = [&[0; 40][..], b"app\0", &wide("app -x\0"), &wide("\0"), &wide("\0")].concat();
    let start = RecordBuilder::system(PointerSize::Eight, HookId(0x0301), 4).process(4, 8).time(Ticks(2000));
    writer.write(0, &start.payload(&payload).build().unwrap()).unwrap();
    let switch = RecordBuilder::perf_info(PointerSize::Eight, HookId(0x0524), 4).time(Ticks(2001));
    writer.write(0, &switch.payload(&[0; 24]).build().unwrap()).unwrap();
    writer.finish(FileTime(0)).unwrap();
    let mut refused = Vec::new();
    Relogger::new()
        .rewrite(&mut Trace::open_file(&source).unwrap(), &output, |event, out| {
            let mut copy = EventCopy::from_event(event);
            if event.find("ImageFileName").is_some() {
                copy.set("ImageFileName", "renamed")?;
                copy.set("CommandLine", "")?;
                copy.set("ProcessId", "0x10")?;
                copy.set_process(5, 9)?;
            } else if let Err(error) = copy.set_process(5, 9) {
                refused.push(error);
            }
            out.inject_copy(&copy);
            Ok(())
        })
        .unwrap();
    assert!(matches!(&refused[..], [EditError::Header { part: "process and thread", .. }]), "{refused:?}");
    let (mut found, mut switches) = (Vec::new(), 0);
    let mut trace = Trace::open_file(&output).unwrap();
    trace
        .for_each_event(|event| {
            switches += u32::from(event.record.hook_id() == Some(HookId(0x0524)));
            if event.record.hook_id() == Some(HookId(0x0301)) {
                found.push((
                    event.get::<String>("ImageFileName").unwrap(),
                    event.get::<String>("CommandLine").unwrap(),
                    event.get::<u32>("ProcessId").unwrap(),
                    event.record.process_id(),
                ));
            }
        })
        .unwrap();
    assert_eq!(found, [("renamed".to_owned(), String::new(), 16, Some(5))]);
    assert_eq!((switches, trace.statistics().failed, trace.statistics().damage_count), (1, 0, 0));
}
