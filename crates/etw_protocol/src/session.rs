//! Properties and status of sessions.

use std::fmt;

use serde::{Deserialize, Serialize};

use etw_etl::LogFileMode;
use etw_event::{FileTime, Guid, Keyword, Level};

use crate::codec::{at_most, text};
use crate::limits::{
    MAX_COMMAND_LINE_BYTES, MAX_MISSING, MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PIDS_LISTED, MAX_REFUSED_LISTED,
    MAX_SLOTS, MAX_STACK_TRACING, MAX_USERS_LISTED,
};
use crate::{Enable, EnableProperties, ProtocolError, wire};

/// Properties of a session (`EVENT_TRACE_PROPERTIES`). Fields have the names of `evntrace.h`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionProperties {
    /// Name, unique ignoring case; 1 to 1024 bytes.
    pub logger_name: String,
    /// Identity of the session (`Wnode.Guid`); if zero, the host creates one.
    #[serde(with = "wire::guid")]
    pub guid: Guid,
    /// Buffer size in KiB, from 4 to 16384.
    pub buffer_size: u32,
    /// Minimum number of buffers; 0 lets the host choose.
    pub minimum_buffers: u32,
    /// Maximum number of buffers; 0 lets the host choose.
    pub maximum_buffers: u32,
    /// Maximum file size in MiB, or KiB with `KBYTES_FOR_SIZE`; the mode decides what happens then. 0 is unlimited.
    pub maximum_file_size: u32,
    /// The mode.
    #[serde(with = "wire::mode")]
    pub log_file_mode: LogFileMode,
    /// Milliseconds after which partly filled buffers are written; 0 lets the host choose.
    pub flush_timer_millis: u32,
    /// Number of full buffers that are written together; 0 and 1 write each as it becomes full.
    pub flush_threshold: u32,
    /// Clock of the time stamps (`Wnode.ClientContext`).
    pub clock: SessionClock,
    /// `EnableFlags` of a system logger.
    pub enable_flags: u32,
    /// Hook ids of the system events that have stacks (`TraceStackTracingInfo`); if empty, the events of the sampled
    /// profile have them.
    pub stack_tracing: Vec<u16>,
    /// Sampling interval of the sampled profile, in units of 100 ns (`TraceSampledProfileIntervalInfo`); 0 lets the
    /// host choose.
    pub sample_interval: u32,
    /// The file, as an absolute path; empty for none.
    pub log_file_name: String,
}

/// Clock of a session's time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SessionClock {
    /// The performance counter.
    #[default]
    Qpc = 1,
    /// The system time.
    SystemTime = 2,
    /// The processor's cycle counter.
    CpuCycle = 3,
}

/// Changes to a running session (`EVENT_TRACE_CONTROL_UPDATE`); `None` leaves a property unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionUpdate {
    /// Maximum number of buffers.
    pub maximum_buffers: Option<u32>,
    /// Milliseconds after which partly filled buffers are written.
    pub flush_timer_millis: Option<u32>,
    /// Another file, as an absolute path: the current one is closed and the session continues in this one.
    pub log_file_name: Option<String>,
    /// Whether events are delivered in real time.
    pub real_time: Option<bool>,
    /// `EnableFlags` of a system logger.
    pub enable_flags: Option<u32>,
    /// Hook ids of the system events that have stacks.
    pub stack_tracing: Option<Vec<u16>>,
    /// Sampling interval of the sampled profile, in units of 100 ns.
    pub sample_interval: Option<u32>,
}

/// Status and statistics of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The properties that it was started and updated with, including those chosen by the host.
    pub properties: SessionProperties,
    /// Number of the session, unique while it runs.
    pub logger_id: u16,
    /// Whether it is running.
    pub state: SessionState,
    /// Current number of buffers.
    pub number_of_buffers: u32,
    /// Number of free buffers among them.
    pub free_buffers: u32,
    /// Events that were lost before they reached a buffer.
    pub events_lost: u64,
    /// Events that are in buffers, written or not.
    pub events_written: u64,
    /// Buffers that were written to the file or delivered to consumers.
    pub buffers_written: u64,
    /// Buffers that could not be written to the file.
    pub log_buffers_lost: u64,
    /// Events in those.
    pub log_events_lost: u64,
    /// Buffers and parts of buffers that consumers missed, summed over the consumers.
    pub real_time_buffers_lost: u64,
    /// Events in those.
    pub real_time_events_lost: u64,
    /// Bytes that were written to the file.
    pub bytes_written: u64,
    /// Thread of the host that empties the buffers (`LoggerThreadId`).
    pub logger_thread_id: u32,
    /// When it was started, UTC.
    #[serde(with = "wire::filetime")]
    pub start_time: FileTime,
    /// User who owns the session.
    pub owner_uid: u32,
    /// Process that started it.
    pub owner_pid: u32,
    /// Whether it ends with the connection of its starter.
    pub leased: bool,
    /// Number of real-time consumers.
    pub consumers: u32,
    /// Number of processes that have a region of it.
    pub processes: u32,
    /// Number of enabled providers.
    pub enabled_providers: u32,
    /// The last error, such as a full disk; empty if there was none.
    pub last_error: String,
    /// System events that it requested and does not get, one line for each with the reason.
    pub system_missing: Vec<String>,
    /// Records that processes were not allowed to write.
    pub events_refused: u64,
    /// What each user with processes in the session takes and loses.
    pub users: Vec<UserStatus>,
}

/// What a session has lost. Buffers are counted only where it is not known how many events they had, and are never added to
/// events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SessionLoss {
    /// Events that are in no file, and that no consumer can get: lost before they reached a buffer, or with buffers that
    /// could not be written.
    pub events: u64,
    /// Buffers that could not be written, of unknown numbers of events (Windows).
    pub buffers: u64,
    /// Events that consumers missed, summed over the consumers; a file has them.
    pub missed_events: u64,
    /// Buffers that consumers missed, of unknown numbers of events (Windows).
    pub missed_buffers: u64,
}

impl SessionLoss {
    /// Whether nothing was lost or missed.
    pub fn is_none(&self) -> bool {
        *self == SessionLoss::default()
    }
}

/// `0 events lost`; `3 events lost, 2 buffers lost, 7 events missed by consumers`.
impl fmt::Display for SessionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events lost", self.events)?;
        for (count, what) in [
            (self.buffers, "buffers lost"),
            (self.missed_events, "events missed by consumers"),
            (self.missed_buffers, "buffers missed by consumers"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl SessionStatus {
    /// Returns what it has lost.
    pub fn loss(&self) -> SessionLoss {
        let uncounted = |buffers: u64, events: u64| if events == 0 { buffers } else { 0 };
        SessionLoss {
            events: self.events_lost + self.log_events_lost,
            buffers: uncounted(self.log_buffers_lost, self.log_events_lost),
            missed_events: self.real_time_events_lost,
            missed_buffers: uncounted(self.real_time_buffers_lost, self.real_time_events_lost),
        }
    }
}

/// What the processes of one user have in a session, and what became of their events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserStatus {
    /// The user id.
    pub uid: u32,
    /// Regions, with those of processes that have ended and are not read to their end.
    pub regions: u32,
    /// Buffers that the processes may use.
    pub buffers: u32,
    /// Events that they have written.
    pub events_written: u64,
    /// Events that they lost, or say they lost.
    pub events_lost: u64,
    /// Records that they may not write: of providers that they have not registered or the session has not enabled, or with
    /// headers of the kernel.
    pub events_refused: u64,
    /// The processes with the most refused records, and their number.
    pub refused_by_process: Vec<(u32, u64)>,
    /// Regions that they did not get, because the user has as many as one may have.
    pub regions_refused: u64,
}

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// It is recording.
    Running,
    /// It has been stopped; the statistics are final.
    Stopped,
    /// It is recording, but cannot write its file.
    Failing,
}

/// A provider that a session has enabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnableStatus {
    /// Provider or group.
    #[serde(with = "wire::guid")]
    pub provider: Guid,
    /// Name under which the provider registered; empty if no process has registered it.
    pub name: String,
    /// The parameters.
    pub enable: Enable,
    /// Number of processes that have registered it and pass the filters.
    pub processes: u32,
}

/// A provider that processes have registered.
///
/// A provider in very many processes is split over several consecutive items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderStatus {
    /// The provider.
    #[serde(with = "wire::guid")]
    pub guid: Guid,
    /// Its name; empty if unknown.
    pub name: String,
    /// Its group; zero if it has none.
    #[serde(with = "wire::guid")]
    pub group: Guid,
    /// Processes that have registered it.
    pub pids: Vec<u32>,
    /// Numbers of the sessions that have enabled it.
    pub sessions: Vec<u16>,
    /// The parameters of each of those, and the processes in which it is enabled (`TRACE_ENABLE_INFO`).
    pub enables: Vec<ProviderEnable>,
}

/// How a session has enabled a registered provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderEnable {
    /// Number of the session.
    pub logger_id: u16,
    /// Maximum level; 0 for all.
    #[serde(with = "wire::level")]
    pub level: Level,
    /// Only events with at least one of these keywords; 0 for all.
    #[serde(with = "wire::keyword")]
    pub any: Keyword,
    /// Of those, only events with all of these keywords.
    #[serde(with = "wire::keyword")]
    pub all: Keyword,
    /// Extended data to add to each event, and special rules.
    pub properties: EnableProperties,
    /// Processes in which it is enabled: those that pass its filters and the access list.
    pub pids: Vec<u32>,
}

/// A process that writes to a session, or has written to it, as of the registration of its first provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its process id in the host's PID namespace.
    pub pid: u32,
    /// Process id of its parent.
    pub parent_pid: u32,
    /// Path of its program; empty if it could not be determined.
    pub image: String,
    /// Its arguments, starting with the program's name, separated by spaces.
    pub command_line: String,
}

impl Default for SessionProperties {
    /// Buffers of 64 KiB, at most 128 MiB of them, the performance counter, a sequential file of any size, and no name
    /// yet.
    fn default() -> SessionProperties {
        SessionProperties {
            logger_name: String::new(),
            guid: Guid::ZERO,
            buffer_size: 64,
            minimum_buffers: 0,
            maximum_buffers: 0,
            maximum_file_size: 0,
            log_file_mode: LogFileMode::empty(),
            flush_timer_millis: 0,
            flush_threshold: 0,
            clock: SessionClock::Qpc,
            enable_flags: 0,
            stack_tracing: Vec::new(),
            sample_interval: 0,
            log_file_name: String::new(),
        }
    }
}

impl SessionProperties {
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        text("a session's name", &self.logger_name, MAX_NAME_BYTES)?;
        at_most("events with stacks", self.stack_tracing.len(), MAX_STACK_TRACING)?;
        text("the name of a session's file", &self.log_file_name, MAX_PATH_BYTES)
    }
}

impl SessionUpdate {
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        let stack_tracing = self.stack_tracing.as_ref().map_or(0, Vec::len);
        at_most("events with stacks", stack_tracing, MAX_STACK_TRACING)?;
        text(
            "the name of a session's file",
            self.log_file_name.as_deref().unwrap_or_default(),
            MAX_PATH_BYTES,
        )
    }
}

impl SessionStatus {
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        self.properties.check()?;
        text("a session's last error", &self.last_error, MAX_PATH_BYTES)?;
        at_most("things that a session lacks", self.system_missing.len(), MAX_MISSING)?;
        at_most("users of a session", self.users.len(), MAX_USERS_LISTED)?;
        for user in &self.users {
            at_most("processes of a user", user.refused_by_process.len(), MAX_REFUSED_LISTED)?;
        }
        self.system_missing.iter().try_for_each(|line| text("what a session lacks", line, MAX_NAME_BYTES))
    }
}

impl EnableStatus {
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        text("a provider's name", &self.name, MAX_NAME_BYTES)?;
        self.enable.check()
    }
}

impl ProviderStatus {
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        text("a provider's name", &self.name, MAX_NAME_BYTES)?;
        at_most("processes of a provider", self.pids.len(), MAX_PIDS_LISTED)?;
        at_most("sessions of a provider", self.enables.len(), usize::from(MAX_SLOTS))?;
        let pids = self.enables.iter().map(|enable| enable.pids.len()).max().unwrap_or(0);
        at_most("processes of a provider", pids, MAX_PIDS_LISTED)
    }
}

impl ProcessStatus {
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        text("the path of a program", &self.image, MAX_PATH_BYTES)?;
        text("a command line", &self.command_line, MAX_COMMAND_LINE_BYTES)
    }
}

/// Returns whether two session names are equal: ETW ignores case.
pub fn session_name_eq(one: &str, other: &str) -> bool {
    one == other || one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase))
}
