//! Statistics of a session: updated by its thread, readable by all others at any time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Statistics of a session, named as in `EVENT_TRACE_PROPERTIES`.
///
/// At any time every event that a provider wrote is counted exactly once in `events_written` or `events_lost`, or is
/// still in a region.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// The state of the session.
    pub state: LoggerState,
    /// Number of buffers: those available to processes, those being filled for output, and those in memory; at least as many
    /// as the session was told to have.
    pub number_of_buffers: u32,
    /// Number of those that contain no events of processes, or are not in memory yet.
    pub free_buffers: u32,
    /// Events copied from regions into the session's buffers.
    pub events_written: u64,
    /// Events that never reached the session: no buffer was free, or the writer died or stalled while writing.
    pub events_lost: u64,
    /// Records that processes were not allowed to write.
    pub events_refused: u64,
    /// Buffers written to files, including the header buffers.
    pub buffers_written: u64,
    /// Buffers that could not be written to the file.
    pub log_buffers_lost: u64,
    /// Events in those.
    pub log_events_lost: u64,
    /// Buffers and partial buffers that consumers missed, summed over the consumers.
    pub real_time_buffers_lost: u64,
    /// Events in those.
    pub real_time_events_lost: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Thread that drains the buffers (`LoggerThreadId`).
    pub logger_thread_id: u32,
    /// Number of regions of processes.
    pub regions: u32,
    /// Number of real-time consumers.
    pub consumers: u32,
    /// The last error, such as a full disk; empty if there was none.
    pub last_error: String,
}

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoggerState {
    /// It is recording.
    #[default]
    Running,
    /// It is recording, but cannot write its file.
    Failing,
    /// It has stopped; the statistics are final.
    Ended(EndReason),
}

/// The reason why a session stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It was stopped.
    Stopped,
    /// Its file has reached the maximum size.
    FileFull,
}

/// The counters from which [`Statistics`] is read.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Free buffers of processes.
    pub(super) free_buffers: AtomicU32,
    pub(super) events_written: AtomicU64,
    pub(super) events_lost: AtomicU64,
    pub(super) events_refused: AtomicU64,
    pub(super) buffers_written: AtomicU64,
    pub(super) log_buffers_lost: AtomicU64,
    pub(super) log_events_lost: AtomicU64,
    pub(super) real_time_buffers_lost: AtomicU64,
    pub(super) real_time_events_lost: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) logger_thread_id: AtomicU32,
    pub(super) regions: AtomicU32,
    pub(super) consumers: AtomicU32,
    texts: Mutex<(LoggerState, String)>,
}

impl Counters {
    /// Returns the statistics of a session that has `allocated` buffers in memory, of at least `minimum`.
    pub(super) fn read(&self, allocated: u32, minimum: u32) -> Statistics {
        let number_of_buffers = allocated.max(minimum);
        let free_buffers = self.free_buffers.load(Relaxed) + (number_of_buffers - allocated);
        let (state, last_error) = self.texts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Statistics {
            state,
            number_of_buffers,
            free_buffers: free_buffers.min(number_of_buffers),
            events_written: self.events_written.load(Relaxed),
            events_lost: self.events_lost.load(Relaxed),
            events_refused: self.events_refused.load(Relaxed),
            buffers_written: self.buffers_written.load(Relaxed),
            log_buffers_lost: self.log_buffers_lost.load(Relaxed),
            log_events_lost: self.log_events_lost.load(Relaxed),
            real_time_buffers_lost: self.real_time_buffers_lost.load(Relaxed),
            real_time_events_lost: self.real_time_events_lost.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            logger_thread_id: self.logger_thread_id.load(Relaxed),
            regions: self.regions.load(Relaxed),
            consumers: self.consumers.load(Relaxed),
            last_error,
        }
    }

    pub(super) fn set_state(&self, state: LoggerState) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).0 = state;
    }

    pub(super) fn set_error(&self, error: String) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).1 = error;
    }
}

/// Adds to a counter that only one thread changes; cheaper than an atomic addition.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
}
