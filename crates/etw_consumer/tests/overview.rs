//! Ranges of time with an overview of the buffers: what is read is what is read without one.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use etw_consumer::{Overview, Statistics, TimePoint, Trace, TraceBuilder};
use etw_event::FileTime;
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{data, mutate};

/// Records with their times and names of their processes, and the statistics of the pass.
type Read = (Vec<(i64, Vec<u8>, Option<String>)>, Statistics);

fn read(builder: TraceBuilder, (from, to): (i64, i64)) -> Read {
    let (from, to) = (TimePoint::At(FileTime(from)), TimePoint::At(FileTime(to)));
    let mut trace = builder.from(from).to(to).process_names(true).open().unwrap();
    let mut seen = Vec::new();
    trace
        .for_each_layout(|event| {
            let named = (event.process.map(str::to_owned), event.schema().map(|schema| schema.name.clone()));
            seen.push((event.record.time().0, event.record.as_bytes().to_vec(), Some(format!("{named:?}"))));
        })
        .unwrap();
    (seen, trace.statistics().clone())
}

/// Counts records on several threads.
fn count(builder: TraceBuilder, (from, to): (i64, i64)) -> (u64, u64, Statistics) {
    let (from, to) = (TimePoint::At(FileTime(from)), TimePoint::At(FileTime(to)));
    let mut trace = builder.from(from).to(to).open().unwrap();
    let mut sums = [(0, 0); 4];
    trace
        .for_each_record_unordered(&mut sums, |sum, record| {
            *sum = (sum.0 + 1, sum.1 + record.as_bytes().len() as u64);
        })
        .unwrap();
    let (records, bytes) = sums.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    (records, bytes, trace.statistics().clone())
}

/// Checks that ranges one after the other have each record once, in the order of the whole trace.
fn check_parts(name: &str, trace: &mut Trace, overview: &Overview, times: &[i64]) {
    trace.use_overview(overview);
    let ends: Vec<FileTime> =
        (1..5).filter_map(|part| Some(FileTime(*times.get(times.len() * part / 5)?))).collect();
    let mut starts = vec![None];
    starts.extend(ends.iter().copied().map(Some));
    let mut found = Vec::new();
    for (from, to) in starts.into_iter().zip(ends.into_iter().map(Some).chain([None])) {
        trace.range(from, to).for_each_record(|record| found.push(record.time().0)).unwrap();
    }
    assert_eq!(found, times, "{name}");
}

/// Checks several ranges of a trace; returns the number of files with an overview.
fn check(name: &str, builder: &TraceBuilder) -> usize {
    let Ok(mut trace) = builder.clone().open() else { return 0 };
    let overview: Overview = trace.overview().unwrap();
    let mut times = Vec::new();
    trace.for_each_record(|record| times.push(record.time().0)).unwrap();
    let known: u64 = overview.files.iter().flatten().flatten().map(|buffer| u64::from(buffer.records)).sum();
    if overview.files.iter().all(Option::is_some) {
        let records = count(builder.clone(), (i64::MIN, i64::MAX)).0;
        assert_eq!(known, records, "{name}");
    }
    if overview.is_in_order() && overview.files.len() == 1 {
        assert!(times.is_sorted(), "{name}");
        check_parts(name, &mut trace, &overview, &times);
    }
    times.sort_unstable();
    let overview = Arc::new(overview);
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len() - 1)).copied().unwrap_or(0);
    let mut ranges =
        vec![(i64::MIN, i64::MAX), (i64::MIN, at(1)), (at(99), i64::MAX), (at(100) + 1, i64::MAX)];
    ranges.extend([(0, 3), (10, 11), (49, 52), (30, 90), (97, 100)].map(|(from, to)| (at(from), at(to) + 1)));
    for range in ranges {
        let (expected, statistics) = read(builder.clone(), range);
        let (found, known) = read(builder.clone().overview(&overview), range);
        assert_eq!(found.len(), expected.len(), "{name}: {range:?}");
        assert!(found == expected, "{name}: {range:?}");
        assert_eq!(known, statistics, "{name}: {range:?}");
        let (expected, known) =
            (count(builder.clone(), range), count(builder.clone().overview(&overview), range));
        assert_eq!(known, expected, "{name}: {range:?}");
    }
    overview.files.iter().flatten().count()
}

#[test]
fn ranges_of_real_traces_are_the_same() {
    let Some(traces) = data::traces() else { return };
    let mut known = 0;
    for file in &traces {
        known += check(&file.name, &Trace::builder().file(&file.path));
    }
    assert!(known > traces.len() / 2, "{known} of {}", traces.len());
    // Several files together, which share a clock.
    let parts: Vec<_> = traces.iter().filter(|file| file.name.contains("diaghub")).collect();
    let together = parts.iter().fold(Trace::builder(), |builder, file| builder.file(&file.path));
    assert!(parts.len() > 1);
    check("diaghub", &together);
}

#[test]
fn ranges_of_generated_and_damaged_traces_are_the_same() {
    let mut numbers = mutate::Numbers::new(17);
    for (name, kind) in Kind::ALL {
        let recipe = Recipe { buffer_size: 4096, turn: 7, ..Recipe::new(*kind, 3000) };
        let (bytes, _) = traces::bytes(&recipe).unwrap();
        let known = check(name, &Trace::builder().bytes(name, bytes.clone()));
        assert!(known == 1, "{name}");
        for round in 0..8 {
            let mut damaged = bytes.clone();
            let place = 0x1000 + numbers.below(damaged.len() - 0x1000);
            match round % 2 {
                0 => damaged[place] ^= 1 << (round / 2),
                _ => damaged.truncate(place),
            }
            check(&format!("{name} {round}"), &Trace::builder().bytes(name, damaged));
        }
    }
}

#[test]
fn an_overview_of_another_trace_is_not_used() {
    let bytes = |events| traces::bytes(&Recipe::new(Kind::Mixed, events)).unwrap().0;
    let overview = Trace::builder().bytes("long", bytes(20_000)).open().unwrap().overview().unwrap();
    let (short, range) = (bytes(500), (i64::MIN, i64::MAX));
    let builder = Trace::builder().bytes("short", short);
    assert!(read(builder.clone().overview(&Arc::new(overview)), range) == read(builder, range));
}
