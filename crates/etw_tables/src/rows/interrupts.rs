//! Interrupts and deferred procedure calls.

use std::borrow::Cow;

use etw_kernel_events::read;
use etw_machine::Fact;

use super::columns::{Frame, Id, Processor, Span, Text, Time};
use super::frames::without_module;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;
use crate::summary::{Column, Summary, no_notes};

table! {
    /// One row for each interrupt or deferred procedure call.
    InterruptRow: "dpc_isr", "DPC/ISR Duration";
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

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "dpcisr",
    title: "Interrupts and DPCs",
    about: "interrupts and deferred calls by routine",
    recorded_by: "DPC+INTERRUPT",
    table: "dpc_isr",
    by: &["type", "routine.function", "vector"],
    condition: "",
    process: "",
    thread: "",
    columns: &[
        Column::shown("kind", "Kind").key(&["type"]),
        Column::shown("vector", "Vector").key(&["vector"]),
        Column::shown("routine", "Routine").key_of(&["routine.function", "routine.module"], without_module),
        Column::shown("module", "Module").key(&["routine.module"]),
        Column::shown("count", "Count").value("rows"),
        Column::shown("time_ns", "Time").value("sum(duration)"),
        Column::shown("time_percent", "% CPU").processor_share("sum(duration)"),
        Column::shown("median_ns", "Median").value("p50(duration)"),
        Column::shown("p95_ns", "p95").value("p95(duration)"),
        Column::shown("max_ns", "Max").value("max(duration)"),
    ],
    order: &["sum(duration)", "rows"],
    weights: &["time_ns"],
    notes: no_notes,
};

/// Makes rows of interrupts.
#[derive(Debug, Default)]
pub(super) struct Interrupts;

impl RowSource for Interrupts {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id().is_some_and(read::Interrupt::reads)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(Fact::Interrupt(interrupt)) = event.fact else { return };
        let machines = &context.model.processes.machines;
        let kind = match machines.are_several() {
            true => Cow::Owned(machines.labelled(interrupt.kind, event.machine)),
            false => Cow::Borrowed(interrupt.kind),
        };
        let routine = context.kernel_frame(event.machine, interrupt.routine);
        context.writer.add(InterruptRow {
            time: event.record().time(),
            processor: event.processor,
            r#type: &kind,
            routine,
            vector: interrupt.vector.map(u32::from),
            duration: nanos(interrupt.took),
        });
    }
}
