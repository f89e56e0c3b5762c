//! Rings under the model checker: every interleaving and memory order that the code allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p etw_buffer --release ring`

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use loom::thread;

use super::*;

#[derive(Clone)]
struct Words(Arc<Vec<AtomicU64>>);

impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn words(len: usize) -> Words {
    Words(Arc::new((0..len).map(|_| AtomicU64::new(0)).collect()))
}

fn ring() -> (RingWriter<Words, Words>, RingReader<Words, Words>) {
    let (data, position) = (words(MIN_DATA_WORDS), words(POSITION_WORDS));
    let writer = RingWriter::format(data.clone(), position.clone()).unwrap();
    (writer, RingReader::attach(data, position).unwrap())
}

/// An entry that takes slightly less than half of the ring, of which two words are checked.
fn entry(number: u8) -> Vec<u8> {
    vec![number; 26 * 8]
}

fn check(reader: &RingReader<Words, Words>, entry: &Entry, number: u8) {
    let words = entry.words();
    for at in [words.start, words.end - 1] {
        assert_eq!(reader.data()[at].load(Relaxed), u64::from_ne_bytes([number; 8]));
    }
}

#[test]
fn entries_are_whole_and_never_overwritten_while_they_are_read() {
    loom::model(|| {
        let (mut writer, mut reader) = ring();
        let writes = thread::spawn(move || {
            // The third fits only after the first was released, and takes its place.
            for number in 1..=3 {
                if writer.try_push(&[&entry(number)]).unwrap() != Push::Done {
                    return number - 1;
                }
                writer.publish();
            }
            3
        });
        let mut seen = 0;
        for _ in 0..3 {
            if let Some(entry) = reader.next_entry().unwrap() {
                seen += 1;
                check(&reader, &entry, seen);
                reader.release(entry.end);
            }
        }
        let written = writes.join().unwrap();
        while let Some(entry) = reader.next_entry().unwrap() {
            seen += 1;
            check(&reader, &entry, seen);
        }
        assert_eq!(seen, written);
    });
}

#[test]
fn a_sleeping_reader_is_always_woken() {
    loom::model(|| {
        let (mut writer, mut reader) = ring();
        let rung = Arc::new(AtomicBool::new(false));
        let bell = rung.clone();
        let writes = thread::spawn(move || {
            writer.try_push(&[&[1; 8]]).unwrap();
            if writer.publish() {
                bell.store(true, Relaxed);
            }
        });
        let slept = reader.sleeps();
        writes.join().unwrap();
        // A reader that was awake sees the entry; one that slept hears the bell.
        assert!(!slept || rung.load(Relaxed));
        assert!(reader.next_entry().unwrap().is_some());
    });
}

#[test]
fn a_waiting_writer_is_always_woken() {
    loom::model(|| {
        let (mut writer, mut reader) = ring();
        writer.try_push(&[&entry(1)]).unwrap();
        writer.try_push(&[&entry(2)]).unwrap();
        writer.publish();
        let rung = Arc::new(AtomicBool::new(false));
        let bell = rung.clone();
        let reads = thread::spawn(move || {
            let entry = reader.next_entry().unwrap().unwrap();
            let entry = reader.next_entry().unwrap().unwrap_or(entry);
            if reader.release(entry.end) {
                bell.store(true, Relaxed);
            }
        });
        let waits = writer.waits(100).unwrap();
        reads.join().unwrap();
        assert!(!waits || rung.load(Relaxed));
        assert_eq!(writer.used_bytes(), Ok(0));
    });
}

/// A consumer may store anything into the memory that it shares: the ring is abandoned or written on, and never beyond its end.
#[test]
fn a_hostile_consumer_spoils_its_own_ring_only() {
    for position in [1, 54, u64::MAX, 1 << 32] {
        loom::model(move || {
            let (data, positions) = (words(MIN_DATA_WORDS), words(POSITION_WORDS));
            let mut writer = RingWriter::format(data.clone(), positions.clone()).unwrap();
            let hostile = {
                let (data, positions) = (data.clone(), positions.clone());
                thread::spawn(move || {
                    (0..POSITION_WORDS).for_each(|at| positions[at].store(position, Relaxed));
                    data[0].store(position, Relaxed);
                })
            };
            let mut written = 0;
            for number in 1..=3 {
                match writer.try_push(&[&entry(number)]) {
                    Ok(Push::Done) => written += 1,
                    Ok(_) => {}
                    // Positions that no reader has.
                    Err(_) => break,
                }
                writer.publish();
                let used = writer.used_bytes();
                assert!(used.is_err() || used.unwrap() <= writer.capacity_bytes());
            }
            hostile.join().unwrap();
            assert!(written <= 3);
        });
    }
}
