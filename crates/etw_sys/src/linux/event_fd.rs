//! A counter that one process raises and another waits for (`eventfd`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// A counter that polls as readable while it is above zero. No operation on it blocks.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Creates a counter at zero.
    ///
    /// # Errors
    ///
    /// Returns the system's error if no file can be created.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Takes over a counter that another process sent.
    ///
    /// The file is set to non-blocking, for both sides. Whether it is an `eventfd` cannot be checked; a peer that sends
    /// something else only deprives itself of wake-ups.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file's flags cannot be set.
    pub fn from_file(file: OwnedFd) -> io::Result<EventFd> {
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(EventFd(file))
    }

    /// Returns another handle of the same counter.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file cannot be duplicated.
    pub fn try_clone(&self) -> io::Result<EventFd> {
        Ok(EventFd(self.0.try_clone()?))
    }

    /// Raises the counter and wakes its waiters. Does nothing if the counter is at its maximum.
    pub fn signal(&self) {
        // The only failure of an eventfd is a full counter, and then it wakes already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Sets the counter to zero and returns its previous value.
    pub fn drain(&self) -> u64 {
        let mut bytes = [0; 8];
        loop {
            match rustix::io::read(&self.0, &mut bytes[..]) {
                Ok(8) => return u64::from_ne_bytes(bytes),
                Err(Errno::INTR) => {}
                _ => return 0,
            }
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<EventFd> for OwnedFd {
    fn from(event: EventFd) -> OwnedFd {
        event.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_by_one_handle_and_drained_by_another() {
        let event = EventFd::new().unwrap();
        let other = EventFd::from_file(event.try_clone().unwrap().into()).unwrap();
        assert_eq!(event.drain(), 0);
        other.signal();
        other.signal();
        assert_eq!((event.drain(), event.drain()), (2, 0));
    }
}
