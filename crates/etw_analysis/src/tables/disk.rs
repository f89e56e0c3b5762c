//! Disk I/O.

use super::context::Context;
use super::io_names::FlagSet;
use super::latency::Transfers;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::file_names::{FileIndex, FileNames};
use crate::maps::HashMap;
use crate::model::disks::DiskRequests;
use crate::model::facts::{DiskDone, DiskOperation};
use crate::processes::{ProcessIndex, ThreadIndex};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    machine: u32,
    disk: u32,
    operation: DiskOperation,
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
pub(crate) struct DiskSums {
    sums: HashMap<Key, Sum>,
}

impl DiskSums {
    /// Counts a request.
    pub(crate) fn add(&mut self, machine: u32, done: &DiskDone) {
        let DiskDone { disk, operation, bytes, took, irp_flags, thread, file, .. } = *done;
        let sum = self.sums.entry(Key { machine, disk, operation, thread, file }).or_default();
        sum.transfers.add(bytes, took);
        sum.flags.add(irp_flags);
    }

    /// Returns the table by disk, operation, process and file.
    pub(crate) fn table(&self, disks: &DiskRequests, files: &FileNames, context: &Context<'_>) -> Table {
        let mut rows: HashMap<(u32, u32, DiskOperation, Option<ProcessIndex>, Option<String>), Sum> =
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
            let name = disks.label(machine, disk);
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
