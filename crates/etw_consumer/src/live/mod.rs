//! Events of live sessions in time order.
//!
//! A session's logger puts buffers into a ring, and from time to time a watermark: the time up to which it has sent
//! everything. Each processor of each session is a stream. The streams are merged up to the smallest watermark of all
//! sessions. A buffer is copied when its first record is next, since the process that writes the ring could change the
//! bytes in it at any time, and stays in the ring until its records have been delivered. Other buffers are copied only
//! if the ring would become full while waiting for another session's watermark.
//!
//! Sessions may be attached and detached while they are read. A session that has ended is removed when all its records
//! have been delivered.

mod changes;
mod channel;
mod error;
#[cfg(target_os = "linux")]
mod feed;
mod now;
mod roster;
mod session;
mod stream;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use etw_etl::{Damage, LogFileHeader};
use etw_event::{Clock, FileTime, Record};

use crate::StopHandle;
use crate::merge::scale::Scale;
use crate::tournament::Tournament;

use changes::Reconnect;
pub(crate) use changes::{Address, Opened};
pub use changes::{SessionChange, SessionEnd, SessionsHandle};
pub(crate) use channel::Channel;
use channel::Waiter;
pub use error::SessionError;
#[cfg(target_os = "linux")]
pub use feed::{BufferFeed, FeedError};
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
    /// The clock of the keys while there is only one source, whose raw ticks they are.
    raw: Option<Clock>,
    /// The time of key 0 on the common scale.
    base: FileTime,
    /// The headers and clocks of the sources so far.
    known: Vec<(LogFileHeader, Clock)>,
    /// The names and headers of the sessions that were attached in the current pass.
    attached: Vec<(String, LogFileHeader)>,
    /// Changes requested by other threads.
    handle: SessionsHandle,
    /// Whether to open sessions again after they ended.
    reconnects: bool,
    /// Sessions that are being opened again.
    reconnecting: Vec<Reconnect>,
    /// The first failure of a session.
    error: Option<SessionError>,
    copies: Copies,
    last_key: i64,
    /// Records earlier than the record delivered before them.
    pub(crate) inversions: u64,
    /// Records before this key are skipped.
    from: i64,
    /// A record at or after this key ends reading.
    to: i64,
}

/// Copies of buffers.
#[derive(Debug, Default)]
struct Copies {
    /// Size of the copies whose entries in rings have been released.
    released_bytes: usize,
    /// Memory of former copies, for later ones.
    spare: Vec<Vec<u64>>,
}

/// Maximum number of former copies whose memory is kept.
const MAX_SPARE: usize = 16;

/// The receiver of what is read.
pub(crate) trait Sink {
    /// Handles a record; returns whether to go on.
    fn record(&mut self, record: &Record<'_>) -> ControlFlow<()>;
    /// Handles damage of a source.
    fn damage(&mut self, source: u32, damage: Damage);
    /// Counts a buffer of a session as it arrived; most are parts of buffers.
    fn buffer(&mut self, source: u32, is_after_lost_events: bool);
    /// Handles a buffer with its header, which `read` copies; returns its size in bytes.
    fn raw_buffer(&mut self, source: u32, read: impl FnOnce(&mut Vec<u64>) -> usize);
    /// Adds a source after the existing ones.
    fn attached(&mut self, name: &str);
    /// Called when a session comes or goes.
    fn changed(&mut self, change: &SessionChange<'_>);
    /// Called when everything that has arrived so far has been delivered.
    fn idle(&mut self);
}

impl Live {
    /// Returns sessions to be read together with files; `clocks` and `headers` are those of the files, then those of the
    /// sessions. With `reconnects`, sessions are opened again after they ended.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot create the objects to wait with.
    pub(crate) fn new(
        opened: Vec<Opened>,
        headers: &[LogFileHeader],
        clocks: &[Clock],
        reconnects: bool,
    ) -> Result<Live, SessionError> {
        let base = clocks.first().map_or(FileTime(0), |clock| clock.start);
        let files = clocks.len().saturating_sub(opened.len());
        let (of_files, of_sessions) = clocks.split_at_checked(files).unwrap_or_default();
        let names = || opened.iter().map(|opened| &*opened.address.name).collect::<Vec<_>>().join(", ");
        let waiter = Waiter::new().map_err(|source| SessionError::Io {
            session: names(),
            what: "cannot be waited for",
            source,
        })?;
        let mut live = Live {
            sessions: Vec::new(),
            streams: Vec::new(),
            stream_of: HashMap::new(),
            tournament: Tournament::new(0),
            waiter,
            file_scales: of_files.iter().map(|clock| Scale::utc(clock, base)).collect(),
            raw: clocks.first().filter(|_| clocks.len() == 1).copied(),
            base,
            known: headers.iter().cloned().zip(clocks.iter().copied()).collect(),
            attached: Vec::new(),
            handle: SessionsHandle::default(),
            reconnects,
            reconnecting: Vec::new(),
            error: None,
            copies: Copies::default(),
            last_key: i64::MIN,
            inversions: 0,
            from: i64::MIN,
            to: i64::MAX,
        };
        for ((opened, clock), source) in opened.into_iter().zip(of_sessions).zip(files as u32..) {
            live.open(opened, *clock, source)?;
        }
        Ok(live)
    }

    /// Returns the handle that attaches and detaches sessions.
    pub(crate) fn handle(&self) -> SessionsHandle {
        self.handle.clone()
    }

    /// Removes and returns the names and headers of the sessions that the last pass attached.
    pub(crate) fn take_attached(&mut self) -> Vec<(String, LogFileHeader)> {
        std::mem::take(&mut self.attached)
    }

    /// Skips records before `from`, and ends reading at `to`.
    pub(crate) fn limit_to(&mut self, from: Option<FileTime>, to: Option<FileTime>) {
        let key = |time| self.sessions.first().map(|session| session.key(time));
        let (from, to) = (from.and_then(key), to.and_then(key));
        (self.from, self.to) = (from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX));
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
        self.run_until(Some(until), stop, sink)
    }

    /// Delivers records and waits for more, until all sessions have ended, `stop` is set, or the sink ends reading.
    ///
    /// # Errors
    ///
    /// Fails if a session's ring is broken. What it sent before has been delivered, and the other sessions have been
    /// read to their ends.
    pub(crate) fn run(&mut self, stop: &StopHandle, sink: &mut impl Sink) -> Result<(), SessionError> {
        let _ = self.run_until(None, stop, sink);
        self.error.take().map_or(Ok(()), Err)
    }

    /// Delivers the records before a key, or all that come.
    fn run_until(&mut self, key: Option<i64>, stop: &StopHandle, sink: &mut impl Sink) -> ControlFlow<()> {
        loop {
            if stop.is_stopped() {
                return ControlFlow::Break(());
            }
            for request in self.handle.take() {
                self.change(request, sink);
            }
            let mut arrived = false;
            for number in 0..self.sessions.len() {
                arrived |= self.take_in(number, sink);
            }
            let until = key.unwrap_or(i64::MAX).min(self.to);
            let reached = self.watermark();
            self.deliver(reached.min(until.saturating_sub(1)), sink)?;
            self.retire(sink);
            let waits_for_sessions =
                self.sessions.is_empty() && key.is_none() && !self.reconnecting.is_empty();
            if self.watermark() >= until && !waits_for_sessions {
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
        let index = match self.stream_of.get(&(number, processor)) {
            Some(index) => *index,
            None => {
                let Some(session) = self.sessions.get(number) else { return };
                let index = self.streams.len();
                self.streams.push(Stream::new(number, session.origin(processor)));
                self.stream_of.insert((number, processor), index);
                self.play_again();
                index
            }
        };
        let Some(session) = self.sessions.get_mut(number) else { return };
        let Some(stream) = self.streams.get_mut(index) else { return };
        stream.pending.push_back(pending);
        if stream.pending.len() == 1 {
            open_front(index, stream, session, &mut self.tournament, &mut self.copies);
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
                    finish(stream, session, &mut self.copies);
                    open_front(index, stream, session, &mut self.tournament, &mut self.copies);
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
            if self.copies.released_bytes > MAX_COPIED_BYTES {
                let late = self.sessions.iter_mut().filter(|session| !session.is_late);
                if let Some(late) = late.min_by_key(|session| session.watermark) {
                    late.is_late = true;
                }
                return;
            }
            for stream in self.streams.iter_mut().filter(|stream| stream.session == number) {
                for pending in &mut stream.pending {
                    let copy = match &mut pending.data {
                        Data::Ring(words) => {
                            let mut copy = Vec::new();
                            session.channel.copy(words.clone(), &mut copy);
                            copy
                        }
                        Data::Open(copy) => std::mem::take(copy),
                        Data::Copied(_) => continue,
                    };
                    self.copies.released_bytes += size_of_val(&*copy);
                    pending.data = Data::Copied(copy);
                    session.give_back(pending.number);
                }
            }
        }
    }
}

/// Releases the front buffer of a stream after all its records have been delivered.
fn finish(stream: &mut Stream, session: &mut Session, copies: &mut Copies) {
    let Some(Pending { number, data, .. }) = stream.pending.pop_front() else { return };
    match data {
        Data::Copied(copy) => {
            copies.released_bytes = copies.released_bytes.saturating_sub(size_of_val(&*copy));
        }
        Data::Open(copy) => {
            session.give_back(number);
            if copies.spare.len() < MAX_SPARE {
                copies.spare.push(copy);
            }
        }
        Data::Ring(_) => session.give_back(number),
    }
}

/// Opens the buffer at the front of a stream and adds its first record. Releases buffers without records.
fn open_front(
    index: usize,
    stream: &mut Stream,
    session: &mut Session,
    tournament: &mut Tournament,
    copies: &mut Copies,
) {
    while !stream.pending.is_empty() {
        stream.open(session, &mut copies.spare);
        if let Some(key) = stream.first_key {
            return tournament.set(index as u32, key);
        }
        finish(stream, session, copies);
    }
    tournament.remove(index as u32);
}
