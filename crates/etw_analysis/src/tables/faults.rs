//! Hard faults: pages that had to be read from a disk.

use etw_event::{Record, Ticks};
use etw_kernel_events::read;

use super::context::Context;
use super::latency::Transfers;
use super::table::{Cell, Column, Table, TableKind, shown};
use crate::Window;
use crate::facts::HardFault;
use crate::file_names::{FileIndex, FileNames};
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes, ThreadIndex};

/// Counts of hard faults.
#[derive(Debug, Default)]
pub(crate) struct HardFaults {
    sums: HashMap<(ThreadIndex, Option<FileIndex>), Transfers>,
}

impl HardFaults {
    /// Adds a PageFault/HardFault event.
    pub(crate) fn event(
        &mut self,
        record: &Record<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<HardFault> {
        let fault = read::HardFault::new(record);
        let (begun, offset, address) =
            (fault.initial_time()?, fault.read_offset()?, fault.virtual_address()?);
        let (file, thread_id, bytes) = (fault.file_object()?, fault.t_thread_id()?, fault.byte_count()?);
        if !window.has(record.time()) {
            return None;
        }
        let file = (file != 0).then(|| files.of_key(file));
        let begun = record.origin().clock.to_filetime(Ticks(begun));
        let (thread, took) = (processes.thread_at(thread_id), Window::ALL.part(begun, record.time()));
        self.sums.entry((thread, file)).or_default().add(bytes, took);
        Some(HardFault { thread, file, bytes, took, address, offset })
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
