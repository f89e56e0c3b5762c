//! The events that a filter keeps.

use std::collections::HashSet;
use std::path::Path;

use etw_testkit::mutate::Numbers;
use openetw::relog::{Compression, Relogger};
use openetw::{EventFilter, Record, TimePoint, Trace, classes};

use super::{assert_within, builder, counted, files, lines};

/// Filters for each file.
const FILTERS: usize = 6;

/// A filter for values in the trace, and whether it limits the time.
fn filter(numbers: &mut Numbers, samples: &[String], times: &[i64]) -> (EventFilter, bool) {
    let pick = |numbers: &mut Numbers| samples[numbers.below(samples.len())].clone();
    let mut text = pick(numbers);
    for _ in 0..numbers.below(3) {
        let joined = ["and", "or", "and not"][numbers.below(3)];
        text = format!("({text}) {joined} {}", pick(numbers));
    }
    let mut filter = EventFilter::default().expression(&text).unwrap();
    let is_bounded = numbers.below(3) == 0;
    if is_bounded {
        let mut at = || TimePoint::At(openetw::FileTime(times[numbers.below(times.len())]));
        let (one, other) = (at(), at());
        let is_first = matches!((one, other), (TimePoint::At(one), TimePoint::At(other)) if one < other);
        (filter.from, filter.to) = if is_first { (Some(one), Some(other)) } else { (Some(other), Some(one)) };
    }
    if is_bounded && numbers.below(2) == 0 {
        filter.expressions.clear();
    }
    (filter, is_bounded)
}

/// Returns conditions that some of a trace's events meet, and times in it.
fn samples(path: &Path) -> (Vec<String>, Vec<i64>) {
    let mut trace = Trace::open_file(path).unwrap();
    let (mut conditions, mut times, mut count) = (HashSet::new(), Vec::new(), 0u64);
    trace
        .for_each_record(|record| {
            count += 1;
            if !count.is_power_of_two() && !count.is_multiple_of(97) {
                return;
            }
            times.push(record.time().0);
            conditions.insert(format!("provider == {}", record.provider_id()));
            conditions.insert(format!("id == {}", record.descriptor().id));
            conditions.insert(format!("opcode == {}", record.descriptor().opcode.0));
            conditions.insert(format!("cpu == {}", record.processor()));
            conditions.extend(record.process_id().map(|id| format!("pid == {id}")));
            conditions.extend(record.thread_id().map(|id| format!("tid == {id}")));
            conditions.insert(format!("size >= {}", record.payload().len()));
        })
        .unwrap();
    let mut conditions: Vec<String> = conditions.into_iter().collect();
    conditions.sort();
    (conditions, times)
}

/// Returns the time and thread of the event that a stack belongs to.
fn stack_of(record: &Record<'_>) -> Option<(i64, u32)> {
    let is_stack =
        record.provider_id() == classes::STACK_WALK && matches!(record.descriptor().opcode.0, 32 | 37 | 38);
    let number = |range| record.payload().get(range);
    let time = i64::from_le_bytes(number(0..8)?.try_into().unwrap());
    let thread = u32::from_le_bytes(number(12..16)?.try_into().unwrap());
    is_stack.then_some((time, thread))
}

#[test]
fn what_a_filter_wants_stays_as_it_is_and_with_its_stacks() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("relogged.etl");
    let key = |record: &Record<'_>| {
        let of = (record.raw_time().0, record.thread_id());
        (of, stack_of(record))
    };
    for path in files(directory.path()) {
        let source = [path.as_path()];
        let (samples, times) = samples(&path);
        let mut numbers = Numbers::new(samples.len() as u64);
        let all = lines(&source, &EventFilter::default(), key);
        let counts = counted(all.iter().map(|(line, _)| line.clone()));
        for number in 0..FILTERS {
            let (filter, is_bounded) = filter(&mut numbers, &samples, &times);
            let what = format!("{}: {:?} {is_bounded}", path.display(), filter.expressions);
            let mut trace = builder(&source).filter(&filter).open().unwrap();
            let relogger = Relogger::new().overwrite(true).compression(match number % 3 {
                0 => Compression::Keep,
                1 => Compression::Compressed,
                _ => Compression::Plain,
            });
            relogger.write(&mut trace, &output).unwrap();
            let kept = lines(&[&output], &EventFilter::default(), key);
            let kept_counts = counted(kept.iter().map(|(line, _)| line.clone()));
            assert_within(&kept_counts, &counts, &what);
            // A stack has its event's time, not its own.
            let wanted = lines(&source, &filter, stack_of).into_iter();
            let wanted = wanted.filter(|(_, stack)| !is_bounded || stack.is_none()).map(|(line, _)| line);
            assert_within(&counted(wanted), &kept_counts, &what);
            let events: HashSet<_> =
                kept.iter().filter(|(_, (_, stack))| stack.is_none()).map(|(_, (of, _))| *of).collect();
            let is_needed = |stack: &Option<(i64, u32)>| {
                stack.is_some_and(|(time, thread)| events.contains(&(time, Some(thread))))
            };
            // Events that are kept at any time have their stacks in another part.
            let needed = all.iter().filter(|(_, (_, stack))| !is_bounded && is_needed(stack));
            assert_within(&counted(needed.map(|(line, _)| line.clone())), &kept_counts, &what);
        }
    }
}

#[test]
fn everything_stays_if_nothing_is_filtered() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("relogged.etl");
    for path in files(directory.path()) {
        let what = path.display().to_string();
        let all =
            |path: &Path| counted(lines(&[path], &EventFilter::default(), |_| ()).into_iter().map(|it| it.0));
        let mut trace = builder(&[&path]).open().unwrap();
        let relogged = Relogger::new().overwrite(true).write(&mut trace, &output).unwrap();
        let (found, expected) = (all(&output), all(&path));
        assert_within(&expected, &found, &what);
        assert_within(&found, &expected, &what);
        let mut before = builder(&[&path]).open().unwrap();
        before.for_each_record(|_| ()).unwrap();
        let mut after = builder(&[&output]).open().unwrap();
        after.for_each_record(|_| ()).unwrap();
        let (header, source) = (&after.headers()[0], &before.headers()[0]);
        assert_eq!(relogged.events_lost, source.events_lost, "{what}");
        assert_eq!((header.events_lost, header.buffers_lost), (source.events_lost, source.buffers_lost));
        assert_eq!(after.statistics().is_complete(), before.statistics().is_complete(), "{what}");
        assert_eq!(u64::from(header.buffers_written), after.statistics().buffers, "{what}");
        assert_eq!(after.statistics().damage, [], "{what}");
        assert_eq!(after.statistics().inversions, before.statistics().inversions, "{what}");
    }
}
