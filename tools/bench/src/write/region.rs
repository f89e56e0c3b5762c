//! The bare write path: a record of three integers with its full header into a region of shared memory, which a reader
//! in another thread empties.

use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use etw_buffer::{Geometry, Region, RegionReader, Reserve};
use etw_sys::{SharedWords, clock, cpu, ids};

use super::{Effort, Row};

/// Bytes of the record: the header's 80 and 16 of payload.
const LEN_BYTES: u16 = 96;
/// Buffers that are filled before the reader has its turn.
const BURST_BUFFERS: u64 = 32;

const GEOMETRY: Geometry = Geometry { processors: 0, buffers: 256, buffer_bytes: 0x1_0000 };

/// What writing and reading cost, each while the other rests; the events go from one processor's caches to the other's.
pub(super) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let geometry = Geometry { processors: u16::try_from(cpu::possible())?, ..GEOMETRY };
    let (words, file) = SharedWords::create("openetw-bench", geometry.len_words())?;
    let start = clock::counter();
    let mut reader = RegionReader::format(words, geometry, 0, 1, std::process::id(), start, u64::MAX)?;
    reader.grant(usize::from(geometry.buffers));
    let region = Region::attach(SharedWords::map(&file)?)?;
    region.words().populate(region.buffers());
    let events = BURST_BUFFERS * u64::from(geometry.max_record_bytes() / u32::from(LEN_BYTES));
    let (written, wait_for_written) = mpsc::channel::<()>();
    let (read, wait_for_read) = mpsc::channel::<f64>();
    let reading = thread::spawn(move || {
        let mut out = Vec::with_capacity(0x1_0000);
        for () in wait_for_written {
            let (begin, now) = (std::time::Instant::now(), clock::counter());
            for processor in 0..usize::from(geometry.processors) {
                while reader.read(processor, now, now, 0x2000, &mut out).records > 0 {
                    out.clear();
                }
            }
            if read.send(begin.elapsed().as_secs_f64()).is_err() {
                break;
            }
        }
        reader.lost()
    });
    let (mut write_best, mut read_best) = (f64::INFINITY, f64::INFINITY);
    let begin = std::time::Instant::now();
    while begin.elapsed() < effort.time * effort.rounds as u32 {
        let burst = std::time::Instant::now();
        (0..events).for_each(|value| write(&region, value));
        write_best = write_best.min(burst.elapsed().as_secs_f64());
        written.send(()).context("the reader is gone")?;
        read_best = read_best.min(wait_for_read.recv().context("the reader is gone")?);
    }
    drop(written);
    let lost = reading.join().ok().context("the reader failed")?;
    let row = |name: &str, seconds: f64| Row {
        events_lost: lost,
        ..Row::new(name, seconds * 1e9 / events as f64, "ns/event")
    };
    Ok(vec![
        row("bare region: write three integers with the full header", write_best),
        row("bare region: read, check and clear", read_best),
    ])
}

#[inline(always)]
fn write(region: &Region<SharedWords>, value: u64) {
    if let Reserve::Slot(slot) = region.reserve(1, cpu::current(), LEN_BYTES, clock::counter) {
        slot.put(1, ids::thread_and_process());
        slot.put(2, slot.time);
        for (index, word) in [(3, 0x1111), (4, 0x2222), (5, 4 << 32 | 1), (6, 1), (7, 0), (8, 0), (9, 0)] {
            slot.put(index, word);
        }
        slot.put(10, value & 0xFFFF_FFFF | value << 32);
        slot.put(11, value >> 32 | 3 << 32);
        slot.commit(0xC013_0000 | u64::from(LEN_BYTES));
    }
}
