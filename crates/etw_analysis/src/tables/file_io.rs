//! File I/O.

use etw_consumer::Event;
use etw_event::{FileTime, Record};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::context::Context;
use super::io_names::CreateSet;
use super::latency::Latencies;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::facts::FileDone;
use crate::file_names::{FileIndex, FileNames};
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes, ThreadIndex};
use crate::{Duration, Window};

/// Maximum number of operations waiting for their end; further ones are counted as if it never came.
const MAX_BEGUN: usize = 1 << 16;
/// The bits of an NTSTATUS that are set for failures.
const FAILED: u32 = 0b11 << 30;

/// An operation on a file. The values are indices in [`Sum::operations`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Create,
    Read,
    Write,
    Flush,
    Close,
    Delete,
    Rename,
    SetInfo,
    QueryInfo,
    Directory,
    Control,
}

impl Operation {
    const COUNT: usize = Operation::Control as usize + 1;

    fn name(self) -> &'static str {
        match self {
            Operation::Create => "Create",
            Operation::Read => "Read",
            Operation::Write => "Write",
            Operation::Flush => "Flush",
            Operation::Close => "Close",
            Operation::Delete => "Delete",
            Operation::Rename => "Rename",
            Operation::SetInfo => "SetInfo",
            Operation::QueryInfo => "QueryInfo",
            Operation::Directory => "Directory",
            Operation::Control => "Control",
        }
    }

    /// Returns the operation of an event type. Cleanups do not count: a close follows.
    fn from_id(id: EventId) -> Option<Operation> {
        use ids::FileIo;
        Some(match id {
            FileIo::CREATE => Operation::Create,
            FileIo::CLOSE => Operation::Close,
            FileIo::READ => Operation::Read,
            FileIo::WRITE => Operation::Write,
            FileIo::SET_INFO => Operation::SetInfo,
            FileIo::DELETE => Operation::Delete,
            FileIo::RENAME => Operation::Rename,
            FileIo::DIR_ENUM | FileIo::DIR_NOTIFY => Operation::Directory,
            FileIo::FLUSH => Operation::Flush,
            FileIo::QUERY_INFO => Operation::QueryInfo,
            FileIo::FS_CONTROL => Operation::Control,
            _ => return None,
        })
    }
}

/// An operation that has started.
#[derive(Debug, Clone, Copy)]
struct Begun {
    operation: Operation,
    key: (FileIndex, ThreadIndex),
    time: FileTime,
    /// The requested size.
    bytes: u32,
}

/// Sums for a file.
#[derive(Debug, Clone, Default)]
struct Sum {
    operations: [u64; Operation::COUNT],
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

    fn count(&self, operation: Operation) -> Cell {
        Cell::Count(self.operations[operation as usize])
    }

    fn add_bytes(&mut self, operation: Operation, bytes: u64) {
        match operation {
            Operation::Read => self.read_bytes += bytes,
            Operation::Write => self.written_bytes += bytes,
            _ => {}
        }
    }
}

/// Counts of file I/O.
#[derive(Debug, Default)]
pub(crate) struct FileIo {
    sums: HashMap<(FileIndex, ThreadIndex), Sum>,
    /// By machine and request.
    begun: HashMap<(u32, u64), Begun>,
    /// Whether the trace has end events (flag FILE_IO).
    has_ends: bool,
    unended: u64,
}

impl FileIo {
    /// Adds an operation or its end.
    pub(crate) fn event(
        &mut self,
        id: EventId,
        event: &Event<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<FileDone> {
        if id == ids::FileIo::OPERATION_END {
            return self.end(event.record, processes.machine(), window);
        }
        self.begin(Operation::from_id(id)?, event, processes, files, window)
    }

    fn begin(
        &mut self,
        operation: Operation,
        event: &Event<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<FileDone> {
        let record = event.record;
        let begins = read::FileOperation::new(record);
        let (irp, object) = (begins.irp_ptr()?, begins.file_object()?);
        let file = match operation {
            Operation::Create => {
                let properties = event.properties.as_ref().ok()?;
                let path = properties.try_get("OpenPath").or_else(|| properties.try_get("FileName"))?;
                files.open(object, path)
            }
            _ => files.of(begins.file_key()?, object),
        };
        let thread_id = begins.ttid()?;
        let bytes = match operation {
            Operation::Read | Operation::Write => begins.io_size()?,
            _ => 0,
        };
        if operation == Operation::Close {
            files.close(object);
        }
        let time = record.time();
        if !window.has(time) {
            return None;
        }
        let key = (file, processes.thread_at(thread_id));
        let sum = self.sums.entry(key).or_default();
        sum.operations[operation as usize] += 1;
        if operation == Operation::Create
            && let (Some(options), Some(attributes), Some(share_access)) =
                (begins.create_options(), begins.file_attributes(), begins.share_access())
        {
            sum.creates.add(options, attributes, share_access);
        }
        let begun = Begun { operation, key, time, bytes };
        let unended = match self.begun.len() >= MAX_BEGUN {
            true => Some(begun),
            false => self.begun.insert((processes.machine(), irp), begun),
        };
        unended.map(|unended| self.give_up(unended))
    }

    /// Returns the operation that an event ends.
    fn end(&mut self, record: &Record<'_>, machine: u32, window: &Window) -> Option<FileDone> {
        self.has_ends = true;
        let ends = read::FileEnd::new(record);
        let (irp, information, status) = (ends.irp_ptr()?, ends.extra_info()?, ends.nt_status()?);
        let Begun { operation, key, time, bytes } = self.begun.remove(&(machine, irp))?;
        let sum = self.sums.get_mut(&key)?;
        let took = window.part(time, record.time());
        sum.time += took;
        sum.max = sum.max.max(took);
        if matches!(operation, Operation::Read | Operation::Write) {
            sum.transfers.add(took);
        }
        let is_failed = status & FAILED == FAILED;
        let bytes = if is_failed { 0 } else { information.min(bytes.into()) };
        sum.add_bytes(operation, bytes);
        sum.failed += u64::from(is_failed);
        let (file, thread) = key;
        let (took, status, operation) = (Some(took), Some(status), operation.name());
        Some(FileDone { operation, file, thread, begin: time, took, bytes, status })
    }

    /// Counts an operation without an end. If the trace has no end events at all, the requested size is counted.
    fn give_up(&mut self, begun: Begun) -> FileDone {
        let Begun { operation, key, time: begin, bytes } = begun;
        let bytes = if self.has_ends { 0 } else { bytes.into() };
        if self.has_ends {
            self.unended += 1;
        } else if let Some(sum) = self.sums.get_mut(&key) {
            sum.add_bytes(operation, bytes);
        }
        let ((file, thread), operation) = (key, operation.name());
        FileDone { operation, file, thread, begin, took: None, bytes, status: None }
    }

    /// Counts operations without an end when the trace ends; returns them in the order of their starts.
    pub(crate) fn finish(&mut self) -> Vec<FileDone> {
        let mut begun: Vec<_> = std::mem::take(&mut self.begun).into_iter().collect();
        begun.sort_unstable_by_key(|(key, begun)| (begun.time, *key));
        begun.into_iter().map(|(_, begun)| self.give_up(begun)).collect()
    }

    /// Returns the table by file and process.
    pub(crate) fn table(&self, files: &FileNames, context: &Context<'_>) -> Table {
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
            let timed = |cell| if self.has_ends { cell } else { Cell::None };
            let creates = sum.creates;
            let of_creates = |text| if creates.is_empty() { Cell::None } else { Cell::Text(text) };
            vec![
                Cell::Text(file),
                process,
                process_id,
                sum.count(Operation::Create),
                sum.count(Operation::Read),
                Cell::Bytes(sum.read_bytes),
                sum.count(Operation::Write),
                Cell::Bytes(sum.written_bytes),
                sum.count(Operation::Flush),
                sum.count(Operation::Close),
                sum.count(Operation::Delete),
                sum.count(Operation::Rename),
                sum.count(Operation::SetInfo),
                sum.count(Operation::QueryInfo),
                sum.count(Operation::Directory),
                sum.count(Operation::Control),
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
        if !rows.is_empty() && !self.has_ends {
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
