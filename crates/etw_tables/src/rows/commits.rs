//! Memory that processes commit: from VirtualAlloc to VirtualFree, in parts if parts are freed.

use std::collections::BTreeMap;

use etw_event::FileTime;
use etw_kernel_events::{ids, read};
use etw_machine::{HashMap, ProcessIndex, ThreadIndex};

use super::columns::{Address, Bytes, End, Process, Span, Stack, Start, Text, Thread};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::{RowWriter, table};

table! {
    /// One row for each range of addresses that a process committed; a range that is freed in parts has a row for each.
    CommitRow: "virtual_alloc", "VirtualAlloc Commit LifeTimes";
    summary by ["process", "type", "committing_thread"] values ["sum(size)", "rows", "max(size)"];
    /// When it was committed; missing if that was before the trace.
    commit_time: Option<Start>,
    /// When it was freed or the process ended, if that was during the trace.
    decommit_time: Option<End>,
    /// Time between the two.
    commit_lifetime: Option<Span>,
    /// Process whose memory it is.
    process: Process,
    /// Thread that committed it.
    committing_thread: Option<Thread>,
    /// `Commit`, `Reserve+Commit`, or `Rundown` for one that was there at the start.
    r#type: Text,
    /// First address.
    address: Address,
    /// Number of bytes.
    size: Bytes,
    /// Stack of the commitment.
    commit_stack: Option<Stack>,
    /// Stack of the release.
    decommit_stack: Option<Stack>,
    /// Thread that freed it.
    decommitting_thread: Option<Thread>,
}

const COMMIT: u32 = 0x1000;
const RESERVE: u32 = 0x2000;
const DECOMMIT: u32 = 0x4000;
const RELEASE: u32 = 0x8000;
/// Maximum number of ranges that are there at once; further ones are not counted.
const MAX_RANGES: usize = 1 << 22;

/// Makes rows of committed ranges when they are freed.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// The committed ranges, by process and first address.
    ranges: HashMap<ProcessIndex, BTreeMap<u64, Range>>,
    count: usize,
}

/// A committed range.
#[derive(Debug, Clone, Copy)]
struct Range {
    end: u64,
    time: Option<FileTime>,
    thread: Option<ThreadIndex>,
    kind: &'static str,
    stack: Option<u32>,
}

/// The end of a range.
#[derive(Debug, Clone, Copy)]
struct Freed {
    time: FileTime,
    thread: Option<ThreadIndex>,
    stack: Option<u32>,
}

impl RowSource for Commits {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.id.is_some_and(read::VirtualAlloc::reads)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let (Some(id), record) = (event.id, event.record()) else { return };
        let block = read::VirtualAlloc::new(record);
        let (Some(base), Some(size), Some(process_id), Some(flags)) =
            (block.base_address(), block.region_size(), block.process_id(), block.flags())
        else {
            return;
        };
        let process = context.model.processes.at(process_id);
        let (time, end) = (record.time(), base.saturating_add(size));
        match id {
            ids::PageFault::VIRTUAL_ALLOC if flags & COMMIT != 0 => {
                let kind = if flags & RESERVE != 0 { "Reserve+Commit" } else { "Commit" };
                let (time, thread, stack) = (Some(time), event.thread, event.stack);
                self.commit(process, base, Range { end, time, thread, kind, stack });
            }
            ids::PageFault::VIRTUAL_FREE if flags & (DECOMMIT | RELEASE) != 0 => {
                let freed = Freed { time, thread: event.thread, stack: event.stack };
                for (base, range) in self.free(process, base, end) {
                    write(process, base, &range, Some(freed), context.writer);
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
    }

    /// Adds the ranges that are left.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        let mut all: Vec<_> = std::mem::take(&mut self.ranges).into_iter().collect();
        all.sort_by_key(|(process, _)| *process);
        for (process, ranges) in all {
            let end = context.model.processes.process(process).end;
            let freed = end.map(|time| Freed { time, thread: None, stack: None });
            for (base, range) in ranges {
                write(process, base, &range, freed, context.writer);
            }
        }
    }
}

impl Commits {
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
}

fn write(process: ProcessIndex, base: u64, range: &Range, freed: Option<Freed>, writer: &mut RowWriter) {
    writer.add(CommitRow {
        commit_time: range.time,
        decommit_time: freed.map(|freed| freed.time),
        commit_lifetime: range.time.zip(freed).map(|(time, freed)| between(time, freed.time)),
        process,
        committing_thread: range.thread,
        r#type: range.kind,
        address: base,
        size: range.end - base,
        commit_stack: range.stack,
        decommit_stack: freed.and_then(|freed| freed.stack),
        decommitting_thread: freed.and_then(|freed| freed.thread),
    });
}
