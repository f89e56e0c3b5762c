//! Stub for systems without live sessions: a channel that cannot be created.

use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::time::Duration;

use etw_buffer::ring::{Entry, RingError};

use super::super::SessionError;
use super::Awaited;

/// The connection to a session, which this system does not support.
#[derive(Debug)]
pub(crate) struct Channel(Infallible);

impl Channel {
    pub(crate) fn open(session: &str) -> Result<Channel, SessionError> {
        Err(SessionError::Unsupported { session: session.to_owned() })
    }

    pub(crate) fn header(&self) -> &[u8] {
        match self.0 {}
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, RingError> {
        match self.0 {}
    }

    pub(crate) fn bytes(&self, _: Range<usize>) -> &[u8] {
        match self.0 {}
    }

    pub(crate) fn release(&mut self, _: u64) {
        match self.0 {}
    }

    pub(crate) fn is_half_full(&self) -> bool {
        match self.0 {}
    }
}

/// The waiter for sessions, which this system does not support.
#[derive(Debug)]
pub(crate) struct Waiter;

impl Waiter {
    pub(crate) fn new<'c>(_: impl Iterator<Item = &'c Channel>) -> io::Result<Waiter> {
        Ok(Waiter)
    }

    pub(crate) fn wait(&mut self, sessions: &mut [impl Awaited], _: Duration) {
        if let Some(session) = sessions.iter_mut().find(|session| !session.is_at_end()) {
            match session.channel().0 {}
        }
    }
}
