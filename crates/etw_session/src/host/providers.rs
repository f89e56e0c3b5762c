//! Messages to processes with providers.

use etw_etl::LogFileMode;
use etw_event::{Guid, Keyword, Level};
use etw_protocol::{ErrorKind, Failure, FromProvider, ToProvider};
use etw_sys::credentials::Peer;

use crate::logger::RegionOwner;

use super::access::{Right, is_privileged};
use super::connection::ClientRole;
use super::registry::{Registration, lets_pass};
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
                let provider = self.connections.get_mut(&token).and_then(|c| c.provider()).ok_or(())?;
                if provider.registrations.remove(&id).is_some() {
                    self.registrations -= 1;
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
        let limits = self.limits;
        let full = self.registrations >= limits.registrations;
        let provider = self.connections.get_mut(&token).and_then(|c| c.provider()).ok_or(())?;
        if full || provider.registrations.len() >= limits.registrations_per_process {
            let text = "too many providers are registered";
            return Ok(Err(Failure::new(ErrorKind::NoSystemResources, text)));
        }
        if provider.registrations.insert(id, registration).is_some() {
            // A number in use: the process has lost track.
            return Err(());
        }
        self.registrations += 1;
        Ok(Ok(()))
    }

    /// Informs all processes of a session's current settings for their providers.
    pub(crate) fn tell_all(&mut self, slot: u8, guid: Guid) {
        let mut concerned = Vec::new();
        for (token, connection) in &self.connections {
            let ClientRole::Provider(provider) = &connection.role else { continue };
            let ids = provider.registrations.iter();
            concerned
                .extend(ids.filter(|(_, r)| r.guid == guid || r.group == guid).map(|(id, _)| (*token, *id)));
        }
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
                self.mark(token, id, |slots| slots & !bit);
                self.send(token, &ToProvider::Disable { id, slot }, Vec::new());
            }
            return;
        };
        if !was && registration.slots.count_ones() as usize >= self.limits.sessions_per_provider {
            return;
        }
        let Some(epoch) = self.region(token, slot) else { return };
        self.mark(token, id, |slots| slots | bit);
        self.send(token, &ToProvider::Enable { id, slot, epoch, enable }, Vec::new());
    }

    fn mark(&mut self, token: u64, id: u32, change: impl Fn(u64) -> u64) {
        let provider = self.connections.get_mut(&token).and_then(|c| c.provider());
        if let Some(registration) = provider.and_then(|p| p.registrations.get_mut(&id)) {
            registration.slots = change(registration.slots);
        }
    }

    /// Returns the epoch in the process's region of a session, creating the region if needed. `None` if that fails.
    fn region(&mut self, token: u64, slot: u8) -> Option<u8> {
        let connection = self.connections.get_mut(&token)?;
        let pid = connection.peer.pid;
        let provider = connection.provider()?;
        if let Some(epoch) = provider.regions.get(&slot) {
            return Some(*epoch);
        }
        let session = self.sessions.get_mut(usize::from(slot))?.as_mut()?;
        let doorbell = provider.doorbell.try_clone().ok();
        let region = match session.logger.add_region(RegionOwner { process_id: pid, doorbell }) {
            Ok(region) => region,
            Err(error) => {
                let text = format!(
                    "session '{}': cannot create a region for process {pid}: {error}",
                    session.name()
                );
                session.last_failure = format!("no memory for the events of process {pid}: {error}");
                self.report(&text);
                return None;
            }
        };
        session.regions.insert(token, region.id);
        session.remember(&provider.description);
        provider.regions.insert(slot, region.epoch);
        self.describe(slot, &[pid], false);
        self.send(token, &ToProvider::Region { slot, epoch: region.epoch }, vec![region.file]);
        Some(region.epoch)
    }

    /// Requests the state of a provider from all processes where a session has enabled it.
    pub(crate) fn capture_state(&mut self, slot: u8, guid: Guid, level: Level, any: Keyword) {
        let bit = 1u64 << slot;
        let mut concerned = Vec::new();
        for (token, connection) in &self.connections {
            let ClientRole::Provider(provider) = &connection.role else { continue };
            let ids = provider.registrations.iter().filter(|(_, r)| r.slots & bit != 0);
            concerned
                .extend(ids.filter(|(_, r)| r.guid == guid || r.group == guid).map(|(id, _)| (*token, *id)));
        }
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
