//! The logger's side of a region.

use std::ops::Deref;

use crate::geometry::{
    BUFFER_HEADER, CHAIN, CLOCK_WORD, COMPLETE_WORD, END, FREE, LOST, LOST_OPEN, OWNER, WANTED_WORD,
};
use crate::geometry::{End, Geometry, RegionError, State, chain, owner};
use crate::record::FirstWord;
use crate::region::{Wanted, give_back};
use crate::sync::{AtomicU64, Ordering};

/// The most events that one look at a processor's counter may add to what was lost, since a hostile process can store
/// any number there.
const MAX_LOST_A_LOOK: u64 = 1 << 32;

/// Takes events out of a region that another process writes to.
///
/// The region's words are read once each and taken for what a hostile process may have stored. Nothing it stores can
/// make a method panic, take longer than the region is large, or spoil another region.
#[derive(Debug)]
pub struct RegionReader<W> {
    words: W,
    geometry: Geometry,
    streams: Vec<Stream>,
    /// Buffers that the process may not use, the lowest number last.
    withheld: Vec<u16>,
    /// Buffers with a record that was given up while its writer may still be alive, and the word of that record.
    quarantine: Vec<(u16, usize)>,
    /// Losses that [`RegionReader::lost`] has not returned yet.
    lost: u64,
    /// Whether nothing can be written any more.
    is_closed: bool,
    /// Whether the process is gone, so that what is uncommitted stays so.
    has_ended: bool,
    /// Process id that the records get; 0 if they keep what their writer gave them.
    process_id: u32,
    /// How far ahead of the present a time may lie, in ticks of the session's clock.
    horizon: u64,
}

/// How far the records of a processor have been read.
#[derive(Debug, Clone, Default)]
struct Stream {
    /// Number of the change of buffers that made `buffer` current, or will make the next one.
    change: u32,
    buffer: Option<u16>,
    /// Words of the buffer that have been read.
    offset: usize,
    /// Whether the rest of the buffer cannot be read.
    is_spoilt: bool,
    /// Whether the buffer holds a record that was given up, and so cannot be used again at once.
    is_quarantined: bool,
    last_time: u64,
    /// The counter of lost events when it was read last.
    lost: u64,
}

/// The next record of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// A committed record of this time.
    Time(u64),
    /// A record that has been reserved and not yet committed.
    Pending,
    /// Nothing yet.
    Empty,
}

/// The result of [`RegionReader::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Records.
    pub records: u64,
    /// Why no more.
    pub end: ReadEnd,
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEnd {
    /// Nothing more has been written.
    Empty,
    /// The next record is not committed yet.
    Pending,
    /// The next record is of this time, which is later than asked for.
    Later(u64),
    /// The next record does not fit.
    NoRoom,
}

enum Look {
    Record { start: usize, word: u64, len_words: usize, time_word: usize, has_process: bool, time: u64 },
    Pending,
    Empty,
}

impl<W: Deref<Target = [AtomicU64]>> RegionReader<W> {
    /// Makes a region of memory that is all zero. The process may use no buffer before [`RegionReader::grant`].
    ///
    /// `clock` is the number of the session's clock (`etw_sys::ClockSource`), `epoch` is
    /// what writers name it by (1 to 255), `start` is the session's start on its clock, `horizon` how far
    /// ahead of the present a record's time is believed, in ticks.
    ///
    /// # Errors
    /// If the geometry is invalid, or the memory too small.
    pub fn format(
        words: W,
        geometry: Geometry,
        clock: u8,
        epoch: u8,
        process_id: u32,
        start: u64,
        horizon: u64,
    ) -> Result<RegionReader<W>, RegionError> {
        let geometry = geometry.check()?;
        let stream = Stream { change: 1, last_time: start, ..Stream::default() };
        let mut reader = RegionReader {
            words,
            geometry,
            streams: vec![stream; usize::from(geometry.processors)],
            withheld: (0..geometry.buffers).rev().collect(),
            quarantine: Vec::new(),
            lost: 0,
            is_closed: false,
            has_ended: false,
            process_id,
            horizon,
        };
        geometry.store(&reader.words)?;
        reader.words[CLOCK_WORD].store(u64::from(clock), Ordering::Relaxed);
        reader.set_epoch(epoch);
        Ok(reader)
    }

    fn set_epoch(&mut self, epoch: u8) {
        for (processor, stream) in self.streams.iter().enumerate() {
            let state = State::empty(epoch, stream.change.wrapping_sub(1));
            let at = self.geometry.processor(processor);
            self.words[at + LOST].store(LOST_OPEN, Ordering::Relaxed);
            self.words[at].store(state.0, Ordering::Release);
        }
    }

    /// Returns the geometry of the region.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The memory.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// Lets the process use up to so many buffers more; returns how many.
    pub fn grant(&mut self, buffers: usize) -> usize {
        let count = buffers.min(self.withheld.len());
        for buffer in self.withheld.split_off(self.withheld.len() - count) {
            give_back(&self.words, buffer);
        }
        count
    }

    /// Takes up to so many free buffers back from the process, those of the highest numbers; returns how many.
    pub fn reclaim(&mut self, buffers: usize) -> usize {
        let mut count = 0;
        for buffer in (0..self.geometry.buffers).rev() {
            if count == buffers {
                break;
            }
            let (index, bit) = (usize::from(buffer) / 64, 1 << (buffer % 64));
            if self.words[FREE + index].fetch_and(!bit, Ordering::AcqRel) & bit != 0
                && !self.withheld.contains(&buffer)
            {
                self.withheld.push(buffer);
                count += 1;
            }
        }
        self.withheld.sort_unstable_by(|one, other| other.cmp(one));
        count
    }

    /// Buffers that the process may use or is using.
    pub fn granted(&self) -> usize {
        usize::from(self.geometry.buffers) - self.withheld.len()
    }

    /// Where the buffers lie that the process may not use, in words of the memory. Their pages can be given back to the
    /// system; they must read as zero when they are granted again.
    pub fn withheld(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.withheld.iter().map(|buffer| {
            let start = self.geometry.buffer_start(usize::from(*buffer));
            start..start + self.geometry.buffer_words()
        })
    }

    /// Buffers that are free for the process to use; a hostile process may make it any number up to all.
    pub fn free(&self) -> usize {
        let words = usize::from(self.geometry.buffers).div_ceil(64);
        let ones = |index: usize| self.words[FREE + index].load(Ordering::Relaxed).count_ones() as usize;
        (0..words).map(ones).sum()
    }

    /// Says what to be woken for. The present state must be looked at once more before sleeping.
    pub fn set_wanted(&self, wanted: Wanted) {
        self.words[WANTED_WORD].store(wanted as u64, Ordering::SeqCst);
    }

    /// Refuses every reservation from now on. All that was reserved before can still be read.
    pub fn close(&mut self) {
        for processor in 0..self.streams.len() {
            let closed = |state: State| State::empty(0, state.change());
            self.leave_buffer(processor, closed);
            // A writer either counts before this, or learns that the region is closed.
            let lost = self.words[self.geometry.processor(processor) + LOST]
                .fetch_and(!LOST_OPEN, Ordering::Relaxed);
            self.count_lost(processor, lost);
        }
        self.is_closed = true;
    }

    /// Takes in what a processor's counter says.
    fn count_lost(&mut self, processor: usize, word: u64) {
        let Some(stream) = self.streams.get_mut(processor).filter(|_| !self.is_closed) else { return };
        let count = word & !LOST_OPEN;
        self.lost += count.wrapping_sub(stream.lost).min(MAX_LOST_A_LOOK);
        stream.lost = count;
    }

    /// Makes a processor's current buffer full, so that it can be given back once it was read. Does nothing if a
    /// writer changes it at the same time.
    pub fn retire(&mut self, processor: usize) {
        if processor < self.streams.len() {
            let state = State(self.words[self.geometry.processor(processor)].load(Ordering::Acquire));
            if state.buffer().is_some() {
                self.leave_buffer(processor, |state| State::empty(state.epoch(), state.change()));
            }
        }
    }

    fn leave_buffer(&mut self, processor: usize, next: impl Fn(State) -> State) {
        let word = &self.words[self.geometry.processor(processor)];
        let mut state = State(word.load(Ordering::Acquire));
        // A hostile writer may change the word forever; after that many attempts it is stored over.
        for _ in 0..1 << 20 {
            match word.compare_exchange(state.0, next(state).0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => state = State(now),
            }
        }
        word.store(next(state).0, Ordering::Release);
        if let Some(buffer) = state.buffer().filter(|buffer| *buffer < self.geometry.buffers) {
            let end = &self.words[self.geometry.buffer_start(usize::from(buffer)) + END];
            end.store(End::new(state.offset(), None).0, Ordering::Release);
        }
    }

    /// The time up to which all events have been written, if the writer is one that writes late.
    pub fn complete_until(&self) -> Option<u64> {
        match self.words[COMPLETE_WORD].load(Ordering::Acquire) {
            0 => None,
            time => Some(time),
        }
    }

    /// Says that the process is gone: what is not committed now never will be, and is counted as lost.
    pub fn process_ended(&mut self) {
        self.has_ended = true;
    }

    /// Events lost since the last call: those without a buffer, and those given up.
    pub fn lost(&mut self) -> u64 {
        for processor in 0..self.streams.len() {
            let word = self.words[self.geometry.processor(processor) + LOST].load(Ordering::Relaxed);
            self.count_lost(processor, word);
        }
        std::mem::take(&mut self.lost)
    }

    /// Whether the buffer that is being read of a processor is full, so that reading all of it disturbs no writer.
    ///
    /// Reading on in the current buffer, close behind its writer, makes both wait for the other's cache lines: the
    /// writer takes two to three times as long. Whoever is in no hurry reads full buffers only.
    pub fn has_full(&self, processor: usize) -> bool {
        let read = self.streams.get(processor).and_then(|stream| stream.buffer);
        let buffer = read.or_else(|| self.find_next(processor));
        let end = buffer.map(|buffer| self.geometry.buffer_start(usize::from(buffer)) + END);
        end.is_some_and(|end| self.words[end].load(Ordering::Relaxed) != 0)
    }

    /// Lets no record of a processor have a time before this one, since later ones have been passed on already.
    #[inline]
    pub fn not_before(&mut self, processor: usize, time: u64) {
        if let Some(stream) = self.streams.get_mut(processor) {
            stream.last_time = stream.last_time.max(time);
        }
    }

    /// The time of the last record that was read of a processor, or what no later one may be before.
    #[inline]
    pub fn last_time(&self, processor: usize) -> u64 {
        self.streams.get(processor).map_or(0, |stream| stream.last_time)
    }

    /// Words that are left to read of a processor's buffer if that buffer is full; 0 if it is not. See
    /// [`RegionReader::has_full`].
    pub fn full_words(&self, processor: usize) -> usize {
        let Some(stream) = self.streams.get(processor) else { return 0 };
        let (buffer, offset) = match stream.buffer {
            Some(buffer) => (Some(buffer), stream.offset),
            None => (self.find_next(processor), BUFFER_HEADER),
        };
        let Some(buffer) = buffer else { return 0 };
        let end = self.words[self.geometry.buffer_start(usize::from(buffer)) + END].load(Ordering::Acquire);
        match End(end).offset().min(self.geometry.buffer_words()) {
            0 => 0,
            // Also where all of it was read there is something to do: to go on to the next one.
            end => end.saturating_sub(offset).max(1),
        }
    }

    /// The next record of a processor. `now` is the present: times far behind it are not believed, and taken for it.
    #[inline]
    pub fn peek(&mut self, processor: usize, now: u64) -> Peek {
        match self.look(processor, now) {
            Look::Record { time, .. } => Peek::Time(time),
            Look::Pending => Peek::Pending,
            Look::Empty => Peek::Empty,
        }
    }

    /// Appends a processor's committed records to `out`: those up to `until`, as far as they fit into `room_words`.
    ///
    /// Each record takes a multiple of 8 bytes. The bytes behind a record's end are zero, the process id is the one
    /// the region was made for, and times do not run backwards.
    pub fn read(
        &mut self,
        processor: usize,
        now: u64,
        until: u64,
        mut room_words: usize,
        out: &mut Vec<u64>,
    ) -> Taken {
        let mut records = 0;
        let end = loop {
            match self.look(processor, now) {
                Look::Record { time, .. } if time > until => break ReadEnd::Later(time),
                Look::Record { len_words, .. } if len_words > room_words => break ReadEnd::NoRoom,
                Look::Record { start, word, len_words, time_word, has_process, time } => {
                    let at = out.len();
                    out.push(word);
                    let rest = self.words.get(start + 1..start + len_words).unwrap_or_default();
                    out.extend(rest.iter().map(|word| word.load(Ordering::Relaxed)));
                    if let Some(place) = out.get_mut(at + time_word) {
                        *place = time;
                    }
                    if has_process
                        && self.process_id != 0
                        && let Some(place) = out.get_mut(at + 1)
                    {
                        *place = *place & 0xFFFF_FFFF | u64::from(self.process_id) << 32;
                    }
                    if let Some(stream) = self.streams.get_mut(processor) {
                        stream.offset += len_words;
                        stream.last_time = time;
                    }
                    room_words -= len_words;
                    records += 1;
                }
                Look::Pending => break ReadEnd::Pending,
                Look::Empty => break ReadEnd::Empty,
            }
        };
        Taken { records, end }
    }

    /// Gives the pending record of a processor up, and counts it as lost. Should its writer still commit it, nothing
    /// of it is seen, and its buffer is used again only then.
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
        let next = match word(offset).map(FirstWord::of) {
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

    /// Gives buffers back whose given-up records have been committed meanwhile.
    pub fn release_quarantine(&mut self) {
        let committed = |word: &usize| {
            let word = self.words.get(*word).map_or(0, |word| word.load(Ordering::Acquire));
            !matches!(FirstWord::of(word), FirstWord::Blank | FirstWord::Reserved(_))
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

    /// Where the records of a buffer end as far as its writers have reserved.
    fn bound(&self, processor: usize, header: usize) -> usize {
        let end = End(self.words[header + END].load(Ordering::Acquire));
        if end.0 != 0 {
            return end.offset();
        }
        let state = State(self.words[self.geometry.processor(processor)].load(Ordering::Acquire));
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
            // Acquire: all words of a committed record are there (partner: `Slot::commit`).
            let word = match in_buffer {
                true => self.words.get(start).map_or(0, |word| word.load(Ordering::Acquire)),
                false => 0,
            };
            if let FirstWord::Record { len_bytes, time_word, has_process } = FirstWord::of(word) {
                let len_words = len_bytes.div_ceil(8);
                if len_words > time_word && stream.offset + len_words <= self.geometry.buffer_words() {
                    let time =
                        self.words.get(start + time_word).map_or(0, |word| word.load(Ordering::Relaxed));
                    let time = if time > now.saturating_add(self.horizon) { now } else { time };
                    let time = time.max(stream.last_time);
                    return Look::Record { start, word, len_words, time_word, has_process, time };
                }
            }
            match self.look_at_gap(processor, buffer, word) {
                Some(look) => return look,
                None => continue,
            }
        }
    }

    /// What it means that no record stands where the next one should. `None` if it is worth looking again.
    #[cold]
    fn look_at_gap(&mut self, processor: usize, buffer: u16, word: u64) -> Option<Look> {
        let header = self.geometry.buffer_start(usize::from(buffer));
        let end = End(self.words[header + END].load(Ordering::Acquire));
        let stream = self.streams.get_mut(processor)?;
        let is_read = stream.offset >= end.offset().min(self.geometry.buffer_words()) || stream.is_spoilt;
        if end.0 != 0 && is_read {
            self.leave(processor, buffer, end);
            return None;
        }
        if stream.is_spoilt {
            // Until a hostile writer makes another buffer current, nothing more is seen of this processor.
            if self.has_ended {
                self.leave(processor, buffer, End::new(self.geometry.buffer_words(), None));
                return None;
            }
            return Some(Look::Empty);
        }
        if !matches!(FirstWord::of(word), FirstWord::Blank | FirstWord::Reserved(_)) {
            stream.is_spoilt = true;
            self.lost += 1;
            return None;
        }
        if end.0 == 0 {
            let state = State(self.words[self.geometry.processor(processor)].load(Ordering::Acquire));
            let is_current = state.buffer() == Some(buffer) && state.change() == stream.change;
            if is_current && state.offset() <= stream.offset {
                return Some(Look::Empty);
            }
            if is_current && stream.offset >= self.geometry.buffer_words() {
                stream.is_spoilt = true;
                return None;
            }
            if !is_current && self.has_ended && self.is_blank_from(header, processor) {
                // The writer died before it told where the buffer ends.
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

    /// Whether nothing stands in a buffer behind what was read of it.
    fn is_blank_from(&self, header: usize, processor: usize) -> bool {
        let words = self.geometry.buffer_words();
        let offset = self.streams.get(processor).map_or(words, |stream| stream.offset.min(words));
        let rest = self.words.get(header + offset..header + words).unwrap_or_default();
        rest.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// The buffer that became current behind a state without one, if there is.
    fn find_next(&self, processor: usize) -> Option<u16> {
        let first = self.geometry.processor(processor);
        let change = self.streams.get(processor)?.change;
        let state = State(self.words[first].load(Ordering::Acquire));
        let found = if state.change() == change && state.buffer().is_some() {
            state.buffer()
        } else {
            let word = self.words[first + CHAIN].load(Ordering::Acquire);
            let buffer = word as u16;
            match word == chain(change, buffer) {
                true => Some(buffer),
                false if self.has_ended => self.find_owned(processor),
                false => None,
            }
        };
        found.filter(|buffer| self.may_enter(*buffer))
    }

    /// Whether a stream may go on with a buffer: a hostile process may name any, also one that another stream is at.
    fn may_enter(&self, buffer: u16) -> bool {
        buffer < self.geometry.buffers && self.streams.iter().all(|stream| stream.buffer != Some(buffer))
    }

    /// The buffer with the next change's number in its header, where a writer died before it could link it. Of two,
    /// of which one never became current, the one with something in it.
    fn find_owned(&self, processor: usize) -> Option<u16> {
        let stream = self.streams.get(processor)?;
        let change = if stream.buffer.is_some() { stream.change.wrapping_add(1) } else { stream.change };
        let wanted = owner(processor, change & State::CHANGE_MASK);
        let word = |buffer: u16, at: usize| {
            self.words[self.geometry.buffer_start(usize::from(buffer)) + at].load(Ordering::Acquire)
        };
        let owned = || (0..self.geometry.buffers).filter(|buffer| word(*buffer, OWNER) == wanted);
        let state = State(self.words[self.geometry.processor(processor)].load(Ordering::Acquire));
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

    /// Leaves a buffer that was read, and goes on to the next one if it is known.
    fn leave(&mut self, processor: usize, buffer: u16, end: End) {
        let Some(stream) = self.streams.get_mut(processor) else { return };
        let keep = stream.is_quarantined;
        let used = if stream.is_spoilt { self.geometry.buffer_words() } else { end.offset() };
        stream.buffer = None;
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
        if !self.withheld.contains(&buffer) {
            give_back(&self.words, buffer);
        }
    }
}
