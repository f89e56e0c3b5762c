//! Merging several files into one.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_testkit::data;
use etw_testkit::mutate::Numbers;
use etw_testkit::traces::{self, Kind, Recipe};
use openetw::etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use openetw::etl::{BufferFlags, EtlFile, EtlWriter, Records, WriterOptions};
use openetw::export::{JsonWriter, Options};
use openetw::relog::{Compression, RelogError, Relogger, SplitBy};
use openetw::{
    Clock, ClockType, EventDescriptor, EventFilter, ExtendedType, FileTime, Guid, HookId, PointerSize,
    Record, Schemas, Ticks, Trace, classes,
};

use super::{assert_within, builder, counted, lines};

fn all(files: &[&Path]) -> super::Lines {
    counted(lines(files, &EventFilter::default(), |_| ()).into_iter().map(|(line, ())| line))
}

/// As [`all`], with what each event is called, its fields and its bytes in place of the names of the description that it
/// is decoded with: what one file says of events describes those of all files after they are merged, and before only those
/// that nothing else does.
fn all_as_called(files: &[&Path]) -> super::Lines {
    let mut trace = builder(files).open().unwrap();
    let mut writer = JsonWriter::new(&Options::default());
    let mut all = super::Lines::new();
    trace
        .for_each_event(|event| {
            let is_embedded = event.record.provider_id() == classes::EVENT_METADATA;
            if event.record.hook_id() == Some(HookId::LOG_FILE_HEADER) || is_embedded {
                return;
            }
            let mut out = Vec::new();
            writer.put(&mut out, event);
            let mut json: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let top = json.as_object_mut().unwrap();
            top.remove("Message");
            // Descriptions also say which of two templates an event has, and call the values of fields.
            let fields = ["UserData", "EventData"].map(|key| top.remove(key)).into_iter().flatten().next();
            let fields =
                fields.and_then(|fields| Some(fields.as_object()?.keys().cloned().collect::<Vec<_>>()));
            let system = json["System"].as_object_mut().unwrap();
            system.remove("EventType");
            for key in ["Task", "Opcode", "Keywords", "Level", "Provider"] {
                system
                    .get_mut(key)
                    .and_then(|value| value.as_object_mut())
                    .map(|object| object.remove("Name"));
            }
            json.sort_all_objects();
            let names = event.names();
            let (provider, name, payload) = (names.provider_text(), names.event(), event.record.payload());
            let line = format!("{provider}/{name} {json} {fields:?} {payload:02x?}");
            *all.entry(line).or_default() += 1;
        })
        .unwrap();
    all
}

/// Fails unless the file is laid out as on Windows: numbers of buffers, times of flushes, and each processor's events
/// in order within the file. Returns the number of records in the first buffer.
fn assert_layout(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    let file = EtlFile::open(&bytes).unwrap();
    let (mut last, mut flushed, mut count, mut scratch) = (HashMap::new(), i64::MIN, 0, Vec::new());
    let (mut numbers, mut first) = (Vec::new(), 0);
    let mut flags = BufferFlags::default();
    for buffer in file.buffers() {
        let buffer = buffer.unwrap();
        let origin = buffer.origin(file.clock(), 0);
        count += 1;
        flags = buffer.header.buffer_flag;
        if count == 1 {
            let data = buffer.data(&mut scratch);
            first = Records::new(data.bytes, &origin, buffer.place()).count() as u64;
            continue;
        }
        numbers.push(buffer.header.sequence_number);
        assert!(buffer.header.time_stamp.0 >= flushed, "{}", path.display());
        flushed = buffer.header.time_stamp.0;
        let data = buffer.data(&mut scratch);
        assert_eq!(data.damage, None);
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            let record = record.unwrap();
            let last = last.insert(record.processor(), record.raw_time());
            assert!(last.is_none_or(|last| last <= record.raw_time()), "{}", path.display());
            assert!(record.time().0 <= flushed, "{}", path.display());
        }
    }
    assert!(flags.contains(BufferFlags::FLUSH_MARKER));
    numbers.sort_unstable();
    assert_eq!(numbers, (1..count).collect::<Vec<i64>>());
    assert_eq!(i64::from(file.header().buffers_written), count);
    first
}

#[test]
fn events_of_all_files_are_in_one_in_the_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, recipe: Recipe| {
        let path = directory.path().join(name);
        fs::write(&path, traces::bytes(&recipe).unwrap().0).unwrap();
        path
    };
    let recipe = |kind, events| Recipe { processors: 3, buffer_size: 8192, ..Recipe::new(kind, events) };
    let mixed = write("mixed.etl", recipe(Kind::Mixed, 4000));
    let compressed = write("compressed.etl", recipe(Kind::Compressed, 3999));
    let large = write("large.etl", Recipe { buffer_size: 65_536, ..recipe(Kind::Switches, 5000) });
    let losses = write("losses.etl", recipe(Kind::Losses, 1000));
    let messages = write("messages.etl", recipe(Kind::Messages, 1000));
    let mut groups: Vec<Vec<PathBuf>> = vec![
        vec![mixed.clone()],
        vec![compressed.clone()],
        vec![mixed.clone(), compressed.clone()],
        vec![compressed, large.clone()],
        vec![large, losses, messages, mixed],
    ];
    let real = data::traces().unwrap_or_default();
    let together = real.into_iter().filter(|file| file.name.contains("diaghub/")).map(|file| file.path);
    groups.push(together.collect());
    let output = directory.path().join("merged.etl");
    for group in groups.iter().filter(|group| !group.is_empty()) {
        let files: Vec<&Path> = group.iter().map(PathBuf::as_path).collect();
        // The real files are parts of one recording, and some say what events of the others are.
        let read = if group[0].starts_with(directory.path()) { all } else { all_as_called };
        let expected = read(&files);
        for compression in [Compression::Keep, Compression::Plain, Compression::Compressed] {
            let mut trace = builder(&files).open().unwrap();
            let relogger = Relogger::new().compression(compression).overwrite(true);
            let relogged = relogger.write(&mut trace, &output).unwrap();
            let what = format!("{files:?} {compression:?}");
            let found = read(&[&output]);
            assert_within(&expected, &found, &what);
            assert_within(&found, &expected, &what);
            // Besides the header, the first buffer contains the records that are not events.
            let first = assert_layout(&output) - 1;
            assert_eq!(relogged.events + first, events_of(&files), "{what}");
            let lost: u32 = trace.headers().iter().map(|header| header.events_lost).sum();
            let mut merged = Trace::open_file(&output).unwrap();
            merged.for_each_record(|_| ()).unwrap();
            let statistics = merged.statistics();
            assert_eq!((relogged.events_lost, statistics.events_lost()), (lost, lost.into()), "{what}");
            assert_eq!(statistics.is_complete(), trace_is_complete(&files), "{what}");
        }
    }
}

/// Returns a trace of TraceLogging events, classic events without a schema, and messages with and without a time.
fn write_by(path: &Path, clock: Clock, seed: u64) {
    let file = fs::File::create(path).unwrap();
    let mut writer = EtlWriter::new(file, WriterOptions::new(clock, 4096, 2)).unwrap();
    let (metadata, traits) =
        (EventMetadata::new("Tick").field("Number", 10).build(), provider_traits("Contoso"));
    let mut numbers = Numbers::new(seed);
    let mut time = clock.start;
    for number in 0..1200_u64 {
        time.0 += numbers.below(40) as i64;
        let descriptor = EventDescriptor::default();
        let record = match number % 4 {
            0 | 1 => {
                RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name("Contoso"), &descriptor)
                    .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
                    .item(ExtendedType::PROVIDER_TRAITS, &traits)
            }
            2 => RecordBuilder::full(PointerSize::Eight, Guid::from_u128(seed.into()), &descriptor),
            _ => RecordBuilder::message(10, PointerSize::Eight).message_guid(Guid::from_u128(1)),
        };
        // Every other message takes the time of the previous record.
        let record = if number % 8 == 7 { record } else { record.time(clock.to_ticks(time)) };
        let record = record.payload(&number.to_le_bytes()).build().unwrap();
        writer.write((number / 8 % 2) as u16, &record).unwrap();
    }
    writer.finish(time).unwrap();
}

#[test]
fn events_by_the_system_time_keep_their_times_by_a_counter() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (counted_by, by_system_time) = (path("counter.etl"), path("system-time.etl"));
    let start = traces::START;
    write_by(&counted_by, Clock::new(ClockType::Qpc, Ticks(7_000_000_123), start, 2_399_999_983), 5);
    let by_start = |start: i64| Clock::new(ClockType::SystemTime, Ticks(start), FileTime(start), 0);
    // The header has the earlier start; its reading of the counter is exact to a tick.
    for (own, most_apart) in [(start.0 + 50, 0), (start.0 - 50, 1)] {
        write_by(&by_system_time, by_start(own), 6);
        for files in [[&*counted_by, &*by_system_time], [&*by_system_time, &*counted_by]] {
            // Events with the same time may come in any order.
            let of = |files: &[&Path]| -> Vec<(i64, Guid, Vec<u8>)> {
                let mut all = Vec::new();
                let mut trace = builder(files).open().unwrap();
                let keep =
                    |record: &Record<'_>| (record.time().0, record.provider_id(), record.payload().to_vec());
                trace
                    .for_each_record(|record| {
                        let is_header = record.hook_id() == Some(HookId::LOG_FILE_HEADER);
                        all.extend((!is_header).then(|| keep(record)));
                    })
                    .unwrap();
                assert_eq!(trace.statistics().inversions, 0);
                all.sort_by(|one, other| (one.1, &one.2, one.0).cmp(&(other.1, &other.2, other.0)));
                all
            };
            let expected = of(&files);
            for compression in [Compression::Plain, Compression::Compressed] {
                let output = path("merged.etl");
                let relogger = Relogger::new().compression(compression).overwrite(true);
                let relogged = relogger.write(&mut builder(&files).open().unwrap(), &output).unwrap();
                assert_eq!(relogged.brought, [by_system_time.to_str().unwrap()]);
                assert_layout(&output);
                let found = of(&[&output]);
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!((found.1, &found.2), (expected.1, &expected.2));
                    assert!(found.0.abs_diff(expected.0) <= most_apart, "{found:?} {expected:?}");
                }
                let merged = Trace::open_file(&output).unwrap();
                assert_eq!(merged.headers()[0].clock_type(), ClockType::Qpc);
                assert_eq!(merged.start_time().0, start.0.min(own));
            }
        }
    }
    write_by(&by_system_time, by_start(start.0 + 50), 6);
    // Parts of it too.
    let filter = EventFilter::default().expression("Number >= 600").unwrap();
    let mut trace = builder(&[&counted_by, &by_system_time]).filter(&filter).open().unwrap();
    let every = SplitBy::Time(Duration::from_micros(20_000));
    let parts = Relogger::new().split(&mut trace, every, path("part.etl")).unwrap();
    let paths: Vec<&Path> = parts.iter().map(|part| &*part.path).collect();
    let expected =
        counted(lines(&[&counted_by, &by_system_time], &filter, |_| ()).into_iter().map(|it| it.0));
    let found = counted(lines(&paths, &filter, |_| ()).into_iter().map(|it| it.0));
    assert_eq!(found, expected);
}

/// Returns the records except log file headers.
fn events_of(files: &[&Path]) -> u64 {
    let mut count = 0;
    let mut trace = builder(files).open().unwrap();
    trace
        .for_each_record(|record| count += u64::from(record.hook_id() != Some(HookId::LOG_FILE_HEADER)))
        .unwrap();
    count
}

fn trace_is_complete(files: &[&Path]) -> bool {
    let mut trace = builder(files).open().unwrap();
    trace.for_each_record(|_| ()).unwrap();
    trace.statistics().is_complete()
}

#[test]
fn schemas_from_elsewhere_come_along() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    fs::write(&source, traces::bytes(&Recipe::new(Kind::Mixed, 500)).unwrap().0).unwrap();
    let decoded = |path: &Path| {
        let mut decoded: HashMap<(Guid, u16), bool> = HashMap::new();
        let mut trace = Trace::builder().file(path).schemas(&Schemas::empty()).open().unwrap();
        trace
            .for_each_event(|event| {
                if event.record.kind().is_event_header() {
                    let key = (event.record.provider_id(), event.record.descriptor().id);
                    decoded.insert(key, event.properties.is_ok());
                }
            })
            .unwrap();
        decoded
    };
    let before = decoded(&source);
    assert!(before.len() > 2 && before.values().any(|decoded| !decoded), "{before:?}");
    for filter in ["", "pid >= 0"] {
        let expression = EventFilter::default();
        let expression = if filter.is_empty() { expression } else { expression.expression(filter).unwrap() };
        let mut trace = Trace::builder().file(&source).filter(&expression).open().unwrap();
        let relogged = Relogger::new().overwrite(true).write(&mut trace, &output).unwrap();
        assert!(relogged.schemas > 0);
        assert!(decoded(&output).values().all(|decoded| *decoded), "{filter}");
        assert_eq!(decoded(&output).len(), before.len());
    }
}

/// An event, and after it the description of its kind.
fn write_described_late(path: &Path) {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), traces::START, 10_000_000);
    let file = fs::File::create(path).unwrap();
    let mut writer = EtlWriter::new(file, WriterOptions::new(clock, 4096, 1)).unwrap();
    let provider = Guid::from_provider_name("Late");
    let manifest = format!(
        "<instrumentationManifest><instrumentation><events><provider name=\"Late\" guid=\"{provider}\">\
         <events><event value=\"7\" version=\"0\"/></events>\
         </provider></events></instrumentation></instrumentationManifest>"
    );
    let chunk = [&[1, 1, 0, 0x5B, 1, 0, 0, 0], manifest.as_bytes()].concat();
    for (time, id, payload) in [(1, 7, &[][..]), (2, 0xFFFE, &chunk)] {
        let descriptor = EventDescriptor { id, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor);
        writer.write(0, &record.time(Ticks(time)).payload(payload).build().unwrap()).unwrap();
    }
    writer.finish(FileTime(0)).unwrap();
}

#[test]
fn a_stopped_merge_writes_nothing_and_the_trace_still_finds_its_schemas() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    write_described_late(&source);
    let mut trace = Trace::builder().file(&source).schemas(&Schemas::empty()).open().unwrap();
    trace.stop_handle().stop();
    let error = Relogger::new().write(&mut trace, &output).unwrap_err();
    assert!(matches!(error, RelogError::Stopped), "{error}");
    assert!(!output.exists());
    trace.stop_handle().reset();
    let mut decoded = Vec::new();
    trace
        .for_each_event(|event| {
            if event.record.provider_id() == Guid::from_provider_name("Late") {
                decoded.push((event.record.descriptor().id, event.properties.is_ok()));
            }
        })
        .unwrap();
    assert_eq!(decoded.first(), Some(&(7, true)), "{decoded:?}");
}

#[test]
fn what_is_damaged_is_counted_and_all_else_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    let mut numbers = Numbers::new(7);
    for kind in [Kind::Mixed, Kind::Compressed, Kind::Switches] {
        for _ in 0..40 {
            let recipe = Recipe { processors: 3, buffer_size: 4096, ..Recipe::new(kind, 2000) };
            let mut bytes = traces::bytes(&recipe).unwrap().0;
            let first = if kind == Kind::Compressed { 512 } else { 4096 };
            for _ in 0..=numbers.below(4) {
                let at = first + numbers.below(bytes.len() - first);
                bytes[at] = numbers.draw() as u8;
            }
            bytes.truncate(bytes.len() - numbers.below(3) * 1000);
            fs::write(&source, &bytes).unwrap();
            let read = |path: &Path| {
                let mut records = HashMap::new();
                let mut trace = Trace::open_file(path).unwrap();
                trace
                    .for_each_record(|record| {
                        if record.hook_id() != Some(HookId::LOG_FILE_HEADER) && record.is_intact() {
                            let key = (record.raw_time(), record.as_bytes().to_vec());
                            *records.entry(key).or_insert(0) += 1;
                        }
                    })
                    .unwrap();
                (records, trace.statistics().clone())
            };
            let (before, _) = read(&source);
            let mut trace = Trace::open_file(&source).unwrap();
            let relogged =
                Relogger::new().overwrite(true).embed_schemas(false).write(&mut trace, &output).unwrap();
            let damaged = trace.statistics().damage_count;
            let (after, statistics) = read(&output);
            for (key, count) in &before {
                assert!(after.get(key) >= Some(count), "{kind:?}: {damaged} places");
            }
            assert_eq!(damaged == 0, statistics.is_complete(), "{kind:?}: {:?}", trace.statistics().damage);
            assert!(u64::from(relogged.events_lost) + statistics.damage_count >= damaged.min(1));
        }
    }
}
