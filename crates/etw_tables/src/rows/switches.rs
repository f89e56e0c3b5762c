//! Context switches.

use etw_kernel_events::ids;
use etw_machine::{
    Fact, HashMap, Model, Processes, Ran, ReadiedBy, Switched, ThreadIndex, Window, reason_name,
};

use super::columns::{Id, Processor, Span, Stack, Text, TextCode, Thread, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::{RowWriter, table};
use crate::cell::Cell;
use crate::summary::{Column, Summary};

table! {
    /// One row for each context switch, and for each program that a running thread replaces by another one (`exec` of Linux).
    SwitchRow: "cpu_precise", "CPU Usage (Precise)";
    /// When the processor switched to the new thread.
    time: Time,
    /// Thread that was switched to.
    new_thread: Thread,
    /// Thread that was switched from.
    old_thread: Thread,
    /// Processor that logged the event.
    processor: Processor,
    /// Time that the old thread had been running.
    ran: Span,
    /// Time that the new thread had waited.
    waits: Option<Span>,
    /// Time that the new thread was ready to run before the switch.
    ready: Option<Span>,
    /// Why the new thread had waited.
    new_wait_reason: Option<TextCode>,
    /// What ended the wait: `thread`, `interrupt`, or `nobody` if the thread did not wait; missing if it is not known.
    readied_by: Option<Text>,
    /// Thread that ended the wait of the new thread.
    readying_thread: Option<Thread>,
    /// Priority of the new thread; missing if it goes on with a new program.
    new_priority: Option<Id>,
    /// Why the old thread waits, if it does; missing if it goes on with a new program.
    old_wait_reason: Option<TextCode>,
    /// State of the old thread (`KTHREAD_STATE`); missing if it goes on with a new program.
    old_state: Option<Id>,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
    /// Where the new thread waited or was ready: the stack of this switch, or of the one away from the thread.
    new_thread_stack: Option<Stack>,
}

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "waits",
    title: "Waits",
    about: "what threads waited for, and what woke them",
    recorded_by: "PROC_THREAD+CSWITCH+DISPATCHER",
    table: "cpu_precise",
    by: &["new_thread.process", "new_thread", "new_wait_reason"],
    // The idle thread does not wait.
    condition: "new_wait_reason and new_thread.thread_id != 0",
    process: "new_thread.process",
    thread: "new_thread",
    columns: &[
        Column::shown("process", "Process").key(&["new_thread.process.name"]),
        Column::shown("process_id", "PID").key(&["new_thread.process.process_id"]),
        Column::hidden("thread").key(&["new_thread.name"]),
        Column::shown("thread_id", "TID").key(&["new_thread.thread_id"]),
        Column::shown("wait_reason", "Wait reason").key(&["new_wait_reason"]),
        Column::shown("readied_by", "Readied by")
            .key_of(&["readying_thread.process.process", "readied_by"], readied_by),
        Column::shown("count", "Count").value("rows"),
        Column::shown("wait_ns", "Wait").value("sum(waits)"),
        Column::shown("max_wait_ns", "Max").value("max(waits)"),
        Column::shown("ready_ns", "Ready").value("sum(ready)"),
        Column::shown("max_ready_ns", "Max").value("max(ready)"),
    ],
    order: &["sum(waits)", "sum(ready)"],
    weights: &["wait_ns"],
    notes,
};

/// Returns what ended a wait, from the process that did and the kind.
fn readied_by(process_and_kind: &[Cell]) -> Cell {
    let text = match process_and_kind {
        [Cell::Text(process), ..] => process,
        [_, Cell::Text(kind)] if kind == "interrupt" => "[interrupt]",
        [_, Cell::Text(kind)] if kind == "nobody" => "-",
        _ => "?",
    };
    Cell::Text(text.to_owned())
}

fn notes(model: &Model, has_rows: bool) -> Vec<String> {
    match has_rows && !model.switches.has_ready_events {
        true => vec![
            "Without ReadyThread events (DISPATCHER), waits include the ready time, up to the switch."
                .to_owned(),
        ],
        false => Vec::new(),
    }
}

/// Makes rows of switches.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// The stacks at which threads were left, where switches have those.
    left: HashMap<ThreadIndex, u32>,
    /// The codes of wait reasons.
    reasons: HashMap<u8, u32>,
}

impl RowSource for Switches {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        matches!(event.any_id(), Some(ids::Thread::C_SWITCH | ids::Process::START))
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let time = event.record().time();
        let Some(Fact::Switch(switched)) = event.fact else {
            if let Some(ran) = event.ran.filter(|_| context.model.window.has(time)) {
                context.writer.add(new_program(ran, event, &mut context.model.processes));
            }
            return;
        };
        let took = switched.waited.0.saturating_add(switched.ready.0);
        if !context.model.window.has(time) && took == 0 {
            return;
        }
        let (readied_by, readying_thread) = match switched.readied_by {
            ReadiedBy::Thread(thread) => (Some("thread"), Some(thread)),
            ReadiedBy::Interrupt => (Some("interrupt"), None),
            ReadiedBy::Nobody => (Some("nobody"), None),
            ReadiedBy::Unknown => (None, None),
        };
        let new_wait_reason = switched.reason.map(|reason| self.reason(reason, context.writer));
        let old_wait_reason = self.reason(switched.from_reason, context.writer);
        context.writer.add(SwitchRow {
            time,
            new_thread: switched.to,
            old_thread: switched.from,
            processor: event.processor,
            ran: nanos(switched.ran),
            waits: switched.reason.map(|_| nanos(switched.waited)),
            ready: switched.reason.map(|_| nanos(switched.ready)),
            new_wait_reason,
            readied_by,
            readying_thread,
            new_priority: Some(switched.to_priority.max(0).unsigned_abs().into()),
            old_wait_reason: Some(old_wait_reason),
            old_state: Some(switched.from_state.into()),
            stack: event.stack,
            new_thread_stack: self.stack_of_wait(switched, event),
        });
    }
}

/// Returns the row of a thread that goes on with a new program, which is another thread from then on.
fn new_program<'r>(ran: Ran, event: &EventContext<'_, '_>, processes: &mut Processes) -> SwitchRow<'r> {
    let id = processes.thread(ran.thread).id;
    SwitchRow {
        time: event.record().time(),
        new_thread: processes.thread_at(id),
        old_thread: ran.thread,
        processor: event.processor,
        ran: nanos(Window::ALL.part(ran.since, ran.until)),
        waits: None,
        ready: None,
        new_wait_reason: None,
        readied_by: None,
        readying_thread: None,
        new_priority: None,
        old_wait_reason: None,
        old_state: None,
        stack: event.stack,
        new_thread_stack: None,
    }
}

impl Switches {
    /// Returns the code of a wait reason's name, or of its number.
    fn reason(&mut self, reason: u8, writer: &mut RowWriter) -> u32 {
        *self.reasons.entry(reason).or_insert_with(|| match reason_name(reason) {
            Some(name) => writer.text(name),
            None => writer.text(&reason.to_string()),
        })
    }

    /// Returns the stack at which the new thread of a switch had been left, and keeps that of the old one: the stack of a
    /// switch is that of the thread that is entered (Windows), or of the one that is left.
    fn stack_of_wait(&mut self, switched: &Switched, event: &EventContext<'_, '_>) -> Option<u32> {
        let left = self.left.remove(&switched.to);
        if event.stack_thread == Some(switched.to) {
            return event.stack;
        }
        if let (Some(from), Some(stack)) = (event.stack_thread, event.stack) {
            self.left.insert(from, stack);
        }
        left
    }
}
