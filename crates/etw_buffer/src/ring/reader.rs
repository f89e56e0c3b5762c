//! The reader's side of a ring.

use std::ops::{Deref, Range};

use super::{
    DATA_START, HEAD, POSITION, READER_SLEEPS, RESTART, RingError, SKIP, WRITER_WAITS, capacity, entry_words,
};
use crate::sync::{AtomicU64, Ordering, fence};

/// Reads entries in place; one for each ring.
///
/// An entry stays where it is until [`RingReader::release`] gives it back to the writer.
#[derive(Debug)]
pub struct RingReader<D, P> {
    data: D,
    position: P,
    capacity: u64,
    /// The writer's head when it was last looked at.
    head: u64,
    /// Words whose entries have been handed out.
    taken: u64,
    /// The position that lies at the start.
    restart: u64,
    /// Words given back.
    released: u64,
    broken: Option<RingError>,
}

/// An entry that has been read: where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    start: usize,
    /// Bytes of the entry.
    pub len_bytes: usize,
    /// What [`RingReader::release`] takes when this entry and all before it are done with.
    pub end: u64,
}

impl Entry {
    /// The words of the data that hold the entry; the last may be padded.
    pub fn words(&self) -> Range<usize> {
        self.start..self.start + self.len_bytes.div_ceil(8)
    }
}

impl<D, P> RingReader<D, P>
where
    D: Deref<Target = [AtomicU64]>,
    P: Deref<Target = [AtomicU64]>,
{
    /// The reader of a ring that a writer has made and nobody has read yet. `data` is never written to.
    ///
    /// # Errors
    /// [`RingError::TooSmall`].
    pub fn attach(data: D, position: P) -> Result<RingReader<D, P>, RingError> {
        let capacity = capacity(data.len(), position.len())? as u64;
        Ok(RingReader { data, position, capacity, head: 0, taken: 0, restart: 0, released: 0, broken: None })
    }

    /// Returns the next entry; `None` if there is none now.
    ///
    /// # Errors
    /// If the writer's state is invalid. Every later call returns the same.
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RingError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let entry = self.look();
        self.broken = entry.err();
        entry
    }

    /// Gives the entries up to the one with this [`Entry::end`] back to the writer. Answers whether the writer waits
    /// for room and is to be woken.
    #[inline]
    pub fn release(&mut self, end: u64) -> bool {
        if end <= self.released || end > self.taken {
            return false;
        }
        self.released = end;
        // Release: whatever was read of the entries was read before (partner: `RingWriter::look_at_reader`).
        self.position[POSITION].store(end, Ordering::Release);
        // Either this sees that the writer waits, or the writer sees the position before it does (partner:
        // `RingWriter::waits`).
        fence(Ordering::SeqCst);
        self.data[WRITER_WAITS].load(Ordering::Relaxed) != 0
    }

    /// Says that the reader is about to sleep and is to be woken by the writer. Answers `false`, and takes the wish
    /// back, if there is something to read already.
    #[inline]
    pub fn sleeps(&mut self) -> bool {
        self.position[READER_SLEEPS].store(1, Ordering::Relaxed);
        // Either the writer sees the wish, or this sees the writer's head (partner: `RingWriter::publish`).
        fence(Ordering::SeqCst);
        let sleeps = self.data[HEAD].load(Ordering::Relaxed) == self.taken;
        if !sleeps {
            self.awake();
        }
        sleeps
    }

    /// Takes the wish of [`RingReader::sleeps`] back.
    #[inline]
    pub fn awake(&mut self) {
        self.position[READER_SLEEPS].store(0, Ordering::Relaxed);
    }

    /// Bytes that are taken and not given back.
    pub fn held_bytes(&self) -> u64 {
        (self.taken - self.released) * 8
    }

    /// Bytes of all entries that the ring can hold.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity * 8
    }

    /// The words that the ring is made of.
    #[inline]
    pub fn data(&self) -> &D {
        &self.data
    }

    #[inline]
    fn look(&mut self) -> Result<Option<Entry>, RingError> {
        let capacity = self.capacity;
        if self.taken == self.head {
            // Acquire: the entries up to the head are complete (partner: `RingWriter::publish`).
            let found = self.data[HEAD].load(Ordering::Acquire);
            // Compared by distance, since a hostile head may lie anywhere. Between what the reader has given back and
            // the head there is never more than the ring.
            let written = found.wrapping_sub(self.taken);
            if written > capacity - (self.taken - self.released) {
                return Err(RingError::Head { found, position: self.taken, capacity });
            }
            self.head = found;
            // Relaxed: it comes with the head. A restart happens where the reader has given back everything.
            if written > 0 && self.data[RESTART].load(Ordering::Relaxed) == self.taken {
                self.restart = self.taken;
            }
        }
        while self.taken < self.head {
            let at = (self.taken - self.restart) % capacity;
            let to_end = capacity - at;
            let available = to_end.min(self.head - self.taken);
            let length = self.data[DATA_START + at as usize].load(Ordering::Relaxed);
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
