//! Traces made for the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use openetw::etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{
    Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, Keyword, Level, PointerSize, Ticks,
};

use super::{Etw, csv_rows, json_lines};

const START: FileTime = FileTime(133_000_000_000_000_000);

/// Writes a trace of `count` TraceLogging events, one a millisecond, on two processors, with 100-byte texts.
pub(crate) fn write_trace(path: &str, count: u64, losses: u32) {
    write(path, "Contoso", count, losses);
}

/// The same with events of a provider of another name.
pub(crate) fn write_trace_of(path: &str, provider: &str, count: u64) {
    write(path, provider, count, 0);
}

fn write(path: &str, name: &str, count: u64, losses: u32) {
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), START, 10_000_000);
    let options = WriterOptions::new(clock, 0x10000, 2);
    let mut writer = EtlWriter::new(File::create(path).unwrap(), options).unwrap();
    let provider = Guid::from_provider_name(name);
    let metadata = EventMetadata::new("Tick").field("Number", 10).field("Name", 2).build();
    let traits = provider_traits(name);
    for number in 0..count {
        let descriptor = EventDescriptor {
            channel: 11,
            level: Level(if number % 10 == 0 { 2 } else { 4 }),
            keyword: Keyword(0x10),
            ..EventDescriptor::default()
        };
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend(format!("text \"{number}\" <{}>\0", "x".repeat(80)).bytes());
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
            .time(Ticks(1000 + (number as i64 + 1) * 10_000))
            .process(100 + (number % 3) as u32, 7)
            .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
            .item(ExtendedType::PROVIDER_TRAITS, &traits)
            .payload(&payload)
            .build()
            .unwrap();
        writer.write((number % 2) as u16, &record).unwrap();
    }
    if losses > 0 {
        writer.lose_events(0, losses).unwrap();
    }
    writer.finish(clock.to_filetime(Ticks(1000 + (count as i64 + 2) * 10_000))).unwrap();
}

/// The bytes that [`damage`] changes, of events in the first buffer.
const DAMAGED: std::ops::Range<usize> = 0x12048..0x12248;

/// Damages a trace of some hundred events.
pub(crate) fn damage(path: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[DAMAGED].fill(0xEE);
    std::fs::write(path, &bytes).unwrap();
}

fn numbers(text: &str) -> Vec<u64> {
    json_lines(text).iter().filter_map(|event| event["EventData"]["Number"].as_u64()).collect()
}

#[test]
fn all_events_come_in_order_on_any_number_of_threads() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 30_000, 0);
    let expected: Vec<u64> = (0..30_000).collect();
    let one = etw.ok(&["dump", &trace, "--format", "json", "--threads", "1"]);
    assert_eq!(numbers(&one), expected);
    for threads in ["2", "7", "0"] {
        assert!(
            etw.ok(&["dump", &trace, "--format", "json", "--threads", threads]) == one,
            "{threads} threads"
        );
    }
    etw.ok(&["dump", &trace, "--format", "json", "-o", "out.jsonl"]);
    assert_eq!(std::fs::read_to_string(etw.path("out.jsonl")).unwrap(), one);
}

#[test]
fn filters() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 100, 0);
    let check = |options: &[&str], expected: &[u64]| {
        let found = numbers(&etw.ok(&[&["dump", &trace, "--format", "json"], options].concat()));
        assert_eq!(found, expected, "{options:?}");
    };
    check(&["--limit", "3", "--provider", "contoso"], &[0, 1, 2]);
    check(&["--limit", "0"], &[]);
    check(&["--provider", "Contoso:Error"], &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    check(&["--provider", "Contoso:5::0x20"], &[]);
    check(&["--pid", "101", "--limit", "2"], &[1, 4]);
    check(&["--pid", "0x65,102", "--to", "6ms"], &[1, 2, 4]);
    check(&["--tid", "8"], &[]);
    check(&["--from", "98ms"], &[97, 98, 99]);
    check(&["--from", "0.098", "--to", "0.1"], &[97, 98]);
    let (from, to) =
        (FileTime(START.0 + 50 * 10_000).to_string(), FileTime(START.0 + 52 * 10_000).to_string());
    check(&["--from", &from, "--to", &to], &[49, 50]);
    check(&["--where", "Number >= 5 and Number < 8 and Name contains '6'"], &[6]);
    check(&["--where", "pid == 100", "--where", "Number in (3, 4, 6)"], &[3, 6]);
    let nothing = etw.run(&["stats", &trace, "--tid", "8"]);
    let warning = String::from_utf8(nothing.stderr).unwrap();
    assert!(nothing.status.success() && warning.contains("no event meets the filters"), "{warning}");
    let some = etw.ok(&["dump", &trace, "--format", "json", "--fields", "Number", "--where", "Number == 7"]);
    assert!(some.starts_with("{\"EventData\":{\"Number\":7},\"System\""), "{some}");
    let raw = etw.ok(&["dump", &trace, "--raw-time", "--where", "Number == 7"]);
    assert!(raw.starts_with("81000 cpu1 101:7 Contoso/Tick"), "{raw}");
}

#[test]
fn several_files_are_read_together() {
    let etw = Etw::new();
    let (a, b) = (etw.path("a.etl"), etw.path("b.etl"));
    write_trace(&a, 50, 0);
    write_trace(&b, 50, 0);
    let both = numbers(&etw.ok(&["dump", &a, &b, "--format", "json"]));
    let expected: Vec<u64> = (0..50).flat_map(|number| [number, number]).collect();
    assert_eq!(both, expected);
    let rows =
        csv_rows(&etw.ok(&["stats", &a, &b, "--by", "file", "--provider", "Contoso", "--format", "csv"]));
    let counts: Vec<_> = rows[1..].iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(counts, [(a.as_str(), "50"), (b.as_str(), "50")]);
}

#[test]
fn one_bad_file_does_not_keep_the_others_from_being_read() {
    let etw = Etw::new();
    let trace = etw.path("good.etl");
    write_trace(&trace, 10, 0);
    std::fs::write(etw.path("notes.etl"), "no trace").unwrap();
    let whole = etw.ok(&["dump", &trace, "--format", "json"]);
    for command in [&["dump", "--format", "json"][..], &["stats"], &["info"]] {
        let output = etw.run(&[command, &["notes.etl", &trace]].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("'notes.etl' is not a trace file"), "{errors}");
        assert!(errors.ends_with("etw: 1 of 2 files could not be read\n"), "{errors}");
        assert!(!output.stdout.is_empty());
        if command[0] == "dump" {
            assert_eq!(String::from_utf8(output.stdout).unwrap(), whole);
        }
    }
    let output = etw.run(&["dump", "--no-look-ahead", "--format", "json", "notes.etl", &trace]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        whole,
        "nothing in the trace needs what comes later"
    );
    let (status, errors) = etw.fails(&["dump", "notes.etl"]);
    assert_eq!(status, 1);
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn info_tells_of_losses_and_damage() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 2000, 0);
    let info = |path: &str| json_lines(&etw.ok(&["info", path, "--format", "json"])).remove(0);
    let whole = info(&trace);
    let records = whole["records"].as_u64().unwrap();
    assert_eq!(records, numbers(&etw.ok(&["dump", &trace, "--format", "json"])).len() as u64 + 2);
    assert_eq!((&whole["complete"], whole["decoded"].as_u64()), (&true.into(), Some(records)));

    write_trace(&trace, 2000, 5);
    let lossy = info(&trace);
    assert_eq!((lossy["events_lost"].as_u64(), &lossy["complete"]), (Some(5), &false.into()));

    damage(&trace);
    let damaged = info(&trace);
    assert!(damaged["records"].as_u64().unwrap() < records);
    let damage = damaged["damage"].as_array().unwrap();
    for place in damage {
        let offset = place["offset"].as_u64().unwrap();
        assert!((0x10000..DAMAGED.end as u64).contains(&offset), "{place}");
    }
    let whats: Vec<_> = damage.iter().map(|place| place["what"].as_str().unwrap()).collect();
    assert!(whats.iter().any(|what| what.contains("bytes skipped")), "{whats:?}");
    // Intact events are delivered, and damage is reported on standard error.
    let dump = etw.run(&["dump", &trace, "--format", "json"]);
    assert!(dump.status.success());
    let intact = json_lines(std::str::from_utf8(&dump.stdout).unwrap()).len() as u64;
    assert_eq!(intact, damaged["records"].as_u64().unwrap());
    let warnings = String::from_utf8(dump.stderr).unwrap();
    assert!(warnings.contains("etw: warning: ") && warnings.contains("offset 0x1"), "{warnings}");
}

#[test]
fn stats_count_what_is_there() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 90, 0);
    let stats = |by: &str| {
        json_lines(&etw.ok(&["stats", &trace, "--by", by, "--provider", "Contoso", "--format", "json"]))
    };
    let count = |rows: &[serde_json::Value], key: &str| -> Vec<(String, u64)> {
        rows.iter()
            .map(|row| (row[key].as_str().unwrap().to_owned(), row["events"].as_u64().unwrap()))
            .collect()
    };
    assert_eq!(count(&stats("provider"), "provider"), [("Contoso".to_owned(), 90)]);
    assert_eq!(count(&stats("event"), "event"), [("Contoso/Tick".to_owned(), 90)]);
    let by_process = ["100", "101", "102"].map(|id| (id.to_owned(), 30));
    assert_eq!(count(&stats("process"), "process"), by_process);
    let by_level = [("4 Information".to_owned(), 81), ("2 Error".to_owned(), 9)];
    assert_eq!(count(&stats("level"), "level"), by_level);
    let both = stats("processor,level");
    assert_eq!(both.iter().map(|row| row["events"].as_u64().unwrap()).sum::<u64>(), 90);
    assert_eq!(both.len(), 3);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 30_000, 0);
    let mut child = etw
        .command(&["dump", &trace, "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(errors, "");
    assert!(line.starts_with("{\"EventData\":"));
}

#[cfg(unix)]
#[test]
fn a_file_that_is_shortened_while_it_is_read_ends_the_command_with_words() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 60_000, 0);
    let mut child = etw
        .command(&["dump", &trace, "--format", "json", "--threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // After the first line the command waits for the pipe to have room.
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    std::fs::OpenOptions::new().write(true).open(&trace).unwrap().set_len(0x10000).unwrap();
    stdout.read_to_end(&mut Vec::new()).unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{errors}");
    assert!(errors.contains("was truncated while it was read"), "{errors}");
}

#[test]
fn messages_of_the_kernels_providers() {
    let etw = Etw::new();
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), START, 10_000_000);
    let options = WriterOptions::new(clock, 0x10000, 1);
    let mut writer = EtlWriter::new(File::create(etw.path("disk.etl")).unwrap(), options).unwrap();
    let disk = Guid::from_u128(0xc7bde69a_e1e0_4177_b6ef_283ad1525271);
    let descriptor = EventDescriptor { id: 10, level: Level(4), ..EventDescriptor::default() };
    let mut payload: Vec<u8> = [1_u32, 0, 4096, 0].iter().flat_map(|field| field.to_le_bytes()).collect();
    payload.extend([8192_u64, 0, 0, 5].iter().flat_map(|field| field.to_le_bytes()));
    let record = RecordBuilder::event(PointerSize::Eight, disk, &descriptor);
    let record = record.time(Ticks(20_000)).process(100, 7).payload(&payload).build().unwrap();
    writer.write(0, &record).unwrap();
    writer.finish(clock.to_filetime(Ticks(40_000))).unwrap();

    let message = "Disk 1: 4096 bytes read at offset 8192";
    let events = json_lines(&etw.ok(&["dump", "disk.etl", "--format", "json"]));
    let found: Vec<_> = events.iter().filter_map(|event| event["Message"].as_str()).collect();
    assert_eq!(found, [message]);
    let xml = etw.ok(&["dump", "disk.etl", "--format", "xml"]);
    assert!(xml.contains(&format!("<Message>{message}</Message>")), "{xml}");
    assert!(etw.ok(&["dump", "disk.etl"]).contains(message));
    assert!(etw.ok(&["tracefmt", "disk.etl", "-displayonly"]).contains(message));
}
