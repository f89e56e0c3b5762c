//! Options and limits of a host.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use etw_event::{Guid, Keyword, Level};
use etw_protocol::limits::MAX_SLOTS;
use etw_protocol::{Enable, Failure, Instance};

use super::access::Access;
use crate::logger::SystemRegion;

/// Options of a host.
#[derive(Debug)]
pub struct HostOptions {
    /// The instance in which it listens.
    pub instance: Instance,
    /// The access list.
    pub access: Access,
    /// Its limits.
    pub limits: HostLimits,
    /// Directory with the configuration of sessions that start with the host.
    pub autologgers: Option<PathBuf>,
    /// Source of system events; with `None`, sessions that request them are refused.
    pub system: Option<Arc<dyn SystemProvider>>,
    /// Whether the host exits once it has been used and has no session, controller or consumer left.
    pub while_used: bool,
}

/// Writes system events to sessions that request them, by `EnableFlags` or by enabling the system's providers.
pub trait SystemProvider: Debug + Send + Sync {
    /// Returns the system's providers, with their names.
    fn providers(&self) -> Vec<(Guid, &'static str)>;

    /// Prepares what a session wants from now on; `session` identifies it until it is detached. Returns what cannot be
    /// provided, one line each with the reason; everything else is provided.
    ///
    /// # Errors
    ///
    /// `AccessDenied` or `NotSupported`, if nothing can be provided. The session's previous wants are then unchanged.
    fn want(&self, session: u64, wants: SystemWants) -> Result<Vec<String>, Failure>;

    /// Starts to write the events that a session wants.
    fn begin(&self, session: u64, region: SystemRegion);

    /// Writes the state of one of the system's providers to a session that has enabled it; for the provider
    /// `SYSTEM_TRACE` the processes, threads, images and files selected by the session's flags.
    fn capture_state(&self, session: u64, provider: Guid, level: Level, any: Keyword);

    /// Writes the events up to now and stops. Returns what the session has only in part, one line each.
    fn detach(&self, session: u64) -> Vec<String>;

    /// Looks at the names and images of these processes, as far as they are readable for this program. Returns a function
    /// that writes them to a region, which may take longer; `at_end` is whether the session stops or saves its memory.
    ///
    /// For sessions with [`SystemWants::names`] that [`SystemProvider::want`] refuses.
    fn describe(&self, process_ids: &[u32], at_end: bool) -> Description;
}

/// Writes what was seen of processes to a region.
pub type Description = Box<dyn FnOnce(&SystemRegion) + Send>;

/// The system events that a session wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemWants {
    /// `EnableFlags`.
    pub flags: u32,
    /// Hook ids of the events that have stacks; if empty, the events of the sampled profile have them.
    pub stack_tracing: Vec<u16>,
    /// Sampling interval in units of 100 ns; 0 leaves it to the provider.
    pub sample_interval: u32,
    /// The system's providers that it has enabled.
    pub enables: Vec<(Guid, Enable)>,
    /// Whether it has stacks of providers, so that their addresses need the processes and their images.
    pub names: bool,
}

impl SystemWants {
    /// Returns whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.flags == 0 && self.enables.is_empty() && !self.names
    }
}

/// Limits of a host. Requests beyond them are refused, without affecting other clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostLimits {
    /// Sessions, at most 64.
    pub sessions: u8,
    /// Sessions that one provider is enabled by (ETW: 8).
    pub sessions_per_provider: usize,
    /// Sessions with `EnableFlags` (ETW: 8).
    pub system_sessions: usize,
    /// Providers and groups that one session enables.
    pub enables_per_session: usize,
    /// Connections.
    pub connections: usize,
    /// Of those, connections of one user other than the host's own and root.
    pub connections_per_user: usize,
    /// Connections of one process.
    pub connections_per_process: usize,
    /// Registrations of one process.
    pub registrations_per_process: usize,
    /// Registrations of one user other than the host's own and root.
    pub registrations_per_user: usize,
    /// Bytes of memory for those.
    pub registration_bytes_per_user: usize,
    /// Registrations of all processes together. Users other than the host's own and root have half of them.
    pub registrations: usize,
    /// Sessions of one user other than the host's own and root.
    pub sessions_per_user: usize,
    /// Consumers of one session.
    pub consumers_per_session: u32,
    /// Bytes that wait for a client to read them; one that lets more wait is disconnected.
    pub queued_bytes: usize,
    /// Bytes that wait for the clients of one user other than the host's own and root.
    pub queued_bytes_per_user: usize,
    /// Bytes of the buffers of the sessions of one user other than the host's own and root.
    pub buffer_bytes_per_user: u64,
    /// Consumers of one user other than the host's own and root.
    pub consumers_per_user: usize,
}

impl HostOptions {
    /// A host at an instance, for its own user only.
    pub fn new(instance: Instance) -> HostOptions {
        HostOptions {
            instance,
            access: Access::default(),
            limits: HostLimits::default(),
            autologgers: None,
            system: None,
            while_used: false,
        }
    }
}

impl Default for HostLimits {
    fn default() -> HostLimits {
        HostLimits {
            sessions: MAX_SLOTS,
            sessions_per_provider: 8,
            system_sessions: 8,
            enables_per_session: 4096,
            connections: 8192,
            connections_per_user: 2048,
            connections_per_process: 128,
            registrations_per_process: 4096,
            registrations_per_user: 1 << 14,
            registration_bytes_per_user: 16 << 20,
            registrations: 1 << 18,
            sessions_per_user: 16,
            consumers_per_session: 16,
            queued_bytes: 4 << 20,
            queued_bytes_per_user: 32 << 20,
            buffer_bytes_per_user: 1 << 30,
            consumers_per_user: 16,
        }
    }
}
