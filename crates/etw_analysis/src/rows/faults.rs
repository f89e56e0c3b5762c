//! Hard faults.

use etw_kernel_events::ids;

use super::columns::{Address, Bytes, File, LongHex, Span, Stack, Thread, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;
use crate::model::facts::Fact;

table! {
    /// One row for each page fault that read from a disk.
    HardFaultRow: "hard_faults", "Hard Faults";
    summary by ["thread.process", "file"] values ["rows", "sum(size)", "sum(duration)", "max(duration)"];
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
