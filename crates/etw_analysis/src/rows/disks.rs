//! Requests to disks: where they were sent, how long the disk worked for them, and how many there were at once.

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, Role, TableId, TableSchema, Unit};
use etw_event::FileTime;
use etw_kernel_events::read;

use super::columns::{duration, end_of, start_of, text};
use super::seen::Seen;
use crate::maps::HashMap;

pub(super) static DISK_QUEUE: TableSchema = TableSchema::new(
    "disk_queue",
    "Disk Queue Depth",
    "One row for each time in which a disk had the same number of requests; none for times without requests.",
    columns![
        start_of("start_time", "When the number changed to this one."),
        end_of("end_time", "When it changed again."),
        duration("duration", "Time between the two."),
        text("disk", "Name of the disk, or its number."),
        Column::new("depth", ColumnType::U32, "Number of requests that were sent and not completed.")
            .unit(Unit::Count)
            .role(Role::Key),
        duration("request_time", "The duration, once for each of the requests."),
    ],
);

/// Maximum number of requests that are counted by time; further ones are left out.
const MAX_REQUESTS: usize = 1 << 22;
/// Maximum number of requests that wait for their completion.
const MAX_OPEN: usize = 1 << 20;
/// Priorities of requests, from bits 17 to 19 of their flags.
const PRIORITIES: [&str; 5] = ["VeryLow", "Low", "Normal", "High", "Critical"];

/// The requests of a trace.
#[derive(Debug, Default)]
pub(super) struct Disks {
    /// The stacks of requests that are not completed, by machine and IRP.
    stacks: HashMap<(u32, u64), u32>,
    /// The stack of the request that the current event completes.
    pub(super) stack: Option<u32>,
    /// When each disk completed the last request, by machine and number.
    last: HashMap<(u32, u32), FileTime>,
    /// Starts and ends, by machine and number of the disk.
    requests: HashMap<(u32, u32), Vec<(FileTime, FileTime)>>,
    count: usize,
}

impl Disks {
    /// Adds an event.
    pub(super) fn event(&mut self, seen: &Seen<'_, '_>, machine: u32) {
        let (Some(id), record) = (seen.id, seen.record()) else { return };
        if read::DiskInit::reads(id) {
            if let (Some(irp), Some(stack)) = (read::DiskInit::new(record).irp(), seen.stack)
                && self.stacks.len() < MAX_OPEN
            {
                self.stacks.insert((machine, irp), stack);
            }
            return;
        }
        let irp = match id {
            id if read::DiskTransfer::reads(id) => read::DiskTransfer::new(record).irp(),
            id if read::DiskFlush::reads(id) => read::DiskFlush::new(record).irp(),
            _ => None,
        };
        self.stack = irp.and_then(|irp| self.stacks.remove(&(machine, irp)));
    }

    /// Adds a request that was completed. Returns how long the disk worked for it: since it was sent, or since the disk
    /// completed the request before it.
    pub(super) fn done(&mut self, machine: u32, disk: u32, start: FileTime, end: FileTime) -> i64 {
        if self.count < MAX_REQUESTS {
            self.requests.entry((machine, disk)).or_default().push((start, end));
            self.count += 1;
        }
        let last = self.last.insert((machine, disk), end).unwrap_or(start);
        end.0.saturating_sub(start.max(last).0).max(0).saturating_mul(100)
    }

    /// Writes the numbers of requests over time.
    pub(super) fn write(
        &mut self,
        label: impl Fn(u32, u32) -> String,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        let mut disks: Vec<_> = std::mem::take(&mut self.requests).into_iter().collect();
        disks.sort_unstable_by_key(|(disk, _)| *disk);
        for ((machine, disk), requests) in disks {
            let name = label(machine, disk);
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
                    let lasted = to.0.saturating_sub(from.0).saturating_mul(100);
                    let mut row = writer.row(table)?;
                    row.time(0, from).time(1, to).duration(2, lasted).text(3, &name).u32(4, depth);
                    row.duration(5, lasted.saturating_mul(depth.into())).end()?;
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
        Ok(())
    }
}

/// Returns the priority of a request by its flags; `None` if they have none.
pub(super) fn priority(irp_flags: u32) -> Option<&'static str> {
    let number = irp_flags >> 17 & 7;
    PRIORITIES.get((number as usize).checked_sub(1)?).copied()
}
