//! Sessions that come and go while a trace is read.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use etw_etl::LogFileHeader;
use etw_event::{Clock, FileTime};

use super::now::now;
use super::{Channel, SessionError};
use crate::SessionGap;

/// Pause between two attempts to open a session again.
const RETRY: Duration = Duration::from_millis(200);

/// A change of the sessions of a trace, passed to the callback of
/// [`TraceBuilder::on_session_change`](crate::TraceBuilder::on_session_change).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SessionChange<'a> {
    /// A session was attached ([`SessionsHandle::attach`]).
    Attached {
        /// The session.
        session: &'a str,
    },
    /// A session has ended, and everything it sent has been delivered.
    Ended {
        /// The session.
        session: &'a str,
        /// The reason.
        reason: &'a SessionEnd,
    },
    /// A session of the same name was opened after the end of the previous one
    /// ([`TraceBuilder::reconnect`](crate::TraceBuilder::reconnect)).
    Reconnected {
        /// The session.
        session: &'a str,
        /// The time that was not read.
        gap: SessionGap,
    },
}

/// The reason why a live session ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The session was stopped: by a controller, by its limits, or by its host when that was stopped.
    Stopped,
    /// The connection to the host broke, as when the host was killed.
    HostGone,
    /// The program detached it ([`SessionsHandle::detach`]).
    Detached,
    /// The ring of events is broken.
    Broken(SessionError),
}

/// Attaches and detaches live sessions while a trace is read, from any thread; from
/// [`Trace::sessions_handle`](crate::Trace::sessions_handle).
///
/// A change takes effect within 50 ms, or with the next pass if none is running. A pass ends when all sessions have
/// ended, so a session that is to keep it running must be attached before that. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SessionsHandle(Arc<Queue>);

/// Changes that the reading thread has not made yet.
#[derive(Debug, Default)]
struct Queue {
    is_waiting: AtomicBool,
    requests: Mutex<Vec<Request>>,
}

/// A change to make.
#[derive(Debug)]
pub(super) enum Request {
    /// Read a session; the time is that up to which its predecessor was read.
    Attach(Box<Opened>, Option<FileTime>),
    Detach(String),
}

/// The place of a session: its name, and the directory of its host's instance, if that is given.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) name: String,
    pub(crate) directory: Option<PathBuf>,
}

/// An open session.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) address: Address,
    pub(crate) channel: Channel,
    pub(crate) header: LogFileHeader,
    pub(crate) clock: Clock,
    /// When it was opened.
    pub(super) time: FileTime,
}

impl Opened {
    /// Opens a session.
    pub(crate) fn open(address: Address) -> Result<Opened, SessionError> {
        let channel = Channel::open(&address.name, address.directory.as_deref())?;
        Opened::new(address, channel)
    }

    /// Returns the session of an open channel.
    pub(crate) fn new(address: Address, channel: Channel) -> Result<Opened, SessionError> {
        let file = channel.header_file(&address.name)?;
        let (header, clock) = (file.header().clone(), file.clock());
        Ok(Opened { address, channel, header, clock, time: now() })
    }
}

impl SessionsHandle {
    /// Opens a session and adds it to the trace. Its events are merged in time order from then on.
    ///
    /// # Errors
    ///
    /// Fails if no host is running, if there is no such session, or if it is not a real-time session.
    pub fn attach(&self, session: &str) -> Result<(), SessionError> {
        self.attach_to(Address { name: session.to_owned(), directory: None })
    }

    /// As [`SessionsHandle::attach`], at the host with this directory
    /// ([`TraceBuilder::session_at`](crate::TraceBuilder::session_at)).
    ///
    /// # Errors
    ///
    /// As [`SessionsHandle::attach`].
    pub fn attach_at(&self, directory: impl AsRef<Path>, session: &str) -> Result<(), SessionError> {
        self.attach_to(Address { name: session.to_owned(), directory: Some(directory.as_ref().to_owned()) })
    }

    /// Removes the sessions with this name, ignoring case, from the trace. Events that have arrived are delivered.
    ///
    /// The sessions themselves go on.
    pub fn detach(&self, session: &str) {
        self.push(Request::Detach(session.to_owned()));
    }

    fn attach_to(&self, address: Address) -> Result<(), SessionError> {
        self.push(Request::Attach(Box::new(Opened::open(address)?), None));
        Ok(())
    }

    fn push(&self, request: Request) {
        self.requests().push(request);
        self.0.is_waiting.store(true, Ordering::Release);
    }

    fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the changes to make now.
    pub(super) fn take(&self) -> Vec<Request> {
        // Most calls find nothing, so the lock is only taken if there is something.
        match self.0.is_waiting.swap(false, Ordering::Acquire) {
            true => std::mem::take(&mut *self.requests()),
            false => Vec::new(),
        }
    }
}

/// An attempt to open a session again, which a thread repeats until it succeeds or this is dropped.
#[derive(Debug)]
pub(super) struct Reconnect {
    pub(super) name: String,
    _alive: Arc<()>,
}

impl Reconnect {
    /// Starts the thread; `from` is the time up to which the session was read.
    pub(super) fn start(
        address: Address,
        from: FileTime,
        sessions: SessionsHandle,
    ) -> Result<Reconnect, SessionError> {
        let name = address.name.clone();
        let alive = Arc::new(());
        let wanted = Arc::downgrade(&alive);
        let spawned = thread::Builder::new()
            .name("reconnect".into())
            .spawn(move || retry(&address, from, &sessions, &wanted));
        match spawned {
            Ok(_) => Ok(Reconnect { name, _alive: alive }),
            Err(source) => {
                Err(SessionError::Io { session: name, what: "no thread to reconnect with", source })
            }
        }
    }
}

fn retry(address: &Address, from: FileTime, sessions: &SessionsHandle, wanted: &Weak<()>) {
    while wanted.strong_count() > 0 {
        match Opened::open(address.clone()) {
            Ok(opened) => return sessions.push(Request::Attach(Box::new(opened), Some(from))),
            // The host or the session may come later, whatever the reason is now.
            Err(_) => thread::sleep(RETRY),
        }
    }
}
