//! The connection to one session: the ring that carries its events, and the signals that some have arrived.

mod awaited;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;
#[cfg(not(any(target_os = "linux", windows)))]
#[path = "elsewhere.rs"]
mod system;

pub(super) use awaited::Awaited;
pub(crate) use system::Channel;
#[cfg(target_os = "linux")]
pub(super) use system::Parts;
pub(super) use system::{Waiter, broken};

use etw_etl::EtlFile;

use super::SessionError;

impl Channel {
    /// Parses the session's first buffer as a trace file.
    pub(crate) fn header_file(&self, session: &str) -> Result<EtlFile<'_>, SessionError> {
        EtlFile::open(self.header()).map_err(|error| {
            let what = format!("no log file header: {error}");
            SessionError::Protocol { session: session.to_owned(), what }
        })
    }
}
