//! Which sessions want which events of a provider; every write checks this first.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

/// Maximum number of sessions that one provider writes to, as in ETW.
pub const MAX_SESSIONS: usize = 8;

pub(crate) use system::Enables;
#[cfg(target_os = "linux")]
pub(crate) use system::{Enable, Entry, SessionKey, Settings};
