//! The parts of a session that starts a new file from time to time (`EVENT_TRACE_FILE_MODE_NEWFILE`).
//!
//! The header of each part counts what the session has lost since its start, not since the part before (Observed: parts
//! of one session whose counts only grow, beside a session's final count that equals the last part's).

use etw_etl::{LogFileHeader, LogFileMode};

use crate::one_clock;

/// What a file lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartLosses {
    /// Events lost.
    pub events: u32,
    /// Buffers lost.
    pub buffers: u32,
    /// Whether that includes what earlier parts of the session lost, which are not known.
    pub since_start: bool,
}

impl PartLosses {
    /// Returns what each file lost: for a part of a session, the difference from the part before it among the files.
    ///
    /// ```
    /// use etw_consumer::PartLosses;
    /// use etw_etl::{LogFileHeader, LogFileMode};
    /// use etw_event::{Clock, FileTime};
    ///
    /// let part = |start: i64, lost: u32| {
    ///     let mut header = LogFileHeader::new(Clock::system_time(), 65_536, 8);
    ///     header.logger_name = "Nightly".to_owned();
    ///     header.log_file_mode = LogFileMode::NEW_FILE;
    ///     (header.boot_time, header.start_time) = (FileTime(1), FileTime(start));
    ///     header.events_lost = lost;
    ///     header
    /// };
    /// let losses = PartLosses::from_headers(&[part(10, 100), part(20, 456)]);
    /// assert_eq!((losses[0].events, losses[0].since_start), (100, true));
    /// assert_eq!((losses[1].events, losses[1].since_start), (356, false));
    /// ```
    pub fn from_headers(headers: &[LogFileHeader]) -> Vec<PartLosses> {
        headers.iter().map(|header| PartLosses::among(header, headers)).collect()
    }

    /// Returns what one file lost, as [`PartLosses::from_headers`]; `headers` are those of the files among which the part before it
    /// is looked for.
    pub fn among(header: &LogFileHeader, headers: &[LogFileHeader]) -> PartLosses {
        let (events, buffers) = (header.events_lost, header.buffers_lost);
        if !header.log_file_mode.contains(LogFileMode::NEW_FILE) || (events, buffers) == (0, 0) {
            return PartLosses { events, buffers, since_start: false };
        }
        let earlier = headers.iter().filter(|other| is_earlier_part(other, header));
        match earlier.max_by_key(|other| other.start_time) {
            Some(before) => PartLosses {
                events: events - before.events_lost,
                buffers: buffers - before.buffers_lost,
                since_start: false,
            },
            None => PartLosses { events, buffers, since_start: true },
        }
    }
}

/// Whether a file is an earlier part of the same session.
fn is_earlier_part(other: &LogFileHeader, header: &LogFileHeader) -> bool {
    other.log_file_mode.contains(LogFileMode::NEW_FILE)
        && other.logger_name == header.logger_name
        && one_clock::same_boot(other, header)
        && other.start_time < header.start_time
        && other.events_lost <= header.events_lost
        && other.buffers_lost <= header.buffers_lost
}
