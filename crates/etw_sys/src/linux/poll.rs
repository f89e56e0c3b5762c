//! Waiting for several files at once.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};

/// What a [`Poller`] waits for. The end of the peer is always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Data can be read.
    Read,
    /// Data can be read or written.
    ReadWrite,
    /// Data can be written.
    Write,
    /// As `Read`, but reported once per arrival, so that several pollers can wait for one [`EventFd`](super::EventFd)
    /// that is never set to zero.
    Arrival,
    /// Only the end of the peer.
    End,
}

/// A file that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number that was passed when the file was added.
    pub token: u64,
    /// Data or the end of the stream can be read.
    pub readable: bool,
    /// Data can be written.
    pub writable: bool,
    /// The peer has closed the connection, or the file failed. Packets sent before may still be readable.
    pub ended: bool,
}

/// A set of files to wait for (`epoll`). A file that stays ready is reported each time.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Ready>,
}

impl Poller {
    /// Maximum number of files that one call of [`Poller::wait`] reports. The others follow with the next call.
    const BATCH: usize = 256;

    /// Creates an empty set.
    ///
    /// # Errors
    ///
    /// Returns the system's error if no file can be created.
    pub fn new() -> io::Result<Poller> {
        let ready = Vec::with_capacity(Poller::BATCH);
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, ready })
    }

    /// Adds a file. It must be removed before it is closed if other handles of it stay open.
    ///
    /// # Errors
    ///
    /// Returns `AlreadyExists` if the file was added before, and the system's error otherwise.
    pub fn add(&self, file: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, file, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Changes what to wait for on a file.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the file was not added, and the system's error otherwise.
    pub fn modify(&self, file: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, file, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the file was not added, and the system's error otherwise.
    pub fn remove(&self, file: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, file)?)
    }

    /// Blocks until a file is ready or the timeout expires (`None`: no timeout), and returns the files that are ready.
    /// Returns none if a signal ends the wait.
    ///
    /// # Errors
    ///
    /// Returns the system's error if waiting fails.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = Ready> + '_> {
        self.ready.clear();
        let timeout = timeout.map(timespec);
        let mut events = [MaybeUninit::uninit(); Poller::BATCH];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => self.ready.extend(events.iter().map(Ready::from_event)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.ready.iter().copied())
    }
}

impl Ready {
    fn from_event(event: &epoll::Event) -> Ready {
        // Fields of a packed structure must be copied before they are used.
        let (found, data) = (event.flags, event.data);
        let has = |flags| found.intersects(flags);
        Ready {
            token: data.u64(),
            readable: has(epoll::EventFlags::IN),
            writable: has(epoll::EventFlags::OUT),
            ended: has(epoll::EventFlags::HUP | epoll::EventFlags::ERR | epoll::EventFlags::RDHUP),
        }
    }
}

/// Blocks until one of a few files is readable or has ended, or the timeout expires (`None`: no timeout). Returns for
/// each file whether it is ready; for none if a signal ends the wait.
///
/// # Errors
///
/// Returns the system's error if waiting fails.
pub fn wait_readable<const N: usize>(
    files: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
    wait(&mut polled, timeout)?;
    Ok(polled.map(|file| !file.revents().is_empty()))
}

/// As [`wait_readable`], for any number of files. Returns whether one of them is ready.
///
/// # Errors
///
/// Returns the system's error if waiting fails.
pub fn wait_any(files: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
    let mut polled: Vec<PollFd<'_>> =
        files.iter().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    wait(&mut polled, timeout)
}

fn wait(files: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
    match rustix::event::poll(files, timeout.map(timespec).as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        Interest::Write => epoll::EventFlags::OUT,
        Interest::Arrival => epoll::EventFlags::IN | epoll::EventFlags::ET,
        Interest::End => epoll::EventFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EventFd, socket::Connection};
    use super::*;

    #[test]
    fn tells_what_is_ready() {
        let (ours, theirs) = Connection::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&ours, 5, Interest::Read).unwrap();
        let now = Some(Duration::ZERO);
        assert_eq!(poller.wait(now).unwrap().count(), 0);
        theirs.send(b"x", &[]).unwrap();
        let ready: Vec<Ready> = poller.wait(None).unwrap().collect();
        assert_eq!(ready, [Ready { token: 5, readable: true, writable: false, ended: false }]);
        poller.modify(&ours, 6, Interest::ReadWrite).unwrap();
        assert!(poller.wait(now).unwrap().all(|ready| ready.token == 6 && ready.writable));
        poller.modify(&ours, 7, Interest::End).unwrap();
        assert_eq!(poller.wait(now).unwrap().count(), 0);
        drop(theirs);
        assert!(poller.wait(None).unwrap().all(|ready| ready.token == 7 && ready.ended));
        poller.remove(&ours).unwrap();
        assert_eq!(poller.wait(now).unwrap().count(), 0);
    }

    #[test]
    fn arrivals_are_told_to_all_that_wait() {
        let event = EventFd::new().unwrap();
        let mut pollers = [Poller::new().unwrap(), Poller::new().unwrap()];
        for poller in &pollers {
            poller.add(&event, 1, Interest::Arrival).unwrap();
        }
        let now = Some(Duration::ZERO);
        for _ in 0..3 {
            event.signal();
            for poller in &mut pollers {
                assert_eq!(poller.wait(now).unwrap().count(), 1);
                assert_eq!(poller.wait(now).unwrap().count(), 0);
            }
        }
    }

    #[test]
    fn waits_for_one_of_a_few() {
        let (one, other) = (EventFd::new().unwrap(), EventFd::new().unwrap());
        let short = Some(Duration::from_millis(1));
        assert_eq!(wait_readable([one.as_fd(), other.as_fd()], short).unwrap(), [false, false]);
        other.signal();
        assert_eq!(wait_readable([one.as_fd(), other.as_fd()], None).unwrap(), [false, true]);
        assert!(wait_any(&[one.as_fd(), other.as_fd()], short).unwrap());
        assert!(!wait_any(&[one.as_fd()], short).unwrap());
    }
}
