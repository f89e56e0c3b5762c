//! How a host is to be, and how much it takes on.

use std::path::PathBuf;

use etw_protocol::Instance;
use etw_protocol::limits::MAX_SLOTS;

use super::access::Access;

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
}

/// How much a host takes on. What goes beyond is refused, and harms nobody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostLimits {
    /// Sessions, at most 64.
    pub sessions: u8,
    /// Sessions that one provider is enabled by (ETW: 8).
    pub sessions_per_provider: usize,
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
        HostOptions { instance, access: Access::default(), limits: HostLimits::default(), autologgers: None }
    }
}

impl Default for HostLimits {
    fn default() -> HostLimits {
        HostLimits {
            sessions: MAX_SLOTS,
            sessions_per_provider: 8,
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
