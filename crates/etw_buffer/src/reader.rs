//! The logger's side of a region.

use std::ops::Deref;

use crate::geometry::{
    BUFFER_HEADER, CHAIN, CLOCK_WORD, COMPLETE_WORD, END, FREE, LOST, LOST_OPEN, OWNER, WANTED_WORD,
};
use crate::geometry::{End, Geometry, RegionError, State, chain, owner};
use crate::record::FirstWord;
use crate::region::{Wanted, give_back};
use crate::sync::{AtomicU64, Ordering, word_of};

/// Maximum losses added by one reading of a processor's counter, since a hostile process can store any number there.
const MAX_LOST_A_LOOK: u64 = 1 << 32;

/// Looks at a processor that may find a record without one being read.
const MOST_LOOKS: u32 = 64;

/// Reads events from a region that another process writes to.
///
/// Each word of the region is read once and treated as hostile. No stored value can make a method panic, take longer
/// than the size of the region warrants, or corrupt another region.
#[derive(Debug)]
pub struct RegionReader<W> {
    words: W,
    geometry: Geometry,
    streams: Vec<Stream>,
    /// A bit for each buffer that the process must not use.
    withheld: Vec<u64>,
    /// Number of buffers that the process may use or is using.
    granted: usize,
    /// Buffers that may still be left in this pass, see [`RegionReader::begin_pass`].
    turns: usize,
    /// Buffers left since the last call of [`RegionReader::take_used`].
    used: usize,
    /// Buffers with an abandoned record whose writer may still be alive, and the word of that record.
    quarantine: Vec<(u16, usize)>,
    /// Losses not yet returned by [`RegionReader::lost`].
    lost: u64,
    /// Whether writes are rejected.
    is_closed: bool,
    /// Whether the process has ended, so that uncommitted records stay uncommitted.
    has_ended: bool,
    /// Process id stored into the records; `None` if they keep their writer's.
    process_id: Option<u32>,
    /// Maximum time by which a record may be ahead of the current time, in ticks of the session's clock.
    horizon: u64,
}

/// The reading position of a processor.
#[derive(Debug, Clone, Default)]
struct Stream {
    /// Number of the buffer change that made `buffer` current, or will make the next one current.
    change: u32,
    buffer: Option<u16>,
    /// Number of words read from the buffer.
    offset: usize,
    /// Whether the rest of the buffer is unreadable.
    is_spoilt: bool,
    /// Whether the buffer contains an abandoned record, and so cannot be reused at once.
    is_quarantined: bool,
    last_time: u64,
    /// The last value read from the counter of lost events.
    lost: u64,
}

/// The next record of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// A committed record with this time.
    Time(u64),
    /// A record that is reserved but not committed.
    Pending,
    /// No record.
    Empty,
}

/// The result of [`RegionReader::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Number of records.
    pub records: u64,
    /// Number of records that were refused, see [`RegionReader::read_checked`].
    pub refused: u64,
    /// The reason why reading ended.
    pub end: ReadEnd,
}

/// The reason why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEnd {
    /// No more records were written.
    Empty,
    /// The next record is not committed yet.
    Pending,
    /// The next record has this time, which is later than requested.
    Later(u64),
    /// The next record does not fit.
    NoRoom,
}

enum Look {
    Record { time: u64 },
    Pending,
    Empty,
}

impl<W: Deref<Target = [AtomicU64]>> RegionReader<W> {
    /// Creates a region in memory that is all zero. The process can use no buffer before [`RegionReader::grant`].
    ///
    /// `clock` is the number of the session's clock (`etw_sys::ClockSource`), `epoch` (1 to 255) identifies the session
    /// to writers, `process_id` is stored into the records (`None`: they keep their writer's), `start` is the session's start on its clock, and `horizon` is the maximum time by which a record may
    /// be ahead of the current time, in ticks.
    ///
    /// # Errors
    ///
    /// Fails if the geometry is invalid or the memory too small.
    pub fn format(
        words: W,
        geometry: Geometry,
        clock: u8,
        epoch: u8,
        process_id: impl Into<Option<u32>>,
        start: u64,
        horizon: u64,
    ) -> Result<RegionReader<W>, RegionError> {
        let geometry = geometry.check()?;
        let stream = Stream { change: 1, last_time: start, ..Stream::default() };
        let mut reader = RegionReader {
            words,
            geometry,
            streams: vec![stream; usize::from(geometry.processors)],
            withheld: vec![u64::MAX; usize::from(geometry.buffers).div_ceil(64)],
            granted: 0,
            turns: usize::MAX,
            used: 0,
            quarantine: Vec::new(),
            lost: 0,
            is_closed: false,
            has_ended: false,
            process_id: process_id.into(),
            horizon,
        };
        geometry.store(&reader.words)?;
        word_of(&reader.words, CLOCK_WORD).store(u64::from(clock), Ordering::Relaxed);
        reader.set_epoch(epoch);
        Ok(reader)
    }

    fn set_epoch(&mut self, epoch: u8) {
        for (processor, stream) in self.streams.iter().enumerate() {
            let state = State::empty(epoch, stream.change.wrapping_sub(1));
            let at = self.geometry.processor(processor);
            word_of(&self.words, at + LOST).store(LOST_OPEN, Ordering::Relaxed);
            word_of(&self.words, at).store(state.0, Ordering::Release);
        }
    }

    /// Returns the geometry of the region.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the memory.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// Lets the process use up to `buffers` more buffers, lowest numbers first, and returns their number.
    pub fn grant(&mut self, buffers: usize) -> usize {
        let mut count = 0;
        for buffer in 0..self.geometry.buffers {
            if count == buffers {
                break;
            }
            if self.is_withheld(buffer) {
                self.withhold(buffer, false);
                give_back(&self.words, buffer);
                count += 1;
            }
        }
        self.granted += count;
        count
    }

    /// Takes up to `buffers` free buffers back from the process, highest numbers first, and returns their number.
    pub fn reclaim(&mut self, buffers: usize) -> usize {
        let mut count = 0;
        for buffer in (0..self.geometry.buffers).rev() {
            if count == buffers {
                break;
            }
            let (index, bit) = place(buffer);
            if !self.is_withheld(buffer)
                && word_of(&self.words, FREE + index).fetch_and(!bit, Ordering::AcqRel) & bit != 0
            {
                self.withhold(buffer, true);
                count += 1;
            }
        }
        self.granted -= count;
        count
    }

    /// Returns the number of buffers that the process may use or is using.
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// Returns the positions of withheld buffers, in words of the memory. Their pages can be given back to the system;
    /// they must read as zero when they are granted again.
    pub fn withheld(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.geometry.buffers).filter(|buffer| self.is_withheld(*buffer)).map(|buffer| {
            let start = self.geometry.buffer_start(usize::from(buffer));
            start..start + self.geometry.buffer_words()
        })
    }

    fn is_withheld(&self, buffer: u16) -> bool {
        let (index, bit) = place(buffer);
        self.withheld.get(index).is_some_and(|word| word & bit != 0)
    }

    fn withhold(&mut self, buffer: u16, is_withheld: bool) {
        let (index, bit) = place(buffer);
        if let Some(word) = self.withheld.get_mut(index) {
            *word = if is_withheld { *word | bit } else { *word & !bit };
        }
    }

    /// Returns the number of granted buffers that the process says are free, which a hostile one may say of any.
    pub fn free(&self) -> usize {
        let words = usize::from(self.geometry.buffers).div_ceil(64);
        let ones = |(index, withheld): (usize, &u64)| {
            (word_of(&self.words, FREE + index).load(Ordering::Relaxed) & !withheld).count_ones() as usize
        };
        self.withheld.iter().enumerate().take(words).map(ones).sum::<usize>().min(self.granted)
    }

    /// Begins a pass: until the next one, no more buffers are read than the process can have filled before now. A process
    /// that rewrites its memory while it is read could otherwise keep the reader for ever.
    ///
    /// Once the region is closed, what it contains is read once.
    pub fn begin_pass(&mut self) {
        if !self.is_closed {
            self.turns = self.granted + self.streams.len();
        }
    }

    /// Returns the number of buffers that the process has been seen to use since the last call: those read to their end,
    /// and those being read. Unlike [`RegionReader::free`], this is not for the process to say.
    pub fn take_used(&mut self) -> usize {
        let current = self.streams.iter().filter(|stream| stream.buffer.is_some()).count();
        std::mem::take(&mut self.used) + current
    }

    /// Sets what wakes the logger. Check for records once more before sleeping.
    pub fn set_wanted(&self, wanted: Wanted) {
        word_of(&self.words, WANTED_WORD).store(wanted as u64, Ordering::SeqCst);
    }

    /// Rejects all later reservations. Earlier records can still be read.
    pub fn close(&mut self) {
        for processor in 0..self.streams.len() {
            let closed = |state: State| State::empty(0, state.change());
            self.leave_buffer(processor, closed);
            // A writer either counts before this, or sees that the region is closed.
            let lost = word_of(&self.words, self.geometry.processor(processor) + LOST)
                .fetch_and(!LOST_OPEN, Ordering::Relaxed);
            self.count_lost(processor, lost);
        }
        self.begin_pass();
        self.is_closed = true;
    }

    /// Adds the increase of a processor's counter.
    fn count_lost(&mut self, processor: usize, word: u64) {
        let Some(stream) = self.streams.get_mut(processor).filter(|_| !self.is_closed) else { return };
        let count = word & !LOST_OPEN;
        self.lost += count.wrapping_sub(stream.lost).min(MAX_LOST_A_LOOK);
        stream.lost = count;
    }

    /// Makes a processor's current buffer full, so that it can be returned once it was read. Does nothing if a writer
    /// changes it concurrently.
    pub fn retire(&mut self, processor: usize) {
        if processor < self.streams.len() {
            let state =
                State(word_of(&self.words, self.geometry.processor(processor)).load(Ordering::Acquire));
            if state.buffer().is_some() {
                self.leave_buffer(processor, |state| State::empty(state.epoch(), state.change()));
            }
        }
    }

    fn leave_buffer(&mut self, processor: usize, next: impl Fn(State) -> State) {
        let word = word_of(&self.words, self.geometry.processor(processor));
        let mut state = State(word.load(Ordering::Acquire));
        // A hostile writer may change the word forever; after this many attempts it is overwritten.
        for _ in 0..1 << 10 {
            match word.compare_exchange(state.0, next(state).0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => state = State(now),
            }
        }
        word.store(next(state).0, Ordering::Release);
        if let Some(buffer) = state.buffer().filter(|buffer| *buffer < self.geometry.buffers) {
            let end = word_of(&self.words, self.geometry.buffer_start(usize::from(buffer)) + END);
            end.store(End::new(state.offset(), None).0, Ordering::Release);
        }
    }

    /// Returns the time up to which all events have been written, if the writer is a delayed one.
    pub fn complete_until(&self) -> Option<u64> {
        match word_of(&self.words, COMPLETE_WORD).load(Ordering::Acquire) {
            0 => None,
            time => Some(time),
        }
    }

    /// Declares that the process has ended: uncommitted records stay uncommitted and are counted as lost.
    pub fn process_ended(&mut self) {
        self.has_ended = true;
    }

    /// Returns the number of events lost since the last call: those without a buffer, and abandoned ones.
    pub fn lost(&mut self) -> u64 {
        for processor in 0..self.streams.len() {
            let word =
                word_of(&self.words, self.geometry.processor(processor) + LOST).load(Ordering::Relaxed);
            self.count_lost(processor, word);
        }
        std::mem::take(&mut self.lost)
    }

    /// Returns whether the buffer being read for a processor is full, so that reading it disturbs no writer.
    ///
    /// Reading the current buffer close to its writer makes both wait for each other's cache lines: the writer takes
    /// two to three times as long. Unless latency matters, read only full buffers.
    pub fn has_full(&self, processor: usize) -> bool {
        let read = self.streams.get(processor).and_then(|stream| stream.buffer);
        let buffer = read.or_else(|| self.find_next(processor));
        let end = buffer.map(|buffer| self.geometry.buffer_start(usize::from(buffer)) + END);
        end.is_some_and(|end| word_of(&self.words, end).load(Ordering::Relaxed) != 0)
    }

    /// Raises the times of a processor's later records to at least `time`, up to which others have been passed on.
    #[inline]
    pub fn not_before(&mut self, processor: usize, time: u64) {
        if let Some(stream) = self.streams.get_mut(processor) {
            stream.last_time = stream.last_time.max(time);
        }
    }

    /// Returns the time of the last record read for a processor, or the minimum set by [`RegionReader::not_before`].
    #[inline]
    pub fn last_time(&self, processor: usize) -> u64 {
        self.streams.get(processor).map_or(0, |stream| stream.last_time)
    }

    /// Returns the number of unread words in a processor's full buffer; 0 if it is not full. See
    /// [`RegionReader::has_full`].
    pub fn full_words(&self, processor: usize) -> usize {
        let Some(stream) = self.streams.get(processor) else { return 0 };
        let (buffer, offset) = match stream.buffer {
            Some(buffer) => (Some(buffer), stream.offset),
            None => (self.find_next(processor), BUFFER_HEADER),
        };
        let Some(buffer) = buffer else { return 0 };
        let end = word_of(&self.words, self.geometry.buffer_start(usize::from(buffer)) + END)
            .load(Ordering::Acquire);
        match End(end).offset().min(self.geometry.buffer_words()) {
            0 => 0,
            // Even if all of it was read, the reader must advance to the next one.
            end => end.saturating_sub(offset).max(1),
        }
    }

    /// Returns the next record of a processor. `now` is the current time: times too far ahead of it are replaced by it.
    #[inline]
    pub fn peek(&mut self, processor: usize, now: u64) -> Peek {
        match self.look(processor, now) {
            Look::Record { time } => Peek::Time(time),
            Look::Pending => Peek::Pending,
            Look::Empty => Peek::Empty,
        }
    }

    /// Appends a processor's committed records up to `until` to `out`, while they fit into `room_words`.
    ///
    /// Each record takes a multiple of 8 bytes. The padding is zero and the process id is the one the region was created
    /// for. A time earlier than that of the processor's record before it is raised to that one, and a time in the future
    /// is replaced by `now`.
    pub fn read(
        &mut self,
        processor: usize,
        now: u64,
        until: u64,
        room_words: usize,
        out: &mut Vec<u64>,
    ) -> Taken {
        self.read_checked(processor, now, until, room_words, out, |_| true)
    }

    /// Like [`RegionReader::read`], but leaves out the records that `is_allowed` refuses. It gets each record as copied, out
    /// of reach of the process, and may change it.
    #[inline]
    pub fn read_checked(
        &mut self,
        processor: usize,
        now: u64,
        until: u64,
        mut room_words: usize,
        out: &mut Vec<u64>,
        mut is_allowed: impl FnMut(&mut [u64]) -> bool,
    ) -> Taken {
        let mut taken = Taken { records: 0, refused: 0, end: ReadEnd::Empty };
        // A process that changes its memory meanwhile could show a record to one look and none to the next, for ever.
        let mut fruitless = 0;
        while fruitless < MOST_LOOKS {
            let before = taken.records + taken.refused;
            let room = &mut room_words;
            if let Some(end) = self.read_run(processor, now, until, room, out, &mut is_allowed, &mut taken) {
                taken.end = end;
                return taken;
            }
            fruitless = if taken.records + taken.refused > before { 0 } else { fruitless + 1 };
            match self.look(processor, now) {
                Look::Record { .. } => {}
                Look::Pending => {
                    taken.end = ReadEnd::Pending;
                    return taken;
                }
                Look::Empty => return taken,
            }
        }
        taken
    }

    /// Reads the committed records that follow each other in the buffer being read. Returns why that ended, if it was not the
    /// end of what is committed.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the state of one loop, in registers")]
    fn read_run(
        &mut self,
        processor: usize,
        now: u64,
        until: u64,
        room_words: &mut usize,
        out: &mut Vec<u64>,
        is_allowed: &mut impl FnMut(&mut [u64]) -> bool,
        taken: &mut Taken,
    ) -> Option<ReadEnd> {
        let stream = self.streams.get_mut(processor).filter(|stream| !stream.is_spoilt)?;
        let start = self.geometry.buffer_start(usize::from(stream.buffer?));
        let words = self.words.get(start..start + self.geometry.buffer_words())?;
        let latest = now.saturating_add(self.horizon);
        let (mut offset, mut last_time, mut room) = (stream.offset, stream.last_time, *room_words);
        let end = loop {
            // Acquire: all words of a committed record are visible (partner: `Slot::commit`).
            let word = words.get(offset).map_or(0, |word| word.load(Ordering::Acquire));
            let FirstWord::Record { len_bytes, time_word, process_word } = FirstWord::from_word(word) else {
                break None;
            };
            let len_words = len_bytes.div_ceil(8);
            let Some(record) = words.get(offset..offset + len_words) else { break None };
            let Some(time) = record.get(time_word) else { break None };
            let time = time.load(Ordering::Relaxed);
            let time = if time > latest { now } else { time }.max(last_time);
            if time > until {
                break Some(ReadEnd::Later(time));
            }
            if len_words > room {
                break Some(ReadEnd::NoRoom);
            }
            let at = out.len();
            out.extend(record.iter().map(|word| word.load(Ordering::Relaxed)));
            let Some(copy) = out.get_mut(at..) else { break None };
            // The first word may have changed since.
            if let Some(first) = copy.first_mut() {
                *first = word;
            }
            if let Some(place) = copy.get_mut(time_word) {
                *place = time;
            }
            if process_word != 0
                && let Some(process_id) = self.process_id
                && let Some(place) = copy.get_mut(process_word)
            {
                *place = *place & 0xFFFF_FFFF | u64::from(process_id) << 32;
            }
            offset += len_words;
            last_time = time;
            if is_allowed(copy) {
                room -= len_words;
                taken.records += 1;
            } else {
                out.truncate(at);
                taken.refused += 1;
            }
        };
        (stream.offset, stream.last_time, *room_words) = (offset, last_time, room);
        end
    }

    /// Abandons the pending record of a processor and counts it as lost. If its writer commits it later, it is ignored,
    /// and only then is its buffer reused.
    pub fn skip_pending(&mut self, processor: usize) {
        let Some(stream) = self.streams.get(processor) else { return };
        let Some(buffer) = stream.buffer else { return };
        let (header, offset) = (self.geometry.buffer_start(usize::from(buffer)), stream.offset);
        let quarantined = (buffer, header + offset);
        let bound = self.bound(processor, header).min(self.geometry.buffer_words());
        if offset >= bound {
            return;
        }
        let word = |offset: usize| self.words.get(header + offset).map(|word| word.load(Ordering::Acquire));
        let next = match word(offset).map(FirstWord::from_word) {
            Some(FirstWord::Reserved(len_bytes)) if len_bytes > 0 => offset + len_bytes.div_ceil(8),
            Some(FirstWord::Blank) => {
                (offset..bound).find(|offset| word(*offset) != Some(0)).unwrap_or(bound)
            }
            _ => return,
        };
        self.lost += 1;
        if !self.has_ended {
            self.quarantine.push(quarantined);
        }
        if let Some(stream) = self.streams.get_mut(processor) {
            stream.is_quarantined |= !self.has_ended;
            stream.offset = next.max(offset + 1);
        }
    }

    /// Returns quarantined buffers whose abandoned records have been committed meanwhile.
    pub fn release_quarantine(&mut self) {
        let committed = |word: &usize| {
            let word = self.words.get(*word).map_or(0, |word| word.load(Ordering::Acquire));
            !matches!(FirstWord::from_word(word), FirstWord::Blank | FirstWord::Reserved(_))
        };
        let (done, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.quarantine).into_iter().partition(|(_, word)| committed(word));
        self.quarantine = rest;
        for (buffer, _) in done {
            let in_use = self.streams.iter().any(|stream| stream.buffer == Some(buffer));
            let still_waits = self.quarantine.iter().any(|(other, _)| *other == buffer);
            if !in_use && !still_waits {
                self.recycle(buffer, self.geometry.buffer_words());
            } else if in_use && !still_waits {
                let stream = self.streams.iter_mut().find(|stream| stream.buffer == Some(buffer));
                stream.into_iter().for_each(|stream| stream.is_quarantined = false);
            }
        }
    }

    /// Returns the end of the records in a buffer, as far as its writers have reserved.
    fn bound(&self, processor: usize, header: usize) -> usize {
        let end = End(word_of(&self.words, header + END).load(Ordering::Acquire));
        if end.0 != 0 {
            return end.offset();
        }
        let state = State(word_of(&self.words, self.geometry.processor(processor)).load(Ordering::Acquire));
        let stream = self.streams.get(processor);
        let is_current =
            stream.is_some_and(|stream| state.buffer() == stream.buffer && state.change() == stream.change);
        if is_current { state.offset() } else { self.geometry.buffer_words() }
    }

    #[inline(always)]
    fn look(&mut self, processor: usize, now: u64) -> Look {
        loop {
            let Some(stream) = self.streams.get(processor) else { return Look::Empty };
            let Some(buffer) = stream.buffer else {
                match self.find_next(processor) {
                    Some(buffer) => {
                        self.enter(processor, buffer);
                        continue;
                    }
                    None => return Look::Empty,
                }
            };
            let start = self.geometry.buffer_start(usize::from(buffer)) + stream.offset;
            let in_buffer = stream.offset < self.geometry.buffer_words() && !stream.is_spoilt;
            // Acquire: all words of a committed record are visible (partner: `Slot::commit`).
            let word = match in_buffer {
                true => self.words.get(start).map_or(0, |word| word.load(Ordering::Acquire)),
                false => 0,
            };
            if let FirstWord::Record { len_bytes, time_word, .. } = FirstWord::from_word(word) {
                let len_words = len_bytes.div_ceil(8);
                if len_words > time_word && stream.offset + len_words <= self.geometry.buffer_words() {
                    let time =
                        self.words.get(start + time_word).map_or(0, |word| word.load(Ordering::Relaxed));
                    let time = if time > now.saturating_add(self.horizon) { now } else { time };
                    let time = time.max(stream.last_time);
                    return Look::Record { time };
                }
            }
            match self.look_at_gap(processor, buffer, word) {
                Some(look) => return look,
                None => continue,
            }
        }
    }

    /// Determines why no record is at the next position. Returns `None` if the check should be repeated.
    #[cold]
    fn look_at_gap(&mut self, processor: usize, buffer: u16, word: u64) -> Option<Look> {
        let header = self.geometry.buffer_start(usize::from(buffer));
        let end = End(word_of(&self.words, header + END).load(Ordering::Acquire));
        let stream = self.streams.get_mut(processor)?;
        let is_read = stream.offset >= end.offset().min(self.geometry.buffer_words()) || stream.is_spoilt;
        let is_left = |is_spoilt: bool| end.0 != 0 && is_read || is_spoilt && self.has_ended;
        if self.turns == 0 && is_left(stream.is_spoilt) {
            return Some(Look::Empty);
        }
        if end.0 != 0 && is_read {
            self.leave(processor, buffer, end);
            return None;
        }
        if stream.is_spoilt {
            // Until a hostile writer makes another buffer current, no more of this processor is read.
            if self.has_ended {
                self.leave(processor, buffer, End::new(self.geometry.buffer_words(), None));
                return None;
            }
            return Some(Look::Empty);
        }
        if !matches!(FirstWord::from_word(word), FirstWord::Blank | FirstWord::Reserved(_)) {
            stream.is_spoilt = true;
            self.lost += 1;
            return None;
        }
        if end.0 == 0 {
            let state =
                State(word_of(&self.words, self.geometry.processor(processor)).load(Ordering::Acquire));
            let is_current = state.buffer() == Some(buffer) && state.change() == stream.change;
            if is_current && state.offset() <= stream.offset {
                return Some(Look::Empty);
            }
            if is_current && stream.offset >= self.geometry.buffer_words() {
                stream.is_spoilt = true;
                return None;
            }
            if !is_current && self.has_ended && self.is_blank_from(header, processor) {
                if self.turns == 0 {
                    return Some(Look::Empty);
                }
                // The writer died before it stored the end of the buffer.
                let next = self.find_owned(processor);
                self.leave(processor, buffer, End::new(self.geometry.buffer_words(), next));
                return None;
            }
        }
        if self.has_ended {
            let offset = self.streams.get(processor)?.offset;
            self.skip_pending(processor);
            let stream = self.streams.get_mut(processor)?;
            stream.is_spoilt |= stream.offset == offset;
            return None;
        }
        Some(Look::Pending)
    }

    /// Returns whether a buffer is blank after the part that was read.
    fn is_blank_from(&self, header: usize, processor: usize) -> bool {
        let words = self.geometry.buffer_words();
        let offset = self.streams.get(processor).map_or(words, |stream| stream.offset.min(words));
        let rest = self.words.get(header + offset..header + words).unwrap_or_default();
        rest.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Returns the buffer that became current after a state without one, if any.
    fn find_next(&self, processor: usize) -> Option<u16> {
        let first = self.geometry.processor(processor);
        let change = self.streams.get(processor)?.change;
        let state = State(word_of(&self.words, first).load(Ordering::Acquire));
        let found = if state.change() == change && state.buffer().is_some() {
            state.buffer()
        } else {
            let word = word_of(&self.words, first + CHAIN).load(Ordering::Acquire);
            let buffer = (word & 0xFFFF) as u16;
            match word == chain(change, buffer) {
                true => Some(buffer),
                false if self.has_ended => self.find_owned(processor),
                false => None,
            }
        };
        found.filter(|buffer| self.may_enter(*buffer))
    }

    /// Returns whether a stream may continue with a buffer: a hostile process may name any, even one used by another
    /// stream.
    fn may_enter(&self, buffer: u16) -> bool {
        let is_read = || self.streams.iter().any(|stream| stream.buffer == Some(buffer));
        buffer < self.geometry.buffers && !self.is_withheld(buffer) && !is_read()
    }

    /// Returns the buffer with the next change's number in its header, if a writer died before it could link it. If one
    /// of two never became current, returns the one with contents.
    fn find_owned(&self, processor: usize) -> Option<u16> {
        let stream = self.streams.get(processor)?;
        let change = if stream.buffer.is_some() { stream.change.wrapping_add(1) } else { stream.change };
        let wanted = owner(processor, change & State::CHANGE_MASK);
        let word = |buffer: u16, at: usize| {
            word_of(&self.words, self.geometry.buffer_start(usize::from(buffer)) + at).load(Ordering::Acquire)
        };
        // A free buffer is nobody's; looking into it would take memory for it.
        let is_taken = |buffer: &u16| {
            let (index, bit) = place(*buffer);
            let free = word_of(&self.words, FREE + index).load(Ordering::Acquire);
            free & bit == 0 && !self.is_withheld(*buffer)
        };
        let owned =
            || (0..self.geometry.buffers).filter(is_taken).filter(|buffer| word(*buffer, OWNER) == wanted);
        let state = State(word_of(&self.words, self.geometry.processor(processor)).load(Ordering::Acquire));
        let current = owned().find(|buffer| state.buffer() == Some(*buffer));
        let filled = owned().find(|buffer| word(*buffer, BUFFER_HEADER) != 0 || word(*buffer, END) != 0);
        current.or(filled)
    }

    fn enter(&mut self, processor: usize, buffer: u16) {
        if let Some(stream) = self.streams.get_mut(processor) {
            stream.buffer = Some(buffer);
            stream.offset = BUFFER_HEADER;
            (stream.is_spoilt, stream.is_quarantined) = (false, false);
        }
    }

    /// Leaves a buffer that was read, and continues with the next one if known.
    fn leave(&mut self, processor: usize, buffer: u16, end: End) {
        let Some(stream) = self.streams.get_mut(processor) else { return };
        let keep = stream.is_quarantined;
        let used = if stream.is_spoilt { self.geometry.buffer_words() } else { end.offset() };
        stream.buffer = None;
        self.turns = self.turns.saturating_sub(1);
        self.used += 1;
        stream.change = stream.change.wrapping_add(1) & State::CHANGE_MASK;
        let next = end.next().filter(|next| *next != buffer && self.may_enter(*next));
        if !keep {
            self.recycle(buffer, used);
        }
        if let Some(next) = next {
            self.enter(processor, next);
        }
    }

    /// Clears a buffer and marks it as free.
    fn recycle(&mut self, buffer: u16, used: usize) {
        let start = self.geometry.buffer_start(usize::from(buffer));
        let used = used.clamp(BUFFER_HEADER, self.geometry.buffer_words());
        for word in self.words.get(start..start + used).unwrap_or_default() {
            word.store(0, Ordering::Relaxed);
        }
        if !self.is_withheld(buffer) {
            give_back(&self.words, buffer);
        }
    }
}

/// Returns the word and the bit of a buffer in a bitmap.
fn place(buffer: u16) -> (usize, u64) {
    (usize::from(buffer) / 64, 1 << (buffer % 64))
}
