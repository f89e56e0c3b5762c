//! The session's file.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use etw_etl::{
    BufferHeader, EtlWriter, HeaderRecords, LogFileHeader, LogFileMode, WriteError, WriterOptions,
};
use etw_event::{ClockType, FileTime, Ticks};
use etw_sys::output::OutputOptions;
use etw_sys::{bytes_of_mut, clock};

use super::machine::Reference;
use super::output::FullBuffer;
use super::shared::Shared;
use super::statistics::{Counters, add};
use super::{LoggerError, LoggerState, SessionConfig};

/// The start of every file of a session.
#[derive(Debug, Clone)]
pub(super) struct FileOptions {
    pub(super) header: LogFileHeader,
    pub(super) logger_id: u16,
    pub(super) process_id: u32,
    pub(super) thread_id: u32,
    /// The group that may read the files.
    pub(super) group: Option<u32>,
}

/// The current file, and the ones that follow it.
#[derive(Debug)]
pub(super) struct FileSink {
    options: FileOptions,
    /// The path, with `%d` for numbered files.
    pattern: PathBuf,
    path: PathBuf,
    /// Number of the current file.
    number: u32,
    /// `None` after a file could not be started.
    writer: Option<EtlWriter<File>>,
    /// Losses of the session already recorded in previous files.
    told_events: u64,
    told_buffers: u64,
    /// Written since the file was last seen to exist.
    unseen_buffers: u64,
    unseen_events: u64,
    /// Whether the header in the file is outdated.
    is_dirty: bool,
    has_failed: bool,
}

/// The result of writing a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is in the file, or counted as lost.
    Done,
    /// The file has reached its maximum size; the buffer is counted as lost.
    FileFull,
}

impl FileOptions {
    pub(super) fn new(config: &SessionConfig, header: LogFileHeader) -> FileOptions {
        let SessionConfig { logger_id, process_id, thread_id, file_group: group, .. } = *config;
        FileOptions { header, logger_id, process_id, thread_id, group }
    }

    fn writer_options(&self, path: &Path) -> WriterOptions {
        let mut header = self.header.clone();
        header.log_file_name = path.to_string_lossy().into_owned();
        WriterOptions {
            header,
            logger_id: self.logger_id,
            process_id: self.process_id,
            thread_id: self.thread_id,
            records: HeaderRecords { partition_info: true, ..HeaderRecords::default() },
        }
    }

    /// Returns the first buffer of a file without a path.
    pub(super) fn first_buffer(&self) -> Result<Vec<u8>, WriteError> {
        let mut options = self.writer_options(Path::new(""));
        options.header.log_file_mode = LogFileMode::REAL_TIME;
        let mut out = std::io::Cursor::new(Vec::new());
        EtlWriter::new(&mut out, options)?;
        let mut buffer = out.into_inner();
        // Its events are followed only by padding, for which a message to a consumer has no room.
        if let Some(header) = BufferHeader::parse(&buffer) {
            buffer.truncate(header.offset as usize);
        }
        Ok(buffer)
    }

    /// Starts a file, or continues it if the mode is `APPEND`.
    fn begin(&self, path: &Path) -> Result<EtlWriter<File>, WriteError> {
        let appends = self.header.log_file_mode.contains(LogFileMode::APPEND);
        let clock_type = self.header.clock_type();
        if appends && clock_type != ClockType::SystemTime {
            return Err(WriteError::AppendClock { clock_type });
        }
        let file = self.open(path, appends)?;
        if appends && file.metadata()?.len() > 0 {
            let writer = EtlWriter::append(file, self.logger_id)?;
            let (size, buffer_size) = (self.header.buffer_size, writer.header().buffer_size);
            if size > buffer_size {
                return Err(WriteError::BufferTooLarge { size: size as usize, buffer_size });
            }
            return Ok(writer);
        }
        EtlWriter::new(file, self.writer_options(path))
    }

    /// Opens a file without waiting for anyone: a client that holds a lease on its file would stop the session.
    fn open(&self, path: &Path, appends: bool) -> std::io::Result<File> {
        OutputOptions::new().keep(appends).group(self.group).nonblocking().open(path)
    }

    /// Writes another file with these buffers, and returns the number of events.
    pub(super) fn write_copy<'b>(
        &self,
        path: &Path,
        buffers: impl Iterator<Item = (&'b etw_etl::BufferHeader, &'b [u8], u64)>,
        losses: (u64, u64),
        frequency: Option<i64>,
    ) -> Result<u64, LoggerError> {
        let write = || {
            let file = self.open(path, false)?;
            let mut options = self.writer_options(path);
            options.header.log_file_mode = LogFileMode::SEQUENTIAL.union(LogFileMode::BUFFERING);
            options.header.maximum_file_size = 0;
            let mut writer = EtlWriter::new(file, options)?;
            let mut events = 0;
            for (header, bytes, records) in buffers {
                writer.write_buffer(header, bytes)?;
                events += records;
            }
            writer.set_losses(clamp(losses.0), clamp(losses.1));
            if let Some(frequency) = frequency {
                writer.set_frequency(frequency);
            }
            writer.finish(FileTime(clock::filetime() as i64))?;
            Ok(events)
        };
        write().map_err(|error| LoggerError::File { path: path.to_owned(), error })
    }
}

impl FileSink {
    /// Starts the first file of a pattern.
    pub(super) fn new(
        options: FileOptions,
        pattern: &Path,
        counters: &Counters,
    ) -> Result<FileSink, LoggerError> {
        let mut sink = FileSink {
            options,
            pattern: pattern.to_owned(),
            path: PathBuf::new(),
            number: 0,
            writer: None,
            told_events: lost_events(counters),
            told_buffers: counters.log_buffers_lost.load(Relaxed),
            unseen_buffers: 0,
            unseen_events: 0,
            is_dirty: false,
            has_failed: false,
        };
        sink.begin_next(counters)?;
        Ok(sink)
    }

    /// Returns whether the file's name contains a number.
    pub(super) fn is_pattern(&self) -> bool {
        self.pattern.to_string_lossy().contains("%d")
    }

    /// Completes the file, and starts the next one of the pattern.
    pub(super) fn increment(&mut self, shared: &Shared, reference: &Reference) -> Result<(), LoggerError> {
        self.complete(shared, reference);
        self.told_events = lost_events(&shared.counters);
        self.told_buffers = shared.counters.log_buffers_lost.load(Relaxed);
        // Each file has its own anchor, so that the frequency error does not grow from file to file.
        let (ticks, filetime) = shared.clock.anchor();
        self.options.header.anchor = Ticks(ticks as i64);
        self.options.header.start_time = FileTime(filetime as i64);
        if let Some(frequency) = reference.frequency(shared) {
            self.set_frequency(frequency);
        }
        self.begin_next(&shared.counters)
    }

    fn begin_next(&mut self, counters: &Counters) -> Result<(), LoggerError> {
        self.number += 1;
        let pattern = self.pattern.to_string_lossy();
        self.path = match self.is_pattern() {
            true => PathBuf::from(pattern.replacen("%d", &self.number.to_string(), 1)),
            false => self.pattern.clone(),
        };
        self.begin(counters)
    }

    fn begin(&mut self, counters: &Counters) -> Result<(), LoggerError> {
        let writer = self.options.begin(&self.path);
        let writer = writer.map_err(|error| LoggerError::File { path: self.path.clone(), error })?;
        add(&counters.buffers_written, 1);
        add(&counters.bytes_written, u64::from(self.options.header.buffer_size));
        self.writer = Some(writer);
        (self.unseen_buffers, self.unseen_events) = (0, 0);
        Ok(())
    }

    /// Writes a buffer. Data that cannot be written is counted as lost, and the state reports the failure.
    pub(super) fn write(
        &mut self,
        buffer: &mut FullBuffer,
        shared: &Shared,
        reference: &Reference,
    ) -> Written {
        let counters = &shared.counters;
        let mut result = self.try_write(buffer);
        if let Err(WriteError::FileFull { .. }) = result {
            if !self.options.header.log_file_mode.contains(LogFileMode::NEW_FILE) {
                self.lose(counters, 1, buffer.records);
                return Written::FileFull;
            }
            result = match self.increment(shared, reference) {
                Ok(()) => self.try_write(buffer),
                Err(error) => {
                    counters.set_error(error.to_string());
                    Err(WriteError::Io(std::io::Error::other(error.to_string())))
                }
            };
        }
        match result {
            Ok(()) => {
                add(&counters.buffers_written, 1);
                add(&counters.bytes_written, u64::from(self.options.header.buffer_size));
                self.unseen_buffers += 1;
                self.unseen_events += buffer.records;
                self.is_dirty = true;
                if self.has_failed {
                    self.has_failed = false;
                    counters.set_state(LoggerState::Running);
                }
            }
            Err(error) => {
                self.lose(counters, 1, buffer.records);
                self.fail(counters, error.to_string());
            }
        }
        Written::Done
    }

    /// Returns the number of buffers that still fit into the file; `None` if there is no limit.
    pub(super) fn room(&self) -> Option<u64> {
        let begins_another = self.options.header.log_file_mode.contains(LogFileMode::NEW_FILE);
        self.writer.as_ref().filter(|_| !begins_another)?.room()
    }

    fn try_write(&mut self, buffer: &mut FullBuffer) -> Result<(), WriteError> {
        if self.writer.is_none() {
            self.writer = Some(self.options.begin(&self.path)?);
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write_whole_buffer(&buffer.header, bytes_of_mut(&mut buffer.words), buffer.events_len)
    }

    /// Counts buffers that are not in the file.
    pub(super) fn lose(&mut self, counters: &Counters, buffers: u64, events: u64) {
        add(&counters.log_buffers_lost, buffers);
        add(&counters.log_events_lost, events);
        self.is_dirty = true;
    }

    fn fail(&mut self, counters: &Counters, error: String) {
        counters.set_error(format!("{}: {error}", self.path.display()));
        if !self.has_failed {
            self.has_failed = true;
            counters.set_state(LoggerState::Failing);
        }
    }

    /// Updates the header and checks that the file still exists. If it was deleted, everything written since the last
    /// check is counted as lost, and a new file is started.
    pub(super) fn flush(&mut self, counters: &Counters) {
        let deleted = self
            .writer
            .as_ref()
            .is_some_and(|writer| writer.output().metadata().is_ok_and(|metadata| metadata.nlink() == 0));
        if deleted {
            self.writer = None;
            self.lose(counters, self.unseen_buffers, self.unseen_events);
            self.fail(counters, "the file was deleted; a new one was started".to_owned());
            if let Err(error) = self.begin(counters) {
                counters.set_error(error.to_string());
            }
            return;
        }
        (self.unseen_buffers, self.unseen_events) = (0, 0);
        if self.is_dirty {
            self.update_header(counters);
        }
    }

    fn update_header(&mut self, counters: &Counters) {
        let events = clamp(lost_events(counters) - self.told_events);
        let buffers = clamp(counters.log_buffers_lost.load(Relaxed) - self.told_buffers);
        let Some(writer) = &mut self.writer else { return };
        writer.set_losses(events, buffers);
        match writer.update_header() {
            Ok(()) => self.is_dirty = false,
            Err(error) => self.fail(counters, error.to_string()),
        }
    }

    /// Completes the file: final counts, the clock's frequency as known now, and the length.
    pub(super) fn complete(&mut self, shared: &Shared, reference: &Reference) {
        let counters = &shared.counters;
        if let (Some(frequency), false) = (reference.frequency(shared), self.is_appended()) {
            self.set_frequency(frequency);
        }
        self.update_header(counters);
        let Some(writer) = self.writer.take() else { return };
        let path = self.path.clone();
        let complete = || {
            let written = writer.finish(FileTime(clock::filetime() as i64))?;
            let mut file = written.out;
            // Cuts preallocated space, and the remains of a failed write.
            file.set_len(written.len_bytes)?;
            file.seek(SeekFrom::End(0))?;
            file.flush()?;
            Ok::<(), WriteError>(())
        };
        if let Err(error) = complete() {
            counters.set_error(format!("{}: {error}", path.display()));
        }
    }

    fn is_appended(&self) -> bool {
        self.options.header.log_file_mode.contains(LogFileMode::APPEND)
    }

    fn set_frequency(&mut self, frequency: i64) {
        let header = &mut self.options.header;
        if header.clock_type() == ClockType::Qpc {
            header.perf_freq = frequency;
            if let Some(writer) = &mut self.writer {
                writer.set_frequency(frequency);
            }
        }
    }
}

/// Returns the number of all events missing from files.
fn lost_events(counters: &Counters) -> u64 {
    counters.events_lost.load(Relaxed) + counters.log_events_lost.load(Relaxed)
}

pub(super) fn clamp(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
