//! The sessions of a host.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use etw_event::{FileTime, Guid};
use etw_protocol::limits::MAX_USERS_LISTED;
use etw_protocol::{
    Enable, EnableProperties, ErrorKind, Failure, ProcessStatus, SessionProperties, SessionState,
    SessionStatus,
};
use etw_sys::credentials::Peer;

use crate::logger::{
    self, ConsumerFiles, ConsumerId, Logger, LoggerError, LoggerState, RegionId, SessionConfig, Statistics,
};

use super::registry::Registration;

/// Maximum number of processes that a session remembers.
const MAX_PROCESSES: usize = 4096;

/// A running session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) properties: SessionProperties,
    /// Distinguishes successive sessions in the same slot.
    pub(crate) serial: u64,
    pub(crate) slot: u8,
    pub(crate) logger: Arc<Logger>,
    pub(crate) owner: Peer,
    /// The connection whose end stops the session.
    pub(crate) lease: Option<u64>,
    pub(crate) start_time: FileTime,
    pub(super) enables: BTreeMap<EnableKey, Enable>,
    /// Regions by connection.
    pub(crate) regions: HashMap<u64, RegionId>,
    /// The processes that have had regions, newest last.
    pub(crate) processes: VecDeque<ProcessStatus>,
    /// Number of processes that were forgotten because there were too many.
    forgotten: u64,
    /// The reason why a process could not write to it; empty if there was none.
    pub(crate) last_failure: String,
    /// Consumers by connection; `None` until the logger has created the ring.
    pub(crate) consumers: HashMap<u64, Option<ConsumerId>>,
    /// The connections that wait for the session to stop; `None` until a stop is requested.
    pub(crate) stop_askers: Option<Vec<u64>>,
    /// The region for system events, if the session has them.
    pub(crate) system_region: Option<RegionId>,
    /// System events that it requested and does not get.
    pub(crate) system_missing: Vec<String>,
    /// The file that the starter opened; the logger refers to it by number while it is open.
    pub(crate) files: Vec<OwnedFd>,
}

/// The target of an enable: a provider, or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EnableKey {
    guid: Guid,
    is_group: bool,
}

impl EnableKey {
    pub(super) fn guid(&self) -> Guid {
        self.guid
    }
}

/// The result of work that a thread did for the host.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) slot: u8,
    pub(crate) serial: u64,
    /// The connection that made the request.
    pub(crate) token: Option<u64>,
    pub(crate) outcome: Outcome,
}

/// The result itself.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The session has stopped; with descriptions of incomplete system data.
    Stopped(Vec<String>),
    Asked(Result<(), Failure>),
    /// The command line of a process of the connection.
    Described(Peer, String),
    /// The properties were changed; they are stored if that succeeded.
    Updated(Box<SessionProperties>, Result<(), Failure>),
    Consumer(Result<ConsumerFiles, Failure>),
}

impl Session {
    pub(super) fn new(
        slot: u8,
        serial: u64,
        properties: SessionProperties,
        logger: Logger,
        owner: Peer,
        lease: Option<u64>,
        file: Option<OwnedFd>,
    ) -> Session {
        Session {
            properties,
            serial,
            slot,
            logger: Arc::new(logger),
            owner,
            lease,
            start_time: FileTime(i64::try_from(etw_sys::clock::filetime()).unwrap_or(i64::MAX)),
            enables: Default::default(),
            regions: Default::default(),
            processes: Default::default(),
            forgotten: 0,
            last_failure: String::new(),
            consumers: Default::default(),
            stop_askers: None,
            system_region: None,
            system_missing: Vec::new(),
            files: file.into_iter().collect(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.properties.logger_name
    }

    /// Returns the number of the session.
    pub(crate) fn logger_id(&self) -> u16 {
        u16::from(self.slot) + 1
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_askers.is_some()
    }

    pub(crate) fn enables(&self) -> impl Iterator<Item = (Guid, &Enable)> {
        self.enables.iter().map(|(key, enable)| (key.guid, enable))
    }

    /// Iterates over what is enabled, from `from` on.
    pub(super) fn enables_from(
        &self,
        from: Option<EnableKey>,
    ) -> impl Iterator<Item = (&EnableKey, &Enable)> {
        let from = from.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Included);
        self.enables.range((from, std::ops::Bound::Unbounded))
    }

    /// Iterates over the processes that have had regions, from `from` on, with their numbers.
    pub(super) fn processes_from(&self, from: u64) -> impl Iterator<Item = (u64, &ProcessStatus)> {
        let skipped = usize::try_from(from.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        self.processes
            .iter()
            .enumerate()
            .skip(skipped)
            .map(|(index, process)| (self.forgotten + index as u64, process))
    }

    pub(crate) fn enables_len(&self) -> usize {
        self.enables.len()
    }

    pub(crate) fn has_enabled(&self, guid: Guid) -> bool {
        [false, true]
            .iter()
            .any(|is_group| self.enables.contains_key(&EnableKey { guid, is_group: *is_group }))
    }

    pub(crate) fn enable(&mut self, guid: Guid, enable: Enable) {
        let is_group = enable.properties.contains(EnableProperties::PROVIDER_GROUP);
        self.enables.insert(EnableKey { guid, is_group }, enable);
        self.tell_logger();
    }

    fn tell_logger(&self) {
        self.logger.set_enabled(self.enables.keys().map(EnableKey::guid).collect());
    }

    /// Disables a provider or group, and returns whether it was enabled.
    pub(crate) fn disable(&mut self, guid: Guid) -> bool {
        let mut remove = |is_group| self.enables.remove(&EnableKey { guid, is_group }).is_some();
        let was_enabled = remove(false) | remove(true);
        self.tell_logger();
        was_enabled
    }

    /// Returns the settings for a provider: by its GUID, otherwise by its name, otherwise by its group.
    pub(crate) fn wants(&self, registration: &Registration) -> Option<&Enable> {
        if self.is_stopping() {
            return None;
        }
        let of = |guid, is_group| self.enables.get(&EnableKey { guid, is_group });
        of(registration.guid, false)
            .or_else(|| if registration.named.is_zero() { None } else { of(registration.named, false) })
            .or_else(|| if registration.group.is_zero() { None } else { of(registration.group, true) })
    }

    /// Records a process that may write from now on.
    pub(crate) fn remember(&mut self, process: &ProcessStatus) {
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.pop_front();
            self.forgotten += 1;
        }
        self.processes.push_back(process.clone());
    }

    pub(crate) fn status(&self) -> SessionStatus {
        self.status_of(self.logger.statistics())
    }

    fn status_of(&self, found: Statistics) -> SessionStatus {
        let state = match found.state {
            LoggerState::Running => SessionState::Running,
            LoggerState::Failing => SessionState::Failing,
            LoggerState::Ended(_) => SessionState::Stopped,
        };
        let last_error = if found.last_error.is_empty() { &self.last_failure } else { &found.last_error };
        let last_error = last_error.chars().filter(|c| !c.is_control()).take(1000).collect();
        SessionStatus {
            properties: self.properties.clone(),
            logger_id: self.logger_id(),
            state,
            number_of_buffers: found.number_of_buffers,
            free_buffers: found.free_buffers,
            events_lost: found.events_lost,
            events_written: found.events_written,
            buffers_written: found.buffers_written,
            log_buffers_lost: found.log_buffers_lost,
            log_events_lost: found.log_events_lost,
            real_time_buffers_lost: found.real_time_buffers_lost,
            real_time_events_lost: found.real_time_events_lost,
            bytes_written: found.bytes_written,
            logger_thread_id: found.logger_thread_id,
            start_time: self.start_time,
            owner_uid: self.owner.uid,
            owner_pid: self.owner.pid,
            leased: self.lease.is_some(),
            consumers: u32::try_from(self.consumers.len()).unwrap_or(u32::MAX),
            processes: u32::try_from(self.regions.len()).unwrap_or(u32::MAX),
            enabled_providers: u32::try_from(self.enables.len()).unwrap_or(u32::MAX),
            last_error,
            system_missing: self.system_missing.clone(),
            events_refused: found.events_refused,
            users: self.logger.users().into_iter().take(MAX_USERS_LISTED).collect(),
        }
    }
}

/// Returns the configuration of the logger. `file` is the path under which to open `log_file_name`, and `file_group` may
/// read it.
pub(crate) fn config_of(
    p: &SessionProperties,
    logger_id: u16,
    owner: &Peer,
    file: Option<PathBuf>,
    file_group: Option<u32>,
) -> SessionConfig {
    SessionConfig {
        logger_id,
        buffer_bytes: p.buffer_size.saturating_mul(1024),
        minimum_buffers: p.minimum_buffers,
        maximum_buffers: p.maximum_buffers,
        maximum_file_size: p.maximum_file_size,
        log_file_mode: p.log_file_mode,
        flush_timer: Duration::from_millis(p.flush_timer_millis.into()),
        flush_threshold: p.flush_threshold,
        clock: match p.clock {
            etw_protocol::SessionClock::Qpc => logger::SessionClock::Qpc,
            etw_protocol::SessionClock::SystemTime => logger::SessionClock::SystemTime,
            etw_protocol::SessionClock::CpuCycle => logger::SessionClock::CpuCycle,
        },
        log_file_name: file,
        file_group,
        process_id: owner.pid,
        ..SessionConfig::new(&p.logger_name)
    }
}

/// Converts a logger's error for controllers.
pub(crate) fn failure_of(session: &str, error: LoggerError) -> Failure {
    let kind = match &error {
        LoggerError::BufferSize { .. } | LoggerError::MaximumBuffers { .. } | LoggerError::NewFile => {
            ErrorKind::InvalidParameter
        }
        LoggerError::NotNewFile | LoggerError::NotBuffering => ErrorKind::NotSupported,
        LoggerError::File { .. } => ErrorKind::File,
        LoggerError::Ended => ErrorKind::NotFound,
        _ => ErrorKind::NoSystemResources,
    };
    Failure::new(kind, format!("session '{session}': {error}"))
}
