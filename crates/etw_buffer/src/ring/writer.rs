//! The writer's side of a ring.

use std::ops::Deref;

use super::{
    DATA_START, HEAD, POSITION, READER_SLEEPS, RESTART, RingError, SKIP, WRITER_WAITS, capacity, entry_words,
};
use crate::sync::{AtomicU64, Ordering, fence, word_of};

/// Number of words at the start of the ring to which the writer keeps while the reader keeps up (256 KiB).
const WARM_WORDS: u64 = 1 << 15;

/// Writes entries; a ring has one writer.
#[derive(Debug)]
pub struct RingWriter<D, P> {
    data: D,
    position: P,
    capacity: u64,
    /// Number of words written, including unpublished ones.
    written: u64,
    /// The position that is at the start.
    restart: u64,
    /// Number of words published.
    head: u64,
    /// The last known position of the reader.
    read: u64,
}

/// The result of writing an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// The entry was written; [`RingWriter::publish`] makes it visible to the reader.
    Done,
    /// The ring has no room for it now.
    Full,
    /// It is larger than [`RingWriter::max_entry_bytes`].
    TooLarge,
}

impl<D, P> RingWriter<D, P>
where
    D: Deref<Target = [AtomicU64]>,
    P: Deref<Target = [AtomicU64]>,
{
    /// Creates an empty ring in memory that is all zero and has no reader yet.
    ///
    /// # Errors
    ///
    /// Fails with [`RingError::TooSmall`]: `data` needs 80 words, `position` [`POSITION_WORDS`](super::POSITION_WORDS).
    pub fn format(data: D, position: P) -> Result<RingWriter<D, P>, RingError> {
        let capacity = capacity(data.len(), position.len())? as u64;
        Ok(RingWriter { data, position, capacity, written: 0, restart: 0, head: 0, read: 0 })
    }

    /// Returns the maximum size of an entry in bytes: somewhat less than half of the ring, so that it fits into an
    /// empty ring at any position of the writer.
    #[expect(clippy::cast_possible_truncation, reason = "it is at most u32::MAX")]
    pub fn max_entry_bytes(&self) -> usize {
        ((self.capacity / 2 - 1) * 8).min(u64::from(u32::MAX)) as usize
    }

    /// Returns the total size in bytes of the entries that the ring can hold, including their lengths.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity * 8
    }

    /// Writes an entry that consists of consecutive `parts`.
    ///
    /// # Errors
    ///
    /// Fails if the reader's position is impossible: the reader is broken or hostile, and receives no more entries.
    #[inline]
    pub fn try_push(&mut self, parts: &[&[u8]]) -> Result<Push, RingError> {
        self.try_push_leaving(0, parts)
    }

    /// Writes an entry like [`RingWriter::try_push`], if at least `spare_bytes` stay free after it.
    ///
    /// The spare room is reserved for entries that the reader must receive even if others do not fit.
    ///
    /// # Errors
    ///
    /// Fails like [`RingWriter::try_push`].
    #[inline]
    pub fn try_push_leaving(&mut self, spare_bytes: usize, parts: &[&[u8]]) -> Result<Push, RingError> {
        let len_bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if len_bytes > self.max_entry_bytes() {
            return Ok(Push::TooLarge);
        }
        let (needed, spare) = (entry_words(len_bytes), spare_bytes as u64 / 8);
        if self.place() >= WARM_WORDS.min(self.capacity / 2) {
            self.look_at_reader()?;
            if self.read == self.written {
                // Relaxed: published with the next head. The reader has taken everything before it, so the earlier
                // restart is no longer needed.
                self.restart = self.written;
                word_of(&self.data, RESTART).store(self.restart, Ordering::Relaxed);
            }
        }
        let at = self.place();
        let skipped = if at + needed > self.capacity { self.capacity - at } else { 0 };
        if self.written - self.read + skipped + needed + spare > self.capacity {
            self.look_at_reader()?;
            if self.written - self.read + skipped + needed + spare > self.capacity {
                return Ok(Push::Full);
            }
        }
        if skipped > 0 {
            self.word(at).store(SKIP, Ordering::Relaxed);
            self.written += skipped;
        }
        let at = self.place();
        self.word(at).store(len_bytes as u64, Ordering::Relaxed);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the entry lies within the capacity, the length of a slice"
        )]
        let (start, end) = (DATA_START + at as usize + 1, DATA_START + (at + needed) as usize);
        copy(parts, self.data.get(start..end).unwrap_or_default());
        self.written += needed;
        Ok(Push::Done)
    }

    /// Makes all written entries visible to the reader. Returns whether it sleeps and must be woken.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.head == self.written {
            return false;
        }
        self.head = self.written;
        // Release: the entries' words are visible first (partner: the load of the head in `RingReader::next_entry`).
        word_of(&self.data, HEAD).store(self.head, Ordering::Release);
        // Either this sees that the reader sleeps, or the reader sees the head first (partner: the fence in
        // `RingReader::sleeps`).
        fence(Ordering::SeqCst);
        word_of(&self.position, READER_SLEEPS).load(Ordering::Relaxed) != 0
    }

    /// Returns the number of bytes written and not yet released by the reader.
    ///
    /// # Errors
    ///
    /// Fails like [`RingWriter::try_push`].
    pub fn used_bytes(&mut self) -> Result<u64, RingError> {
        self.look_at_reader()?;
        Ok((self.written - self.read) * 8)
    }

    /// Announces that the writer waits for `len_bytes` of room and must be woken by the reader. Returns `false`, and
    /// withdraws that, if the room is available already.
    ///
    /// # Errors
    ///
    /// Fails like [`RingWriter::try_push`].
    pub fn waits(&mut self, len_bytes: usize) -> Result<bool, RingError> {
        word_of(&self.data, WRITER_WAITS).store(1, Ordering::Relaxed);
        // Either the reader sees the announcement, or this sees the released entries (partner: `RingReader::release`).
        fence(Ordering::SeqCst);
        self.look_at_reader()?;
        let room = self.capacity - (self.written - self.read);
        let waits = self.read != self.written && room < 2 * entry_words(len_bytes);
        if !waits {
            self.awake();
        }
        Ok(waits)
    }

    /// Withdraws the announcement of [`RingWriter::waits`].
    pub fn awake(&mut self) {
        word_of(&self.data, WRITER_WAITS).store(0, Ordering::Relaxed);
    }

    /// Returns the words of the ring.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// Returns the position of the next entry, in words from the first.
    #[inline]
    fn place(&self) -> u64 {
        (self.written - self.restart) % self.capacity
    }

    #[inline]
    fn look_at_reader(&mut self) -> Result<(), RingError> {
        // Acquire: the reader is done with the words before they are overwritten (partner: `RingReader::release`).
        let found = word_of(&self.position, POSITION).load(Ordering::Acquire);
        if !(self.read..=self.head).contains(&found) {
            return Err(RingError::Position { found, from: self.read, head: self.head });
        }
        self.read = found;
        Ok(())
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a place is below the capacity, the length of a slice"
    )]
    fn word(&self, at: u64) -> &AtomicU64 {
        word_of(&self.data, DATA_START + at as usize)
    }
}

/// Copies consecutive `parts` into words; the rest of the last word becomes zero.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "the part taken fits both into what is left of the 8 bytes and into the part; a rest of chunks is below 8"
)]
fn copy(parts: &[&[u8]], words: &[AtomicU64]) {
    let mut words = words.iter();
    let (mut begun, mut filled) = ([0u8; 8], 0);
    for part in parts {
        let mut part = *part;
        if filled > 0 {
            let taken = part.len().min(8 - filled);
            begun[filled..filled + taken].copy_from_slice(&part[..taken]);
            (filled, part) = (filled + taken, &part[taken..]);
            if filled < 8 {
                continue;
            }
            put(&mut words, begun);
            begun = [0; 8];
        }
        let (whole, rest) = part.as_chunks::<8>();
        for (chunk, word) in whole.iter().zip(words.by_ref()) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
        begun[..rest.len()].copy_from_slice(rest);
        filled = rest.len();
    }
    if filled > 0 {
        put(&mut words, begun);
    }
}

fn put<'w>(words: &mut impl Iterator<Item = &'w AtomicU64>, bytes: [u8; 8]) {
    if let Some(word) = words.next() {
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}
