//! File I/O.

use super::context::Context;
use super::io_names::CreateSet;
use super::latency::Latencies;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::Duration;
use crate::file_names::{FileIndex, FileNames};
use crate::maps::HashMap;
use crate::model::facts::{CreateParameters, FileDone, FileOperation};
use crate::processes::{ProcessIndex, ThreadIndex};

/// Sums for a file.
#[derive(Debug, Clone, Default)]
struct Sum {
    operations: [u64; FileOperation::COUNT],
    read_bytes: u64,
    written_bytes: u64,
    failed: u64,
    /// Time of all operations.
    time: Duration,
    max: Duration,
    /// Latencies of reads and writes.
    transfers: Latencies,
    creates: CreateSet,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        for (sum, count) in self.operations.iter_mut().zip(other.operations) {
            *sum += count;
        }
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.failed += other.failed;
        self.time += other.time;
        self.max = self.max.max(other.max);
        self.transfers.merge(&other.transfers);
        self.creates.merge(other.creates);
    }

    fn count(&self, operation: FileOperation) -> Cell {
        Cell::Count(self.operations[operation as usize])
    }

    fn add_bytes(&mut self, operation: FileOperation, bytes: u64) {
        match operation {
            FileOperation::Read => self.read_bytes += bytes,
            FileOperation::Write => self.written_bytes += bytes,
            _ => {}
        }
    }
}

/// Counts of file I/O.
#[derive(Debug, Default)]
pub(crate) struct FileSums {
    sums: HashMap<(FileIndex, ThreadIndex), Sum>,
    unended: u64,
}

impl FileSums {
    /// Counts an operation. `has_ends` is whether the trace has ends so far: without, the sizes are the requested ones.
    pub(crate) fn add(&mut self, done: &FileDone, has_ends: bool) {
        let FileDone { operation, file, thread, took, bytes, is_failed, create, .. } = *done;
        let sum = self.sums.entry((file, thread)).or_default();
        sum.operations[operation as usize] += 1;
        sum.add_bytes(operation, bytes);
        sum.failed += u64::from(is_failed);
        if let Some(CreateParameters { options, attributes, share_access }) = create {
            sum.creates.add(options, attributes, share_access);
        }
        match took {
            Some(took) => {
                sum.time += took;
                sum.max = sum.max.max(took);
                if matches!(operation, FileOperation::Read | FileOperation::Write) {
                    sum.transfers.add(took);
                }
            }
            None => self.unended += u64::from(has_ends),
        }
    }

    /// Returns the table by file and process.
    pub(crate) fn table(&self, has_ends: bool, files: &FileNames, context: &Context<'_>) -> Table {
        let mut rows: HashMap<(String, Option<ProcessIndex>), Sum> = HashMap::default();
        for ((file, thread), sum) in &self.sums {
            let process = context.processes.thread(*thread).process;
            if context.wants(process) {
                rows.entry((files.label(*file), process)).or_default().add(sum);
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        let rank =
            |sum: &Sum| (sum.read_bytes + sum.written_bytes, sum.time, sum.operations.iter().sum::<u64>());
        rows.sort_by(|(one, of_one), (other, of_other)| {
            rank(of_other).cmp(&rank(of_one)).then_with(|| one.cmp(other))
        });
        let rows = rows.into_iter().map(|((file, process), sum)| {
            let [process, process_id] = context.process(process);
            let timed = |cell| if has_ends { cell } else { Cell::None };
            let creates = sum.creates;
            let of_creates = |text| if creates.is_empty() { Cell::None } else { Cell::Text(text) };
            vec![
                Cell::Text(file),
                process,
                process_id,
                sum.count(FileOperation::Create),
                sum.count(FileOperation::Read),
                Cell::Bytes(sum.read_bytes),
                sum.count(FileOperation::Write),
                Cell::Bytes(sum.written_bytes),
                sum.count(FileOperation::Flush),
                sum.count(FileOperation::Close),
                sum.count(FileOperation::Delete),
                sum.count(FileOperation::Rename),
                sum.count(FileOperation::SetInfo),
                sum.count(FileOperation::QueryInfo),
                sum.count(FileOperation::Directory),
                sum.count(FileOperation::Control),
                timed(Cell::Count(sum.failed)),
                timed(Cell::Duration(sum.time)),
                Cell::duration(sum.transfers.quantile(0.5)),
                Cell::duration(sum.transfers.quantile(0.95)),
                timed(Cell::Duration(sum.max)),
                of_creates(creates.dispositions()),
                of_creates(creates.options()),
                of_creates(creates.share_access()),
                of_creates(creates.attributes()),
            ]
        });
        let rows: Vec<_> = rows.collect();
        let mut notes = Vec::new();
        if !rows.is_empty() && !has_ends {
            notes.push("Without OperationEnd events (FILE_IO), bytes are the requested sizes.".to_owned());
        } else if self.unended > 0 {
            notes.push(format!("{} operations have no end in the trace.", self.unended));
        }
        Table { kind: TableKind::Files, columns: COLUMNS, rows, notes }
    }
}

const COLUMNS: &[Column] = &[
    shown("file", "File"),
    shown("process", "Process"),
    hidden("process_id"),
    shown("creates", "Opens"),
    shown("reads", "Reads"),
    shown("read_bytes", "Read"),
    shown("writes", "Writes"),
    shown("written_bytes", "Written"),
    hidden("flushes"),
    hidden("closes"),
    hidden("deletes"),
    hidden("renames"),
    hidden("set_infos"),
    hidden("query_infos"),
    hidden("directory_enumerations"),
    hidden("controls"),
    hidden("failed"),
    shown("time_ns", "Time"),
    hidden("median_ns"),
    shown("p95_ns", "p95"),
    shown("max_ns", "Max"),
    hidden("dispositions"),
    hidden("create_options"),
    hidden("share_access"),
    hidden("attributes"),
];
