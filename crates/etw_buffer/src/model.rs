//! Regions under the model checker: every interleaving and memory order that the code allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p etw_buffer --release`

use std::ops::Deref;

use loom::sync::Arc;
use loom::thread;

use crate::geometry::{BUFFER_HEADER, END, End, FREE, LOST, OWNER, State};
use crate::sync::{AtomicU64, Ordering};
use crate::*;

#[derive(Clone)]
struct Words(Arc<Vec<AtomicU64>>);

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

const LEN_BYTES: u16 = 32;
/// A kernel event that consists of its header.
const EVENT: u64 = 0xC002_0000 | (LEN_BYTES as u64) << 32;

/// Returns a region of one processor whose buffers hold `records` records each.
fn region(buffers: u16, records: u32) -> (Arc<Region<Words>>, RegionReader<Words>) {
    let geometry = Geometry { processors: 1, buffers, buffer_bytes: 72 + 32 * records };
    let words = Words(Arc::new((0..geometry.len_words()).map(|_| AtomicU64::new(0)).collect()));
    let mut reader = RegionReader::format(words.clone(), geometry, 0, 1, None, 0, u64::MAX).unwrap();
    reader.grant(usize::from(buffers));
    (Arc::new(Region::attach(words).unwrap()), reader)
}

/// Writes an event with `value` in two of its words, and returns whether it was written, lost or refused.
fn write(region: &Region<Words>, value: u64) -> Result<(), Refused> {
    match region.reserve(1, 0, LEN_BYTES, || 5) {
        Reserve::Slot(slot) => {
            slot.put(1, value);
            slot.put(2, slot.time);
            slot.put(3, value);
            slot.commit(EVENT);
            Ok(())
        }
        Reserve::Lost => Err(Refused::Lost),
        Reserve::Closed => Err(Refused::Closed),
        Reserve::TooLarge => panic!("records fit"),
    }
}

#[derive(Debug, PartialEq)]
enum Refused {
    Lost,
    Closed,
}

/// Reads the values of the available records, each of which must be whole.
fn read(reader: &mut RegionReader<Words>, values: &mut Vec<u64>) -> ReadEnd {
    let mut out = Vec::new();
    let taken = reader.read(0, u64::MAX, u64::MAX, usize::MAX, &mut out);
    for record in out.chunks(4) {
        assert_eq!(
            (record[0], record[1] as u32, record[2]),
            (EVENT, record[3] as u32, 5),
            "a record is torn"
        );
        values.push(record[1]);
    }
    taken.end
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // At most three preemptions; with more, a run takes hours.
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(3));
    builder.max_branches = 10_000;
    builder.check(check);
}

#[test]
fn two_writers_that_change_buffers_lose_nothing_uncounted() {
    model(|| {
        let (region, mut reader) = region(2, 1);
        let writers = [1, 2].map(|value| {
            let region = region.clone();
            thread::spawn(move || write(&region, value).is_ok())
        });
        let mut values = Vec::new();
        read(&mut reader, &mut values);
        let written: u64 = writers.into_iter().map(|writer| u64::from(writer.join().unwrap())).sum();
        assert_eq!(read(&mut reader, &mut values), ReadEnd::Empty);
        values.sort_unstable();
        values.dedup();
        assert_eq!((values.len() as u64, reader.lost()), (written, 2 - written));
        // One of them may be lost: both may claim a buffer for the same change, and one returns its buffer too late.
        assert!(written >= 1);
    });
}

#[test]
fn a_buffer_that_is_used_again_is_clean() {
    model(|| {
        let (region, mut reader) = region(1, 1);
        let writer = {
            let region = region.clone();
            thread::spawn(move || (1..=2).filter(|value| write(&region, *value).is_ok()).count() as u64)
        };
        let mut values = Vec::new();
        read(&mut reader, &mut values);
        reader.retire(0);
        read(&mut reader, &mut values);
        let written = writer.join().unwrap();
        assert_eq!(read(&mut reader, &mut values), ReadEnd::Empty);
        assert_eq!((values.len() as u64, reader.lost()), (written, 2 - written));
    });
}

#[test]
fn reservations_before_the_close_are_read_and_later_ones_rejected() {
    model(|| {
        let (region, mut reader) = region(2, 1);
        let writer = {
            let region = region.clone();
            thread::spawn(move || [write(&region, 1), write(&region, 2)])
        };
        reader.close();
        let results = writer.join().unwrap();
        let mut values = Vec::new();
        assert_eq!(read(&mut reader, &mut values), ReadEnd::Empty);
        let written = results.iter().filter(|result| result.is_ok()).count();
        let refused = results.iter().filter(|result| **result == Err(Refused::Closed)).count();
        assert_eq!((values.len(), written + refused, reader.lost()), (written, 2, 0));
    });
}

#[test]
fn losses_before_the_close_are_counted_and_later_ones_are_not() {
    model(|| {
        let (region, mut reader) = region(1, 1);
        let writer = {
            let region = region.clone();
            thread::spawn(move || [write(&region, 1), write(&region, 2), write(&region, 3)])
        };
        reader.close();
        let lost = reader.lost();
        let results = writer.join().unwrap();
        let count = results.iter().filter(|result| **result == Err(Refused::Lost)).count();
        assert_eq!((lost, reader.lost()), (count as u64, 0));
    });
}

/// What a hostile writer stores while the logger reads: the word, and its value.
fn hostile_stores(geometry: &Geometry) -> [Vec<(usize, u64)>; 4] {
    let buffer = |buffer: usize| geometry.buffer_start(buffer);
    let end = |next| End::new(BUFFER_HEADER + usize::from(LEN_BYTES) / 8, Some(next)).0;
    [
        // Buffers that follow each other for ever.
        vec![(buffer(0) + END, end(1)), (buffer(1) + END, end(0)), (buffer(0) + END, end(0))],
        // Sizes that reach beyond the buffer, and a record within another one.
        vec![
            (buffer(0) + BUFFER_HEADER, EVENT | 0xFFFF << 32),
            (buffer(0) + BUFFER_HEADER, EVENT & 0xFFFF_FFFF),
            (buffer(0) + BUFFER_HEADER + 1, EVENT),
        ],
        // Another current buffer, none, and a session that is over.
        vec![
            (geometry.processor(0), State::open(1, 7, 1).0),
            (geometry.processor(0), State::empty(1, 0).0),
            (geometry.processor(0), 0),
        ],
        // Free buffers that are in use, an invalid owner, and losses that did not happen.
        vec![(FREE, u64::MAX), (buffer(0) + OWNER, u64::MAX), (geometry.processor(0) + LOST, u64::MAX >> 1)],
    ]
}

/// Whatever a process stores while its region is read: what is taken consists of whole records that fit into its buffers,
/// reading ends, and once the region is closed and the process has ended, nothing follows.
#[test]
fn a_hostile_writer_is_read_in_whole_records_and_to_an_end() {
    const BUFFERS: u16 = 2;
    for case in 0..4 {
        model(move || {
            let (region, mut reader) = region(BUFFERS, 1);
            let geometry = reader.geometry();
            let hostile = {
                let region = region.clone();
                thread::spawn(move || {
                    let _ = write(&region, 1);
                    for (word, value) in &hostile_stores(&geometry)[case] {
                        region.words()[*word].store(*value, Ordering::Relaxed);
                    }
                    let _ = write(&region, 2);
                })
            };
            let most_words = geometry.buffer_words() * usize::from(BUFFERS);
            let pass = |reader: &mut RegionReader<Words>| {
                let mut out = Vec::new();
                reader.begin_pass();
                reader.read(0, u64::MAX, u64::MAX, usize::MAX, &mut out);
                // One buffer more than there are may be left in a pass: the one that was current.
                assert!(out.len() <= most_words + geometry.buffer_words(), "more than the region has");
                let mut rest = &out[..];
                while let [first, ..] = rest {
                    let len_words = ((first >> 32 & 0xFFFF) as usize).div_ceil(8);
                    assert!((4..=geometry.buffer_words()).contains(&len_words), "{first:#x}");
                    rest = rest.get(len_words..).expect("a record that is not whole");
                }
            };
            pass(&mut reader);
            reader.retire(0);
            reader.close();
            hostile.join().unwrap();
            reader.process_ended();
            for _ in 0..2 * BUFFERS + 2 {
                pass(&mut reader);
            }
            let mut out = Vec::new();
            reader.begin_pass();
            reader.read(0, u64::MAX, u64::MAX, usize::MAX, &mut out);
            assert!(out.is_empty() && reader.lost() < u64::MAX, "a closed region is read to an end");
        });
    }
}
