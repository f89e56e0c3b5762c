//! Files, and operations on them.

use etw_event::FileTime;
use etw_kernel_events::ids::{self, Class};
use etw_kernel_events::read;

use super::columns::{Bytes, End, File, Hex, Span, Stack, Text, Thread, Time};
use super::labels::RowLabel;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::{nanos, units};
use super::table::table;
use crate::maps::HashMap;
use crate::model::facts::{Fact, FileDone};

table! {
    /// One row for each file that events name.
    FileRow: "files", "Files", label RowLabel::single(&["path"]);
    /// Path, on a drive of Windows by its letter.
    path: Text,
}

table! {
    /// One row for each operation on a file.
    FileOperationRow: "file_io", "File I/O";
    summary by ["thread.process", "operation", "file"]
        values ["rows", "sum(size)", "sum(duration)", "max(duration)"];
    /// When the operation started.
    time: Time,
    /// Thread that did it.
    thread: Thread,
    /// What was done, such as `Create`, `Read`, `Write`, `Close` or `Delete`; cleanups are left out.
    operation: Text,
    /// File, if the trace names it.
    file: File,
    /// Number of bytes read or written; of an operation without an end, the requested number.
    size: Bytes,
    /// Time until its end, if the trace has it.
    duration: Option<Span>,
    /// NTSTATUS of its end; from 0xC0000000 on a failure.
    status: Option<Hex>,
    /// When it ended, if the trace has it.
    end_time: Option<End>,
    /// Stack of its start, if the trace has its end.
    stack: Option<Stack>,
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
        end_time: done.took.map(|took| FileTime(done.begin.0.saturating_add(units(took)))),
        stack,
    }
}
