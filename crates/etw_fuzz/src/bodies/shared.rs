//! Fuzz bodies for memory that other processes write to.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use etw_buffer::ring::{POSITION_WORDS, Push, RingReader, RingWriter};
use etw_event::Fields;

/// Runs the reader and the writer of a ring whose other side is hostile.
pub fn ring(bytes: &[u8]) {
    hostile_writer(bytes);
    hostile_reader(bytes);
}

/// The words of a ring's data are the input.
fn hostile_writer(bytes: &[u8]) {
    let len = (bytes.len() / 8).max(80);
    let data: Arc<[AtomicU64]> =
        (0..len).map(|word| AtomicU64::new(bytes.u64_at(8 * word).unwrap_or(0))).collect();
    let Ok(mut reader) = RingReader::attach(data.clone(), words(POSITION_WORDS)) else { return };
    for round in 0..4 {
        let mut entries = 0;
        while let Ok(Some(entry)) = reader.next_entry() {
            entries += 1;
            assert!(entries <= len, "more entries than the ring has words");
            let words =
                data.get(entry.words()).unwrap_or_else(|| panic!("{entry:?} lies outside of the ring"));
            black_box(words.last().map(|word| word.load(Relaxed)));
            if entry.len_bytes % 3 != round {
                reader.release(entry.end);
            }
        }
        black_box(reader.sleeps());
        data[0].fetch_add(bytes.get(usize::from(round as u8)).copied().unwrap_or(1).into(), Relaxed);
    }
}

/// The input says what is written, and what the reader says of its position.
fn hostile_reader(bytes: &[u8]) {
    let (data, position) = (words(200), words(POSITION_WORDS));
    let Ok(mut writer) = RingWriter::format(data, position.clone()) else { return };
    let entry = [7; 1600];
    for step in bytes.chunks(2) {
        let (len, what) = (step.first().copied().unwrap_or(0), step.get(1).copied().unwrap_or(0));
        let len = usize::from(len) * 6;
        match writer.try_push(&[&entry[..len / 3], &entry[len / 3..len]]) {
            Ok(pushed) => assert_eq!(pushed == Push::TooLarge, len > writer.max_entry_bytes()),
            Err(_) => return,
        }
        match what % 8 {
            0..=3 => {
                black_box(writer.publish());
            }
            4 => {
                black_box(writer.waits(len)).ok();
            }
            5 | 6 => position[0].store(position[0].load(Relaxed) + u64::from(what / 8), Relaxed),
            _ => position[0].store(u64::from(what / 8) << 59, Relaxed),
        }
    }
}

fn words(len: usize) -> Arc<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}
