//! The header of the file that is written: what the headers of all files say together.

use etw_etl::{BufferFlags, BufferHeader, EtlFile, LogFileHeader, LogFileMode, Records, WriterOptions};
use etw_event::{Clock, FileTime, HookId};

use super::{Compression, RelogError, common_clock};
use crate::merge::one_clock;

/// What a file has for names that was made from several.
const RELOGGER: &str = "Relogger";
const SEVERAL_FILES: &str = "[multiple files]";
/// Sizes of buffers are multiples of this, and not larger than that.
const BUFFER_UNIT: u32 = 1024;
const MAX_BUFFER_SIZE: u32 = 16 << 20;

/// What the files that are read say together.
#[derive(Debug)]
pub(super) struct Sources {
    /// What a file that is made from them begins with.
    pub(super) options: WriterOptions,
    pub(super) clock: Clock,
    /// The number of the file whose header and clock it has.
    pub(super) first: usize,
    /// Which files' events are brought to that clock.
    pub(super) brought: Vec<bool>,
    /// When it ends; `None` if one of them was never closed.
    pub(super) end: Option<FileTime>,
    /// What their buffers say of losses.
    pub(super) losses: BufferFlags,
    /// The sum of what their headers say of losses.
    pub(super) events_lost: u32,
    pub(super) buffers_lost: u32,
    /// Whether processors share the buffers of a file, so that their order is none.
    pub(super) is_shared: bool,
    /// The names of the files.
    pub(super) names: Vec<String>,
    /// Which of the files are parts of one session's, as numbers of sessions.
    pub(super) sessions: Vec<usize>,
}

impl Sources {
    pub(super) fn new(
        files: &mut [EtlFile<'_>],
        names: Vec<String>,
        compression: Compression,
    ) -> Result<Sources, RelogError> {
        let clocks = one_clock::clocks(files);
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
        for file in files.iter() {
            let own = file.header();
            let of_header = own.buffer_size.min(MAX_BUFFER_SIZE);
            header.buffer_size = header.buffer_size.max(of_header.next_multiple_of(BUFFER_UNIT));
            header.number_of_processors = header.number_of_processors.max(own.number_of_processors);
            let mode = own.log_file_mode;
            is_compressed |= mode.has(LogFileMode::COMPRESSED);
            is_shared |=
                mode.has(LogFileMode::NO_PER_PROCESSOR_BUFFERING) || mode.has(LogFileMode::PRIVATE_LOGGER);
            for buffer in file.buffers().flatten() {
                let BufferHeader { offset, buffer_flag, .. } = buffer.header;
                let size = offset.min(MAX_BUFFER_SIZE).next_multiple_of(BUFFER_UNIT);
                header.buffer_size = header.buffer_size.max(size);
                let processors = u32::from(buffer.header.processor()) + 1;
                header.number_of_processors = header.number_of_processors.max(processors);
                losses.0 |= buffer_flag.0 & BufferFlags::LOSSES.0;
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
    /// The names of the files whose events are brought to the clock.
    pub(super) fn brought_names(&self) -> Vec<String> {
        let names = self.names.iter().zip(&self.brought);
        names.filter(|(_, is_brought)| **is_brought).map(|(name, _)| name.clone()).collect()
    }

    /// That a file has another clock, and cannot be brought to the one that counts.
    pub(super) fn other_clock(&self, other: usize) -> RelogError {
        other_clock(&self.names, self.first, other)
    }
}

/// That a file has another clock than the one whose clock counts.
fn other_clock(names: &[String], first: usize, other: usize) -> RelogError {
    let name = |number: usize| names.get(number).cloned().unwrap_or_default();
    RelogError::Clocks { first: name(first), other: name(other) }
}

/// Gives parts of one session's file one number: what a session was split into has its header.
fn sessions(files: &[EtlFile<'_>]) -> Vec<usize> {
    let session = |file: &EtlFile<'_>| {
        let header = file.header();
        let LogFileHeader { start_time, anchor, boot_time, logger_name, .. } = header;
        let is_part = header.log_file_mode.has(LogFileMode::RELOG);
        is_part.then(|| (*start_time, *anchor, *boot_time, logger_name.clone()))
    };
    let all: Vec<_> = files.iter().map(session).collect();
    let number = |own: usize| match all.get(own) {
        Some(session @ Some(_)) => all.iter().position(|other| other == session).unwrap_or(own),
        _ => own,
    };
    (0..files.len()).map(number).collect()
}

/// The sums of what was lost; parts of one session's file tell the same losses.
fn lost(files: &[EtlFile<'_>], sessions: &[usize]) -> (u32, u32) {
    let mut by_session = vec![(0, 0); files.len()];
    for (file, session) in files.iter().zip(sessions) {
        if let Some((events, buffers)) = by_session.get_mut(*session) {
            *events = file.header().events_lost.max(*events);
            *buffers = file.header().buffers_lost.max(*buffers);
        }
    }
    let sum = |of: fn(&(u32, u32)) -> u32| by_session.iter().map(of).fold(0, u32::saturating_add);
    (sum(|lost| lost.0), sum(|lost| lost.1))
}

/// The records behind the log file header in a file's first buffer, as far as there is room for them.
fn first_records(file: &EtlFile<'_>, buffer_size: usize) -> Vec<Vec<u8>> {
    let Some(Ok(buffer)) = file.buffers().next() else { return Vec::new() };
    let mut scratch = Vec::new();
    let data = buffer.data(&mut scratch);
    let origin = buffer.origin(file.clock(), 0);
    // The header of this file may have longer names.
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
