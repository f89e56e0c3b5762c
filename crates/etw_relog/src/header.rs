//! The header of the output file, combined from the headers of all input files.

use etw_consumer::PartLosses;
use etw_etl::{BufferFlags, BufferHeader, EtlFile, LogFileHeader, LogFileMode, Records, WriterOptions};
use etw_event::{Clock, FileTime, HookId};

use super::{Compression, RelogError, common_clock};

/// Name fields of a file that was made from several.
const RELOGGER: &str = "Relogger";
const SEVERAL_FILES: &str = "[multiple files]";
/// Buffer sizes are multiples of the unit, up to the maximum.
const BUFFER_UNIT: u32 = 1024;
const MAX_BUFFER_SIZE: u32 = 16 << 20;

/// The combined data of the input files.
#[derive(Debug)]
pub(super) struct Sources {
    /// The options and header of the output file.
    pub(super) options: WriterOptions,
    pub(super) clock: Clock,
    /// The number of the file whose header and clock are used.
    pub(super) first: usize,
    /// The files whose events are converted to that clock.
    pub(super) brought: Vec<bool>,
    /// The end time; `None` if one of the files was never closed.
    pub(super) end: Option<FileTime>,
    /// The loss flags of their buffers.
    pub(super) losses: BufferFlags,
    /// The total of lost events in their headers.
    pub(super) events_lost: u32,
    pub(super) buffers_lost: u32,
    /// Whether processors share the buffers of a file, so that the records in them are unordered.
    pub(super) is_shared: bool,
    /// The names of the files.
    pub(super) names: Vec<String>,
    /// The number of the session that each file is a part of.
    pub(super) sessions: Vec<usize>,
}

impl Sources {
    pub(super) fn new(
        files: &[EtlFile<'_>],
        names: Vec<String>,
        compression: Compression,
    ) -> Result<Sources, RelogError> {
        let clocks: Vec<Clock> = files.iter().map(EtlFile::clock).collect();
        let (number, brought) =
            common_clock::common(&clocks).map_err(|[first, other]| other_clock(&names, first, other))?;
        let (Some(first), Some(clock)) = (files.get(number), clocks.get(number).copied()) else {
            return Err(RelogError::Live);
        };
        let mut options = WriterOptions::relog(first.header());
        let header = &mut options.header;
        let mut losses = BufferFlags::default();
        let (mut is_compressed, mut is_shared) = (false, false);
        header.buffer_size = BUFFER_UNIT;
        for file in files {
            let own = file.header();
            let of_header = own.buffer_size.min(MAX_BUFFER_SIZE);
            header.buffer_size = header.buffer_size.max(of_header.next_multiple_of(BUFFER_UNIT));
            header.number_of_processors = header.number_of_processors.max(own.number_of_processors);
            let mode = own.log_file_mode;
            is_compressed |= mode.contains(LogFileMode::COMPRESSED);
            is_shared |= mode.contains(LogFileMode::NO_PER_PROCESSOR_BUFFERING)
                || mode.contains(LogFileMode::PRIVATE_LOGGER);
            for buffer in file.buffers().flatten() {
                let BufferHeader { offset, buffer_flag, .. } = buffer.header;
                let size = offset.min(MAX_BUFFER_SIZE).next_multiple_of(BUFFER_UNIT);
                header.buffer_size = header.buffer_size.max(size);
                let processors = u32::from(buffer.header.processor()) + 1;
                header.number_of_processors = header.number_of_processors.max(processors);
                losses |= buffer_flag & BufferFlags::LOSSES;
            }
        }
        let starts = files.iter().map(|file| file.header().start_time);
        if let Some(start) = starts.min().filter(|start| *start < header.start_time) {
            (header.anchor, header.start_time) = (clock.to_ticks(start), start);
        }
        let sessions = sessions(files);
        let (events_lost, buffers_lost) = lost(files, &sessions);
        (header.events_lost, header.buffers_lost) = (events_lost, buffers_lost);
        if files.len() > 1 {
            header.logger_name = RELOGGER.to_owned();
            header.log_file_name = SEVERAL_FILES.to_owned();
        }
        options.records.others = first_records(first, header.buffer_size as usize);
        if compression.applies(is_compressed) {
            options = options.compressed();
        }
        let ends = || files.iter().map(|file| file.header().end_time);
        let end = if ends().all(|end| end.0 != 0) { ends().max() } else { None };
        let first = number;
        Ok(Sources {
            options,
            clock,
            first,
            brought,
            end,
            losses,
            events_lost,
            buffers_lost,
            is_shared,
            names,
            sessions,
        })
    }
}

impl Sources {
    /// Lets the records that are copied to the first buffer come in their turn, to be changed like all others.
    pub(super) fn take_first_in_turn(&mut self) {
        self.options.records.others.clear();
    }

    /// Returns the names of the files whose events are converted to the common clock.
    pub(super) fn brought_names(&self) -> Vec<String> {
        let names = self.names.iter().zip(&self.brought);
        names.filter(|(_, is_brought)| **is_brought).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the error that a file's clock cannot be converted to the common one.
    pub(super) fn other_clock(&self, other: usize) -> RelogError {
        other_clock(&self.names, self.first, other)
    }
}

/// Returns the error that a file's clock cannot be converted to that of the first.
fn other_clock(names: &[String], first: usize, other: usize) -> RelogError {
    let name = |number: usize| names.get(number).cloned().unwrap_or_default();
    RelogError::Clocks { first: name(first), other: name(other) }
}

/// Numbers sessions; the parts of a split session have equal headers and get the same number.
fn sessions(files: &[EtlFile<'_>]) -> Vec<usize> {
    let session = |file: &EtlFile<'_>| {
        let header = file.header();
        let LogFileHeader { start_time, anchor, boot_time, logger_name, .. } = header;
        let is_part = header.log_file_mode.contains(LogFileMode::RELOG);
        is_part.then(|| (*start_time, *anchor, *boot_time, logger_name.clone()))
    };
    let all: Vec<_> = files.iter().map(session).collect();
    let number = |own: usize| match all.get(own) {
        Some(session @ Some(_)) => all.iter().position(|other| other == session).unwrap_or(own),
        _ => own,
    };
    (0..files.len()).map(number).collect()
}

/// Sums up losses; the parts of a split trace report the same losses, and those of a session's files all since its start.
fn lost(files: &[EtlFile<'_>], sessions: &[usize]) -> (u32, u32) {
    let headers: Vec<_> = files.iter().map(|file| file.header().clone()).collect();
    let mut by_session = vec![(0, 0); files.len()];
    for (losses, session) in PartLosses::from_headers(&headers).iter().zip(sessions) {
        if let Some((events, buffers)) = by_session.get_mut(*session) {
            *events = losses.events.max(*events);
            *buffers = losses.buffers.max(*buffers);
        }
    }
    let sum = |of: fn(&(u32, u32)) -> u32| by_session.iter().map(of).fold(0, u32::saturating_add);
    (sum(|lost| lost.0), sum(|lost| lost.1))
}

/// Returns the records after the log file header in a file's first buffer, as far as they fit.
fn first_records(file: &EtlFile<'_>, buffer_size: usize) -> Vec<Vec<u8>> {
    let Some(Ok(buffer)) = file.buffers().next() else { return Vec::new() };
    let mut scratch = Vec::new();
    let data = buffer.data(&mut scratch);
    let origin = buffer.origin(file.clock(), 0);
    // The header of the output file may have longer names.
    let mut room = (buffer_size / 2).saturating_sub(BufferHeader::LEN_BYTES);
    let mut records = Vec::new();
    for record in Records::new(data.bytes, &origin, buffer.place()).flatten() {
        let is_extension =
            record.hook_id().is_some_and(|hook| hook.group() == 0 && hook != HookId::LOG_FILE_HEADER);
        if is_extension && record.stride_bytes() <= room {
            room -= record.stride_bytes();
            records.push(record.as_bytes().to_vec());
        }
    }
    records
}
