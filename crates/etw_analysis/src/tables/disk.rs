//! Disk I/O.

use etw_consumer::Event;
use etw_event::Record;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::context::Context;
use super::io_names::FlagSet;
use super::latency::Transfers;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::facts::DiskDone;
use crate::file_names::{FileIndex, FileNames};
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes, ThreadIndex};
use crate::{Duration, Window};

/// Maximum number of requests remembered between start and end.
const MAX_BEGUN: usize = 1 << 16;

/// The kind of a disk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Operation {
    Read,
    Write,
    Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    machine: u32,
    disk: u32,
    operation: Operation,
    thread: Option<ThreadIndex>,
    file: Option<FileIndex>,
}

#[derive(Debug, Clone, Default)]
struct Sum {
    transfers: Transfers,
    flags: FlagSet,
}

/// Counts of disk I/O.
#[derive(Debug, Default)]
pub(crate) struct DiskIo {
    sums: HashMap<Key, Sum>,
    /// Threads that sent requests, by the requests' keys; for event versions whose end events lack the thread.
    begun: HashMap<(u32, u64), u32>,
    /// Names of disks by machine and number.
    names: HashMap<(u32, u32), String>,
}

impl DiskIo {
    /// Adds an event of class DiskIo.
    pub(crate) fn event(
        &mut self,
        id: EventId,
        record: &Record<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<DiskDone> {
        match id {
            ids::DiskIo::READ => self.transfer(Operation::Read, record, processes, files, window),
            ids::DiskIo::WRITE => self.transfer(Operation::Write, record, processes, files, window),
            ids::DiskIo::FLUSH_BUFFERS => self.flush(record, processes, window),
            id if read::DiskInit::reads(id) => {
                self.begin(record, processes.machine());
                None
            }
            _ => None,
        }
    }

    /// Adds a disk's name from the machine's configuration events.
    pub(crate) fn name(&mut self, event: &Event<'_>, machine: u32) {
        let Ok(properties) = &event.properties else { return };
        let (number, name) =
            (properties.try_get::<u32>("DiskNumber"), properties.try_get::<String>("Manufacturer"));
        if let (Some(number), Some(name)) = (number, name)
            && !name.trim().is_empty()
        {
            self.names.insert((machine, number), name.trim().to_owned());
        }
    }

    fn begin(&mut self, record: &Record<'_>, machine: u32) -> Option<()> {
        let init = read::DiskInit::new(record);
        let irp = init.irp()?;
        let thread = init.issuing_thread_id().or(record.thread_id())?;
        if self.begun.len() < MAX_BEGUN {
            self.begun.insert((machine, irp), thread);
        }
        Some(())
    }

    fn transfer(
        &mut self,
        operation: Operation,
        record: &Record<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<DiskDone> {
        let done = read::DiskTransfer::new(record);
        let (disk, irp_flags, bytes) = (done.disk_number()?, done.irp_flags()?, done.transfer_size()?);
        let (offset, file) = (done.byte_offset()?, done.file_object()?);
        // Older versions have no request or no time.
        let (irp, took) = (done.irp().unwrap_or(0), done.high_res_response_time().unwrap_or(0));
        let thread = self.thread(irp, done.issuing_thread_id(), processes);
        let file = (file != 0).then(|| files.of_key(file));
        let key = Key { machine: processes.machine(), disk, operation, thread, file };
        let took = self.done(key, [bytes, irp_flags], took, record, window)?;
        let (operation, offset) = (operation.name(), Some(offset));
        Some(DiskDone { disk, operation, bytes, offset, took, irp_flags, thread, file })
    }

    fn flush(&mut self, record: &Record<'_>, processes: &mut Processes, window: &Window) -> Option<DiskDone> {
        let done = read::DiskFlush::new(record);
        let (disk, irp_flags) = (done.disk_number()?, done.irp_flags()?);
        let (took, irp) = (done.high_res_response_time()?, done.irp()?);
        let thread = self.thread(irp, done.issuing_thread_id(), processes);
        let (machine, operation) = (processes.machine(), Operation::Flush);
        let key = Key { machine, disk, operation, thread, file: None };
        let took = self.done(key, [0, irp_flags], took, record, window)?;
        let operation = operation.name();
        Some(DiskDone { disk, operation, bytes: 0, offset: None, took, irp_flags, thread, file: None })
    }

    fn thread(&mut self, irp: u64, told: Option<u32>, processes: &mut Processes) -> Option<ThreadIndex> {
        let begun = self.begun.remove(&(processes.machine(), irp));
        told.or(begun).map(|id| processes.thread_at(id))
    }

    /// Counts a request; returns the time that it took, if it ended in the window.
    fn done(
        &mut self,
        key: Key,
        [bytes, irp_flags]: [u32; 2],
        took: u64,
        record: &Record<'_>,
        window: &Window,
    ) -> Option<Duration> {
        if !window.has(record.time()) {
            return None;
        }
        let took = record.origin().clock.to_100ns(i64::try_from(took).unwrap_or(i64::MAX));
        let took = Duration(took.max(0).unsigned_abs());
        let sum = self.sums.entry(key).or_default();
        sum.transfers.add(bytes, took);
        sum.flags.add(irp_flags);
        Some(took)
    }

    /// Returns the name of a disk, or its number.
    pub(crate) fn label(&self, machine: u32, disk: u32) -> String {
        self.names.get(&(machine, disk)).cloned().unwrap_or_else(|| disk_label(disk))
    }

    /// Returns the table by disk, operation, process and file.
    pub(crate) fn table(&self, files: &FileNames, context: &Context<'_>) -> Table {
        let mut rows: HashMap<(u32, u32, Operation, Option<ProcessIndex>, Option<String>), Sum> =
            HashMap::default();
        for (key, sum) in &self.sums {
            let process = key.thread.and_then(|thread| context.processes.thread(thread).process);
            if !context.wants(process) {
                continue;
            }
            let file = key.file.map(|file| files.label(file));
            let row = rows.entry((key.machine, key.disk, key.operation, process, file)).or_default();
            row.transfers.merge(&sum.transfers);
            row.flags.merge(sum.flags);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        let rank = |sum: &Sum| (sum.transfers.bytes, sum.transfers.latencies.sum);
        rows.sort_by(|(one, of_one), (other, of_other)| {
            rank(of_other).cmp(&rank(of_one)).then_with(|| one.cmp(other))
        });
        let rows = rows.into_iter().map(|((machine, disk, operation, process, file), sum)| {
            let [process, process_id] = context.process(process);
            let name = self.label(machine, disk);
            let request = [
                Cell::Id(disk.into()),
                Cell::Text(context.processes.machines.labelled(&name, machine)),
                Cell::Text(operation.name().to_owned()),
                process,
                process_id,
                Cell::text(file.as_deref()),
            ];
            let flags =
                [Cell::text(sum.flags.priorities().as_deref()), Cell::text(sum.flags.flags().as_deref())];
            request.into_iter().chain(sum.transfers.cells()).chain(flags).collect()
        });
        Table { kind: TableKind::Disk, columns: COLUMNS, rows: rows.collect(), notes: Vec::new() }
    }
}

/// Returns a disk's number as text, for traces that do not name the disk: `3`, or `254:0` if it is the number of a Linux
/// device (major and minor), as in traces of Linux.
pub fn disk_label(number: u32) -> String {
    // Windows numbers disks from 0; the major number of Linux starts at bit 20 and is not 0.
    match (number >> 20, number & 0xF_FFFF) {
        (0, number) => number.to_string(),
        (major, minor) => format!("{major}:{minor}"),
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Read => "Read",
            Operation::Write => "Write",
            Operation::Flush => "Flush",
        }
    }
}

const COLUMNS: &[Column] = &[
    hidden("disk"),
    shown("disk_name", "Disk"),
    shown("operation", "Op"),
    shown("process", "Process"),
    hidden("process_id"),
    shown("file", "File"),
    shown("count", "Count"),
    shown("bytes", "Bytes"),
    hidden("time_ns"),
    shown("median_ns", "Median"),
    shown("p95_ns", "p95"),
    shown("max_ns", "Max"),
    shown("priority", "Priority"),
    shown("irp_flags", "IRP flags"),
];
