//! Interrupts and deferred procedure calls.

use etw_kernel_events::read;

use super::columns::{Frame, Id, Processor, Span, Text, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;
use crate::model::facts::Fact;

table! {
    /// One row for each interrupt or deferred procedure call.
    InterruptRow: "dpc_isr", "DPC/ISR Duration";
    summary by ["type", "routine.function", "processor"]
        values ["rows", "sum(duration)", "max(duration)", "p99(duration)"];
    /// When it ended.
    time: Time,
    /// Processor that logged the event.
    processor: Processor,
    /// `ISR`, `DPC`, `ThreadDPC`, `TimerDPC` or `PassiveISR`.
    r#type: Text,
    /// Routine that ran.
    routine: Frame,
    /// Number of the interrupt.
    vector: Option<Id>,
    /// Time that it took.
    duration: Span,
}

/// Makes rows of interrupts.
#[derive(Debug, Default)]
pub(super) struct Interrupts;

impl RowSource for Interrupts {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id().is_some_and(read::Interrupt::reads)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(Fact::Interrupt(interrupt)) = event.fact else { return };
        let routine = context.kernel_frame(event.machine, interrupt.routine);
        context.writer.add(InterruptRow {
            time: event.record().time(),
            processor: event.processor,
            r#type: interrupt.kind,
            routine,
            vector: interrupt.vector.map(u32::from),
            duration: nanos(interrupt.took),
        });
    }
}
