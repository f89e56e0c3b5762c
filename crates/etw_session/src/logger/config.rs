//! Configuration of a session.

use std::path::PathBuf;
use std::time::Duration;

use etw_buffer::Geometry;
use etw_etl::LogFileMode;
use etw_event::ClockType;
use etw_sys::clock::ClockSource;

use super::LoggerError;

/// Configuration of a session (`EVENT_TRACE_PROPERTIES`, `evntrace.h`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Name of the session.
    pub logger_name: String,
    /// Number of the session, unique while it runs.
    pub logger_id: u16,
    /// Buffer size in bytes: a multiple of 1024, 4 KiB to 16 MiB.
    pub buffer_bytes: u32,
    /// Buffers that count as the session's even if it needs fewer.
    pub minimum_buffers: u32,
    /// Maximum number of buffers: of processes, for output, and in memory.
    pub maximum_buffers: u32,
    /// Maximum file size in MiB, or KiB with `KBYTES_FOR_SIZE`; the mode decides what happens then. 0 is unlimited.
    pub maximum_file_size: u32,
    /// The mode. The logger uses these bits: `CIRCULAR`, `APPEND`, `NEW_FILE`, `PREALLOCATE`, `REAL_TIME`,
    /// `BUFFERING`, `KBYTES_FOR_SIZE`, `NO_PER_PROCESSOR_BUFFERING`.
    pub log_file_mode: LogFileMode,
    /// Time after which partly filled buffers are written. Zero: only when they are full.
    pub flush_timer: Duration,
    /// Number of full buffers that are written together; 0 and 1 write each as it becomes full.
    pub flush_threshold: u32,
    /// Clock of the time stamps.
    pub clock: SessionClock,
    /// The file, if any. With `NEW_FILE` it contains `%d`, which is replaced by 1, 2 and so on.
    pub log_file_name: Option<PathBuf>,
    /// The group that may read the files, which are otherwise readable by their owner only.
    pub file_group: Option<u32>,
    /// Process that started the session, for the log file header.
    pub process_id: u32,
    /// Its thread.
    pub thread_id: u32,
}

/// Clock of a session's time stamps (`Wnode.ClientContext`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionClock {
    /// The performance counter.
    #[default]
    Qpc,
    /// The system time.
    SystemTime,
    /// The processor's cycle counter.
    CpuCycle,
}

/// Changes to a running session; `None` leaves a property unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionUpdate {
    /// Maximum number of buffers.
    pub maximum_buffers: Option<u32>,
    /// Time after which partly filled buffers are written.
    pub flush_timer: Option<Duration>,
    /// Number of full buffers that are written together.
    pub flush_threshold: Option<u32>,
    /// Another file: the current one is completed, and the session continues in this one.
    pub log_file_name: Option<PathBuf>,
    /// Whether events are delivered to consumers.
    pub real_time: Option<bool>,
}

impl SessionConfig {
    /// Creates a sequential session on the performance counter with 2048 buffers of 64 KiB and a flush timer of one
    /// second. The caller must add an output: a file, `BUFFERING` or `REAL_TIME`.
    pub fn new(logger_name: &str) -> SessionConfig {
        SessionConfig {
            logger_name: logger_name.to_owned(),
            logger_id: 1,
            buffer_bytes: 0x1_0000,
            minimum_buffers: 0,
            maximum_buffers: 2048,
            maximum_file_size: 0,
            log_file_mode: LogFileMode::empty(),
            flush_timer: Duration::from_secs(1),
            flush_threshold: 0,
            clock: SessionClock::Qpc,
            log_file_name: None,
            file_group: None,
            process_id: std::process::id(),
            thread_id: etw_sys::ids::thread_and_process() as u32,
        }
    }

    pub(super) fn has(&self, mode: LogFileMode) -> bool {
        self.log_file_mode.contains(mode)
    }

    /// What a region of this session consists of.
    pub(super) fn geometry(&self) -> Result<Geometry, LoggerError> {
        let processors = u16::try_from(etw_sys::cpu::possible()).unwrap_or(u16::MAX);
        let buffers = self.maximum_buffers.min(u32::from(Geometry::MAX_BUFFERS)) as u16;
        let size = self.buffer_bytes;
        if !(0x1000..=Geometry::MAX_BUFFER_BYTES).contains(&size) || !size.is_multiple_of(1024) {
            return Err(LoggerError::BufferSize { size });
        }
        // One for a process, and one to put its events in order.
        if buffers < 2 {
            return Err(LoggerError::MaximumBuffers { buffers: self.maximum_buffers });
        }
        let has_number =
            self.log_file_name.as_ref().is_some_and(|path| path.to_string_lossy().contains("%d"));
        if self.has(LogFileMode::NEW_FILE) && (!has_number || self.maximum_file_size == 0) {
            return Err(LoggerError::NewFile);
        }
        Ok(Geometry { processors, buffers, buffer_bytes: size })
    }
}

impl SessionClock {
    /// Where readings come from.
    pub fn source(self) -> ClockSource {
        match self {
            SessionClock::Qpc => ClockSource::of_performance_counter(),
            SessionClock::SystemTime => ClockSource::System,
            SessionClock::CpuCycle => ClockSource::Counter,
        }
    }

    /// The type in the log file header.
    pub fn clock_type(self) -> ClockType {
        match self {
            SessionClock::Qpc => ClockType::Qpc,
            SessionClock::SystemTime => ClockType::SystemTime,
            SessionClock::CpuCycle => ClockType::CpuCycle,
        }
    }
}
