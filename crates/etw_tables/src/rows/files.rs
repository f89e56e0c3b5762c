//! Files, and operations on them.

use etw_event::FileTime;
use etw_kernel_events::ids::{self, Class};
use etw_kernel_events::read;
use etw_machine::{Fact, FileDone, HashMap, Model};

use super::columns::{Bool, Bytes, End, File, Hex, Span, Stack, Text, Thread, Time};
use super::io_names;
use super::labels::RowLabel;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::{nanos, units};
use super::table::table;
use crate::summary::{Column, Summary};

table! {
    /// One row for each file that events name.
    FileRow: "files", "Files", label RowLabel::single(&["path"]);
    /// Path, on a drive of Windows by its letter.
    path: Text,
}

table! {
    /// One row for each operation on a file.
    FileOperationRow: "file_io", "File I/O";
    /// When the operation started.
    time: Time,
    /// Thread that did it.
    thread: Thread,
    /// What was done, such as `Create`, `Read`, `Write`, `Close`, `Delete` or `SetLink`; cleanups are left out.
    operation: Text,
    /// File, if the trace names it.
    file: File,
    /// Number of bytes read or written; of an operation without an end, the requested number.
    size: Bytes,
    /// Time until its end, if the trace has it.
    duration: Option<Span>,
    /// NTSTATUS of its end; from 0xC0000000 on a failure.
    status: Option<Hex>,
    /// Whether it failed, if the trace has its end.
    failed: Option<Bool>,
    /// Options (`FILE_*`) of a `Create`, and its disposition from bit 24 on.
    create_options: Option<Hex>,
    /// What other opens a `Create` allows (`FILE_SHARE_*`).
    share_access: Option<Hex>,
    /// Attributes (`FILE_ATTRIBUTE_*`) of a `Create`.
    attributes: Option<Hex>,
    /// When it ended, if the trace has it.
    end_time: Option<End>,
    /// Stack of its start, if the trace has its end.
    stack: Option<Stack>,
}

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "files",
    title: "File I/O",
    about: "file I/O by file and process",
    recorded_by: "PROC_THREAD+FILE_IO+FILE_IO_INIT",
    table: "file_io",
    by: &["thread.process", "file"],
    condition: "",
    process: "thread.process",
    thread: "",
    columns: &[
        Column::shown("file", "File").key(&["file.path"]),
        Column::shown("process", "Process").key(&["thread.process.name"]),
        Column::shown("process_id", "PID").key(&["thread.process.process_id"]),
        Column::shown("creates", "Opens").value("rows where operation == Create"),
        Column::shown("reads", "Reads").value("rows where operation == Read"),
        Column::shown("read_bytes", "Read").value("sum(size) where operation == Read"),
        Column::shown("writes", "Writes").value("rows where operation == Write"),
        Column::shown("written_bytes", "Written").value("sum(size) where operation == Write"),
        Column::hidden("flushes").value("rows where operation == Flush"),
        Column::hidden("closes").value("rows where operation == Close"),
        Column::hidden("deletes").value("rows where operation == Delete"),
        Column::hidden("renames").value("rows where operation == Rename"),
        Column::hidden("links").value("rows where operation == SetLink"),
        Column::hidden("set_infos").value("rows where operation == SetInfo"),
        Column::hidden("query_infos").value("rows where operation == QueryInfo"),
        Column::hidden("directory_enumerations").value("rows where operation == Directory"),
        Column::hidden("controls").value("rows where operation == Control"),
        Column::hidden("failed").value_known_by("rows where failed == true", "count(status)"),
        Column::shown("time_ns", "Time").value("sum(duration)"),
        Column::hidden("median_ns").value("p50(duration) where operation in (Read, Write)"),
        Column::shown("p95_ns", "p95").value("p95(duration) where operation in (Read, Write)"),
        Column::shown("max_ns", "Max").value("max(duration)"),
        Column::hidden("dispositions").all("create_options", io_names::dispositions),
        Column::hidden("create_options").all("create_options", io_names::create_options),
        Column::hidden("share_access").all("share_access", io_names::share_access),
        Column::hidden("attributes").all("attributes", io_names::attributes),
    ],
    order: &["sum(size)", "sum(duration)", "rows"],
    weights: &["time_ns"],
    notes,
};

fn notes(model: &Model, has_rows: bool) -> Vec<String> {
    match (model.file_operations.has_ends, model.file_operations.unended) {
        (false, _) if has_rows => {
            vec!["Without OperationEnd events (FILE_IO), bytes are the requested sizes.".to_owned()]
        }
        (true, unended) if unended > 0 => vec![format!("{unended} operations have no end in the trace.")],
        _ => Vec::new(),
    }
}

/// Maximum number of operations that wait for their end.
const MAX_OPERATIONS: usize = 1 << 20;

/// Makes rows of files and of operations on them.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Stacks of operations that have not ended, by machine and IRP.
    stacks: HashMap<(u32, u64), u32>,
}

impl RowSource for Files {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id().is_some_and(|id| id.class() == Class::FileIo)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let stack = self.stack(event);
        if let Some(Fact::File(done)) = event.fact {
            context.writer.add(row(done, stack));
        }
    }

    fn finish(&mut self, context: &mut RowContext<'_>) {
        for done in context.model.file_operations.finish() {
            context.writer.add(row(&done, None));
        }
        let files = &context.model.files;
        for file in files.all() {
            context.writer.add(FileRow { path: &files.label(file) });
        }
    }
}

impl Files {
    /// Returns the stack of the operation that an event ends, or keeps that of one that it starts.
    fn stack(&mut self, event: &EventContext<'_, '_>) -> Option<u32> {
        let ends = event.id == Some(ids::FileIo::OPERATION_END);
        if !ends && !event.id.is_some_and(read::FileOperation::reads) {
            return None;
        }
        let irp = event.get::<u64>(&["IrpPtr"])?;
        if ends {
            return self.stacks.remove(&(event.machine, irp));
        }
        if let Some(stack) = event.stack.filter(|_| self.stacks.len() < MAX_OPERATIONS) {
            self.stacks.insert((event.machine, irp), stack);
        }
        None
    }
}

fn row(done: &FileDone, stack: Option<u32>) -> FileOperationRow<'static> {
    FileOperationRow {
        time: done.begin,
        thread: done.thread,
        operation: done.operation.name(),
        file: done.file,
        size: done.bytes,
        duration: done.took.map(nanos),
        status: done.status,
        failed: done.took.map(|_| done.is_failed),
        create_options: done.create.map(|create| create.options),
        share_access: done.create.map(|create| create.share_access),
        attributes: done.create.map(|create| create.attributes),
        end_time: done.took.map(|took| FileTime(done.begin.0.saturating_add(units(took)))),
        stack,
    }
}
