//! Ranges of time with an overview of the buffers: what is read is what is read without one.

use std::ops::Range;
use std::sync::Arc;

use etw_consumer::{BufferSummary, Overview, Statistics, TimePoint, Trace, TraceBuilder};
use etw_etl::EtlFile;
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
        .for_each_event(|event| {
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

/// Returns a file with only some places of another one.
fn only(bytes: &[u8], places: &[Range<u64>]) -> Vec<u8> {
    let mut parts = vec![0; bytes.len()];
    for place in places {
        let place = place.start as usize..place.end as usize;
        parts[place.clone()].copy_from_slice(&bytes[place]);
    }
    parts
}

/// Checks that ranges of a trace in one file can be read from the places that it names, and that a missing one is damage.
/// Returns the number of buffers that were taken away.
fn check_extents(name: &str, bytes: &[u8]) -> usize {
    let open = |bytes: Vec<u8>| Trace::builder().bytes(name, bytes);
    let mut whole = open(bytes.to_vec()).open().unwrap();
    let overview = Arc::new(whole.overview().unwrap());
    whole.use_overview(&overview);
    if !overview.is_in_order() {
        let places = whole.range(None, None).extents().unwrap();
        assert_eq!(places, [std::iter::once(0..bytes.len() as u64).collect::<Vec<_>>()], "{name}");
        return 0;
    }
    let metadata = open(bytes.to_vec()).overview(&overview).open().unwrap().metadata_extents().unwrap();
    whole.processes().unwrap();
    let mut times = Vec::new();
    whole.for_each_record(|record| times.push(record.time().0)).unwrap();
    let clock = EtlFile::open(bytes).unwrap().clock();
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len() - 1)).copied().unwrap_or(0);
    let mut taken = 0;
    for (from, to) in [(0, 1), (10, 12), (49, 50), (30, 90), (99, 100), (0, 100)] {
        let range = (at(from), at(to) + 1);
        let (from, to) = (FileTime(range.0), FileTime(range.1));
        let read_places = whole.range(Some(from), Some(to)).extents().unwrap().remove(0);
        assert!(read_places.is_sorted_by_key(|place| place.start), "{name}");
        let places = [metadata[0].clone(), read_places].concat();
        let parts = only(bytes, &places);
        let builder = |bytes: &[u8]| open(bytes.to_vec()).overview(&overview);
        assert!(read(builder(&parts), range) == read(builder(bytes), range), "{name}: {range:?}");
        assert_eq!(count(builder(&parts), range), count(builder(bytes), range), "{name}: {range:?}");
        // A buffer with records of the range that is missing.
        let is_within = |buffer: &&BufferSummary| {
            let times = clock.to_filetime(buffer.min)..clock.to_filetime(buffer.max);
            buffer.offset > 0 && buffer.records > 0 && times.start >= from && times.end < to
        };
        for buffer in overview.files[0].iter().flatten().filter(is_within).step_by(5).take(20) {
            let mut hole = parts.clone();
            hole[buffer.offset as usize..][..buffer.len_bytes as usize].fill(0);
            assert!(read(builder(&hole), range).1.damage_count > 0, "{name}: {range:?} {:#x}", buffer.offset);
            assert!(
                count(builder(&hole), range).2.damage_count > 0,
                "{name}: {range:?} {:#x}",
                buffer.offset
            );
            taken += 1;
        }
    }
    taken
}

#[test]
fn ranges_of_generated_traces_are_read_from_their_extents() {
    for (name, kind) in Kind::ALL {
        let recipe = Recipe { buffer_size: 4096, turn: 7, ..Recipe::new(*kind, 3000) };
        assert!(check_extents(name, &traces::bytes(&recipe).unwrap().0) > 0, "{name}");
    }
}

#[test]
fn ranges_of_real_traces_are_read_from_their_extents() {
    let Some(traces) = data::traces() else { return };
    let mut checked = 0;
    for file in &traces {
        let Ok(trace) = Trace::open_file(&file.path) else { continue };
        // Each is read many times.
        if let [input] = trace.inputs()
            && input.bytes().len() < 8 << 20
        {
            checked += usize::from(check_extents(&file.name, input.bytes()) > 0);
        }
    }
    assert!(checked > traces.len() / 4, "{checked} of {}", traces.len());
}

#[test]
fn an_overview_of_another_trace_is_not_used() {
    let bytes = |events| traces::bytes(&Recipe::new(Kind::Mixed, events)).unwrap().0;
    let overview = Trace::builder().bytes("long", bytes(20_000)).open().unwrap().overview().unwrap();
    let (short, range) = (bytes(500), (i64::MIN, i64::MAX));
    let builder = Trace::builder().bytes("short", short);
    assert!(read(builder.clone().overview(&Arc::new(overview)), range) == read(builder, range));
}
