//! The destinations of full buffers: file, memory, consumers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use etw_etl::{BufferFlags, LogFileMode};

use super::file::{FileOptions, FileSink, Written};
use super::machine::Reference;
use super::memory::Memory;
use super::output::{FullBuffer, Output};
use super::real_time::Consumers;
use super::shared::Shared;
use super::statistics::add;

/// Maximum number of buffers kept for reuse.
const MAX_SPARE: usize = 8;

/// All destinations of full buffers.
#[derive(Debug)]
pub(super) struct Sinks {
    pub(super) shared: Arc<Shared>,
    pub(super) mode: LogFileMode,
    pub(super) file: Option<FileSink>,
    pub(super) options: FileOptions,
    pub(super) memory: Memory,
    pub(super) consumers: Consumers,
    pub(super) reference: Reference,
    /// Full buffers that wait until the threshold is reached.
    waiting: Vec<FullBuffer>,
    pub(super) flush_threshold: u32,
    spare: Vec<Vec<u64>>,
    next_sequence: i64,
    /// Whether events have been lost since the last full buffer.
    has_lost: bool,
    /// Number of buffers that other outputs than the one being filled need for the events they already hold.
    pub(super) reserved: u64,
    /// Whether the file has reached its maximum size and the session must stop.
    pub(super) is_file_full: bool,
}

impl Sinks {
    pub(super) fn new(
        shared: Arc<Shared>,
        mode: LogFileMode,
        options: FileOptions,
        file: Option<FileSink>,
        flush_threshold: u32,
    ) -> Sinks {
        let consumers = Consumers::new(options.logger_id, shared.start);
        let reference = Reference::take(&shared);
        Sinks {
            shared,
            mode,
            file,
            options,
            memory: Memory::default(),
            consumers,
            reference,
            waiting: Vec::new(),
            flush_threshold,
            spare: Vec::new(),
            next_sequence: 1,
            has_lost: false,
            reserved: 0,
            is_file_full: false,
        }
    }

    /// Makes room in an output by passing on its contents.
    pub(super) fn turn(&mut self, output: &mut Output) {
        let geometry = self.shared.geometry;
        if output.words.is_empty() {
            if !output.is_counted {
                output.is_counted = true;
                if self.shared.budget.take(1) == 0 && !self.replace_oldest() {
                    self.shared.budget.take_always();
                }
            }
            output.begin(self.spare.pop().unwrap_or_default(), &geometry);
            self.see_room(output);
            return;
        }
        self.send(output);
        if output.records == 0 {
            return;
        }
        let keeps = self.mode.contains(LogFileMode::BUFFERING)
            || self.file.is_none() && self.consumers.is_empty() && self.mode.contains(LogFileMode::REAL_TIME);
        if self.file.is_none() && !keeps {
            let memory = std::mem::take(&mut output.words);
            output.begin(memory, &geometry);
            self.next_sequence += 1;
            return;
        }
        if keeps {
            let buffer = self.take(output);
            self.keep(buffer);
        } else {
            let mut buffer = self.take(output);
            // A waiting buffer is one of the session's buffers.
            buffer.is_counted =
                self.waiting.len() + 1 < self.flush_threshold as usize && self.shared.budget.take(1) == 1;
            let waits = buffer.is_counted;
            self.waiting.push(buffer);
            if !waits {
                self.write_waiting(false);
            }
        }
        output.begin(self.spare.pop().unwrap_or_default(), &geometry);
        self.see_room(output);
    }

    /// Returns the number of buffers that fit into the file besides the waiting ones; `None` without a limit or file.
    pub(super) fn room(&self) -> Option<u64> {
        let room = self.file.as_ref()?.room()?;
        Some(room.saturating_sub(self.waiting.len() as u64))
    }

    /// Checks whether the file has room for a new output besides the others. This way a full file contains the first
    /// events of every processor, without gaps between processors.
    fn see_room(&mut self, output: &mut Output) {
        if self.room().is_some_and(|room| room <= self.reserved) {
            output.is_beyond_file = true;
            self.is_file_full = true;
        }
    }

    /// Queues the contents of an output for the next flush, and leaves it without memory.
    pub(super) fn take_partial(&mut self, output: &mut Output) {
        let buffer = self.take(output);
        self.waiting.push(buffer);
        output.is_beyond_file = false;
    }

    fn take(&mut self, output: &mut Output) -> FullBuffer {
        let flags = match std::mem::take(&mut self.has_lost) {
            true => BufferFlags::EVENTS_LOST,
            false => BufferFlags::default(),
        };
        let buffer = output.take(self.next_sequence, flags, &self.shared.geometry);
        self.next_sequence += 1;
        buffer
    }

    /// Keeps a buffer in memory; if the session has no other buffer left, replaces the oldest one.
    fn keep(&mut self, buffer: FullBuffer) {
        if self.shared.budget.take(1) == 1 || self.replace_oldest() {
            self.memory.keep(buffer);
        } else {
            self.forget(buffer);
        }
    }

    /// Drops the oldest buffer in memory, so that another one can be counted instead.
    fn replace_oldest(&mut self) -> bool {
        let oldest = self.memory.take_oldest();
        let has_place = oldest.is_some();
        oldest.into_iter().for_each(|oldest| self.forget(oldest));
        has_place
    }

    fn forget(&mut self, gone: FullBuffer) {
        if !self.mode.contains(LogFileMode::BUFFERING) {
            // It waited for a consumer.
            add(&self.shared.counters.real_time_buffers_lost, 1);
            add(&self.shared.counters.real_time_events_lost, gone.records);
        }
        self.reuse(gone.words);
    }

    /// Writes the waiting buffers; with `is_flush`, the last one is marked as the end of a flush.
    pub(super) fn write_waiting(&mut self, is_flush: bool) {
        let count = self.waiting.len();
        for (index, mut buffer) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if is_flush && index + 1 == count {
                buffer.header.buffer_flag |= BufferFlags::FLUSH_MARKER;
            }
            if buffer.is_counted {
                self.shared.budget.release(1);
            }
            match &mut self.file {
                Some(file) if buffer.is_beyond_file => {
                    file.lose(&self.shared.counters, 1, buffer.records);
                }
                Some(file) => {
                    let written = file.write(&mut buffer, &self.shared, &self.reference);
                    self.is_file_full |= written == Written::FileFull;
                }
                None => {}
            }
            self.reuse(buffer.words);
        }
    }

    fn reuse(&mut self, memory: Vec<u64>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(memory);
        }
    }

    /// Sends consumers the new records of an output.
    pub(super) fn send(&mut self, output: &mut Output) {
        if self.consumers.is_empty() || output.unsent().is_empty() {
            return;
        }
        let records = output.records - output.sent_records;
        self.consumers.send(output.processor, output.unsent(), records, &self.shared.counters);
        // As ETW counts them: a buffer that is flushed before it is full, too.
        if self.file.is_none() {
            add(&self.shared.counters.buffers_written, 1);
        }
        (output.sent_words, output.sent_records) = (output.words.len(), output.records);
    }

    /// Sends a new consumer the buffers kept for it.
    pub(super) fn send_kept(&mut self) {
        if self.mode.contains(LogFileMode::BUFFERING) {
            return;
        }
        while let Some(buffer) = self.memory.take_oldest() {
            self.shared.budget.release(1);
            let end = super::output::HEADER_WORDS + buffer.events_len / 8;
            let words = buffer.words.get(super::output::HEADER_WORDS..end).unwrap_or_default();
            let processor = buffer.header.processor();
            self.consumers.send(processor, words, buffer.records, &self.shared.counters);
            self.reuse(buffer.words);
        }
    }

    /// Counts buffers kept for a consumer that never attached as lost.
    pub(super) fn lose_kept(&mut self, outputs: &[Output], had_file: bool) {
        let waits = self.mode.contains(LogFileMode::REAL_TIME) && !self.mode.contains(LogFileMode::BUFFERING);
        if !waits || !self.consumers.is_empty() || had_file {
            return;
        }
        for output in outputs.iter().filter(|output| output.records > output.sent_records) {
            add(&self.shared.counters.real_time_buffers_lost, 1);
            add(&self.shared.counters.real_time_events_lost, output.records - output.sent_records);
        }
        while let Some(buffer) = self.memory.take_oldest() {
            self.shared.budget.release(1);
            add(&self.shared.counters.real_time_buffers_lost, 1);
            add(&self.shared.counters.real_time_events_lost, buffer.records);
        }
    }

    /// Counts events that processes have lost.
    pub(super) fn lose(&mut self, events: u64) {
        if events > 0 {
            add(&self.shared.counters.events_lost, events);
            self.has_lost = true;
            self.consumers.lose(events);
        }
    }

    /// Updates the file's header.
    pub(super) fn flush_file(&mut self) {
        if let Some(file) = &mut self.file {
            file.flush(&self.shared.counters);
        }
    }

    /// Completes the file and continues without it.
    pub(super) fn close_file(&mut self) {
        self.write_waiting(true);
        if let Some(mut file) = self.file.take() {
            file.complete(&self.shared, &self.reference);
        }
    }

    /// Returns events lost and buffers lost, as recorded in files.
    pub(super) fn losses(&self) -> (u64, u64) {
        let counters = &self.shared.counters;
        (counters.events_lost.load(Relaxed), counters.log_buffers_lost.load(Relaxed))
    }
}
