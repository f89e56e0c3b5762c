//! Context switches.

use std::borrow::Cow;

use etw_kernel_events::ids;

use super::columns::{Id, Processor, Span, Stack, Text, Thread, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;
use crate::maps::HashMap;
use crate::model::facts::{Fact, Switched};
use crate::model::switches::{ReadiedBy, reason_name};
use crate::processes::ThreadIndex;

table! {
    /// One row for each context switch.
    SwitchRow: "cpu_precise", "CPU Usage (Precise)";
    summary by ["new_thread.process", "new_thread", "new_wait_reason"]
        values ["rows", "sum(waits)", "max(waits)", "sum(ready)", "max(ready)"];
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
    new_wait_reason: Option<Text>,
    /// What ended the wait: `thread`, `interrupt`, or nothing if the thread did not wait.
    readied_by: Option<Text>,
    /// Thread that ended the wait of the new thread.
    readying_thread: Option<Thread>,
    /// Priority of the new thread.
    new_priority: Id,
    /// Why the old thread waits, if it does.
    old_wait_reason: Text,
    /// State of the old thread (`KTHREAD_STATE`).
    old_state: Id,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
    /// Where the new thread waited or was ready: the stack of this switch, or of the one away from the thread.
    new_thread_stack: Option<Stack>,
}

/// Makes rows of switches.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// The stacks at which threads were left, where switches have those.
    left: HashMap<ThreadIndex, u32>,
}

impl RowSource for Switches {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id() == Some(ids::Thread::C_SWITCH)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(Fact::Switch(switched)) = event.fact else { return };
        let (readied_by, readying_thread) = match switched.readied_by {
            ReadiedBy::Thread(thread) => (Some("thread"), Some(thread)),
            ReadiedBy::Interrupt => (Some("interrupt"), None),
            ReadiedBy::Nobody | ReadiedBy::Unknown => (None, None),
        };
        let new_wait_reason = switched.reason.map(shown_reason);
        context.writer.add(SwitchRow {
            time: event.record().time(),
            new_thread: switched.to,
            old_thread: switched.from,
            processor: event.processor,
            ran: nanos(switched.ran),
            waits: switched.reason.map(|_| nanos(switched.waited)),
            ready: switched.reason.map(|_| nanos(switched.ready)),
            new_wait_reason: new_wait_reason.as_deref(),
            readied_by,
            readying_thread,
            new_priority: switched.to_priority.max(0).unsigned_abs().into(),
            old_wait_reason: &shown_reason(switched.from_reason),
            old_state: switched.from_state.into(),
            stack: event.stack,
            new_thread_stack: self.stack_of_wait(switched, event),
        });
    }
}

impl Switches {
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

fn shown_reason(reason: u8) -> Cow<'static, str> {
    reason_name(reason).map_or_else(|| reason.to_string().into(), Cow::Borrowed)
}
