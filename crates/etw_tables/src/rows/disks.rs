//! Requests to disks: where they were sent, how long the disk worked for them, and how many there were at once.

use etw_event::FileTime;
use etw_kernel_events::ids::Class;
use etw_kernel_events::read;
use etw_machine::{Fact, HashMap};

use super::columns::{
    Bytes, Depth, Disk, End, File, Hex, Id, LongHex, Span, Stack, Start, Text, Thread, Time,
};
use super::io_names;
use super::labels::RowLabel;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::{between, nanos, units};
use super::table::{RowWriter, table};
use crate::summary::{Column, Summary, no_notes};

table! {
    /// One row for each disk that completed requests.
    DiskDeviceRow: "disks", "Disks", label RowLabel::single(&["name"]);
    /// Name of the disk, or its number.
    name: Text,
    /// Its number in events.
    number: Id,
}

table! {
    /// One row for each request that a disk completed; optical drives are left out.
    DiskRow: "disk", "Disk Usage";
    /// When the request was completed.
    time: Time,
    /// Thread that sent it.
    thread: Option<Thread>,
    /// Disk that completed it.
    disk: Disk,
    /// `Read`, `Write` or `Flush`.
    operation: Text,
    /// File, if the trace names it.
    file: Option<File>,
    /// Number of bytes.
    size: Bytes,
    /// Place on the disk.
    offset: Option<LongHex>,
    /// Time from when it was sent to its completion.
    duration: Span,
    /// Flags of the request (`IRP_*`).
    irp_flags: Hex,
    /// When it was sent.
    init_time: Time,
    /// Time for which the disk worked: since it was sent, or since the disk completed the request before it.
    disk_service_time: Span,
    /// `VeryLow`, `Low`, `Normal`, `High` or `Critical`, if its flags have one.
    priority: Option<Text>,
    /// Stack of the sending.
    init_stack: Option<Stack>,
}

table! {
    /// One row for each time in which a disk had the same number of requests; none for times without requests.
    DiskQueueRow: "disk_queue", "Disk Queue Depth";
    summary by ["disk", "depth"]
        values ["sum(duration)", "percent(sum(duration))", "sum(request_time)", "rows"];
    /// When the number changed to this one.
    start_time: Start,
    /// When it changed again.
    end_time: End,
    /// Time between the two.
    duration: Span,
    /// The disk.
    disk: Disk,
    /// Number of requests that were sent and not completed.
    depth: Depth,
    /// The duration, once for each of the requests.
    request_time: Span,
}

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "disk",
    title: "Disk I/O",
    about: "disk I/O by disk, process and file",
    recorded_by: "PROC_THREAD+DISK_IO",
    table: "disk",
    by: &["disk", "operation", "thread.process", "file"],
    condition: "",
    process: "thread.process",
    thread: "",
    columns: &[
        Column::hidden("disk").key(&["disk.number"]),
        Column::shown("disk_name", "Disk").key(&["disk.name"]),
        Column::shown("operation", "Op").key(&["operation"]),
        Column::shown("process", "Process").key(&["thread.process.name"]),
        Column::hidden("process_id").key(&["thread.process.process_id"]),
        Column::shown("file", "File").key(&["file.path"]),
        Column::shown("count", "Count").value("rows"),
        Column::shown("bytes", "Bytes").value("sum(size)"),
        Column::hidden("time_ns").value("sum(duration)"),
        Column::shown("median_ns", "Median").value("p50(duration)"),
        Column::shown("p95_ns", "p95").value("p95(duration)"),
        Column::shown("max_ns", "Max").value("max(duration)"),
        Column::shown("priority", "Priority").all("irp_flags", io_names::priorities),
        Column::shown("irp_flags", "IRP flags").all("irp_flags", io_names::irp_flags),
    ],
    order: &["sum(size)", "sum(duration)"],
    weights: &["bytes"],
    notes: no_notes,
};

/// Maximum number of requests that are counted by time; further ones are left out.
const MAX_REQUESTS: usize = 1 << 22;
/// Maximum number of requests that wait for their completion.
const MAX_OPEN: usize = 1 << 20;
/// Priorities of requests, from bits 17 to 19 of their flags.
const PRIORITIES: [&str; 5] = ["VeryLow", "Low", "Normal", "High", "Critical"];

/// The requests of a trace.
#[derive(Debug, Default)]
pub(super) struct Disks {
    /// The rows of disks, by machine and number.
    rows: HashMap<(u32, u32), u32>,
    /// The stacks of requests that are not completed, by machine and IRP.
    stacks: HashMap<(u32, u64), u32>,
    /// When each disk completed the last request, by machine and number.
    last: HashMap<(u32, u32), FileTime>,
    /// Starts and ends, by machine and number of the disk.
    requests: HashMap<(u32, u32), Vec<(FileTime, FileTime)>>,
    count: usize,
}

impl RowSource for Disks {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id().is_some_and(|id| id.class() == Class::DiskIo)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let init_stack = self.stack(event);
        let Some(Fact::Disk(done)) = event.fact else { return };
        let (machine, time) = (event.machine, event.record().time());
        let init_time = FileTime(time.0.saturating_sub(units(done.took)));
        context.writer.add(DiskRow {
            time,
            thread: done.thread,
            disk: self.row(machine, done.disk),
            operation: done.operation.name(),
            file: done.file,
            size: done.bytes.into(),
            offset: done.offset,
            duration: nanos(done.took),
            irp_flags: done.irp_flags,
            init_time,
            disk_service_time: self.done((machine, done.disk), init_time, time, context.writer),
            priority: priority(done.irp_flags),
            init_stack,
        });
    }

    /// Adds the disks, whose names may come at the end, and the numbers of requests over time.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        let mut devices: Vec<_> = self.rows.iter().collect();
        devices.sort_unstable_by_key(|(_, row)| **row);
        for ((machine, number), _) in devices {
            let name = context.model.disks.label(*machine, *number);
            let name = context.model.processes.machines.labelled(&name, *machine);
            context.writer.add(DiskDeviceRow { name: &name, number: *number });
        }
        let mut disks: Vec<_> = std::mem::take(&mut self.requests).into_iter().collect();
        disks.sort_unstable_by_key(|(disk, _)| *disk);
        for ((machine, disk), requests) in disks {
            let device = self.row(machine, disk);
            let mut starts: Vec<FileTime> = requests.iter().map(|(start, _)| *start).collect();
            let mut ends: Vec<FileTime> = requests.iter().map(|(_, end)| *end).collect();
            starts.sort_unstable();
            ends.sort_unstable();
            let (mut started, mut ended, mut from) = (0, 0, FileTime(0));
            while ended < ends.len() {
                // Of one time, starts come first, so that a request is not completed before it is sent.
                let to = match starts.get(started) {
                    Some(start) if *start <= ends[ended] => *start,
                    _ => ends[ended],
                };
                let depth = (started - ended) as u32;
                if depth > 0 && to > from {
                    let duration = between(from, to);
                    context.writer.add(DiskQueueRow {
                        start_time: from,
                        end_time: to,
                        duration,
                        disk: device,
                        depth,
                        request_time: duration.saturating_mul(depth.into()),
                    });
                }
                while starts.get(started).is_some_and(|start| *start <= to) {
                    started += 1;
                }
                while ended < started && ends[ended] <= to {
                    ended += 1;
                }
                from = to;
            }
        }
    }
}

impl Disks {
    /// Returns the row of a disk.
    fn row(&mut self, machine: u32, disk: u32) -> u32 {
        let next = self.rows.len() as u32;
        *self.rows.entry((machine, disk)).or_insert(next)
    }

    /// Returns the stack of the request that an event completes, or keeps that of one that it starts.
    fn stack(&mut self, event: &EventContext<'_, '_>) -> Option<u32> {
        let (id, record) = (event.id?, event.record());
        if read::DiskInit::reads(id) {
            if let (Some(irp), Some(stack)) = (read::DiskInit::new(record).irp(), event.stack)
                && self.stacks.len() < MAX_OPEN
            {
                self.stacks.insert((event.machine, irp), stack);
            }
            return None;
        }
        let irp = match id {
            id if read::DiskTransfer::reads(id) => read::DiskTransfer::new(record).irp(),
            id if read::DiskFlush::reads(id) => read::DiskFlush::new(record).irp(),
            _ => None,
        };
        self.stacks.remove(&(event.machine, irp?))
    }

    /// Adds a request that was completed. Returns how long the disk worked for it: since it was sent, or since the disk
    /// completed the request before it.
    fn done(&mut self, disk: (u32, u32), start: FileTime, end: FileTime, writer: &RowWriter) -> i64 {
        if self.count < MAX_REQUESTS && writer.has::<DiskQueueRow>() {
            self.requests.entry(disk).or_default().push((start, end));
            self.count += 1;
        }
        let last = self.last.insert(disk, end).unwrap_or(start);
        between(start.max(last), end).max(0)
    }
}

/// Returns the priority of a request by its flags; `None` if they have none.
fn priority(irp_flags: u32) -> Option<&'static str> {
    let number = irp_flags >> 17 & 7;
    PRIORITIES.get((number as usize).checked_sub(1)?).copied()
}
