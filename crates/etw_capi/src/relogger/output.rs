//! The file that a relogger writes.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::Path;

use etw_etl::{EtlWriter, LogFileHeader, WriteError, WriterOptions};
use etw_event::{Clock, FileTime, Record, Ticks};

use super::event::Content;
use crate::error::{ERROR_INVALID_DATA, ERROR_INVALID_PARAMETER, code_of_io};

/// Most bytes of events that wait for their time. Beyond it the earliest are written.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Sizes of buffers: at least one for which most records fit, at most what the writer accepts.
const BUFFER_BYTES: (u32, u32) = (64 << 10, 16 << 20);

/// A file being written. Events are written in time order, once no earlier ones can come.
pub(super) struct Output {
    writer: EtlWriter<File>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    /// The number of the next event.
    next: u64,
    /// The time of the last event written.
    last: i64,
    processors: u32,
}

/// An event that waits for its time.
struct Waiting {
    time: i64,
    number: u64,
    content: Content,
}

impl Output {
    /// Creates a file for events of others, on the clock of the first.
    pub(super) fn create(path: &Path, headers: &[LogFileHeader], is_compressed: bool) -> Result<Output, u32> {
        let first = headers.first().ok_or(ERROR_INVALID_PARAMETER)?;
        let mut options = WriterOptions::relog(first);
        let header = &mut options.header;
        header.log_file_mode = etw_etl::LogFileMode::SEQUENTIAL.union(etw_etl::LogFileMode::RELOG);
        header.events_lost = 0;
        for one in headers {
            header.number_of_processors = header.number_of_processors.max(one.number_of_processors);
            header.buffer_size = header.buffer_size.max(one.buffer_size.next_multiple_of(1024));
            header.events_lost = header.events_lost.saturating_add(one.events_lost);
        }
        header.buffer_size = header.buffer_size.clamp(BUFFER_BYTES.0, BUFFER_BYTES.1);
        let processors = header.number_of_processors;
        if is_compressed {
            options = options.compressed();
        }
        let file = etw_sys::output::create(path).map_err(|error| code_of_io(&error))?;
        let writer = EtlWriter::new(file, options).map_err(|error| code_of(&error))?;
        Ok(Output {
            writer,
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            next: 0,
            last: i64::MIN,
            processors,
        })
    }

    /// Returns the clock of the events.
    pub(super) fn clock(&self) -> Clock {
        self.writer.header().clock()
    }

    /// Adds an event.
    pub(super) fn put(&mut self, content: Content) -> Result<(), u32> {
        let time = content.record().ok_or(ERROR_INVALID_DATA)?.raw_time().0;
        if u32::from(content.origin.processor) >= self.processors {
            return Err(ERROR_INVALID_PARAMETER);
        }
        self.waiting_bytes += content.bytes.len();
        self.waiting.push(Reverse(Waiting { time, number: self.next, content }));
        self.next += 1;
        while self.waiting_bytes > MAX_WAITING_BYTES {
            self.write_first()?;
        }
        Ok(())
    }

    /// Writes the events before `time`, since no earlier ones come.
    pub(super) fn write_before(&mut self, time: i64) -> Result<(), u32> {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.time < time) {
            self.write_first()?;
        }
        Ok(())
    }

    fn write_first(&mut self) -> Result<(), u32> {
        let Some(Reverse(Waiting { time, mut content, .. })) = self.waiting.pop() else { return Ok(()) };
        self.waiting_bytes -= content.bytes.len();
        // A program may set a time that is over.
        if time < self.last {
            content.set_time(Ticks(self.last));
        }
        self.last = self.last.max(time);
        let processor = content.origin.processor;
        let origin = etw_event::Origin { clock: self.clock(), ..content.origin };
        let record =
            Record::parse(&content.bytes, &origin, Ticks(self.last)).map_err(|_| ERROR_INVALID_DATA)?;
        match self.writer.relog(&record) {
            Err(WriteError::RecordTooLarge { .. }) => self.writer.lose_events(processor, 1),
            written => written,
        }
        .map_err(|error| code_of(&error))
    }

    /// Writes what is left, and completes the file.
    pub(super) fn finish(mut self, end: FileTime) -> Result<(), u32> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        let last = self.clock().to_filetime(Ticks(self.last.max(0)));
        let end = if self.last == i64::MIN { end } else { FileTime(end.0.max(last.0)) };
        self.writer.finish(end).map(drop).map_err(|error| code_of(&error))
    }
}

fn code_of(error: &WriteError) -> u32 {
    match error {
        WriteError::Io(error) => code_of_io(error),
        _ => ERROR_INVALID_PARAMETER,
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}
