//! The connection to one session: the ring through which its events come, and what tells that there are some.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod system;

pub(crate) use system::Channel;
#[cfg(test)]
pub(super) use system::Parts;
pub(super) use system::Waiter;

use etw_etl::EtlFile;

use super::SessionError;

/// A session that a [`Waiter`] waits for.
pub(super) trait Awaited {
    /// The connection to it.
    fn channel(&mut self) -> &mut Channel;
    /// Whether it has ended and everything it sent has been taken in.
    fn is_at_end(&self) -> bool;
}

impl Channel {
    /// The session's first buffer, seen as a file.
    pub(crate) fn header_file(&self, session: &str) -> Result<EtlFile<'_>, SessionError> {
        EtlFile::open(self.header()).map_err(|error| {
            let what = format!("no log file header: {error}");
            SessionError::Protocol { session: session.to_owned(), what }
        })
    }
}
