//! Writes the records of the `.etl` file.

use etw_etl::encode::RecordBuilder;
use etw_etl::{LogFileHeader, WriteError, WriterOptions};
use etw_event::{FileTime, Origin, Record, Ticks};
use etw_kernel_events::classes::{KernelEvent, MAX_FRAMES, RecordBuffer, StackWalk, Stamp};
use etw_perf_data::PerfData;

use super::super::conversion::{BUFFER_BYTES, Converted, Output};
use super::super::limited::Limited;
use super::{Extent, Moment, clock};

/// Name of the session.
const SESSION: &str = "perf";

/// Writes records.
#[derive(Debug)]
pub(super) struct RecordWriter {
    output: Output,
    buffer: RecordBuffer,
    bytes: Vec<u8>,
    /// Time of the latest record.
    pub(super) latest: Ticks,
    /// Number of events that no record can hold.
    left_out: u64,
}

impl RecordWriter {
    pub(super) fn new(
        out: Limited,
        file: &PerfData<'_>,
        extent: &Extent,
        len_bytes: u64,
    ) -> Result<RecordWriter, WriteError> {
        let clock = clock::clock(file, extent.start);
        let mut options = WriterOptions::new(clock, BUFFER_BYTES, extent.processors);
        options.records.partition_info = false;
        options.header = LogFileHeader {
            provider_version: 0,
            cpu_speed_in_mhz: 0,
            boot_time: FileTime(0),
            logger_name: SESSION.to_owned(),
            ..options.header
        };
        let format = if file.is_stream() { "perf.data (stream)" } else { "perf.data" };
        let output = Output::new(out, options, format.to_owned(), len_bytes)?;
        let (buffer, bytes) = (RecordBuffer::new(), Vec::new());
        Ok(RecordWriter { output, buffer, bytes, latest: clock::ticks(extent.start), left_out: 0 })
    }

    /// Returns the stamp of what a thread did at a time in nanoseconds.
    pub(super) fn stamp(&self, nanos: u64, process_id: u32, thread_id: u32) -> Stamp {
        Stamp::new(clock::ticks(nanos), process_id, thread_id)
    }

    /// Writes an event.
    pub(super) fn put(&mut self, moment: &Moment, event: &impl KernelEvent) -> Result<(), WriteError> {
        self.put_at(moment.processor, &moment.stamp, event)
    }

    /// Writes an event of a processor.
    pub(super) fn put_at(
        &mut self,
        processor: u16,
        stamp: &Stamp,
        event: &impl KernelEvent,
    ) -> Result<(), WriteError> {
        self.buffer.clear();
        self.buffer.put(stamp, event);
        self.bytes.clear();
        self.bytes.extend(self.buffer.words().iter().flat_map(|word| word.to_le_bytes()));
        self.latest = self.latest.max(stamp.time);
        // Removes the padding of the last word.
        let origin = Origin::default();
        let record = Record::parse(&self.bytes, &origin, Ticks(0))?;
        self.output.write(processor, record.as_bytes())
    }

    /// Writes an event, and its stack unless that is empty. Frames beyond the maximum of an event are in further events.
    pub(super) fn put_with_stack(
        &mut self,
        moment: &Moment,
        event: &impl KernelEvent,
        frames: &[u64],
    ) -> Result<(), WriteError> {
        self.put(moment, event)?;
        let Stamp { time: event_time, process_id, thread_id, .. } = moment.stamp;
        frames
            .chunks(MAX_FRAMES)
            .try_for_each(|frames| self.put(moment, &StackWalk { event_time, process_id, thread_id, frames }))
    }

    /// Writes an event that describes itself. One that is too large is counted as lost.
    pub(super) fn put_described(
        &mut self,
        moment: &Moment,
        builder: &RecordBuilder,
    ) -> Result<(), WriteError> {
        self.bytes.clear();
        self.latest = self.latest.max(moment.stamp.time);
        if builder.build_into(&mut self.bytes).is_ok() {
            return self.output.write(moment.processor, &self.bytes);
        }
        self.left_out += 1;
        self.add_damage(moment.offset, "an event is larger than the largest record; it is left out", 0);
        self.mark_losses(moment.processor)
    }

    pub(super) fn add_damage(&mut self, offset: u64, what: &'static str, skipped: u64) {
        self.output.add_damage(offset, what, skipped);
    }

    pub(super) fn add_notes(&mut self, notes: impl Iterator<Item = String>) {
        self.output.converted.notes.extend(notes);
    }

    pub(super) fn mark_losses(&mut self, processor: u16) -> Result<(), WriteError> {
        self.output.mark_losses(processor)
    }

    pub(super) fn finish(self, lost: u64, is_complete: bool) -> Result<(Limited, Converted), WriteError> {
        self.output.finish(lost.saturating_add(self.left_out), is_complete)
    }
}
