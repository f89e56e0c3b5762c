//! A replaceable counter in another process that any thread can raise.

// UNSAFETY: keeps the file as a number, so that it can be used while it is exchanged.
#![expect(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// A replaceable `eventfd` that other processes wait for.
///
/// Threads may ring while the file is replaced, also in signal handlers: the file's number stays the same for the life
/// of the process.
#[derive(Debug)]
pub struct Doorbell(AtomicI32);

impl Doorbell {
    /// Creates a doorbell without a file.
    pub const fn new() -> Doorbell {
        Doorbell(AtomicI32::new(-1))
    }

    /// Replaces the file that is rung. Two threads must not call this at once.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file's number cannot be taken over.
    pub fn replace(&self, file: OwnedFd) -> io::Result<()> {
        match self.0.load(Ordering::Acquire) {
            // Note: this file is intentionally leaked; it stays open as long as the process lives.
            -1 => self.0.store(file.into_raw_fd(), Ordering::Release),
            present => {
                use std::os::fd::AsRawFd;
                // SAFETY: `present` is a file of this value alone, which nobody else closes or uses.
                let status = unsafe { libc::dup3(file.as_raw_fd(), present, libc::O_CLOEXEC) };
                if status < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    }

    /// Raises the counter. Does nothing if there is no file or the counter is at its maximum.
    #[cold]
    pub fn ring(&self) {
        let file = self.0.load(Ordering::Acquire);
        if file >= 0 {
            // SAFETY: the file is never closed.
            let file = unsafe { BorrowedFd::borrow_raw(file) };
            let _ = rustix::io::write(file, &1u64.to_ne_bytes());
        }
    }
}

impl Default for Doorbell {
    fn default() -> Doorbell {
        Doorbell::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn the_last_file_is_rung() {
        let bell = Doorbell::new();
        bell.ring();
        let files = [0, 1].map(|_| eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        for file in &files {
            bell.replace(file.try_clone().unwrap()).unwrap();
            bell.ring();
            let mut count = [0; 8];
            assert_eq!(rustix::io::read(file, &mut count[..]).unwrap(), 8);
            assert_eq!(u64::from_ne_bytes(count), 1);
        }
        assert!(rustix::io::read(&files[0], &mut [0; 8][..]).is_err());
    }
}
