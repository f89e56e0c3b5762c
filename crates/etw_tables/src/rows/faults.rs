//! Hard faults.

use etw_kernel_events::ids;
use etw_machine::Fact;

use super::columns::{Address, Bytes, File, LongHex, Span, Stack, Thread, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;
use crate::summary::{Column, Summary, no_notes};

table! {
    /// One row for each page fault that read from a disk.
    HardFaultRow: "hard_faults", "Hard Faults";
    /// When the page was there.
    time: Time,
    /// Thread that did it.
    thread: Thread,
    /// File, if the trace names it.
    file: Option<File>,
    /// Number of bytes read.
    size: Bytes,
    /// Time that it took.
    duration: Span,
    /// Virtual address.
    address: Address,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
    /// Place in the file.
    offset: LongHex,
}

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "faults",
    title: "Hard faults",
    about: "hard faults by process and file",
    recorded_by: "PROC_THREAD+HARD_FAULTS",
    table: "hard_faults",
    by: &["thread.process", "file"],
    condition: "",
    process: "thread.process",
    thread: "",
    columns: &[
        Column::shown("process", "Process").key(&["thread.process.name"]),
        Column::shown("process_id", "PID").key(&["thread.process.process_id"]),
        Column::shown("file", "File").key(&["file.path"]),
        Column::shown("count", "Count").value("rows"),
        Column::shown("bytes", "Bytes").value("sum(size)"),
        Column::shown("time_ns", "Time").value("sum(duration)"),
        Column::shown("median_ns", "Median").value("p50(duration)"),
        Column::shown("p95_ns", "p95").value("p95(duration)"),
        Column::shown("max_ns", "Max").value("max(duration)"),
    ],
    order: &["sum(duration)", "sum(size)"],
    weights: &["time_ns"],
    notes: no_notes,
};

/// Makes rows of hard faults.
#[derive(Debug, Default)]
pub(super) struct HardFaults;

impl RowSource for HardFaults {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id() == Some(ids::PageFault::HARD_FAULT)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(Fact::Fault(fault)) = event.fact else { return };
        context.writer.add(HardFaultRow {
            time: event.record().time(),
            thread: fault.thread,
            file: fault.file,
            size: fault.bytes.into(),
            duration: nanos(fault.took),
            address: fault.address,
            stack: event.stack,
            offset: fault.offset,
        });
    }
}
