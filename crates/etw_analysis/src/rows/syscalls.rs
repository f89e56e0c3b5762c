//! System calls.

use etw_kernel_events::ids;

use super::columns::{Frame, Hex, Span, Thread, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;
use crate::model::facts::Fact;

table! {
    /// One row for each system call that ended in the trace.
    SystemCallRow: "syscalls", "System Calls";
    summary by ["thread.process", "routine.function"]
        values ["rows", "sum(duration)", "mean(duration)", "max(duration)"];
    /// When the call returned.
    time: Time,
    /// Thread that did it.
    thread: Thread,
    /// Function that implements the call.
    routine: Frame,
    /// Time from entry to exit.
    duration: Span,
    /// Return value.
    status: Hex,
}

/// Makes rows of system calls.
#[derive(Debug, Default)]
pub(super) struct SystemCalls;

impl RowSource for SystemCalls {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id() == Some(ids::PerfInfo::SYS_CL_EXIT)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(Fact::Call(call)) = event.fact else { return };
        let routine = context.kernel_frame(event.machine, call.address);
        context.writer.add(SystemCallRow {
            time: event.record().time(),
            thread: call.thread,
            routine,
            duration: nanos(call.took),
            status: call.status,
        });
    }
}
