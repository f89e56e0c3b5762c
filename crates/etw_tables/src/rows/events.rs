//! All events.

use super::columns::{EventKind, Process, Processor, ShortBytes, Stack, Thread, Time};
use super::table::table;

table! {
    /// One row for each event, except stacks, which are in the column of the event that they belong to.
    EventRow: "events", "Generic Events";
    summary by ["kind.provider", "kind.event", "process"] values ["rows", "percent(rows)", "sum(size)"];
    /// When the event was logged.
    time: Time,
    /// Provider, name and descriptor of the event.
    kind: EventKind,
    /// Process in the event's header, or that of its thread.
    process: Option<Process>,
    /// Thread in the event's header, or what a kernel event is about.
    thread: Option<Thread>,
    /// Processor that logged the event.
    processor: Processor,
    /// Size of the record.
    size: ShortBytes,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
}
