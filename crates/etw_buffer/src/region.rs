//! The writer's side of a region.

use std::ops::Deref;

use crate::geometry::{
    BUFFER_HEADER, CHAIN, CLOCK_WORD, COMPLETE_WORD, END, FREE, LOST, LOST_OPEN, OWNER, WANTED_WORD,
};
use crate::geometry::{End, Geometry, RegionError, State, chain, owner};
use crate::record;
use crate::sync::{AtomicU64, Ordering, word_of};

/// A region that this process writes events to.
///
/// All threads of the process write to the same region, and a signal handler may write while it interrupts a write of
/// its thread. Every method takes a few nanoseconds and never waits for another thread.
#[derive(Debug)]
pub struct Region<W> {
    words: W,
    geometry: Geometry,
    buffer_words: usize,
    first_buffer: usize,
    clock: u8,
}

/// The result of reserving room for a record.
#[derive(Debug)]
pub enum Reserve<'r> {
    /// Room was reserved.
    Slot(Slot<'r>),
    /// No buffer is free; the event has been counted as lost.
    Lost,
    /// The session has ended. The event belongs to no session and is not counted as lost.
    Closed,
    /// No buffer of this session is large enough for the record; it has been counted as lost.
    TooLarge,
}

/// Room for one record, reserved and not yet committed.
///
/// If it is dropped uncommitted, its event is lost, and counted when the session ends.
#[derive(Debug)]
#[must_use = "a record is lost unless it is committed"]
pub struct Slot<'r> {
    words: &'r [AtomicU64],
    /// The time of the reservation, which is the record's timestamp. The records of one processor are in the order of
    /// these times.
    pub time: u64,
    /// Whether this record is the first of its buffer, which means that another buffer has become full.
    pub opens_buffer: bool,
}

/// The condition under which the logger must be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// Never; the logger polls.
    Nothing,
    /// A full buffer, see [`Slot::opens_buffer`].
    FullBuffer,
    /// Any event.
    Event,
}

impl Wanted {
    #[inline(always)]
    pub(crate) const fn from_word(word: u64) -> Wanted {
        match word {
            0 => Wanted::Nothing,
            1 => Wanted::FullBuffer,
            _ => Wanted::Event,
        }
    }
}

impl<W: Deref<Target = [AtomicU64]>> Region<W> {
    /// Attaches to the region that the host has created in `words`.
    ///
    /// # Errors
    ///
    /// Fails if the memory contains no region, or only a part of it.
    pub fn attach(words: W) -> Result<Region<W>, RegionError> {
        let geometry = Geometry::load(&words)?;
        let clock = (word_of(&words, CLOCK_WORD).load(Ordering::Relaxed) & 0xFF) as u8;
        let (buffer_words, first_buffer) = (geometry.buffer_words(), geometry.buffer_start(0));
        Ok(Region { words, geometry, buffer_words, first_buffer, clock })
    }

    /// Returns the geometry of the region.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the number of the session's clock (`etw_sys::ClockSource`).
    #[inline(always)]
    pub fn clock(&self) -> u8 {
        self.clock
    }

    /// Returns the memory.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// Returns the position of the buffers in the memory, in words.
    pub fn buffers(&self) -> std::ops::Range<usize> {
        self.first_buffer..self.geometry.len_words()
    }

    /// Reserves room for a record of `len_bytes` (rounded up to 8 here) in the current buffer of `processor`.
    ///
    /// `epoch` is the session's epoch, received from its host. `clock` is read between checking the buffer and the
    /// reservation, so that the times of one buffer's records decrease only if the clock does; it may be read several
    /// times.
    #[inline(always)]
    pub fn reserve(&self, epoch: u8, processor: u32, len_bytes: u16, clock: impl Fn() -> u64) -> Reserve<'_> {
        let len_words = usize::from(len_bytes).div_ceil(8);
        let mut processor = processor as usize;
        if processor >= usize::from(self.geometry.processors) {
            processor %= usize::from(self.geometry.processors);
        }
        let Some(current) = self.words.get(self.geometry.processor(processor)) else { return Reserve::Lost };
        loop {
            // Acquire: the logger has cleared the buffer's memory before it became current (partner: the exchange in
            // `next_buffer`, and through it `RegionReader::recycle`).
            let state = State(current.load(Ordering::Acquire));
            if !self.fits(state, epoch, len_words) {
                match self.next_buffer(current, state, epoch, processor, len_words) {
                    Next::Retry => continue,
                    Next::Closed => return Reserve::Closed,
                    Next::Lost => return Reserve::Lost,
                    Next::TooLarge => return Reserve::TooLarge,
                }
            }
            if let Some(time) = take(current, state, len_words, &clock) {
                return self.slot(state, len_bytes, time).map_or(Reserve::Lost, Reserve::Slot);
            }
        }
    }

    /// Reserves room like [`Region::reserve`], in one attempt, which nearly always succeeds. Returns `None` if nothing
    /// was reserved; nothing is counted then.
    #[inline(always)]
    pub fn try_reserve(
        &self,
        epoch: u8,
        processor: u32,
        len_bytes: u16,
        clock: impl Fn() -> u64,
    ) -> Option<Slot<'_>> {
        if processor >= u32::from(self.geometry.processors) {
            return None;
        }
        let current = self.words.get(self.geometry.processor(processor as usize))?;
        // Acquire: as in `reserve`.
        let state = State(current.load(Ordering::Acquire));
        let len_words = usize::from(len_bytes).div_ceil(8);
        if !self.fits(state, epoch, len_words) {
            return None;
        }
        let time = take(current, state, len_words, &clock)?;
        self.slot(state, len_bytes, time)
    }

    #[inline(always)]
    fn fits(&self, state: State, epoch: u8, len_words: usize) -> bool {
        state.epoch() == epoch && state.offset() + len_words <= self.buffer_words
    }

    /// Returns the room reserved after `state`; `None` if the state refers to no buffer of this region.
    #[inline(always)]
    fn slot(&self, state: State, len_bytes: u16, time: u64) -> Option<Slot<'_>> {
        let buffer = (state.0 >> 22 & 0xFFF) as usize;
        let start = self.first_buffer + buffer * self.buffer_words + state.offset();
        let words = self.words.get(start..start + usize::from(len_bytes).div_ceil(8))?;
        // From here on the logger knows the length of the record, even if its writer dies.
        words.first()?.store(record::reserved(u32::from(len_bytes)), Ordering::Relaxed);
        Some(Slot { words, time, opens_buffer: state.offset() == BUFFER_HEADER })
    }

    /// Counts events of `processor` for which no room was reserved as lost. Returns `false` if the session has ended.
    pub fn lose(&self, processor: u32, events: u32) -> bool {
        self.count_lost(processor as usize % usize::from(self.geometry.processors).max(1), events)
    }

    /// Returns whether events were counted before the region was closed; later counts are not read.
    fn count_lost(&self, processor: usize, events: u32) -> bool {
        let lost = self.words.get(self.geometry.processor(processor) + LOST);
        lost.is_some_and(|lost| lost.fetch_add(events.into(), Ordering::Relaxed) & LOST_OPEN != 0)
    }

    /// Declares that all events up to `time` have been written. Used by a delayed writer: the logger holds later events
    /// of other regions back until then.
    pub fn set_complete(&self, time: u64) {
        if let Some(word) = self.words.get(COMPLETE_WORD) {
            // Release: the events are visible first (partner: `RegionReader::complete_until`).
            word.store(time, Ordering::Release);
        }
    }

    /// Returns when the logger must be woken. Call it after a commit.
    ///
    /// There is no fence between the commit and this load, so an event may go unnoticed while the logger falls asleep;
    /// for that reason the logger's first sleep is short.
    #[inline(always)]
    pub fn wanted(&self) -> Wanted {
        let word = self.words.get(WANTED_WORD);
        Wanted::from_word(word.map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    /// Makes a free buffer the current one, or returns why it could not.
    #[cold]
    #[inline(never)]
    fn next_buffer(
        &self,
        current: &AtomicU64,
        state: State,
        epoch: u8,
        processor: usize,
        len_words: usize,
    ) -> Next {
        if state.epoch() != epoch {
            return Next::Closed;
        }
        let lost = |next| if self.count_lost(processor, 1) { next } else { Next::Closed };
        if BUFFER_HEADER + len_words > self.buffer_words {
            return lost(Next::TooLarge);
        }
        let Some(buffer) = self.claim() else {
            // Another thread may have changed the buffer meanwhile.
            if current.load(Ordering::Relaxed) != state.0 {
                return Next::Retry;
            }
            return lost(Next::Lost);
        };
        let change = state.change().wrapping_add(1);
        let header = self.geometry.buffer_start(usize::from(buffer));
        word_of(&self.words, header + END).store(0, Ordering::Relaxed);
        word_of(&self.words, header + OWNER).store(owner(processor, change), Ordering::Relaxed);
        let open = State::open(epoch, change, buffer);
        // Release: a thread that sees the buffer as current sees its header and cleared memory (partners: the loads in
        // `reserve` and in the reader).
        match current.compare_exchange(state.0, open.0, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                // Only the winner knows the end of the full buffer's records and the next buffer.
                match state.buffer().filter(|full| *full < self.geometry.buffers) {
                    Some(full) => {
                        let end = word_of(&self.words, self.geometry.buffer_start(usize::from(full)) + END);
                        end.store(End::new(state.offset(), Some(buffer)).0, Ordering::Release);
                    }
                    None => {
                        let place = word_of(&self.words, self.geometry.processor(processor) + CHAIN);
                        place.store(chain(change & State::CHANGE_MASK, buffer), Ordering::Release);
                    }
                }
            }
            Err(_) => {
                word_of(&self.words, header + OWNER).store(0, Ordering::Relaxed);
                give_back(&self.words, buffer);
            }
        }
        Next::Retry
    }

    /// Takes the free buffer with the lowest number, so that few buffers are used and stay cached.
    fn claim(&self) -> Option<u16> {
        for index in 0..self.geometry.buffers.div_ceil(64) {
            let word = word_of(&self.words, FREE + usize::from(index));
            let mut free = word.load(Ordering::Relaxed);
            while free != 0 {
                // Acquire: the logger cleared the buffer before it set the bit (partner: `give_back`).
                match word.compare_exchange_weak(
                    free,
                    free & (free - 1),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        #[expect(clippy::cast_possible_truncation, reason = "a word has at most 64 zeros")]
                        let buffer = index * 64 + free.trailing_zeros() as u16;
                        return (buffer < self.geometry.buffers).then_some(buffer);
                    }
                    Err(now) => free = now,
                }
            }
        }
        None
    }
}

/// Reserves available room and returns the time; `None` if another writer was faster.
#[inline(always)]
fn take(current: &AtomicU64, state: State, len_words: usize, clock: &impl Fn() -> u64) -> Option<u64> {
    let time = clock();
    let next = state.0 + len_words as u64;
    current.compare_exchange_weak(state.0, next, Ordering::Relaxed, Ordering::Relaxed).ok()?;
    Some(time)
}

enum Next {
    Retry,
    Closed,
    Lost,
    TooLarge,
}

/// Marks a buffer as free.
pub(crate) fn give_back(words: &[AtomicU64], buffer: u16) {
    let (index, bit) = (usize::from(buffer) / 64, 1 << (buffer % 64));
    word_of(words, FREE + index).fetch_or(bit, Ordering::Release);
}

impl<'r> Slot<'r> {
    /// Returns the words of the record, rounded up. [`Slot::commit`] stores word 0; store the others first, in any
    /// order.
    #[inline(always)]
    pub fn words(&self) -> &'r [AtomicU64] {
        self.words
    }

    /// Stores a word of the record; does nothing past its end.
    #[inline(always)]
    pub fn put(&self, index: usize, word: u64) {
        if let Some(place) = self.words.get(index) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Commits the record by storing its first word, which must contain the record's size and kind.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "`Region::slot` makes no slot without words")]
    pub fn commit(self, first_word: u64) {
        // Release: the logger sees the whole record or none (partner: the load in `RegionReader::read`).
        self.words[0].store(first_word, Ordering::Release);
    }
}
