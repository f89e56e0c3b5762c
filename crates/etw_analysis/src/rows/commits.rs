//! Memory that processes commit: from VirtualAlloc to VirtualFree, in parts if parts are freed.

use std::collections::BTreeMap;

use etw_columns::{ColumnsError, IndexWriter, TableId, TableSchema};
use etw_event::FileTime;
use etw_kernel_events::{ids, read};

use super::columns::{address, bytes, duration, end_of, process, stack, start_of, text, thread};
use super::seen::Seen;
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes};

pub(super) static VIRTUAL_ALLOC: TableSchema = TableSchema::new(
    "virtual_alloc",
    "VirtualAlloc Commit LifeTimes",
    "One row for each range of addresses that a process committed; a range that is freed in parts has a row for each.",
    columns![
        start_of("commit_time", "When it was committed; missing if that was before the trace."),
        end_of("decommit_time", "When it was freed or the process ended, if that was during the trace."),
        duration("commit_lifetime", "Time between the two."),
        process("process", "Process whose memory it is."),
        thread("committing_thread", "Thread that committed it."),
        text("type", "`Commit`, `Reserve+Commit`, or `Rundown` for one that was there at the start."),
        address("address", "First address."),
        bytes("size", "Number of bytes."),
        stack("commit_stack", "Stack of the commitment."),
        stack("decommit_stack", "Stack of the release."),
        thread("decommitting_thread", "Thread that freed it."),
    ],
);

const COMMIT: u32 = 0x1000;
const RESERVE: u32 = 0x2000;
const DECOMMIT: u32 = 0x4000;
const RELEASE: u32 = 0x8000;
/// Maximum number of ranges that are there at once; further ones are not counted.
const MAX_RANGES: usize = 1 << 22;

/// The committed ranges of all processes.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// By process and first address.
    ranges: HashMap<ProcessIndex, BTreeMap<u64, Range>>,
    count: usize,
}

/// A committed range.
#[derive(Debug, Clone, Copy)]
struct Range {
    end: u64,
    time: Option<FileTime>,
    thread: Option<u32>,
    kind: &'static str,
    stack: Option<u32>,
}

/// The end of a range.
#[derive(Debug, Clone, Copy)]
struct Freed {
    time: FileTime,
    thread: Option<u32>,
    stack: Option<u32>,
}

impl Commits {
    /// Adds an event of class PageFault.
    pub(super) fn event(
        &mut self,
        seen: &Seen<'_, '_>,
        processes: &mut Processes,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        let record = seen.record();
        let Some(id) = seen.id.filter(|id| read::VirtualAlloc::reads(*id)) else { return Ok(()) };
        let block = read::VirtualAlloc::new(record);
        let (Some(base), Some(size), Some(process_id), Some(flags)) =
            (block.base_address(), block.region_size(), block.process_id(), block.flags())
        else {
            return Ok(());
        };
        let (process, time, end) = (processes.at(process_id), record.time(), base.saturating_add(size));
        match id {
            ids::PageFault::VIRTUAL_ALLOC if flags & COMMIT != 0 => {
                let kind = if flags & RESERVE != 0 { "Reserve+Commit" } else { "Commit" };
                let (time, thread, stack) = (Some(time), seen.thread, seen.stack);
                self.commit(process, base, Range { end, time, thread, kind, stack });
            }
            ids::PageFault::VIRTUAL_FREE if flags & (DECOMMIT | RELEASE) != 0 => {
                let freed = Freed { time, thread: seen.thread, stack: seen.stack };
                for (base, range) in self.free(process, base, end) {
                    write(process, base, &range, Some(freed), table, writer)?;
                }
            }
            ids::PageFault::VIRTUAL_ALLOC_DC_START => {
                let committed = block.commit_size_in_bytes().unwrap_or(0);
                let end = base.saturating_add(committed.min(size));
                let range = Range { end, time: None, thread: None, kind: "Rundown", stack: None };
                self.commit(process, base, range);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a range without what is committed already.
    fn commit(&mut self, process: ProcessIndex, base: u64, range: Range) {
        let ranges = self.ranges.entry(process).or_default();
        let mut from = base;
        if let Some((_, before)) = ranges.range(..=base).next_back() {
            from = from.max(before.end);
        }
        let inside: Vec<(u64, u64)> = match from < range.end {
            true => ranges.range(from..range.end).map(|(base, range)| (*base, range.end)).collect(),
            false => return,
        };
        for (start, end) in inside.into_iter().chain([(range.end, range.end)]) {
            if from < start && self.count < MAX_RANGES {
                ranges.insert(from, Range { end: start, ..range });
                self.count += 1;
            }
            from = from.max(end);
        }
    }

    /// Removes what is committed of a range, and returns it.
    fn free(&mut self, process: ProcessIndex, base: u64, end: u64) -> Vec<(u64, Range)> {
        let Some(ranges) = self.ranges.get_mut(&process) else { return Vec::new() };
        let reaches = |(start, range): (&u64, &Range)| (range.end > base).then_some(*start);
        let first = ranges.range(..base).next_back().and_then(reaches);
        let starts: Vec<u64> =
            first.into_iter().chain(ranges.range(base..end.max(base)).map(|(start, _)| *start)).collect();
        let mut freed = Vec::new();
        for start in starts {
            let Some(range) = ranges.remove(&start) else { continue };
            self.count -= 1;
            if start < base {
                ranges.insert(start, Range { end: base, ..range });
                self.count += 1;
            }
            if range.end > end {
                ranges.insert(end, range);
                self.count += 1;
            }
            freed.push((start.max(base), Range { end: range.end.min(end), ..range }));
        }
        freed
    }

    /// Writes the ranges that are left.
    pub(super) fn finish(
        &mut self,
        processes: &Processes,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        let mut all: Vec<_> = std::mem::take(&mut self.ranges).into_iter().collect();
        all.sort_by_key(|(process, _)| *process);
        for (process, ranges) in all {
            let freed = processes.process(process).end.map(|time| Freed { time, thread: None, stack: None });
            for (base, range) in ranges {
                write(process, base, &range, freed, table, writer)?;
            }
        }
        Ok(())
    }
}

fn write(
    process: ProcessIndex,
    base: u64,
    range: &Range,
    freed: Option<Freed>,
    table: TableId,
    writer: &mut IndexWriter,
) -> Result<(), ColumnsError> {
    let mut row = writer.row(table)?;
    if let Some(time) = range.time {
        row.time(0, time);
    }
    if let Some(freed) = freed {
        row.time(1, freed.time);
        if let Some(time) = range.time {
            row.duration(2, freed.time.0.saturating_sub(time.0).saturating_mul(100));
        }
    }
    row.code(3, process.0).text(5, range.kind).u64(6, base).u64(7, range.end - base);
    let thread = freed.and_then(|freed| freed.thread);
    let stacks = [(8, range.stack), (9, freed.and_then(|freed| freed.stack)), (10, thread)];
    for (column, code) in [(4, range.thread)].into_iter().chain(stacks) {
        if let Some(code) = code {
            row.code(column, code);
        }
    }
    row.end()
}
