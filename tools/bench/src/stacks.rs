//! The stacks suite: stacks joined to their events.

use std::hint::black_box;
use std::io::Cursor;

use anyhow::Result;
use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, FileTime, HookId, PointerSize, Ticks, Trace};

use super::row::Row;
use super::{Effort, median};

/// Frames of each stack, and the number of different stacks.
const FRAMES: u64 = 20;
const STACKS: u64 = 2000;
/// Stacks come this many events after their own.
const LATE: i64 = 50;

/// Measures joining in millions of records per second.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let bytes = trace(effort.events)?;
    let mut trace = Trace::builder().bytes("stacks.etl", bytes).open()?;
    let mut read = Vec::new();
    let mut joined = Vec::new();
    let mut records = 0_u64;
    for _ in 0..effort.rounds {
        let mut pass = || -> Result<()> {
            records = 0;
            trace.for_each_record(|record| {
                records += 1;
                black_box(record.raw_time());
            })?;
            Ok(())
        };
        let start = std::time::Instant::now();
        pass()?;
        pass()?;
        read.push(start.elapsed().as_secs_f64());
        let start = std::time::Instant::now();
        let stacks = trace.stacks()?;
        let mut frames = 0;
        trace.for_each_record(|record| frames += stacks.of(record).addresses().count() as u64)?;
        joined.push(start.elapsed().as_secs_f64());
        anyhow::ensure!(frames == effort.events * FRAMES, "{frames} frames of {} events", effort.events);
    }
    let rate = |seconds: &mut [f64]| records as f64 / median(seconds) / 1e6;
    let floor = ("the same records read twice", rate(&mut read));
    let row = Row::new("records with stacks joined", rate(&mut joined), "M/s");
    Ok(vec![Row { peer: Some(floor), ..row }])
}

/// Returns a trace of samples whose stacks come later.
pub(super) fn trace(events: u64) -> Result<Vec<u8>> {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), WriterOptions::new(clock, 64 << 10, 1))?;
    let perf_info = |hook, time: i64, payload: &[u8]| {
        RecordBuilder::perf_info(PointerSize::Eight, HookId(hook), 2)
            .time(Ticks(time))
            .payload(payload)
            .build()
    };
    let mut payload = Vec::new();
    let late = LATE.unsigned_abs();
    for number in 0..events + late {
        let time = 10 * (number as i64 + 1);
        if number < events {
            payload.clear();
            payload.extend((0x7FF6_0000_0000 + number % STACKS).to_le_bytes());
            payload.extend(7_u32.to_le_bytes());
            payload.extend(1_u32.to_le_bytes());
            writer.write(0, &perf_info(0x0F2E, time, &payload)?)?;
        }
        if let Some(of) = number.checked_sub(late) {
            payload.clear();
            payload.extend((10 * (of as i64 + 1)).to_le_bytes());
            payload.extend([4_u32.to_le_bytes(), 7_u32.to_le_bytes()].concat());
            let frames = (0..FRAMES).map(|frame| 0x7FF6_0000_0000 + of % STACKS + (frame << 12));
            payload.extend(frames.flat_map(u64::to_le_bytes));
            writer.write(0, &perf_info(0x1820, time, &payload)?)?;
        }
    }
    Ok(writer.finish(FileTime(0))?.out.into_inner())
}
