//! A bell between two processes of which one may be hostile (`socketpair`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// The end that rings. Ringing never blocks, whatever the other process does with its end: unlike an `eventfd`, the two ends
/// are files of their own, so that the other process cannot make this one blocking.
#[derive(Debug)]
pub struct Ringer(OwnedFd);

/// The end that hears: readable from the first ringing until [`Bell::silence`].
#[derive(Debug)]
pub struct Bell(OwnedFd);

/// Creates a bell.
///
/// # Errors
///
/// Returns the system's error if no files can be created.
pub fn bell() -> io::Result<(Ringer, Bell)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ringer, bell) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok((Ringer(ringer), Bell(bell)))
}

impl Ringer {
    /// Rings. Does nothing if the other end has not been silenced for long, or is gone.
    pub fn ring(&self) {
        let _ = send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl Bell {
    /// Takes over the end that another process sent.
    pub fn from_file(file: OwnedFd) -> Bell {
        Bell(file)
    }

    /// Hears all ringing up to now.
    pub fn silence(&self) {
        let mut bytes = [0; 256];
        while recv(&self.0, &mut bytes, RecvFlags::DONTWAIT).is_ok_and(|(count, _)| count == bytes.len()) {}
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Bell> for OwnedFd {
    fn from(bell: Bell) -> OwnedFd {
        bell.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::poll::wait_readable;
    use super::*;

    #[test]
    fn ringing_never_blocks() {
        let (ringer, bell) = bell().unwrap();
        let is_heard = || wait_readable([bell.as_fd()], Some(Duration::ZERO)).unwrap() == [true];
        assert!(!is_heard());
        ringer.ring();
        assert!(is_heard());
        bell.silence();
        assert!(!is_heard());
        // A hostile owner of the other end makes it blocking, and never reads.
        rustix::io::ioctl_fionbio(&bell, false).unwrap();
        for _ in 0..100_000 {
            ringer.ring();
        }
        bell.silence();
        assert!(!is_heard());
        drop(bell);
        ringer.ring();
    }
}
