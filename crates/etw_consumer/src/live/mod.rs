//! Events of live sessions in the order of time.
//!
//! A session's logger puts buffers into a ring, and now and then a watermark: the time up to which it has sent
//! everything. Each processor of each session is a stream, and the streams are merged up to the smallest watermark of
//! all sessions, in place: the bytes stay in the ring until their records have been delivered. Only when a ring would
//! run full while another session's watermark is awaited is its content copied out.

mod channel;
mod error;
mod session;
mod stream;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use etw_etl::Damage;
use etw_event::{Clock, FileTime, Record};

use crate::merge::scale::Scale;
use crate::tournament::Tournament;
use crate::{SourceStatistics, StopHandle};

pub(crate) use channel::Channel;
use channel::Waiter;
pub use error::SessionError;
use session::{Data, Pending, Session};
use stream::Stream;

/// How long one wait lasts at most, so that a wish to stop is seen.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Bytes that are copied out of rings at most. Beyond that a session that sends no watermark is not waited for.
const MAX_COPIED_BYTES: usize = 64 << 20;

/// The live sessions of a trace.
#[derive(Debug)]
pub(crate) struct Live {
    sessions: Vec<Session>,
    streams: Vec<Stream>,
    /// The stream of each session and processor.
    stream_of: HashMap<(usize, u16), usize>,
    tournament: Tournament,
    waiter: Waiter,
    /// The scales of the files that are read together with the sessions.
    file_scales: Vec<Scale>,
    copied_bytes: usize,
    last_key: i64,
    /// Records whose time lies before that of the record delivered before them.
    pub(crate) inversions: u64,
    /// Records before this key are passed over.
    from: i64,
    /// Records from this key on end reading.
    to: i64,
}

/// What is done with what is read.
pub(crate) trait Sink {
    /// Takes a record; answers whether to go on.
    fn record(&mut self, record: &Record<'_>) -> ControlFlow<()>;
    /// Takes damage of a source.
    fn damage(&mut self, source: u32, damage: Damage);
    /// Everything that has arrived so far has been delivered.
    fn idle(&mut self);
}

impl Live {
    /// Sessions that are read together with files; `clocks` are those of the files, then those of the sessions.
    ///
    /// # Errors
    /// The system refuses what it takes to wait for them.
    pub(crate) fn new(channels: Vec<(Channel, String)>, clocks: &[Clock]) -> Result<Live, SessionError> {
        let base = clocks.first().map_or(FileTime(0), |clock| clock.start);
        let scale = |clock: &Clock| if clocks.len() == 1 { Scale::Raw } else { Scale::utc(clock, base) };
        let files = clocks.get(..clocks.len().saturating_sub(channels.len())).unwrap_or_default();
        let file_scales: Vec<Scale> = files.iter().map(scale).collect();
        let names: Vec<String> = channels.iter().map(|(_, name)| name.clone()).collect();
        let of_sessions = clocks.get(files.len()..).unwrap_or_default();
        let sessions: Vec<Session> = channels
            .into_iter()
            .zip(of_sessions)
            .zip(files.len() as u32..)
            .map(|(((channel, name), clock), source)| {
                Session::new(channel, name, *clock, scale(clock), source)
            })
            .collect();
        let waiter = Waiter::new(sessions.iter().map(|session| &session.channel)).map_err(|source| {
            SessionError::Io { session: names.join(", "), what: "cannot be waited for", source }
        })?;
        let mut live = Live {
            sessions,
            streams: Vec::new(),
            stream_of: HashMap::new(),
            tournament: Tournament::new(0),
            waiter,
            file_scales,
            copied_bytes: 0,
            last_key: i64::MIN,
            inversions: 0,
            from: i64::MIN,
            to: i64::MAX,
        };
        for number in 0..live.sessions.len() {
            if let Some((processor, header)) = live.sessions.get(number).and_then(Session::header) {
                live.add(number, processor, header);
            }
        }
        Ok(live)
    }

    /// Passes over records before `from` and from `to` on.
    pub(crate) fn limit_to(&mut self, from: Option<FileTime>, to: Option<FileTime>) {
        let key = |time| self.sessions.first().map(|session| session.key(time));
        let (from, to) = (from.and_then(key), to.and_then(key));
        (self.from, self.to) = (from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX));
    }

    /// Enters what has been seen of the sessions.
    pub(crate) fn count<'s>(&self, sources: impl Iterator<Item = &'s mut SourceStatistics>) {
        for (session, source) in self.sessions.iter().zip(sources) {
            source.buffers = session.buffers;
            source.buffers_after_lost_events = session.buffers_after_lost_events;
        }
    }

    /// Delivers the records that come before one of a file, and waits for those that are still to come. Breaks when
    /// `stop` is asked for or the sink wants no more.
    pub(crate) fn run_before(
        &mut self,
        record: &Record<'_>,
        stop: &StopHandle,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        let scale = self.file_scales.get(record.origin().source as usize);
        let until = scale.map_or(i64::MAX, |scale| scale.key(record.raw_time()));
        self.run_until(until, stop, sink)
    }

    /// Delivers records and waits for more, until all sessions have ended, `stop` is asked for, or the sink wants no
    /// more.
    ///
    /// # Errors
    /// A session's ring is broken. What it sent before has been delivered, and the other sessions have been read to
    /// their ends.
    pub(crate) fn run(&mut self, stop: &StopHandle, sink: &mut impl Sink) -> Result<(), SessionError> {
        let _ = self.run_until(i64::MAX, stop, sink);
        self.sessions.iter_mut().find_map(|session| session.error.take()).map_or(Ok(()), Err)
    }

    fn run_until(&mut self, until: i64, stop: &StopHandle, sink: &mut impl Sink) -> ControlFlow<()> {
        let until = until.min(self.to);
        loop {
            if stop.is_stopped() {
                return ControlFlow::Break(());
            }
            let mut arrived = false;
            for number in 0..self.sessions.len() {
                arrived |= self.take_in(number, sink);
            }
            let reached = self.watermark();
            self.deliver(reached.min(until.saturating_sub(1)), sink)?;
            if reached >= until || self.sessions.iter().all(|session| session.is_at_end) {
                return ControlFlow::Continue(());
            }
            if !arrived {
                self.make_room();
                sink.idle();
                self.waiter.wait(&mut self.sessions, LONGEST_WAIT);
            } else if self.sessions.iter().any(|session| session.channel.is_half_full()) {
                self.make_room();
            }
        }
    }

    /// Takes in what has arrived of a session. Answers whether anything has.
    fn take_in(&mut self, number: usize, sink: &mut impl Sink) -> bool {
        let mut arrived = false;
        while let Some(session) = self.sessions.get_mut(number)
            && let Some((processor, pending)) = session.next_buffer(&mut arrived, sink)
        {
            self.add(number, processor, pending);
        }
        arrived
    }

    /// Adds a buffer to its stream.
    fn add(&mut self, number: usize, processor: u16, pending: Pending) {
        let Some(session) = self.sessions.get_mut(number) else { return };
        let index = match self.stream_of.get(&(number, processor)) {
            Some(index) => *index,
            None => {
                let index = self.streams.len();
                self.streams.push(Stream::new(number, session.origin(processor)));
                self.stream_of.insert((number, processor), index);
                self.tournament = Tournament::new(self.streams.len());
                for (stream, index) in self.streams.iter().zip(0..) {
                    if let Some(key) = stream.first_key {
                        self.tournament.set(index, key);
                    }
                }
                index
            }
        };
        let Some(stream) = self.streams.get_mut(index) else { return };
        stream.pending.push_back(pending);
        if stream.pending.len() == 1 {
            open_front(index, stream, session, &mut self.tournament, &mut self.copied_bytes);
        }
    }

    /// The key up to which everything has been sent.
    fn watermark(&self) -> i64 {
        let waited_for = self.sessions.iter().filter(|session| !session.is_late);
        waited_for.map(|session| session.watermark).min().unwrap_or(i64::MAX)
    }

    /// Delivers the records whose keys are at most `last`.
    fn deliver(&mut self, last: i64, sink: &mut impl Sink) -> ControlFlow<()> {
        while let Some(turn) = self.tournament.turn()
            && turn.first <= last
        {
            let index = turn.stream as usize;
            let Some(stream) = self.streams.get_mut(index) else { break };
            let Some(session) = self.sessions.get_mut(stream.session) else { break };
            let order = (&mut self.last_key, &mut self.inversions);
            let flow = stream.take_turn(session, self.from, turn.last.min(last), order, sink);
            match stream.first_key {
                Some(key) => self.tournament.set(turn.stream, key),
                None => {
                    finish(stream, session, &mut self.copied_bytes);
                    open_front(index, stream, session, &mut self.tournament, &mut self.copied_bytes);
                }
            }
            flow?;
        }
        ControlFlow::Continue(())
    }

    /// Copies out of the rings what waits for the watermark of another session, where a ring is half full. If too much
    /// has been copied already, the session that is waited for is waited for no more.
    #[cold]
    fn make_room(&mut self) {
        for number in 0..self.sessions.len() {
            let Some(session) = self.sessions.get_mut(number) else { return };
            if !session.channel.is_half_full() {
                continue;
            }
            if self.copied_bytes > MAX_COPIED_BYTES {
                let late = self.sessions.iter_mut().filter(|session| !session.is_late);
                if let Some(late) = late.min_by_key(|session| session.watermark) {
                    late.is_late = true;
                }
                return;
            }
            for stream in self.streams.iter_mut().filter(|stream| stream.session == number) {
                for pending in &mut stream.pending {
                    if let Data::Ring(words) = &pending.data {
                        let bytes = session.channel.bytes(words.clone()).to_vec();
                        self.copied_bytes += bytes.len();
                        pending.data = Data::Copied(bytes);
                        session.give_back(pending.number);
                    }
                }
            }
        }
    }
}

/// Gives the front buffer of a stream back, all of whose records have been delivered.
fn finish(stream: &mut Stream, session: &mut Session, copied_bytes: &mut usize) {
    match stream.pending.pop_front() {
        Some(Pending { data: Data::Copied(bytes), .. }) => *copied_bytes -= bytes.len().min(*copied_bytes),
        Some(pending) => session.give_back(pending.number),
        None => {}
    }
}

/// Opens the buffer at the front of a stream, and enters its first record. What has no records is given back.
fn open_front(
    index: usize,
    stream: &mut Stream,
    session: &mut Session,
    tournament: &mut Tournament,
    copied_bytes: &mut usize,
) {
    while !stream.pending.is_empty() {
        stream.open(session);
        if let Some(key) = stream.first_key {
            return tournament.set(index as u32, key);
        }
        finish(stream, session, copied_bytes);
    }
    tournament.remove(index as u32);
}
