//! Lists for controllers: the providers, and what a session has enabled.

use std::collections::BTreeMap;

use etw_event::Guid;
use etw_protocol::{
    Enable, EnableStatus, Failure, Message, ProviderEnable, ProviderStatus, Response, encode, limits,
};
use etw_sys::credentials::Peer;

use super::access::Right;
use super::registry::Registration;
use super::run::Host;

/// Maximum size in bytes of the items in one packet of a list.
const LIST_BYTES: usize = 32 * 1024;

/// Maximum number of processes in one part of a provider's status, so that each part fits into a packet.
const PIDS_A_PART: usize = limits::MAX_PIDS_LISTED / 2;

impl Host {
    pub(super) fn enables(&self, slot: u8) -> Result<Vec<EnableStatus>, Failure> {
        let bit = 1u64 << slot;
        let one = |(provider, enable): (Guid, &Enable)| {
            let all = self.registrations().filter(|(_, r)| r.guid == provider || r.group == provider);
            let name = self.system_provider(provider).unwrap_or_default();
            let (mut name, mut processes) = (name.to_owned(), Vec::new());
            for (peer, registration) in all {
                if name.is_empty() && registration.guid == provider {
                    name.clone_from(&registration.name);
                }
                if registration.slots & bit != 0 {
                    processes.push(peer.pid);
                }
            }
            processes.sort_unstable();
            processes.dedup();
            let processes = u32::try_from(processes.len()).unwrap_or(u32::MAX);
            EnableStatus { provider, name, enable: enable.clone(), processes }
        };
        Ok(self.session(slot)?.enables().map(one).collect())
    }

    /// Returns the providers that a user may see: all, or those of its own processes.
    pub(super) fn providers(&self, peer: &Peer) -> Vec<ProviderStatus> {
        let sees_all = self.access.allows(peer, Right::Query, None, None);
        // The processes of each, with the sessions that have enabled it there.
        let mut all: BTreeMap<Guid, (&Registration, BTreeMap<u32, u64>)> = BTreeMap::new();
        for (owner, registration) in self.registrations() {
            if sees_all || owner.uid == peer.uid {
                let (first, processes) =
                    all.entry(registration.guid).or_insert_with(|| (registration, BTreeMap::new()));
                if first.name.is_empty() {
                    *first = registration;
                }
                *processes.entry(owner.pid).or_default() |= registration.slots;
            }
        }
        let mut found = if sees_all { self.system_providers(peer) } else { Vec::new() };
        for (registration, processes) in all.into_values() {
            let slots = processes.values().fold(0, |all, slots| all | slots);
            let sessions = || (0..64u8).filter(|slot| slots >> slot & 1 != 0);
            let processes: Vec<(u32, u64)> = processes.into_iter().collect();
            for part in processes.chunks(PIDS_A_PART) {
                let enables =
                    sessions().filter_map(|slot| self.provider_enable(peer, registration, slot, part));
                found.push(ProviderStatus {
                    guid: registration.guid,
                    name: registration.name.clone(),
                    group: registration.group,
                    pids: part.iter().map(|(pid, _)| *pid).collect(),
                    sessions: sessions().map(|slot| u16::from(slot) + 1).collect(),
                    enables: enables.collect(),
                });
            }
        }
        found
    }

    /// Returns the system's providers, which belong to no process.
    fn system_providers(&self, peer: &Peer) -> Vec<ProviderStatus> {
        let all = self.system.as_ref().map(|system| system.providers()).unwrap_or_default();
        let status = |(guid, name): (Guid, &str)| {
            let registration = Registration::new(guid, name.to_owned(), &[]);
            let enables: Vec<_> = (0..self.sessions.len())
                .filter_map(|slot| self.provider_enable(peer, &registration, slot as u8, &[]))
                .collect();
            let sessions = enables.iter().map(|enable| enable.logger_id).collect();
            ProviderStatus {
                guid,
                name: registration.name,
                group: Guid::ZERO,
                pids: Vec::new(),
                sessions,
                enables,
            }
        };
        all.into_iter().map(status).collect()
    }

    /// Returns a session's settings for a provider, and those of these processes where it is enabled; `None` if the
    /// user may not see them.
    fn provider_enable(
        &self,
        peer: &Peer,
        registration: &Registration,
        slot: u8,
        processes: &[(u32, u64)],
    ) -> Option<ProviderEnable> {
        let session = self.session(slot).ok().filter(|session| self.may(peer, Right::Query, session))?;
        let enable = session.wants(registration)?;
        let enabled = processes.iter().filter(|(_, slots)| slots >> slot & 1 != 0);
        Some(ProviderEnable {
            logger_id: session.logger_id(),
            level: enable.level,
            any: enable.any,
            all: enable.all,
            properties: enable.properties,
            pids: enabled.map(|(pid, _)| *pid).collect(),
        })
    }
}

/// Splits a list into packets, each well below the limit.
pub(super) fn in_packets<T: Clone>(items: Vec<T>, wrap: impl Fn(Vec<T>, bool) -> Response) -> Vec<Response>
where
    Response: Message,
{
    let mut packets: Vec<Vec<T>> = vec![Vec::new()];
    let mut bytes = 0;
    for item in items {
        // An item that cannot be encoded is left out rather than ending the list.
        let Ok(alone) = encode(&wrap(vec![item.clone()], false)) else { continue };
        bytes += alone.len();
        if bytes > LIST_BYTES {
            packets.push(Vec::new());
            bytes = alone.len();
        }
        if let Some(last) = packets.last_mut() {
            last.push(item);
        }
    }
    let count = packets.len();
    packets.into_iter().zip(1..).map(|(items, number)| wrap(items, number < count)).collect()
}
