//! Hard faults: pages that had to be read from a disk.

use super::context::Context;
use super::latency::Transfers;
use super::table::{Cell, Column, Table, TableKind, shown};
use crate::file_names::{FileIndex, FileNames};
use crate::maps::HashMap;
use crate::model::facts::HardFault;
use crate::processes::{ProcessIndex, ThreadIndex};

/// Counts of hard faults.
#[derive(Debug, Default)]
pub(crate) struct HardFaults {
    sums: HashMap<(ThreadIndex, Option<FileIndex>), Transfers>,
}

impl HardFaults {
    /// Counts a fault.
    pub(crate) fn add(&mut self, fault: &HardFault) {
        self.sums.entry((fault.thread, fault.file)).or_default().add(fault.bytes, fault.took);
    }

    /// Returns the table by process and file.
    pub(crate) fn table(&self, files: &FileNames, context: &Context<'_>) -> Table {
        let mut rows: HashMap<(Option<ProcessIndex>, Option<String>), Transfers> = HashMap::default();
        for ((thread, file), sum) in &self.sums {
            let process = context.processes.thread(*thread).process;
            if context.wants(process) {
                let row = rows.entry((process, file.map(|file| files.label(file)))).or_default();
                row.merge(sum);
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by(|(one, of_one), (other, of_other)| {
            let rank = |sum: &Transfers| (sum.latencies.sum, sum.bytes);
            rank(of_other).cmp(&rank(of_one)).then_with(|| one.cmp(other))
        });
        let rows = rows.into_iter().map(|((process, file), sum)| {
            let [process, process_id] = context.process(process);
            [process, process_id, Cell::text(file.as_deref())].into_iter().chain(sum.cells()).collect()
        });
        Table { kind: TableKind::Faults, columns: COLUMNS, rows: rows.collect(), notes: Vec::new() }
    }
}

const COLUMNS: &[Column] = &[
    shown("process", "Process"),
    shown("process_id", "PID"),
    shown("file", "File"),
    shown("count", "Count"),
    shown("bytes", "Bytes"),
    shown("time_ns", "Time"),
    shown("median_ns", "Median"),
    shown("p95_ns", "p95"),
    shown("max_ns", "Max"),
];
