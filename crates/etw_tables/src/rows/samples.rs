//! Samples of processors.

use etw_kernel_events::ids;
use etw_machine::Fact;

use super::columns::{Count, Frame, Processor, Span, Stack, Thread, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::nanos;
use super::table::table;

table! {
    /// One row for each sample of a processor.
    SampleRow: "cpu_sampled", "CPU Usage (Sampled)";
    summary by ["thread.process", "thread", "frame.module", "frame.function"]
        values ["sum(count)", "sum(weight)", "percent(sum(weight))"];
    /// When the sample was taken.
    time: Time,
    /// Thread that was running.
    thread: Thread,
    /// Processor that logged the event.
    processor: Processor,
    /// Instruction that was running, and its function.
    frame: Frame,
    /// Time that the sample stands for.
    weight: Span,
    /// Number of samples that this one stands for.
    count: Count,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
}

/// Makes rows of samples.
#[derive(Debug, Default)]
pub(super) struct Samples;

impl RowSource for Samples {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id() == Some(ids::PerfInfo::SAMPLE_PROFILE)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(Fact::Sample(sampled)) = event.fact else { return };
        let process = context.model.processes.thread(sampled.thread).process;
        let frame = context.frame(event.machine, process, sampled.instruction);
        context.writer.add(SampleRow {
            time: event.record().time(),
            thread: sampled.thread,
            processor: event.processor,
            frame,
            weight: nanos(sampled.weight),
            count: sampled.count,
            stack: event.stack,
        });
    }
}
