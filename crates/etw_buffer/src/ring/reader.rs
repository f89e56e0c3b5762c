//! The reader's side of a ring.

use std::ops::{Deref, Range};

use super::{
    DATA_START, HEAD, POSITION, READER_SLEEPS, RESTART, RingError, SKIP, WRITER_WAITS, capacity, entry_words,
};
use crate::sync::{AtomicU64, Ordering, fence, word_of};

/// Reads entries; a ring has one reader.
///
/// An entry stays valid until [`RingReader::release`] returns it to the writer.
#[derive(Debug)]
pub struct RingReader<D, P> {
    data: D,
    position: P,
    capacity: u64,
    /// The last known head of the writer.
    head: u64,
    /// Number of words whose entries have been returned.
    taken: u64,
    /// The position that is at the start.
    restart: u64,
    /// Number of words released.
    released: u64,
    broken: Option<RingError>,
}

/// The position of an entry that has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    start: usize,
    /// Length of the entry in bytes.
    pub len_bytes: usize,
    /// The argument for [`RingReader::release`] once this entry and all before it are no longer needed.
    pub end: u64,
}

impl Entry {
    /// Returns the words of the data that hold the entry; the last may be padded.
    pub fn words(&self) -> Range<usize> {
        self.start..self.start + self.len_bytes.div_ceil(8)
    }
}

impl<D, P> RingReader<D, P>
where
    D: Deref<Target = [AtomicU64]>,
    P: Deref<Target = [AtomicU64]>,
{
    /// Attaches to a new ring that no reader has used. `data` is never written to.
    ///
    /// # Errors
    ///
    /// Fails with [`RingError::TooSmall`].
    pub fn attach(data: D, position: P) -> Result<RingReader<D, P>, RingError> {
        let capacity = capacity(data.len(), position.len())? as u64;
        Ok(RingReader { data, position, capacity, head: 0, taken: 0, restart: 0, released: 0, broken: None })
    }

    /// Returns the next entry; `None` if there is none now.
    ///
    /// # Errors
    ///
    /// Fails if the writer's state is invalid. Every later call fails alike.
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RingError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let entry = self.look();
        self.broken = entry.err();
        entry
    }

    /// Releases the entries up to the one with this [`Entry::end`] to the writer. Returns whether the writer waits for
    /// room and must be woken.
    #[inline]
    pub fn release(&mut self, end: u64) -> bool {
        if end <= self.released || end > self.taken {
            return false;
        }
        self.released = end;
        // Release: the entries are read before this store (partner: `RingWriter::look_at_reader`).
        word_of(&self.position, POSITION).store(end, Ordering::Release);
        // Either this sees that the writer waits, or the writer sees the position first (partner: `RingWriter::waits`).
        fence(Ordering::SeqCst);
        word_of(&self.data, WRITER_WAITS).load(Ordering::Relaxed) != 0
    }

    /// Announces that the reader is about to sleep and must be woken by the writer. Returns `false`, and withdraws
    /// that, if an entry is available already.
    #[inline]
    pub fn sleeps(&mut self) -> bool {
        word_of(&self.position, READER_SLEEPS).store(1, Ordering::Relaxed);
        // Either the writer sees the announcement, or this sees the writer's head (partner: `RingWriter::publish`).
        fence(Ordering::SeqCst);
        let sleeps = word_of(&self.data, HEAD).load(Ordering::Relaxed) == self.taken;
        if !sleeps {
            self.awake();
        }
        sleeps
    }

    /// Withdraws the announcement of [`RingReader::sleeps`].
    #[inline]
    pub fn awake(&mut self) {
        word_of(&self.position, READER_SLEEPS).store(0, Ordering::Relaxed);
    }

    /// Returns the number of bytes taken and not released.
    pub fn held_bytes(&self) -> u64 {
        (self.taken - self.released) * 8
    }

    /// Returns the total size in bytes of the entries that the ring can hold.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity * 8
    }

    /// Replaces the contents of `to` by a copy of the words of an entry, or of a part of it. Words beyond the ring are
    /// left out.
    ///
    /// The writer may be hostile and change an entry at any time, so whatever is checked must be a copy.
    #[inline]
    pub fn copy(&self, words: Range<usize>, to: &mut Vec<u64>) {
        let end = words.end.min(self.data.len());
        let from = self.data.get(words.start..end).unwrap_or_default();
        to.clear();
        to.extend(from.iter().map(|word| word.load(Ordering::Relaxed)));
    }

    /// Returns the words of the ring.
    #[inline]
    pub fn data(&self) -> &D {
        &self.data
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the place of an entry is below the capacity, the length of a slice; its length was converted before"
    )]
    fn look(&mut self) -> Result<Option<Entry>, RingError> {
        let capacity = self.capacity;
        if self.taken == self.head {
            // Acquire: the entries up to the head are complete (partner: `RingWriter::publish`).
            let found = word_of(&self.data, HEAD).load(Ordering::Acquire);
            // Compared by distance, since a hostile head may be anywhere. Between the released position and the head
            // there is never more than the ring.
            let written = found.wrapping_sub(self.taken);
            if written > capacity - (self.taken - self.released) {
                return Err(RingError::Head { found, position: self.taken, capacity });
            }
            self.head = found;
            // Relaxed: it is published with the head. A restart happens where the reader has released everything.
            if written > 0 && word_of(&self.data, RESTART).load(Ordering::Relaxed) == self.taken {
                self.restart = self.taken;
            }
        }
        while self.taken < self.head {
            let at = (self.taken - self.restart) % capacity;
            let to_end = capacity - at;
            let available = to_end.min(self.head - self.taken);
            let length = word_of(&self.data, DATA_START + at as usize).load(Ordering::Relaxed);
            if length == SKIP && self.head - self.taken >= to_end {
                self.taken += to_end;
                continue;
            }
            let needed = usize::try_from(length).ok().filter(|length| *length as u64 <= capacity * 8);
            let needed = needed.map_or(u64::MAX, entry_words);
            if needed > available {
                return Err(RingError::Entry { len_bytes: length, position: self.taken, available });
            }
            self.taken += needed;
            let start = DATA_START + at as usize + 1;
            return Ok(Some(Entry { start, len_bytes: length as usize, end: self.taken }));
        }
        Ok(None)
    }
}
