//! Disk I/O.

use std::collections::HashMap;

use etw_consumer::Event;
use etw_event::Record;

use super::context::Context;
use super::latency::Transfers;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::file_names::{FileIndex, FileNames};
use crate::payload::Payload;
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

/// Counts of disk I/O.
#[derive(Debug, Default)]
pub(crate) struct DiskIo {
    sums: HashMap<Key, Transfers>,
    /// Threads that sent requests, by the requests' keys; for event versions whose end events lack the thread.
    begun: HashMap<(u32, u64), u32>,
    /// Names of disks by machine and number.
    names: HashMap<(u32, u32), String>,
}

impl DiskIo {
    /// Adds an event of class DiskIo.
    pub(crate) fn event(
        &mut self,
        kind: u8,
        record: &Record<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) {
        match kind {
            10 | 11 => drop(self.transfer(kind == 10, record, processes, files, window)),
            14 => drop(self.flush(record, processes, window)),
            12 | 13 | 15 => drop(self.begin(record, processes.machine())),
            _ => {}
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
        let mut payload = Payload::of(record);
        let irp = payload.pointer()?;
        let thread = payload.u32().or(record.thread_id())?;
        if self.begun.len() < MAX_BEGUN {
            self.begun.insert((machine, irp), thread);
        }
        Some(())
    }

    fn transfer(
        &mut self,
        is_read: bool,
        record: &Record<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<()> {
        let version = record.descriptor().version;
        let mut payload = Payload::of(record);
        let (disk, _flags, bytes, _reserved) =
            (payload.u32()?, payload.u32()?, payload.u32()?, payload.u32()?);
        let (_offset, file) = (payload.u64()?, payload.pointer()?);
        let irp = if version >= 2 { payload.pointer()? } else { 0 };
        let took = if version >= 1 { payload.u64()? } else { 0 };
        let thread = self.thread(irp, payload.u32(), processes);
        let operation = if is_read { Operation::Read } else { Operation::Write };
        let file = (file != 0).then(|| files.of_key(file));
        let key = Key { machine: processes.machine(), disk, operation, thread, file };
        self.done(key, bytes, took, record, window);
        Some(())
    }

    fn flush(&mut self, record: &Record<'_>, processes: &mut Processes, window: &Window) -> Option<()> {
        let mut payload = Payload::of(record);
        let (disk, _flags, took, irp) = (payload.u32()?, payload.u32()?, payload.u64()?, payload.pointer()?);
        let thread = self.thread(irp, payload.u32(), processes);
        let (machine, operation) = (processes.machine(), Operation::Flush);
        self.done(Key { machine, disk, operation, thread, file: None }, 0, took, record, window);
        Some(())
    }

    fn thread(&mut self, irp: u64, told: Option<u32>, processes: &mut Processes) -> Option<ThreadIndex> {
        let begun = self.begun.remove(&(processes.machine(), irp));
        told.or(begun).map(|id| processes.thread_at(id))
    }

    fn done(&mut self, key: Key, bytes: u32, took: u64, record: &Record<'_>, window: &Window) {
        if !window.has(record.time()) {
            return;
        }
        let took = record.origin().clock.to_100ns(i64::try_from(took).unwrap_or(i64::MAX));
        let sum = self.sums.entry(key).or_default();
        sum.add(bytes, Duration(took.max(0).unsigned_abs()));
    }

    /// Returns the table by disk, operation, process and file.
    pub(crate) fn table(&self, files: &FileNames, context: &Context<'_>) -> Table {
        let mut rows: HashMap<(u32, u32, Operation, Option<ProcessIndex>, Option<String>), Transfers> =
            HashMap::new();
        for (key, sum) in &self.sums {
            let process = key.thread.and_then(|thread| context.processes.thread(thread).process);
            if !context.wants(process) {
                continue;
            }
            let file = key.file.map(|file| files.label(file));
            let row = rows.entry((key.machine, key.disk, key.operation, process, file)).or_default();
            row.merge(sum);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        let rank = |sum: &Transfers| (sum.bytes, sum.latencies.sum);
        rows.sort_by(|(one, of_one), (other, of_other)| {
            rank(of_other).cmp(&rank(of_one)).then_with(|| one.cmp(other))
        });
        let rows = rows.into_iter().map(|((machine, disk, operation, process, file), sum)| {
            let [process, process_id] = context.process(process);
            let name = self.names.get(&(machine, disk)).cloned().unwrap_or_else(|| disk_label(disk));
            let request = [
                Cell::Id(disk.into()),
                Cell::Text(context.processes.machines.labelled(&name, machine)),
                Cell::Text(operation.name().to_owned()),
                process,
                process_id,
                Cell::text(file.as_deref()),
            ];
            request.into_iter().chain(sum.cells()).collect()
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
];
