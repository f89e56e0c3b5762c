//! The sessions that are read: adding and removing them while others are read.

use etw_event::{Clock, FileTime, Ticks};
use etw_protocol::session_name_eq;

use super::changes::{Opened, Reconnect, Request, SessionChange, SessionEnd};
use super::session::Session;
use super::{Live, SessionError, Sink};
use crate::SessionGap;
use crate::merge::scale::Scale;
use crate::one_clock;
use crate::tournament::Tournament;

impl Live {
    /// Makes a change that another thread requested.
    #[cold]
    pub(super) fn change(&mut self, request: Request, sink: &mut impl Sink) {
        match request {
            Request::Detach(name) => {
                self.reconnecting.retain(|reconnect| !session_name_eq(&reconnect.name, &name));
                for number in 0..self.sessions.len() {
                    self.take_in(number, sink);
                }
                let is_named = |session: &&mut Session| session_name_eq(&session.address.name, &name);
                for session in self.sessions.iter_mut().filter(is_named) {
                    session.end(SessionEnd::Detached);
                }
            }
            Request::Attach(opened, read_until) => self.attach(*opened, read_until, sink),
        }
    }

    /// Adds a session while others are read; `read_until` is the time up to which its predecessor was read.
    fn attach(&mut self, opened: Opened, read_until: Option<FileTime>, sink: &mut impl Sink) {
        let (name, header) = (opened.address.name.clone(), opened.header.clone());
        if read_until.is_some() {
            let before = self.reconnecting.len();
            self.reconnecting.retain(|reconnect| !session_name_eq(&reconnect.name, &name));
            if self.reconnecting.len() == before {
                // It was detached meanwhile.
                return;
            }
        }
        self.use_common_scale();
        let clock = one_clock::shared(&self.known, &header, &opened.clock).unwrap_or(opened.clock);
        let (source, time) = (self.known.len() as u32, opened.time);
        self.known.push((header.clone(), clock));
        self.attached.push((name.clone(), header));
        sink.attached(&name);
        if let Err(error) = self.open(opened, clock, source) {
            let reason = SessionEnd::Broken(error);
            sink.changed(&SessionChange::Ended { session: &name, reason: &reason });
            self.keep_error(reason);
            return;
        }
        // The header of the new session is earlier than what was delivered before.
        self.last_key = i64::MIN;
        sink.changed(&match read_until {
            None => SessionChange::Attached { session: &name },
            Some(from) => {
                SessionChange::Reconnected { session: &name, gap: SessionGap { source, from, to: time } }
            }
        });
    }

    /// Adds a session with its first buffer.
    pub(super) fn open(&mut self, opened: Opened, clock: Clock, source: u32) -> Result<(), SessionError> {
        let scale = match self.raw {
            Some(_) => Scale::Raw,
            None => Scale::utc(&clock, self.base),
        };
        let session = Session::new(opened, clock, scale, source);
        self.waiter.add(&session.channel, source).map_err(|source| {
            let session = session.address.name.clone();
            SessionError::Io { session, what: "cannot be waited for", source }
        })?;
        let header = session.header();
        self.sessions.push(session);
        if let Some((processor, pending)) = header {
            self.add(self.sessions.len() - 1, processor, pending);
        }
        Ok(())
    }

    /// Removes the sessions that have ended and whose records have all been delivered.
    pub(super) fn retire(&mut self, sink: &mut impl Sink) {
        let mut number = 0;
        while let Some(session) = self.sessions.get(number) {
            let has_records =
                || self.streams.iter().any(|stream| stream.session == number && !stream.pending.is_empty());
            if !session.is_at_end || has_records() {
                number += 1;
                continue;
            }
            let session = self.remove(number);
            let (read_until, Session { address, reason, .. }) = (session.read_until(), session);
            sink.changed(&SessionChange::Ended { session: &address.name, reason: &reason });
            if self.reconnects && matches!(reason, SessionEnd::Stopped | SessionEnd::HostGone) {
                match Reconnect::start(address, read_until, self.handle()) {
                    Ok(reconnect) => self.reconnecting.push(reconnect),
                    Err(error) => self.keep_error(SessionEnd::Broken(error)),
                }
            }
            self.keep_error(reason);
        }
    }

    fn keep_error(&mut self, reason: SessionEnd) {
        if let SessionEnd::Broken(error) = reason {
            self.error.get_or_insert(error);
        }
    }

    /// Removes a session and its streams, which have no records left.
    #[cold]
    fn remove(&mut self, number: usize) -> Session {
        let session = self.sessions.remove(number);
        self.waiter.remove(&session.channel);
        self.streams.retain(|stream| stream.session != number);
        self.stream_of.clear();
        for (index, stream) in self.streams.iter_mut().enumerate() {
            stream.session -= usize::from(stream.session > number);
            self.stream_of.insert((stream.session, stream.origin.processor), index);
        }
        self.play_again();
        session
    }

    /// Changes the keys from the ticks of a single source to the common scale.
    fn use_common_scale(&mut self) {
        let Some(clock) = self.raw.take() else { return };
        let scale = Scale::utc(&clock, self.base);
        let change = |key: &mut i64| {
            if *key != i64::MIN && *key != i64::MAX {
                *key = scale.key(Ticks(*key));
            }
        };
        for session in &mut self.sessions {
            session.scale = scale;
            change(&mut session.watermark);
        }
        self.streams.iter_mut().filter_map(|stream| stream.first_key.as_mut()).for_each(change);
        change(&mut self.from);
        change(&mut self.to);
        self.play_again();
    }

    /// Sets up the tournament after the streams or their keys have changed.
    pub(super) fn play_again(&mut self) {
        self.tournament = Tournament::new(self.streams.len());
        for (stream, index) in self.streams.iter().zip(0..) {
            if let Some(key) = stream.first_key {
                self.tournament.set(index, key);
            }
        }
    }
}
