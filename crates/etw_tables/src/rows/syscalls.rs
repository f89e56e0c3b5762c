//! System calls.

use etw_kernel_events::ids;
use etw_machine::{Fact, Model, UnendedCall};

use super::columns::{Bool, Frame, Hex, Span, Thread, Time};
use super::frames::without_module;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;
use crate::cell::Cell;
use crate::summary::{Column, Summary};

/// The bits of an NTSTATUS that are set for failures.
const FAILED: u32 = 0b11 << 30;

table! {
    /// One row for each system call.
    SystemCallRow: "syscalls", "System Calls";
    /// When the call returned; if the trace does not have that, when it began.
    time: Time,
    /// Thread that did it; missing if the trace has no context switches that tell.
    thread: Option<Thread>,
    /// Function that implements the call.
    routine: Frame,
    /// Time from entry to exit, if the trace has both.
    duration: Option<Span>,
    /// Return value, if the trace has it.
    status: Option<Hex>,
    /// Whether the return value is an error, if the trace has it.
    failed: Option<Bool>,
}

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "syscalls",
    title: "System calls",
    about: "system calls by process and name",
    recorded_by: "PROC_THREAD+SYSCALL+CSWITCH",
    table: "syscalls",
    by: &["thread.process", "routine.function"],
    condition: "",
    process: "thread.process",
    thread: "",
    columns: &[
        Column::shown("process", "Process").key(&["thread.process.name"]),
        Column::shown("process_id", "PID").key(&["thread.process.process_id"]),
        Column::shown("call", "Call")
            .key_of(&["routine.function", "routine.module", "routine.address"], call),
        Column::shown("count", "Count").value("rows"),
        Column::shown("failed", "Failed").value_known_by("rows where failed == true", "count(status)"),
        Column::shown("time_ns", "Time").value("sum(duration)"),
        Column::shown("median_ns", "Median").value("p50(duration)"),
        Column::shown("p95_ns", "p95").value("p95(duration)"),
        Column::shown("max_ns", "Max").value("max(duration)"),
    ],
    order: &["rows", "sum(duration)"],
    weights: &["time_ns"],
    notes,
};

/// Prefixes of the functions of Linux that implement calls.
const PREFIXES: [&str; 6] = ["__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__se_sys_", "__do_sys_", "sys_"];

/// Returns the name of a call, from the function that implements it, its module and its address.
fn call(routine: &[Cell]) -> Cell {
    match (without_module(routine), routine.last()) {
        // Events of Linux lack the function of calls from 32-bit programs.
        (_, Some(Cell::Text(address))) if address == "0x0" => Cell::Text("[unknown]".to_owned()),
        (Cell::Text(function), _) => Cell::Text(call_name(&function).to_owned()),
        (_, address) => address.cloned().unwrap_or(Cell::None),
    }
}

/// Returns the name of a call from the name of the function that implements it.
pub fn call_name(function: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix)).unwrap_or(function)
}

fn notes(model: &Model, has_rows: bool) -> Vec<String> {
    match has_rows && !model.calls.has_threads {
        true => {
            vec!["Without context switches (CSWITCH), calls cannot be assigned to processes.".to_owned()]
        }
        false => Vec::new(),
    }
}

/// Makes rows of system calls.
#[derive(Debug, Default)]
pub(super) struct SystemCalls;

impl RowSource for SystemCalls {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        matches!(event.any_id(), Some(ids::PerfInfo::SYS_CL_ENTER | ids::PerfInfo::SYS_CL_EXIT))
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        match event.fact {
            Some(Fact::UnendedCall(call)) => put(call, event.machine, context),
            Some(Fact::Call(call)) => {
                let routine = context.kernel_frame(event.machine, call.address);
                context.writer.add(SystemCallRow {
                    time: event.record().time(),
                    thread: Some(call.thread),
                    routine,
                    duration: Some(nanos(call.took)),
                    status: Some(call.status),
                    failed: Some(call.status & FAILED == FAILED),
                });
            }
            _ => {}
        }
    }

    /// Adds the calls that have not returned.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        for call in context.model.calls.finish(&context.model.window) {
            let of_thread = call.thread.map(|thread| context.model.processes.thread(thread).machine);
            put(&call, of_thread.unwrap_or(0), context);
        }
    }
}

/// Adds a call without an end.
fn put(call: &UnendedCall, machine: u32, context: &mut RowContext<'_>) {
    let routine = context.kernel_frame(machine, call.address);
    context.writer.add(SystemCallRow {
        time: call.time,
        thread: call.thread,
        routine,
        duration: None,
        status: None,
        failed: None,
    });
}
