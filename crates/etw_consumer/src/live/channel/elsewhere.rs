//! Stub for systems without live sessions: a channel that cannot be created.

use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use etw_buffer::ring::{Entry, RingError};

use super::super::SessionError;
use super::awaited::Awaited;

/// The connection to a session, which this system does not support.
#[derive(Debug)]
pub(crate) struct Channel(Infallible);

pub(crate) fn broken(session: String, source: RingError) -> SessionError {
    SessionError::Ring { session, source }
}

impl Channel {
    pub(crate) fn open(session: &str, _: Option<&Path>) -> Result<Channel, SessionError> {
        Err(SessionError::Unsupported { session: session.to_owned() })
    }

    pub(crate) fn header(&self) -> &[u8] {
        match self.0 {}
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_host_gone(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, RingError> {
        match self.0 {}
    }

    pub(crate) fn copy(&self, _: Range<usize>, _: &mut Vec<u64>) {
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
    pub(crate) fn new() -> io::Result<Waiter> {
        Ok(Waiter)
    }

    pub(crate) fn add(&self, channel: &Channel, _: u32) -> io::Result<()> {
        match channel.0 {}
    }

    pub(crate) fn remove(&self, channel: &Channel) {
        match channel.0 {}
    }

    pub(crate) fn wait(&mut self, sessions: &mut [impl Awaited<Channel>], longest: Duration) {
        match sessions.first_mut() {
            Some(session) => match session.channel().0 {},
            None => std::thread::sleep(longest),
        }
    }
}
