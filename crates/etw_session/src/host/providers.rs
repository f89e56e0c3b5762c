//! Messages to processes with providers.

use etw_etl::LogFileMode;
use etw_event::{Guid, Keyword, Level, classes};
use etw_protocol::{ErrorKind, Failure, FromProvider, ToProvider};
use etw_sys::credentials::Peer;

use crate::logger::{RegionOwner, Rights};

use super::access::{Right, is_privileged};
use super::connection::ClientRole;
use super::registry::{Registration, RegistrationKey, lets_pass};
use super::run::Host;
use super::sessions::Session;

impl Host {
    /// Handles a message of a process with providers. `Err` ends the connection.
    pub(crate) fn take_from_provider(&mut self, token: u64, message: FromProvider) -> Result<(), ()> {
        match message {
            FromProvider::Register { id, guid, name, traits } => {
                let registration = Registration::new(guid, name, &traits);
                if let Err(failure) = self.register(token, id, registration)? {
                    self.send(token, &ToProvider::Refused { id, failure }, Vec::new());
                    return Ok(());
                }
                for slot in 0..self.sessions.len() {
                    self.tell(token, id, slot as u8);
                }
                self.send(token, &ToProvider::Registered { id }, Vec::new());
            }
            FromProvider::Unregister { id } => {
                let connection = self.connections.get_mut(&token).ok_or(())?;
                let peer = connection.peer;
                let provider = connection.provider().ok_or(())?;
                let Some(registration) = provider.registrations.remove(&id) else { return Ok(()) };
                self.accounts.unregister(&peer, registration.name.len());
                self.registry.remove((token, id), &registration);
                for slot in 0..self.sessions.len() as u8 {
                    if registration.slots >> slot & 1 != 0 {
                        self.withdraw(token, slot, registration.guid);
                    }
                }
            }
        }
        Ok(())
    }

    /// Registers a provider. The outer error ends the connection; the inner one is sent to the process.
    fn register(
        &mut self,
        token: u64,
        id: u32,
        registration: Registration,
    ) -> Result<Result<(), Failure>, ()> {
        let peer = self.connections.get(&token).ok_or(())?.peer;
        let name_bytes = registration.name.len();
        if !self.accounts.may_register(&peer, name_bytes, &self.limits) {
            let text = "too many providers are registered by this process, by its user or by all";
            return Ok(Err(Failure::new(ErrorKind::NoSystemResources, text)));
        }
        // What a process wrote as one of these would be taken for the system's.
        let guid = registration.guid;
        if classes::ALL.contains(&guid) || self.system_provider(guid).is_some() {
            let text = format!("provider {guid} is the system's own");
            return Ok(Err(Failure::new(ErrorKind::AccessDenied, text)));
        }
        let provider = self.connections.get_mut(&token).and_then(|c| c.provider()).ok_or(())?;
        if provider.registrations.contains_key(&id) {
            // A number in use: the process has lost track.
            return Err(());
        }
        self.registry.add((token, id), &registration);
        provider.registrations.insert(id, registration);
        self.accounts.register(&peer, name_bytes);
        Ok(Ok(()))
    }

    /// Informs all processes of a session's current settings for their providers.
    pub(crate) fn tell_all(&mut self, slot: u8, guid: Guid) {
        let concerned: Vec<_> = self.registry.of(guid).collect();
        for (token, id) in concerned {
            self.tell(token, id, slot);
        }
    }

    /// Sends a process the parameters with which a session enables one of its providers, if they have changed.
    fn tell(&mut self, token: u64, id: u32, slot: u8) {
        let Some(Some(session)) = self.sessions.get(usize::from(slot)) else { return };
        let Some(connection) = self.connections.get(&token) else { return };
        let ClientRole::Provider(provider) = &connection.role else { return };
        let Some(registration) = provider.registrations.get(&id) else { return };
        let peer = connection.peer;
        let wanted = session
            .wants(registration)
            .filter(|enable| lets_pass(enable, &provider.description) && self.may_flow(session, &peer));
        let bit = 1u64 << slot;
        let was = registration.slots & bit != 0;
        let Some(enable) = wanted.cloned() else {
            if was {
                let guid = registration.guid;
                self.mark(token, id, |slots| slots & !bit);
                self.withdraw(token, slot, guid);
                self.send(token, &ToProvider::Disable { id, slot }, Vec::new());
            }
            return;
        };
        if !was && registration.slots.count_ones() as usize >= self.limits.sessions_per_provider {
            return;
        }
        let guid = registration.guid;
        let Some((epoch, rights)) = self.region(token, slot) else { return };
        rights.allow(guid, enable.level, enable.any, enable.all);
        if was && let Ok(session) = self.session(slot) {
            session.logger.settle();
        }
        self.mark(token, id, |slots| slots | bit);
        self.send(token, &ToProvider::Enable { id, slot, epoch, enable }, Vec::new());
    }

    fn mark(&mut self, token: u64, id: u32, change: impl Fn(u64) -> u64) {
        let provider = self.connections.get_mut(&token).and_then(|c| c.provider());
        if let Some(registration) = provider.and_then(|p| p.registrations.get_mut(&id)) {
            registration.slots = change(registration.slots);
        }
    }

    /// Ends what a process may write to a session of a provider, unless another registration of it remains.
    fn withdraw(&mut self, token: u64, slot: u8, guid: Guid) {
        let Some(provider) = self.connections.get_mut(&token).and_then(|c| c.provider()) else { return };
        let mut registrations = provider.registrations.values();
        if registrations.any(|other| other.guid == guid && other.slots >> slot & 1 != 0) {
            return;
        }
        let Some((_, rights)) = provider.regions.get(&slot) else { return };
        rights.withdraw(guid);
        if let Ok(session) = self.session(slot) {
            session.logger.settle();
        }
    }

    /// Returns the epoch in the process's region of a session and its rights there, creating the region if needed. `None` if
    /// that fails.
    fn region(&mut self, token: u64, slot: u8) -> Option<(u8, Rights)> {
        let connection = self.connections.get_mut(&token)?;
        let Peer { pid, uid, .. } = connection.peer;
        let provider = connection.provider()?;
        if let Some(region) = provider.regions.get(&slot) {
            return Some(region.clone());
        }
        let session = self.sessions.get_mut(usize::from(slot))?.as_mut()?;
        let rights = Rights::default();
        let owner = RegionOwner {
            process_id: pid,
            identity: provider.identity,
            is_bound: !is_privileged(uid),
            rights: rights.clone(),
            doorbell: Some(provider.doorbell.clone()),
        };
        let region = match session.logger.add_region(owner) {
            Ok(region) => region,
            Err(error) => {
                // Said once in a row for a user, who may try again and again.
                let of_user = format!(" of user {uid}: {error}");
                if !session.last_failure.ends_with(&of_user) {
                    let failure = format!("no memory for the events of process {pid}{of_user}");
                    let text = format!("session '{}': {failure}", session.name());
                    session.last_failure = failure;
                    self.report(&text);
                }
                return None;
            }
        };
        session.regions.insert(token, region.id);
        session.remember(&provider.description);
        provider.regions.insert(slot, (region.epoch, rights.clone()));
        self.describe(slot, &[pid], false);
        self.send(token, &ToProvider::Region { slot, epoch: region.epoch }, vec![region.file]);
        Some((region.epoch, rights))
    }

    /// Requests the state of a provider from all processes where a session has enabled it.
    pub(crate) fn capture_state(&mut self, slot: u8, guid: Guid, level: Level, any: Keyword) {
        let bit = 1u64 << slot;
        let is_enabled =
            |key: &RegistrationKey| self.registration(*key).is_some_and(|(_, r)| r.slots & bit != 0);
        let concerned: Vec<_> = self.registry.of(guid).filter(is_enabled).collect();
        for (token, id) in concerned {
            let message = ToProvider::CaptureState { id, slot, level, any, source: Guid::ZERO };
            self.send(token, &message, Vec::new());
        }
    }

    /// Informs the processes that a session has stopped.
    pub(crate) fn close_regions(&mut self, slot: u8) {
        let mut concerned = Vec::new();
        for (token, connection) in &mut self.connections {
            let Some(provider) = connection.provider() else { continue };
            for registration in provider.registrations.values_mut() {
                registration.slots &= !(1u64 << slot);
            }
            if provider.regions.remove(&slot).is_some() {
                concerned.push(*token);
            }
        }
        for token in concerned {
            self.send(token, &ToProvider::CloseRegion { slot }, Vec::new());
        }
    }

    /// Returns whether a process's events may go to a session.
    fn may_flow(&self, session: &Session, from: &Peer) -> bool {
        let (owner, name) = (&session.owner, Some(session.name()));
        if owner.uid == from.uid {
            return true;
        }
        let collects = is_privileged(owner.uid) || self.access.allows(owner, Right::Collect, name, None);
        let is_secure = session.properties.log_file_mode.contains(LogFileMode::SECURE);
        collects && (!is_secure || self.access.allows(from, Right::Write, name, None))
    }
}
