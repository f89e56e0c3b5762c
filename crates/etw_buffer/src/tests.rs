//! Writers and a reader on one region.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::Relaxed};
use std::thread;

use super::*;
use crate::sync::AtomicU64;

const EVENT: u64 = 0xC013_0000;

fn memory(geometry: Geometry) -> Arc<[AtomicU64]> {
    (0..geometry.len_words()).map(|_| AtomicU64::new(0)).collect()
}

fn pair(geometry: Geometry) -> (Region<Arc<[AtomicU64]>>, RegionReader<Arc<[AtomicU64]>>) {
    let words = memory(geometry);
    let reader = RegionReader::format(words.clone(), geometry, 0, 1, 77, 0, 1000).unwrap();
    (Region::attach(words).unwrap(), reader)
}

/// Writes an event of `len` bytes whose last word is `value`; returns the obstacle, or `None`.
fn write(
    region: &Region<Arc<[AtomicU64]>>,
    processor: u32,
    len: u16,
    time: u64,
    value: u64,
) -> Option<Reserve<'_>> {
    let reserve = region.reserve(1, processor, len, || time);
    if let Reserve::Slot(slot) = reserve {
        slot.put(1, 5 | 6 << 32);
        slot.put(2, slot.time);
        let last = slot.words().len() - 1;
        slot.put(last, value);
        slot.commit(EVENT | u64::from(len));
        return None;
    }
    Some(reserve)
}

/// Returns the values of all available records of a processor.
fn values(reader: &mut RegionReader<Arc<[AtomicU64]>>, processor: usize) -> (Vec<u64>, ReadEnd) {
    let mut out = Vec::new();
    let taken = reader.read(processor, u64::MAX, u64::MAX, usize::MAX, &mut out);
    let (mut values, mut at, mut last) = (Vec::new(), 0, 0);
    while at < out.len() {
        let len = (out[at] & 0xFFFF) as usize;
        assert_eq!(out[at + 1], 5 | 77 << 32, "the process is the host's view of it");
        assert!(out[at + 2] >= last, "times go on");
        last = out[at + 2];
        at += len.div_ceil(8);
        values.push(out[at - 1]);
    }
    assert_eq!(taken.records, values.len() as u64);
    (values, taken.end)
}

const SMALL: Geometry = Geometry { processors: 2, buffers: 4, buffer_bytes: 1024 };

#[test]
fn events_come_out_as_they_went_in() {
    let (region, mut reader) = pair(SMALL);
    assert_eq!(reader.grant(10), 4);
    assert_eq!(values(&mut reader, 0), (vec![], ReadEnd::Empty));
    let mut expected = Vec::new();
    for value in 1..=30 {
        assert!(write(&region, 0, 90, value, value).is_none());
        expected.push(value);
    }
    // A buffer has room for nine events of 96 bytes: four buffers would not suffice without reading.
    assert_eq!(values(&mut reader, 0), (expected, ReadEnd::Empty));
    for value in 31..=60 {
        write(&region, 0, 90, value, value);
        assert_eq!(values(&mut reader, 0), (vec![value], ReadEnd::Empty));
    }
    assert_eq!(reader.lost(), 0);
}

#[test]
fn without_a_buffer_events_are_counted() {
    let (region, mut reader) = pair(SMALL);
    assert!(matches!(write(&region, 0, 96, 1, 1), Some(Reserve::Lost)));
    assert_eq!(reader.lost(), 1);
    reader.grant(2);
    let written = (0..30).filter(|value| write(&region, 1, 96, 1, *value).is_none()).count();
    assert_eq!((written, reader.lost(), reader.lost()), (18, 12, 0));
    assert!(matches!(write(&region, 0, 2000, 1, 1), Some(Reserve::TooLarge)));
    assert_eq!(reader.lost(), 1);
    assert_eq!(values(&mut reader, 1).0.len(), 18);
    assert!(write(&region, 0, 96, 1, 1).is_none(), "a buffer that was read is free again");
}

#[test]
fn a_closed_region_refuses() {
    let (region, mut reader) = pair(SMALL);
    reader.grant(4);
    write(&region, 0, 96, 5, 1);
    let Reserve::Slot(pending) = region.reserve(1, 0, 96, || 6) else { panic!("no room") };
    reader.close();
    assert!(matches!(region.reserve(1, 0, 96, || 7), Reserve::Closed));
    assert_eq!(values(&mut reader, 0), (vec![1], ReadEnd::Pending));
    pending.put(1, 5);
    pending.put(2, pending.time);
    pending.put(11, 2);
    pending.commit(EVENT | 96);
    assert_eq!(values(&mut reader, 0), (vec![2], ReadEnd::Empty));
    assert!(matches!(region.reserve(2, 0, 96, || 7), Reserve::Closed));
    assert!(!region.lose(0, 1), "nobody counts any more");
    assert_eq!((reader.lost(), reader.free()), (0, 4));
}

#[test]
fn in_the_place_of_a_region_that_was_left_nothing_is_counted() {
    let (region, _reader) = pair(SMALL);
    assert!(region.lose(0, 1));
    // As in a process that has left the memory: it finds zero words there.
    region.words().iter().for_each(|word| word.store(0, Relaxed));
    assert!(matches!(region.reserve(1, 0, 96, || 7), Reserve::Closed));
    assert!(!region.lose(0, 1), "nobody reads the count");
}

#[test]
fn what_a_dead_writer_left_is_skipped_and_counted() {
    let (region, mut reader) = pair(SMALL);
    reader.grant(4);
    let reserve = |time| match region.reserve(1, 0, 96, || time) {
        Reserve::Slot(slot) => slot,
        _ => panic!("no room"),
    };
    write(&region, 0, 96, 1, 1);
    let _reserved = reserve(2);
    write(&region, 0, 96, 3, 3);
    let blank = reserve(4);
    blank.words()[0].store(0, crate::sync::Ordering::Relaxed);
    write(&region, 0, 96, 5, 5);
    assert_eq!(values(&mut reader, 0), (vec![1], ReadEnd::Pending));
    reader.process_ended();
    assert_eq!(values(&mut reader, 0), (vec![3, 5], ReadEnd::Empty));
    assert_eq!(reader.lost(), 2);
}

#[test]
fn a_late_commit_after_a_skip_is_harmless() {
    let (region, mut reader) = pair(Geometry { processors: 1, buffers: 2, buffer_bytes: 1024 });
    reader.grant(2);
    let Reserve::Slot(late) = region.reserve(1, 0, 96, || 1) else { panic!("no room") };
    write(&region, 0, 96, 2, 2);
    assert_eq!(reader.peek(0, 9), Peek::Pending);
    reader.skip_pending(0);
    assert_eq!(values(&mut reader, 0), (vec![2], ReadEnd::Empty));
    for value in 3..=10 {
        write(&region, 0, 96, value, value);
    }
    assert_eq!(values(&mut reader, 0).0.len(), 8);
    assert_eq!(reader.free(), 0, "the buffer waits for its writer");
    late.commit(EVENT | 96);
    reader.release_quarantine();
    assert_eq!((reader.free(), reader.lost()), (1, 1));
}

#[test]
fn retired_and_reclaimed_buffers_leave_the_process() {
    let (region, mut reader) = pair(SMALL);
    reader.grant(3);
    write(&region, 0, 96, 1, 1);
    assert_eq!((reader.granted(), reader.free(), reader.reclaim(9)), (3, 2, 2));
    reader.retire(0);
    reader.retire(1);
    assert_eq!(values(&mut reader, 0), (vec![1], ReadEnd::Empty));
    assert_eq!((reader.granted(), reader.free()), (1, 1));
    write(&region, 1, 96, 2, 2);
    assert_eq!(values(&mut reader, 1), (vec![2], ReadEnd::Empty));
    assert!(matches!(write(&region, 0, 96, 1, 1), Some(Reserve::Lost)));
}

#[test]
fn room_and_time_bound_what_is_taken() {
    let (region, mut reader) = pair(SMALL);
    reader.grant(4);
    for time in 1..=5 {
        write(&region, 0, 96, time * 10, time);
    }
    let mut out = Vec::new();
    let mut read = |until, room| {
        out.clear();
        let taken = reader.read(0, 100, until, room, &mut out);
        (taken.records, taken.end)
    };
    assert_eq!(read(25, 1000), (2, ReadEnd::Later(30)));
    assert_eq!(read(90, 12), (1, ReadEnd::NoRoom));
    assert_eq!(read(90, 1000), (2, ReadEnd::Empty));
    write(&region, 0, 96, 5000, 6);
    assert_eq!(reader.peek(0, 100), Peek::Time(100), "a time far ahead is not believed");
}

/// Many threads on few buffers, with a reader that is sometimes late: every event is read or counted as lost.
#[test]
fn threads_lose_nothing_uncounted() {
    let events = if std::env::var_os("RUN_SLOW_TESTS").is_some() { 3_000_000u64 } else { 200_000 };
    for buffers in [3, 8, 200] {
        let geometry = Geometry { processors: 2, buffers, buffer_bytes: 1024 };
        let (region, mut reader) = pair(geometry);
        reader.grant(usize::from(buffers));
        let (region, clock) = (Arc::new(region), Arc::new(Counter::new(1)));
        let threads: Vec<_> = (0..4u64)
            .map(|number| {
                let (region, clock) = (region.clone(), clock.clone());
                thread::spawn(move || {
                    for event in 0..events / 4 {
                        let len = 80 + (event % 9) as u16 * 8;
                        let processor = (number + event / 1000) as u32;
                        let reserve = region.reserve(1, processor, len, || clock.fetch_add(1, Relaxed));
                        if let Reserve::Slot(slot) = reserve {
                            slot.put(1, 5 | 6 << 32);
                            slot.put(2, slot.time);
                            slot.put(slot.words().len() - 1, number << 32 | event);
                            slot.commit(EVENT | u64::from(len));
                        }
                    }
                })
            })
            .collect();
        let (mut read, mut lost) = (0, 0);
        let mut seen = std::collections::HashSet::new();
        let mut is_over = false;
        loop {
            let ended = threads.iter().all(thread::JoinHandle::is_finished);
            let before = read;
            for processor in 0..2 {
                let (values, _) = values(&mut reader, processor);
                read += values.len() as u64;
                assert!(values.iter().all(|value| seen.insert(*value)), "an event came twice");
            }
            lost += reader.lost();
            if is_over && read == before {
                break;
            }
            if ended && !is_over {
                reader.close();
                is_over = true;
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(read + lost, events, "{buffers} buffers: {read} read, {lost} lost");
    }
}

/// Reading ends, whatever the region contains.
#[test]
fn a_hostile_region_is_read_to_an_end() {
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..300 {
        let words = memory(SMALL);
        let mut reader = RegionReader::format(words.clone(), SMALL, 0, 1, 77, 0, 1000).unwrap();
        reader.grant(3);
        let region = Region::attach(words.clone()).unwrap();
        for value in 0..20 {
            write(&region, value % 2, 96, 1, 1);
        }
        for step in 0..40 {
            for _ in 0..random() % 50 {
                let at = random() as usize % words.len();
                let value = match random() % 4 {
                    0 => u64::MAX,
                    1 => random(),
                    2 => EVENT | random() & 0xFFFF,
                    _ => random() & 0xFFFF_FFFF,
                };
                words[at].store(value, crate::sync::Ordering::Relaxed);
            }
            let mut out = Vec::new();
            for processor in 0..3 {
                reader.read(processor, 50, 60, 10_000, &mut out);
                reader.skip_pending(processor);
                assert!(out.len() < 50_000);
            }
            reader.lost();
            reader.release_quarantine();
            match (round + step) % 7 {
                0 => reader.retire(step % 2),
                1 => assert!(reader.reclaim(2) <= 2),
                2 => assert!(reader.grant(2) <= 2),
                3 if step > 30 => reader.process_ended(),
                4 if step > 35 => reader.close(),
                _ => {}
            }
            write(&region, step as u32, 96, 1, 1);
        }
    }
}

/// A process that makes the buffers follow each other for ever keeps the reader for one pass only, also while it runs.
#[test]
fn an_endless_chain_of_buffers_ends_with_the_pass() {
    use crate::geometry::{BUFFER_HEADER, END, End};
    use crate::sync::Ordering;

    let geometry = Geometry { processors: 1, buffers: 8, buffer_bytes: 1024 };
    let words = memory(geometry);
    let mut reader = RegionReader::format(words.clone(), geometry, 0, 1, 77, 0, 1000).unwrap();
    reader.grant(8);
    let region = Region::attach(words.clone()).unwrap();
    assert!(write(&region, 0, 96, 1, 1).is_none());
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let hostile = {
        let is_over = is_over.clone();
        thread::spawn(move || {
            while !is_over.load(Relaxed) {
                for buffer in 0..8 {
                    let start = geometry.buffer_start(usize::from(buffer));
                    words[start + BUFFER_HEADER].store(EVENT | 96, Ordering::Relaxed);
                    let end = End::new(BUFFER_HEADER + 12, Some((buffer + 1) % 8));
                    words[start + END].store(end.0, Ordering::Release);
                }
            }
        })
    };
    let mut out = Vec::new();
    for _ in 0..200 {
        reader.begin_pass();
        let before = out.len();
        reader.read(0, u64::MAX, u64::MAX, usize::MAX, &mut out);
        assert!(out.len() - before <= 10 * 12, "more records than buffers");
        assert!(reader.take_used() <= 10);
    }
    reader.close();
    reader.process_ended();
    let before = out.len();
    for _ in 0..200 {
        reader.begin_pass();
        reader.read(0, u64::MAX, u64::MAX, usize::MAX, &mut out);
    }
    assert!(out.len() - before <= 10 * 12, "a closed region is read once");
    assert_eq!(reader.peek(0, u64::MAX), Peek::Empty);
    is_over.store(true, Relaxed);
    hostile.join().unwrap();
}

/// Searching what a dead writer left touches none of the buffers that it did not use.
#[test]
fn free_buffers_of_a_dead_writer_are_not_looked_into() {
    use crate::geometry::{OWNER, owner};
    use crate::sync::Ordering;

    let geometry = Geometry { processors: 1, buffers: 4, buffer_bytes: 1024 };
    let words = memory(geometry);
    let mut reader = RegionReader::format(words.clone(), geometry, 0, 1, 77, 0, 1000).unwrap();
    reader.grant(3);
    // What names itself as the next buffer is free, or withheld.
    for buffer in [1, 3] {
        let start = geometry.buffer_start(buffer);
        words[start + OWNER].store(owner(0, 1), Ordering::Relaxed);
        words[start + 9].store(EVENT | 96, Ordering::Relaxed);
    }
    reader.process_ended();
    assert_eq!(reader.peek(0, u64::MAX), Peek::Empty);
}

#[test]
fn refused_records_are_left_out_and_counted() {
    let (region, mut reader) = pair(SMALL);
    reader.grant(3);
    for value in 0..5 {
        assert!(write(&region, 0, 96, 1, value).is_none());
    }
    let mut out = Vec::new();
    let is_allowed = |record: &mut [u64]| record[11].is_multiple_of(2);
    let taken = reader.read_checked(0, u64::MAX, u64::MAX, usize::MAX, &mut out, is_allowed);
    assert_eq!((taken.records, taken.refused, out.len()), (3, 2, 36));
}
