//! How a host is to be, and how much it takes on.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use etw_event::{Guid, Keyword, Level};
use etw_protocol::limits::MAX_SLOTS;
use etw_protocol::{Enable, Failure, Instance};

use super::access::Access;
use crate::logger::SystemRegion;

/// How a host is to be.
#[derive(Debug)]
pub struct HostOptions {
    /// Where it listens.
    pub instance: Instance,
    /// Who may do what.
    pub access: Access,
    /// How much it takes on.
    pub limits: HostLimits,
    /// Directory with the configuration of sessions that start with the host.
    pub autologgers: Option<PathBuf>,
    /// What writes the system's own events; `None` refuses sessions that ask for them.
    pub system: Option<Arc<dyn SystemProvider>>,
    /// Whether the host ends by itself, once it has been used and there is neither a session, nor a controller, nor a
    /// consumer any more.
    pub while_used: bool,
}

/// What writes the system's own events to sessions that ask for them, by `EnableFlags` or by enabling the system's
/// providers.
pub trait SystemProvider: Debug + Send + Sync {
    /// The system's providers, with their names.
    fn providers(&self) -> Vec<(Guid, &'static str)>;

    /// Makes ready for what a session wants from now on; by `session` it is known until it is detached. What cannot be
    /// given is answered, one line for each thing with the reason; the session gets everything else.
    ///
    /// # Errors
    /// Why nothing can be given: `AccessDenied` or `NotSupported`. What the session wanted before stays as it was.
    fn want(&self, session: u64, wants: SystemWants) -> Result<Vec<String>, Failure>;

    /// Begins to write to a session what it wants.
    fn begin(&self, session: u64, region: SystemRegion);

    /// Writes the state that one of the system's providers is in to a session that has enabled it; of the provider
    /// `SYSTEM_TRACE` the processes, threads, images and files that its flags tell of.
    fn capture_state(&self, session: u64, provider: Guid, level: Level, any: Keyword);

    /// Writes what has happened up to now, and nothing more. Answers what the session has in part only, a line each.
    fn detach(&self, session: u64) -> Vec<String>;
}

/// What a session wants of the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemWants {
    /// `EnableFlags`.
    pub flags: u32,
    /// Hook ids of the events whose stack is told; none stands for those of the sampled profile.
    pub stack_tracing: Vec<u16>,
    /// The time between two samples, in units of 100 ns; 0 leaves it to the provider.
    pub sample_interval: u32,
    /// The system's providers that it has enabled.
    pub enables: Vec<(Guid, Enable)>,
}

impl SystemWants {
    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.flags == 0 && self.enables.is_empty()
    }
}

/// How much a host takes on. What goes beyond is refused, and harms nobody else.
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
    /// Registrations of all processes together.
    pub registrations: usize,
    /// Sessions of one user other than the host's own and root.
    pub sessions_per_user: usize,
    /// Consumers of one session.
    pub consumers_per_session: u32,
    /// Bytes that wait for a client to read them; one that lets more wait is disconnected.
    pub queued_bytes: usize,
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
            registrations: 1 << 18,
            sessions_per_user: 16,
            consumers_per_session: 16,
            queued_bytes: 4 << 20,
        }
    }
}
