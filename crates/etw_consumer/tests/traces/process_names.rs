//! Names of processes: of many processes, and in several files of one machine and of different ones.

use std::io::Cursor;

use etw_consumer::testing::EventBuilder;
use etw_consumer::{Predicate, Trace, TraceBuilder};
use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, PointerSize, Ticks};

const SECOND: i64 = FileTime::PER_SECOND;
const START: FileTime = FileTime(133_000_000_000_000_000);
const PROVIDER: Guid = Guid::from_u128(0x5e5bf9c8_1b0e_4a5c_8b0b_1f7b1c1d9e11);

/// A clock of the performance counter, which has counted so many seconds at [`START`].
fn counter(seconds: i64) -> Clock {
    Clock::new(ClockType::Qpc, Ticks(seconds * SECOND), START, SECOND)
}

/// Returns a file of records with these times, of a machine that was started at a time.
fn file(clock: Clock, boot_time: FileTime, records: impl IntoIterator<Item = (i64, Vec<u8>)>) -> Vec<u8> {
    let mut options = WriterOptions::new(clock, 64 << 10, 1);
    options.header.boot_time = boot_time;
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options).unwrap();
    for (seconds, mut record) in records {
        let time = clock.to_ticks(FileTime(START.0 + seconds * SECOND));
        record[0x10..0x18].copy_from_slice(&time.0.to_le_bytes());
        writer.write(0, &record).unwrap();
    }
    writer.finish(FileTime(START.0 + 1000 * SECOND)).unwrap().out.into_inner()
}

/// Returns the start of a process, with further text.
fn process_start(id: u32, name: &str, further: &str) -> Vec<u8> {
    let event = EventBuilder::built_in("Microsoft-Windows-Kernel-Process", 1, 4).unwrap();
    let event = event.property("ProcessID", id).property("PackageFullName", further);
    let event = event.property("ImageName", format!(r"\Device\HarddiskVolume3\{name}"));
    event.pack_incomplete().unwrap().as_bytes().to_vec()
}

fn event_of(process_id: u32) -> Vec<u8> {
    let descriptor = EventDescriptor { id: 7, ..EventDescriptor::default() };
    let builder = RecordBuilder::event(PointerSize::Eight, PROVIDER, &descriptor);
    builder.process(process_id, 1).build().unwrap()
}

/// Returns a chunk of the EventSource manifest that describes [`event_of`].
fn manifest() -> Vec<u8> {
    let text = format!(
        "<instrumentationManifest><instrumentation><events><provider name=\"P\" guid=\"{PROVIDER}\">\
         <events><event value=\"7\" version=\"0\"/></events>\
         </provider></events></instrumentation></instrumentationManifest>"
    );
    let payload = [&[1, 1, 0, 0x5B, 1, 0, 0, 0], text.as_bytes()].concat();
    let descriptor = EventDescriptor { id: 0xFFFE, ..EventDescriptor::default() };
    RecordBuilder::event(PointerSize::Eight, PROVIDER, &descriptor).payload(&payload).build().unwrap()
}

/// Returns second, file and process name of every event of [`PROVIDER`].
fn names(trace: TraceBuilder) -> Vec<(i64, u32, Option<String>)> {
    let mut names = Vec::new();
    let mut trace = trace.process_names(true).open().unwrap();
    trace
        .for_each_event(|event| {
            let record = event.record;
            if record.provider_id() == PROVIDER {
                let second = (record.time().0 - START.0) / SECOND;
                names.push((second, record.origin().source, event.process.map(str::to_owned)));
            }
        })
        .unwrap();
    names
}

/// Records about processes do not displace those about schemas, and only what they say is kept.
#[test]
fn many_process_starts_cost_neither_schemas_nor_names() {
    let long = "x".repeat(20_000);
    let starts = (0..1000).map(|id| (i64::from(id) / 10, process_start(id, &format!("{id}.exe"), &long)));
    let events = (0..1000).map(|id| (100, event_of(id)));
    let bytes = file(counter(50), START, starts.chain(events).chain([(101, manifest())]));
    let mut trace = Trace::builder().bytes("a.etl", bytes).process_names(true).open().unwrap();
    let mut seen = 0;
    trace
        .for_each_event(|event| {
            if event.record.provider_id() == PROVIDER && event.record.descriptor().id == 7 {
                assert!(event.properties.is_ok(), "{:?}", event.properties.err());
                assert_eq!(event.process, Some(&*format!("{seen}.exe")));
                seen += 1;
            }
        })
        .unwrap();
    assert_eq!(seen, 1000);
    let statistics = trace.statistics();
    assert_eq!((statistics.unkept_schema_records, statistics.unkept_process_records), (0, 0));
    assert_eq!(trace.processes().unwrap().iter().count(), 1000);
}

/// A pass without names of processes finds schemas only. The processes are found when they are asked for.
#[test]
fn processes_are_searched_for_when_they_are_wanted() {
    let long = "x".repeat(20_000);
    let further = (0..3000).map(|id| (1, process_start(1000 + id, &format!("{id:0>16000}.exe"), "")));
    let first = [(0, process_start(10, "first.exe", &long))];
    let events = [(2, event_of(10)), (3, manifest())];
    let bytes = file(counter(50), START, first.into_iter().chain(further).chain(events));
    let open = || Trace::builder().bytes("a.etl", bytes.clone()).open().unwrap();
    let mut trace = open();
    let mut decoded = 0;
    trace
        .for_each_event(|event| {
            let is_own = event.record.provider_id() == PROVIDER && event.record.descriptor().id == 7;
            decoded += u32::from(is_own && event.properties.is_ok());
            assert_eq!(event.process, None);
        })
        .unwrap();
    assert_eq!((decoded, trace.statistics().unkept_process_records), (1, 0), "none was kept");
    let found = trace.processes().unwrap().iter().count();
    let mut other = open();
    assert_eq!(found, other.processes().unwrap().iter().count());
    assert!((2000..3001).contains(&found), "{found}, limited by memory");
    assert_eq!(names(Trace::builder().bytes("a.etl", bytes.clone())).len(), 2);
    trace.for_each_record(|_| ()).unwrap();
    assert!(trace.statistics().unkept_process_records > 0);
}

/// The names in one file apply to the other files of the same boot, by UTC, whatever the order of the files.
#[test]
fn files_of_one_machine_share_names() {
    let boot = FileTime(START.0 - 5000 * SECOND);
    let about = |seconds| FileTime(boot.0 + seconds * SECOND / 10);
    let late = file(counter(5000), about(0), [(20, process_start(10, "second.exe", ""))]);
    let system_time = Clock::new(ClockType::SystemTime, Ticks(START.0), START, 0);
    let early = file(system_time, about(3), [(5, process_start(10, "first.exe", ""))]);
    let events = file(counter(5000), about(1), [10, 15, 30].map(|second| (second, event_of(10))));
    let expected = |source| {
        [(10, "first.exe"), (15, "first.exe"), (30, "second.exe")]
            .map(|(second, name)| (second, source, Some(name.to_owned())))
    };
    let of = |files: [&Vec<u8>; 3]| {
        names(files.into_iter().fold(Trace::builder(), |trace, file| trace.bytes("a.etl", file.clone())))
    };
    assert_eq!(of([&late, &early, &events]), expected(2));
    assert_eq!(of([&events, &early, &late]), expected(0));
}

/// The same process id is another process on another machine, and after another boot.
#[test]
fn files_of_different_machines_keep_their_names() {
    let boot = |hours: i64| FileTime(START.0 - hours * 3600 * SECOND);
    let machine = |hours, name: Option<&str>| {
        let start = name.map(|name| (5, process_start(10, name, "")));
        let events = [6, 10].map(|second| (second, event_of(10)));
        file(counter(hours * 3600), boot(hours), start.into_iter().chain(events))
    };
    let files =
        [machine(1, Some("one.exe")), machine(2, Some("two.exe")), machine(3, None), machine(2, None)];
    let open = || files.iter().fold(Trace::builder(), |trace, file| trace.bytes("a.etl", file.clone()));
    let mut seen = names(open());
    seen.sort_by_key(|(second, source, _)| (*source, *second));
    let of = ["one.exe", "two.exe", "", "two.exe"]
        .map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()));
    for ((second, source, name), expected) in seen.iter().zip(of.iter().flat_map(|name| [name, name])) {
        assert_eq!(name, expected, "file {source} at {second} s");
    }
    assert_eq!(seen.len(), 8);
    // Filters use the same names.
    let predicate: Predicate = "process == \"two.exe\"".parse().unwrap();
    let mut trace = open().only(predicate).open().unwrap();
    let mut sources = Vec::new();
    trace.for_each_record(|record| sources.push(record.origin().source)).unwrap();
    sources.sort_unstable();
    assert_eq!(sources, [1, 1, 3, 3]);
    let mut at_once: Vec<_> = names(open().look_ahead(false));
    at_once.retain(|(second, ..)| *second == 10);
    at_once.sort_by_key(|(_, source, _)| *source);
    let at_once: Vec<_> = at_once.into_iter().map(|(_, _, name)| name).collect();
    assert_eq!(at_once, of, "without the scan too");
}
