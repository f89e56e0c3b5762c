//! Events of live sessions in time order.
//!
//! A session's logger puts buffers into a ring, and from time to time a watermark: the time up to which it has sent
//! everything. Each processor of each session is a stream. The streams are merged up to the smallest watermark of all
//! sessions, in place: the bytes stay in the ring until their records have been delivered. The content of a ring is
//! copied out only if the ring would become full while waiting for another session's watermark.

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

/// Maximum length of one wait, so that stop requests are noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Limit for bytes copied out of rings. Beyond it, a session without a watermark no longer holds up the others.
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
    /// Records earlier than the record delivered before them.
    pub(crate) inversions: u64,
    /// Records before this key are skipped.
    from: i64,
    /// A record at or after this key ends reading.
    to: i64,
}

/// The receiver of what is read.
pub(crate) trait Sink {
    /// Handles a record; returns whether to go on.
    fn record(&mut self, record: &Record<'_>) -> ControlFlow<()>;
    /// Handles damage of a source.
    fn damage(&mut self, source: u32, damage: Damage);
    /// Called when everything that has arrived so far has been delivered.
    fn idle(&mut self);
}

impl Live {
    /// Returns sessions to be read together with files; `clocks` are those of the files, then those of the sessions.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot create the objects to wait with.
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

    /// Skips records before `from`, and ends reading at `to`.
    pub(crate) fn limit_to(&mut self, from: Option<FileTime>, to: Option<FileTime>) {
        let key = |time| self.sessions.first().map(|session| session.key(time));
        let (from, to) = (from.and_then(key), to.and_then(key));
        (self.from, self.to) = (from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX));
    }

    /// Adds the counts of the sessions to the statistics.
    pub(crate) fn count<'s>(&self, sources: impl Iterator<Item = &'s mut SourceStatistics>) {
        for (session, source) in self.sessions.iter().zip(sources) {
            source.buffers = session.buffers;
            source.buffers_after_lost_events = session.buffers_after_lost_events;
        }
    }

    /// Delivers the records that come before one of a file, and waits for those that are still to come. Breaks when
    /// `stop` is set or the sink ends reading.
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

    /// Delivers records and waits for more, until all sessions have ended, `stop` is set, or the sink ends reading.
    ///
    /// # Errors
    ///
    /// Fails if a session's ring is broken. What it sent before has been delivered, and the other sessions have been
    /// read to their ends.
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

    /// Reads the buffers that have arrived from a session. Returns whether there were any.
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

    /// Returns the key up to which every session has sent everything.
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

    /// Copies buffers that wait for another session's watermark out of rings that are half full. At the limit for
    /// copied bytes, the late session no longer holds up the others.
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

/// Releases the front buffer of a stream after all its records have been delivered.
fn finish(stream: &mut Stream, session: &mut Session, copied_bytes: &mut usize) {
    match stream.pending.pop_front() {
        Some(Pending { data: Data::Copied(bytes), .. }) => *copied_bytes -= bytes.len().min(*copied_bytes),
        Some(pending) => session.give_back(pending.number),
        None => {}
    }
}

/// Opens the buffer at the front of a stream and adds its first record. Releases buffers without records.
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
