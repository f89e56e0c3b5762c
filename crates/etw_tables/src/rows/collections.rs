//! Garbage collections of .NET.

use super::columns::{Bytes, End, Id, Process, Span, Start, Text};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::{between, nanos};
use super::table::table;

table! {
    /// One row for each garbage collection of .NET.
    CollectionRow: "gc", ".NET GC";
    summary by ["process", "generation", "reason"]
        values ["rows", "sum(pause)", "max(pause)", "mean(pause)", "max(size_before)", "sum(promoted)"];
    /// When the collection started.
    start_time: Start,
    /// When it ended, if that was during the trace.
    end_time: Option<End>,
    /// Time between the two.
    duration: Option<Span>,
    /// Process whose memory was collected.
    process: Process,
    /// Number of the collection in its process.
    number: Id,
    /// Oldest generation that was collected.
    generation: Option<Id>,
    /// Whether it ran in the background.
    r#type: Option<Text>,
    /// Why it was started.
    reason: Option<Text>,
    /// Time for which all threads of the program were suspended.
    pause: Option<Span>,
    /// Part of the pause that the suspension took.
    suspension: Option<Span>,
    /// Size of the heap before it.
    size_before: Option<Bytes>,
    /// Size of the heap after it.
    size_after: Option<Bytes>,
    /// Bytes that survived.
    promoted: Option<Bytes>,
}

/// Makes rows of garbage collections, which are known at the end.
#[derive(Debug, Default)]
pub(super) struct Collections;

impl RowSource for Collections {
    fn wants(&self, _event: &EventContext<'_, '_>) -> bool {
        false
    }

    fn event(&mut self, _event: &EventContext<'_, '_>, _context: &mut RowContext<'_>) {}

    fn finish(&mut self, context: &mut RowContext<'_>) {
        for collected in context.model.collections.collected() {
            context.writer.add(CollectionRow {
                start_time: collected.start,
                end_time: collected.end,
                duration: collected.end.map(|end| between(collected.start, end)),
                process: collected.process,
                number: collected.number,
                generation: collected.generation,
                r#type: collected.kind,
                reason: collected.reason,
                pause: collected.pause.map(nanos),
                suspension: collected.suspension.map(nanos),
                size_before: collected.before,
                size_after: collected.after,
                promoted: collected.promoted,
            });
        }
    }
}
