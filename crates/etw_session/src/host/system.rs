//! Passing the system events that sessions request to the system provider.

use std::sync::Arc;

use etw_event::{Guid, Keyword, Level, classes};
use etw_protocol::limits::MAX_MISSING;
use etw_protocol::{EnableProperties, ErrorKind, Failure, SessionProperties};
use etw_sys::credentials::Peer;

use crate::logger::Logger;

use super::access::Right;
use super::control::denied;
use super::options::{Description, SystemProvider, SystemWants};
use super::run::Host;
use super::sessions::{Outcome, Session, failure_of};

/// The `EnableFlags` of processes and images (`EVENT_TRACE_FLAG_PROCESS`, `EVENT_TRACE_FLAG_IMAGE_LOAD`).
const NAMING_FLAGS: u32 = 0x1 | 0x4;

/// Maximum length in characters of a line about missing events.
const LINE_CHARS: usize = 250;

impl Host {
    /// Returns the system provider for a user with access to it.
    fn system_for(&self, peer: &Peer, session: &str) -> Result<Arc<dyn SystemProvider>, Failure> {
        if !self.access.allows(peer, Right::Enable, Some(session), Some(classes::SYSTEM_TRACE)) {
            return Err(denied(peer, "enable the system's events"));
        }
        let text = "this host does not provide system events";
        self.system.clone().ok_or_else(|| Failure::new(ErrorKind::NotSupported, text))
    }

    /// Returns the name of a provider if it is one of the system's.
    pub(super) fn system_provider(&self, provider: Guid) -> Option<&'static str> {
        let providers = self.system.as_ref()?.providers();
        providers.into_iter().find(|(guid, _)| *guid == provider).map(|(_, name)| name)
    }

    /// Prepares system events for a session about to start, and returns what is missing.
    pub(super) fn prepare_system(
        &self,
        peer: &Peer,
        serial: u64,
        properties: &SessionProperties,
    ) -> Result<Vec<String>, Failure> {
        if properties.enable_flags == 0 {
            return Ok(Vec::new());
        }
        let system = self.system_for(peer, &properties.logger_name)?;
        let has_flags = |session: &&Session| session.properties.enable_flags != 0;
        let count = self.sessions.iter().flatten().filter(has_flags).count();
        if count >= self.limits.system_sessions {
            let text = format!("{count} sessions have the system's events already");
            return Err(Failure::new(ErrorKind::NoSystemResources, text));
        }
        let wants = SystemWants::from_properties(properties);
        system.want(serial, wants).map(lines)
    }

    /// Cancels the preparation for a session that was not started.
    pub(super) fn forget_system(&self, serial: u64) {
        if let Some(system) = &self.system {
            system.detach(serial);
        }
    }

    /// Checks whether a user may enable a provider; the system's providers need the right to system events.
    pub(super) fn check_system(&self, peer: &Peer, session: &str, provider: Guid) -> Result<(), Failure> {
        if self.system_provider(provider).is_some() {
            self.system_for(peer, session).map(drop)
        } else {
            Ok(())
        }
    }

    /// Changes the system events of a session.
    pub(super) fn change_system(
        &mut self,
        peer: &Peer,
        slot: u8,
        properties: &SessionProperties,
    ) -> Result<(), Failure> {
        let session = self.session(slot)?;
        let system = self.system_for(peer, session.name())?;
        let SystemWants { enables, names, .. } = session.system_wants(&*system);
        let wants = SystemWants { enables, names, ..SystemWants::from_properties(properties) };
        if wants.is_empty() {
            self.session_mut(slot)?.properties.clone_from(properties);
            return self.tell_system(slot, false);
        }
        let missing = system.want(session.serial, wants)?;
        let session = self.session_mut(slot)?;
        if let Err(failure) = session.begin_system(&*system) {
            // It has no region, so nothing was recorded before either.
            system.detach(session.serial);
            return Err(failure);
        }
        session.system_missing = lines(missing);
        session.properties.clone_from(properties);
        Ok(())
    }

    /// Informs the system provider of the providers that a session has enabled, and of whether it `has_new_stacks`.
    /// Unsupported providers are recorded; the session continues without them.
    pub(super) fn tell_system(&mut self, slot: u8, has_new_stacks: bool) -> Result<(), Failure> {
        let Some(system) = self.system.clone() else { return Ok(()) };
        let session = self.session(slot)?;
        // Others would learn of all processes.
        let may_name = self.system_for(&session.owner, session.name()).is_ok();
        let session = self.session_mut(slot)?;
        let mut wants = session.system_wants(&*system);
        wants.names &= may_name;
        if wants.is_empty() {
            session.system_missing.clear();
            if let Some(region) = session.system_region.take() {
                system.detach(session.serial);
                session.logger.close_region(region);
            }
            return Ok(());
        }
        let is_for_names = wants.flags == 0 && wants.enables.is_empty();
        match system.want(session.serial, wants) {
            Ok(missing) => {
                session.system_missing = lines(missing);
                let lacks_names = session.properties.enable_flags & NAMING_FLAGS != NAMING_FLAGS;
                if may_name && has_new_stacks && lacks_names && session.system_region.is_some() {
                    // Its system events began without the processes and images that existed then.
                    system.capture_state(session.serial, classes::SYSTEM_TRACE, Level(0), Keyword(0));
                }
                session.begin_system(&*system)
            }
            // Processes that write to the session are described one by one.
            Err(_) if is_for_names => Ok(()),
            Err(failure) => {
                session.system_missing = lines(vec![failure.text]);
                Ok(())
            }
        }
    }

    /// Returns the system provider if it must describe the processes of a session one by one: the session has stacks of
    /// providers, but not the system's events.
    pub(super) fn describer(&self, session: &Session) -> Option<Arc<dyn SystemProvider>> {
        let is_needed = session.has_stacks() && session.system_region.is_none();
        self.system.clone().filter(|_| is_needed)
    }

    /// Writes the names and images of processes to a session, if that is needed for its stacks.
    ///
    /// A process may be short, so it is looked at before it can go on. Its files are opened on another thread, since they
    /// may be on a file system that blocks.
    pub(super) fn describe(&mut self, slot: u8, process_ids: &[u32], at_end: bool) {
        let Ok(session) = self.session(slot) else { return };
        let Some(system) = self.describer(session) else { return };
        let description = system.describe(process_ids, at_end);
        let logger = session.logger.clone();
        // If no thread can be started, addresses of these processes have no names.
        self.work(slot, None, move || {
            write_description(description, &logger);
            Outcome::Asked(Ok(()))
        });
    }

    /// Returns the processes that write to a session.
    pub(super) fn writers(&self, session: &Session) -> Vec<u32> {
        let connections = session.regions.keys().filter_map(|token| self.connections.get(token));
        let mut ids: Vec<u32> = connections.map(|connection| connection.peer.pid).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Requests the state of one of the system's providers, or of the system events enabled by flags.
    pub(super) fn capture_system_state(&self, slot: u8, provider: Guid, level: Level, any: Keyword) {
        let is_ours = provider == classes::SYSTEM_TRACE || self.system_provider(provider).is_some();
        if let (true, Some(system), Ok(session)) = (is_ours, &self.system, self.session(slot)) {
            system.capture_state(session.serial, provider, level, any);
        }
    }
}

/// Writes what was seen of processes to a session, in a region of its own.
pub(super) fn write_description(description: Description, logger: &Logger) {
    if let Ok(region) = logger.add_system_region() {
        description(&region);
        region.set_complete(region.clock().now());
        logger.close_region(region.id());
    }
}

impl Session {
    fn system_wants(&self, system: &dyn SystemProvider) -> SystemWants {
        let providers = system.providers();
        let is_ours = |guid: Guid| providers.iter().any(|(other, _)| *other == guid);
        let ours = self.enables().filter(|(guid, _)| is_ours(*guid));
        let enables = ours.map(|(guid, enable)| (guid, enable.clone())).collect();
        SystemWants { enables, names: self.has_stacks(), ..SystemWants::from_properties(&self.properties) }
    }

    /// Returns whether events of providers have stacks.
    pub(super) fn has_stacks(&self) -> bool {
        self.enables().any(|(_, enable)| enable.properties.contains(EnableProperties::STACK_TRACE))
    }

    /// Records missing or incomplete system events.
    pub(super) fn lacks(&mut self, more: Vec<String>) {
        let all = std::mem::take(&mut self.system_missing).into_iter().chain(more);
        self.system_missing = lines(all.collect());
    }

    /// Starts writing system events to the session unless that has been done.
    pub(super) fn begin_system(&mut self, system: &dyn SystemProvider) -> Result<(), Failure> {
        if self.system_region.is_none() {
            let region = self.logger.add_system_region().map_err(|error| failure_of(self.name(), error))?;
            self.system_region = Some(region.id());
            system.begin(self.serial, region);
        }
        Ok(())
    }
}

impl SystemWants {
    /// Returns the requests in a session's properties.
    fn from_properties(properties: &SessionProperties) -> SystemWants {
        SystemWants {
            flags: properties.enable_flags,
            stack_tracing: properties.stack_tracing.clone(),
            sample_interval: properties.sample_interval,
            enables: Vec::new(),
            names: false,
        }
    }
}

/// Returns lines that fit into a session's status.
fn lines(missing: Vec<String>) -> Vec<String> {
    let clean = |line: String| line.chars().filter(|c| !c.is_control()).take(LINE_CHARS).collect();
    missing.into_iter().map(clean).take(MAX_MISSING).collect()
}
