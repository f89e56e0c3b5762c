//! The connection to one session: the ring that carries its events, and the signals that some have arrived.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;
#[cfg(not(any(target_os = "linux", windows)))]
#[path = "elsewhere.rs"]
mod system;

pub(crate) use system::Channel;
#[cfg(test)]
pub(super) use system::Parts;
pub(super) use system::{Waiter, broken};

use etw_etl::EtlFile;

use super::SessionError;

/// A session that a [`Waiter`] can wait for.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux waits for each session apart"))]
pub(super) trait Awaited {
    /// Returns the connection to the session.
    fn channel(&mut self) -> &mut Channel;
    /// Returns the number of the session's source.
    fn source(&self) -> u32;
    /// Whether the session has ended and everything it sent has been read.
    fn is_at_end(&self) -> bool;
}

impl Channel {
    /// Parses the session's first buffer as a trace file.
    pub(crate) fn header_file(&self, session: &str) -> Result<EtlFile<'_>, SessionError> {
        EtlFile::open(self.header()).map_err(|error| {
            let what = format!("no log file header: {error}");
            SessionError::Protocol { session: session.to_owned(), what }
        })
    }
}
