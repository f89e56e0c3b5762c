//! The levels of reading and the filters, on real traces.

use std::ops::ControlFlow;

use etw_consumer::{EventFilter, OwnedValue, Predicate, Trace};
use etw_testkit::data;
use etw_testkit::traces::{self, Kind, Recipe};

fn count(name: &str, filter: EventFilter) -> Option<u64> {
    let file = data::trace(name)?;
    let mut trace = Trace::builder().file(&file.path).filter(&filter).open().unwrap();
    let mut counts = [0u64; 3];
    trace.for_each_record(|_| counts[0] += 1).unwrap();
    let in_order = trace.statistics().clone();
    trace.for_each_schema(|_| counts[1] += 1).unwrap();
    trace.for_each_event(|_| counts[2] += 1).unwrap();
    assert_eq!(counts, [counts[0]; 3], "the levels see the same events");
    assert_eq!(trace.statistics().delivered, counts[0]);
    let mut parts = [0; 4];
    trace.for_each_record_unordered(&mut parts, |count, _| *count += 1).unwrap();
    assert_eq!(parts.iter().sum::<u64>(), counts[0], "and so do threads without an order");
    let by_source: u64 = trace.statistics().sources.iter().map(|source| source.delivered).sum();
    assert_eq!(by_source, counts[0]);
    if filter.limit.is_none() {
        assert_eq!(*trace.statistics(), in_order);
    }
    Some(counts[0])
}

#[test]
fn filters_apply_to_every_level() {
    const FILE: &str = "microsoft-perfview/net.4.5.2.x64.etl";
    let filter = |text: &str| EventFilter::default().expression(text).unwrap();
    let check = |text: &str, expected: u64| {
        if let Some(found) = count(FILE, filter(text)) {
            assert_eq!(found, expected, "{text}");
        }
    };
    let Some(all) = count(FILE, EventFilter::default()) else { return };
    assert_eq!(all, 179_474);
    let with = count(FILE, filter("pid == 0 or ProcessId == 4")).unwrap();
    let without = count(FILE, filter("not (pid == 0 or ProcessId == 4)")).unwrap();
    assert_eq!(with + without, all);
    assert!(with > 0 && without > 0);
    check("id == 0 and id == 1", 0);
    check("time >= 0s or time < 0s", all);
    let by_guid = count(FILE, filter("provider == {e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}")).unwrap();
    check("provider == Microsoft-Windows-DotNETRuntime", by_guid);
    assert!(by_guid > 1000);
    let spec = EventFilter::default().provider("Microsoft-Windows-DotNETRuntime").unwrap();
    assert_eq!(count(FILE, spec), Some(by_guid));
}

#[test]
fn times_and_limits() {
    let Some(file) = data::trace("microsoft-Tx/HTTP_Server.etl") else { return };
    let mut trace = Trace::open_file(&file.path).unwrap();
    let mut times = Vec::new();
    trace.for_each_record(|record| times.push(record.time())).unwrap();
    let start = trace.start_time().0;
    let (from, to) = (times[500].0 - start, times[1500].0 - start);
    let expected = times.iter().filter(|time| (start + from..start + to).contains(&time.0)).count() as u64;
    let seconds = |offset: i64| format!("{}.{:07}", offset / 10_000_000, offset % 10_000_000);
    let filter = EventFilter {
        from: Some(seconds(from).parse().unwrap()),
        to: Some(seconds(to).parse().unwrap()),
        ..EventFilter::default()
    };
    assert_eq!(count(&file.name, filter.clone()), Some(expected));
    assert_eq!(count(&file.name, EventFilter { limit: Some(7), ..filter }), Some(7));
}

#[test]
fn events_are_decoded_with_what_the_trace_carries() {
    let Some(file) = data::trace("microsoft-perfview/net.4.5.2.x64.etl") else { return };
    let mut trace = Trace::builder().file(&file.path).process_names(true).open().unwrap();
    let (mut decoded, mut named, mut images) = (0u64, 0u64, 0u64);
    trace
        .for_each_event(|event| {
            decoded += u64::from(event.properties.is_ok());
            named += u64::from(event.process.is_some());
            if event.schema().is_some_and(|schema| schema.task_name.as_deref() == Some("Image")) {
                let size: Result<u64, _> = event.get("ImageSize");
                images += u64::from(size.is_ok_and(|size| size > 0));
            }
        })
        .unwrap();
    assert!(decoded > 175_000, "{decoded} decoded");
    assert!(named > 50_000, "{named} with a process");
    assert!(images > 3000, "{images} images");
    assert!(!trace.processes().unwrap().is_empty());
}

#[test]
fn owned_events_and_stopping() {
    let Some(file) = data::trace("microsoft-perfview/primitive-types.etl") else { return };
    let mut trace = Trace::builder().file(&file.path).only(Predicate::any_event()).open().unwrap();
    let mut events = Vec::new();
    trace.for_each_owned_event(|event| events.push(event)).unwrap();
    assert_eq!(events.len(), 7);
    let moved = std::thread::spawn(move || events).join().unwrap();
    assert!(moved.iter().any(|event| {
        event.properties().unwrap().iter().any(|(_, value)| matches!(value, OwnedValue::Integer(_)))
    }));
    let mut index = 0;
    trace
        .for_each_event(|event| {
            let (owned, located) = (moved[index].properties().unwrap(), event.properties.unwrap());
            index += 1;
            assert!(located.iter().map(|property| property.name()).eq(owned.iter().map(|(name, _)| name)));
            for property in located.iter() {
                let value = owned.get(property.name()).unwrap();
                match property.value().as_text() {
                    Some(text) => assert_eq!(*value, OwnedValue::Text(text.into_owned())),
                    None => assert!(!matches!(value, OwnedValue::Text(_) | OwnedValue::Null)),
                }
            }
        })
        .unwrap();
    let stop = trace.stop_handle();
    let mut seen = 0;
    trace
        .for_each_record(|_| {
            seen += 1;
            stop.stop();
        })
        .unwrap();
    assert_eq!(seen, 1);
}

/// Four threads see the same records as one ordered pass, with damage and losses; a callback stops all of them.
#[test]
fn without_order_nothing_is_missing() {
    let recipe = Recipe { buffer_size: 16 << 10, ..Recipe::new(Kind::Losses, 60_000) };
    let (mut bytes, _) = traces::bytes(&recipe).unwrap();
    assert!(bytes.len() > 4 << 20, "smaller files are read by one thread");
    // Damages the size of a record, and of a buffer.
    bytes[100 * (16 << 10) + 72] = 3;
    bytes[200 * (16 << 10)] ^= 0x55;
    let mut trace = Trace::builder().bytes("damaged.etl", bytes).open().unwrap();
    let sum = |sum: &mut (u64, i64), time: i64| *sum = (sum.0 + 1, sum.1.wrapping_add(time));
    let mut in_order = (0, 0);
    trace.for_each_record(|record| sum(&mut in_order, record.time().0)).unwrap();
    let mut expected = trace.statistics().clone();
    assert!(expected.damage_count >= 2 && !expected.is_complete(), "{expected:?}");
    expected.damage.sort_by_key(|(source, damage)| (*source, damage.offset, damage.within));
    expected.inversions = 0;
    let mut parts = [(0, 0); 4];
    trace.for_each_record_unordered(&mut parts, |part, record| sum(part, record.time().0)).unwrap();
    let total = parts.iter().fold((0, 0i64), |a, b| (a.0 + b.0, a.1.wrapping_add(b.1)));
    assert_eq!(total, in_order);
    assert_eq!(*trace.statistics(), expected);
    let mut seen = [0; 4];
    trace
        .for_each_record_unordered(&mut seen, |seen, _| {
            *seen += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert!(seen.iter().all(|seen| *seen <= 1) && seen.iter().sum::<u64>() >= 1, "{seen:?}");
}

/// Without the scan, events are decoded with the metadata before them.
#[test]
fn events_can_come_at_once() {
    let Some(file) = data::trace("microsoft-perfview/net.4.5.2.x64.etl") else { return };
    let decoded = |look_ahead: bool| {
        let builder = Trace::builder().file(&file.path).look_ahead(look_ahead).process_names(true);
        let mut trace = builder.open().unwrap();
        let (mut decoded, mut named) = (0u64, 0u64);
        trace
            .for_each_event(|event| {
                decoded += u64::from(event.properties.is_ok());
                named += u64::from(event.process.is_some());
            })
            .unwrap();
        (decoded, named)
    };
    let (all, at_once) = (decoded(true), decoded(false));
    assert!(at_once.0 <= all.0 && at_once.1 < all.1, "{at_once:?} of {all:?}");
    assert!(at_once.0 > 170_000 && at_once.1 > 10_000, "{at_once:?} of {all:?}");
}

/// A reader returns the same records as callbacks, on every level, with the same statistics.
#[test]
fn a_reader_returns_what_callbacks_get() {
    type Seen = Vec<(Vec<u8>, i64, Option<String>, usize)>;
    let check = |open: &dyn Fn() -> Trace| {
        let (mut trace, mut called): (Trace, Seen) = (open(), Vec::new());
        trace
            .for_each_event(|event| {
                let name = event.schema().and_then(|schema| schema.task_name.as_deref().map(str::to_owned));
                let count = event.properties.map_or(0, |properties| properties.len());
                called.push((event.record.as_bytes().to_vec(), event.record.time().0, name, count));
            })
            .unwrap();
        let expected = trace.statistics().clone();
        let mut trace = open();
        let mut asked: Seen = Vec::new();
        let mut reader = trace.reader().unwrap();
        while let Some(mut record) = reader.next_record() {
            let (bytes, time) = (record.as_bytes().to_vec(), record.time().0);
            let schema = record.schema().schema.ok();
            let name = schema.and_then(|schema| schema.schema.task_name.as_deref().map(str::to_owned));
            let count = record.event().properties.map_or(0, |properties| properties.len());
            asked.push((bytes, time, name, count));
        }
        assert!(reader.next_record().is_none());
        assert_eq!(*reader.statistics(), expected);
        assert_eq!(asked.len(), called.len());
        assert!(asked == called);
        assert!(!asked.is_empty());
    };
    let (mut bytes, _) =
        traces::bytes(&Recipe { buffer_size: 16 << 10, ..Recipe::new(Kind::Losses, 20_000) }).unwrap();
    bytes[100 * (16 << 10) + 72] = 3;
    let both = || Trace::builder().bytes("a.etl", bytes.clone()).bytes("b.etl", bytes.clone());
    check(&|| both().open().unwrap());
    check(&|| both().limit(700).process_names(true).open().unwrap());
    if let Some(file) = data::trace("microsoft-perfview/net.4.5.2.x64.etl") {
        let filter = EventFilter::default().expression("ProcessId == 4 or pid == 4").unwrap();
        check(&|| Trace::builder().file(&file.path).filter(&filter).open().unwrap());
    }
}

/// The name of an undecoded event's provider is known if a source has the provider.
#[test]
fn providers_of_undecoded_events_have_names() {
    let provider = etw_event::Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
    let descriptor = etw_event::EventDescriptor { id: 60_000, ..Default::default() };
    let clock = etw_event::Clock::system_time();
    let mut writer = etw_etl::EtlWriter::new(
        std::io::Cursor::new(Vec::new()),
        etw_etl::WriterOptions::new(clock, 4096, 1),
    )
    .unwrap();
    let record = etw_etl::encode::RecordBuilder::event(etw_event::PointerSize::Eight, provider, &descriptor);
    writer.write(0, &record.time(etw_event::Ticks(1)).build().unwrap()).unwrap();
    let bytes = writer.finish(etw_event::FileTime(2)).unwrap().out.into_inner();
    let mut trace = Trace::builder().bytes("a.etl", bytes).open().unwrap();
    let mut names = Vec::new();
    trace
        .for_each_event(|event| {
            if event.record.provider_id() == provider {
                assert!(event.properties.is_err());
                names.extend(event.provider.map(|info| info.name.to_string()));
            }
        })
        .unwrap();
    assert_eq!(names, ["Microsoft-Windows-Kernel-Process"]);
}
