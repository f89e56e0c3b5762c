//! The connection to a session on this machine: shared memory, and event counters for wakeups.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use etw_buffer::ring::{Entry, RingError, RingReader};
use etw_protocol::{FromConsumer, Instance, PacketBuffer, ProtocolError, Role, ToConsumer};
use etw_sys::poll::{Interest, Poller};
use etw_sys::{Bell, SharedWords};

use super::super::SessionError;
use super::awaited::Awaited;

/// Timeout for a host to open a session.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The connection to one session.
#[derive(Debug)]
pub(crate) struct Channel {
    ring: RingReader<SharedWords, SharedWords>,
    data_ready: Bell,
    /// Reports the end of the session.
    connection: etw_protocol::Channel,
    /// The session's first buffer, with its log file header.
    header: Vec<u8>,
    has_ended: bool,
    is_host_gone: bool,
}

/// Returns the error of a session whose ring is broken.
pub(crate) fn broken(session: String, source: RingError) -> SessionError {
    SessionError::Ring { session, source }
}

/// The parts of a channel that a host sends when it opens a session.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The ring's data.
    pub(crate) data: SharedWords,
    /// The reader's position.
    pub(crate) position: SharedWords,
    /// Rung by the host when there is data to read.
    pub(crate) data_ready: Bell,
}

impl Channel {
    /// Returns the channel of a session that the host has opened; `header` is the session's first buffer.
    pub(crate) fn new(
        connection: etw_protocol::Channel,
        header: Vec<u8>,
        parts: Parts,
    ) -> Result<Channel, RingError> {
        let Parts { data, position, data_ready } = parts;
        let ring = RingReader::attach(data, position)?;
        Ok(Channel { ring, data_ready, connection, header, has_ended: false, is_host_gone: false })
    }

    /// Opens a session of this machine by name: at the instance with this directory, or else at the user's instance, or
    /// at the system's if the user's has no host.
    pub(crate) fn open(session: &str, directory: Option<&Path>) -> Result<Channel, SessionError> {
        if let Some(directory) = directory {
            return Channel::open_at(&Instance::at(directory), session);
        }
        let mut instances = vec![Instance::default_of_user()];
        if Instance::named().is_none() {
            instances.extend([Instance::user(), Instance::system()]);
        }
        let mut refused = None;
        for instance in instances {
            match Channel::open_at(&instance, session) {
                Ok(channel) => return Ok(channel),
                // Reports the first error, but an error from a host takes precedence over a missing host.
                Err(error @ SessionError::NoHost { .. }) => refused = refused.or(Some(error)),
                Err(error) => match refused {
                    Some(SessionError::NoHost { .. }) | None => refused = Some(error),
                    Some(_) => {}
                },
            }
        }
        Err(refused.unwrap_or_else(|| SessionError::Unsupported { session: session.to_owned() }))
    }

    /// Opens a session at one instance.
    fn open_at(instance: &Instance, session: &str) -> Result<Channel, SessionError> {
        let protocol = |what: String| SessionError::Protocol { session: session.to_owned(), what };
        let io = |what| move |source| SessionError::Io { session: session.to_owned(), what, source };
        let failed = |error: ProtocolError| match error {
            ProtocolError::Io(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                let directory = instance.directory().display().to_string();
                SessionError::NoHost { session: session.to_owned(), directory }
            }
            ProtocolError::Io(error) => io("the connection to the host failed")(error),
            error => protocol(error.to_string()),
        };
        let channel = etw_protocol::Channel::connect(instance, Role::Consumer).map_err(failed)?;
        channel.set_receive_timeout(Some(ANSWER_TIME)).map_err(failed)?;
        channel.send(&FromConsumer::Open { session: session.to_owned() }, &[]).map_err(failed)?;
        let answer = channel.receive::<ToConsumer>(&mut PacketBuffer::default()).map_err(failed)?;
        let (header, files) = match answer {
            Some((ToConsumer::Opened { header, .. }, files)) => (header, files),
            Some((ToConsumer::Refused(failure), _)) => {
                // The host's text starts with the session's name too.
                let name = format!("session '{session}' ");
                let reason = failure.text.strip_prefix(&name).unwrap_or(&failure.text).to_owned();
                return Err(SessionError::Refused { session: session.to_owned(), reason });
            }
            Some((ToConsumer::Ended, _)) | None => return Err(protocol("no reply".to_owned())),
        };
        let Ok([data, position, data_ready]) = <[OwnedFd; 3]>::try_from(files) else {
            return Err(protocol("an unexpected number of files (expected 3)".to_owned()));
        };
        let memory = io("the shared memory cannot be used");
        let parts = Parts {
            data: SharedWords::map_for_reading(&data).map_err(&memory)?,
            position: SharedWords::map(&position).map_err(&memory)?,
            data_ready: Bell::from_file(data_ready),
        };
        Channel::new(channel, header, parts).map_err(|source| broken(session.to_owned(), source))
    }

    /// Returns the session's first buffer.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Whether the session has ended; the ring may still contain events.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the session ended because the connection to the host broke.
    pub(crate) fn is_host_gone(&self) -> bool {
        self.is_host_gone
    }

    /// Returns the next entry of the ring.
    #[inline]
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, RingError> {
        self.ring.next_entry()
    }

    /// Replaces the contents of `to` by the words of an entry, or of a part of it.
    #[inline]
    pub(crate) fn copy(&self, words: Range<usize>, to: &mut Vec<u64>) {
        self.ring.copy(words, to);
    }

    /// Releases entries, up to the one with this end.
    #[inline]
    pub(crate) fn release(&mut self, end: u64) {
        self.ring.release(end);
    }

    /// Whether unreleased entries occupy half of the ring.
    #[inline]
    pub(crate) fn is_half_full(&self) -> bool {
        self.ring.held_bytes() > self.ring.capacity_bytes() / 2
    }

    /// Checks the connection for the session's end.
    #[cold]
    fn look_at_connection(&mut self) {
        // The host only sends a message when the session ends. After any other message, or when the host disconnects,
        // no more events come.
        let received = self.connection.connection().receive(&mut [0; 64]);
        if matches!(&received, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
        self.is_host_gone = !self.has_ended && !matches!(received, Ok(Some(_)));
        self.has_ended = true;
    }
}

/// The waiter for sessions.
#[derive(Debug)]
pub(crate) struct Waiter {
    poller: Poller,
}

impl Waiter {
    /// Returns a waiter without sessions.
    pub(crate) fn new() -> io::Result<Waiter> {
        Ok(Waiter { poller: Poller::new()? })
    }

    /// Adds the session of a source.
    pub(crate) fn add(&self, channel: &Channel, source: u32) -> io::Result<()> {
        let token = 2 * u64::from(source);
        channel.connection.connection().set_nonblocking(true)?;
        self.poller.add(&channel.data_ready, token, Interest::Read)?;
        self.poller.add(&channel.connection, token + 1, Interest::Read)
    }

    /// Removes a session.
    pub(crate) fn remove(&self, channel: &Channel) {
        // Removing it twice fails harmlessly.
        let _ = self.poller.remove(&channel.connection);
        let _ = self.poller.remove(&channel.data_ready);
    }

    /// Blocks until a session has sent something or has ended, or until `longest` has passed.
    pub(crate) fn wait(&mut self, sessions: &mut [impl Awaited<Channel>], longest: Duration) {
        let mut asleep = true;
        for session in sessions.iter_mut() {
            asleep &= session.is_at_end() || session.channel().ring.sleeps();
        }
        let time = if asleep { longest } else { Duration::ZERO };
        match self.poller.wait(Some(time)) {
            Ok(ready) => {
                for ready in ready {
                    let source = ready.token / 2;
                    let session = sessions.iter_mut().find(|session| u64::from(session.source()) == source);
                    let Some(session) = session else { continue };
                    let channel = session.channel();
                    match ready.token % 2 {
                        0 => {
                            channel.data_ready.silence();
                        }
                        _ => channel.look_at_connection(),
                    }
                }
            }
            // Polls if waiting fails.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        for session in sessions {
            let channel = session.channel();
            channel.ring.awake();
            if channel.has_ended {
                // An ended session stays ready forever.
                self.remove(session.channel());
            }
        }
    }
}
