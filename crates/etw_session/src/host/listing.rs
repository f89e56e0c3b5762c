//! Lists for controllers: the sessions, the providers, the processes of a session, and what it has enabled.
//!
//! A list is made page by page as its reader takes it, so that it takes neither memory nor time from others.

use std::collections::BTreeMap;

use etw_event::Guid;
use etw_protocol::{Enable, EnableStatus, ProviderEnable, ProviderStatus, Response, encode, limits};
use etw_sys::credentials::Peer;

use super::access::Right;
use super::connection::ClientRole;
use super::registry::{Registration, RegistrationKey};
use super::run::Host;
use super::sessions::{EnableKey, Session};

/// Maximum size in bytes of the items in one packet of a list.
const LIST_BYTES: usize = 32 * 1024;

/// Maximum number of processes in one part of a provider's status, so that each part fits into a packet.
const PIDS_A_PART: usize = limits::MAX_PIDS_LISTED / 2;

/// Providers that are looked at for one page.
const PROVIDERS_A_PAGE: usize = 2048;

/// A list that is being sent, from where it goes on.
#[derive(Debug, Clone)]
pub(crate) enum Listing {
    /// From this slot on.
    Sessions(u8),
    /// From this one of the system's providers, or from this part of this registered provider.
    Providers {
        system: usize,
        guid: Guid,
        part: usize,
    },
    /// From this process on, counted from the first one that the session has had.
    Processes {
        slot: u8,
        serial: u64,
        from: u64,
    },
    Enables {
        slot: u8,
        serial: u64,
        from: Option<EnableKey>,
    },
}

impl Host {
    /// Sends the next page of a client's list once it has taken the last one.
    pub(super) fn send_list(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.has_queue() {
            return;
        }
        let peer = connection.peer;
        let ClientRole::Controller { listing, .. } = &mut connection.role else { return };
        let Some(at) = listing.take() else { return };
        let (response, rest) = self.page(&peer, at);
        if let Some(connection) = self.connections.get_mut(&token)
            && let ClientRole::Controller { listing, .. } = &mut connection.role
        {
            *listing = rest;
        }
        self.send(token, &response, Vec::new());
    }

    /// Returns a page of a list, and from where the list goes on.
    fn page(&self, peer: &Peer, at: Listing) -> (Response, Option<Listing>) {
        match at {
            Listing::Sessions(from) => {
                let visible =
                    |session: &&Session| session.slot >= from && self.may(peer, Right::Query, session);
                let all = self.sessions.iter().flatten().filter(visible);
                fill(
                    all.map(|session| (Listing::Sessions(session.slot), Some(session.status()))),
                    |sessions, more| Response::Sessions { sessions, more },
                )
            }
            Listing::Providers { system, guid, part } => {
                fill(self.providers(peer, system, guid, part), |providers, more| Response::Providers {
                    providers,
                    more,
                })
            }
            Listing::Processes { slot, serial, from } => {
                let session = self.session(slot).ok().filter(|session| session.serial == serial);
                let all = session.into_iter().flat_map(|session| session.processes_from(from));
                fill(
                    all.map(|(from, process)| {
                        (Listing::Processes { slot, serial, from }, Some(process.clone()))
                    }),
                    |processes, more| Response::Processes { processes, more },
                )
            }
            Listing::Enables { slot, serial, from } => {
                let session = self.session(slot).ok().filter(|session| session.serial == serial);
                let all = session.into_iter().flat_map(|session| session.enables_from(from));
                fill(
                    all.map(|(key, enable)| {
                        let from = Some(*key);
                        (
                            Listing::Enables { slot, serial, from },
                            Some(self.enable_status(slot, key.guid(), enable)),
                        )
                    }),
                    |enables, more| Response::Enables { enables, more },
                )
            }
        }
    }

    fn enable_status(&self, slot: u8, provider: Guid, enable: &Enable) -> EnableStatus {
        let mut name = self.system_provider(provider).unwrap_or_default().to_owned();
        let mut processes = Vec::new();
        for (peer, registration) in self.registry.of(provider).filter_map(|key| self.registration(key)) {
            if name.is_empty() && registration.guid == provider {
                name.clone_from(&registration.name);
            }
            if registration.slots >> slot & 1 != 0 {
                processes.push(peer.pid);
            }
        }
        processes.sort_unstable();
        processes.dedup();
        let processes = u32::try_from(processes.len()).unwrap_or(u32::MAX);
        EnableStatus { provider, name, enable: enable.clone(), processes }
    }

    /// Iterates over the providers that a user may see, all or those of its own processes, with the places from where the
    /// list goes on with them. `None` is a provider of others.
    fn providers<'a>(
        &'a self,
        peer: &'a Peer,
        system: usize,
        guid: Guid,
        part: usize,
    ) -> impl Iterator<Item = (Listing, Option<ProviderStatus>)> + 'a {
        let sees_all = self.access.allows(peer, Right::Query, None, None);
        let of_system = if sees_all { self.system_providers(peer) } else { Vec::new() };
        let of_system = of_system.into_iter().enumerate().skip(system).map(move |(system, status)| {
            (Listing::Providers { system, guid: Guid::ZERO, part: 0 }, Some(status))
        });
        let registered = self.registry.providers_from(guid).enumerate();
        let registered = registered.flat_map(move |(number, (one, keys))| {
            let place = move |part| Listing::Providers { system: usize::MAX, guid: one, part };
            if number >= PROVIDERS_A_PAGE {
                return vec![(place(0), None)];
            }
            let sees = |owner: &Peer| sees_all || owner.uid == peer.uid;
            let parts = self.provider_parts(peer, keys.iter().copied(), sees).into_iter().enumerate();
            let skipped = if one == guid { part } else { 0 };
            parts.skip(skipped).map(|(part, status)| (place(part), Some(status))).collect()
        });
        of_system.chain(registered)
    }

    /// Returns a registered provider, in several parts if it is in very many processes.
    fn provider_parts(
        &self,
        peer: &Peer,
        keys: impl Iterator<Item = RegistrationKey>,
        sees: impl Fn(&Peer) -> bool,
    ) -> Vec<ProviderStatus> {
        // Its processes, with the sessions that have enabled it there.
        let mut processes: BTreeMap<u32, u64> = BTreeMap::new();
        let mut first: Option<&Registration> = None;
        for (owner, registration) in keys.filter_map(|key| self.registration(key)) {
            if sees(&owner) {
                if first.is_none_or(|first| first.name.is_empty()) {
                    first = Some(registration);
                }
                *processes.entry(owner.pid).or_default() |= registration.slots;
            }
        }
        let Some(registration) = first else { return Vec::new() };
        let slots = processes.values().fold(0, |all, slots| all | slots);
        let sessions = || (0..64u8).filter(|slot| slots >> slot & 1 != 0);
        let processes: Vec<(u32, u64)> = processes.into_iter().collect();
        let part = |part: &[(u32, u64)]| {
            let enables = sessions().filter_map(|slot| self.provider_enable(peer, registration, slot, part));
            ProviderStatus {
                guid: registration.guid,
                name: registration.name.clone(),
                group: registration.group,
                pids: part.iter().map(|(pid, _)| *pid).collect(),
                sessions: sessions().map(|slot| u16::from(slot) + 1).collect(),
                enables: enables.collect(),
            }
        };
        processes.chunks(PIDS_A_PART).map(part).collect()
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

/// Fills a page with items. Each item comes with the place from where the list goes on with it; an item of `None` ends the
/// page.
fn fill<T: Clone>(
    items: impl Iterator<Item = (Listing, Option<T>)>,
    wrap: impl Fn(Vec<T>, bool) -> Response,
) -> (Response, Option<Listing>) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for (place, item) in items {
        let Some(item) = item else { return (wrap(page, true), Some(place)) };
        // An item that cannot be encoded is left out rather than ending the list.
        let Ok(alone) = encode(&wrap(vec![item.clone()], false)) else { continue };
        bytes += alone.len();
        if bytes > LIST_BYTES && !page.is_empty() {
            return (wrap(page, true), Some(place));
        }
        page.push(item);
    }
    (wrap(page, false), None)
}
