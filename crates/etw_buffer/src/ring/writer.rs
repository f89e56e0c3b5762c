//! The writer's side of a ring.

use std::ops::Deref;

use super::{
    DATA_START, HEAD, POSITION, READER_SLEEPS, RESTART, RingError, SKIP, WRITER_WAITS, capacity, entry_words,
};
use crate::sync::{AtomicU64, Ordering, fence};

/// Words at the start of the ring that the writer stays in while the reader keeps up (256 KiB).
const WARM_WORDS: u64 = 1 << 15;

/// Writes entries; one for each ring.
#[derive(Debug)]
pub struct RingWriter<D, P> {
    data: D,
    position: P,
    capacity: u64,
    /// Words written, also those that are not published yet.
    written: u64,
    /// The position that lies at the start.
    restart: u64,
    /// Words published.
    head: u64,
    /// The reader's position when it was last looked at.
    read: u64,
}

/// The result of writing an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// It is written; [`RingWriter::publish`] shows it to the reader.
    Done,
    /// There is no room for it now.
    Full,
    /// It is larger than [`RingWriter::max_entry_bytes`].
    TooLarge,
}

impl<D, P> RingWriter<D, P>
where
    D: Deref<Target = [AtomicU64]>,
    P: Deref<Target = [AtomicU64]>,
{
    /// Makes an empty ring in memory that is all zero and that nobody reads yet.
    ///
    /// # Errors
    /// [`RingError::TooSmall`]: `data` needs 80 words, `position` [`POSITION_WORDS`](super::POSITION_WORDS).
    pub fn format(data: D, position: P) -> Result<RingWriter<D, P>, RingError> {
        let capacity = capacity(data.len(), position.len())? as u64;
        Ok(RingWriter { data, position, capacity, written: 0, restart: 0, head: 0, read: 0 })
    }

    /// Bytes that an entry can have at most: somewhat less than half of the ring, so that it has room in an empty ring
    /// wherever the writer is.
    pub fn max_entry_bytes(&self) -> usize {
        ((self.capacity / 2 - 1) * 8).min(u64::from(u32::MAX)) as usize
    }

    /// Bytes of all entries that the ring can hold, their lengths included.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity * 8
    }

    /// Writes an entry that consists of consecutive `parts`.
    ///
    /// # Errors
    /// The reader's position cannot be; the reader is broken or hostile, and gets nothing any more.
    #[inline]
    pub fn try_push(&mut self, parts: &[&[u8]]) -> Result<Push, RingError> {
        self.try_push_leaving(0, parts)
    }

    /// As [`RingWriter::try_push`], if so many bytes are left free behind the entry: room that is kept for what the
    /// reader must have even when there is no room for the rest.
    ///
    /// # Errors
    /// As for [`RingWriter::try_push`].
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
                // Relaxed: the reader sees it with the head of what comes next; it has taken all that came before, so
                // that nobody looks for the earlier restart any more.
                self.restart = self.written;
                self.data[RESTART].store(self.restart, Ordering::Relaxed);
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
        let start = DATA_START + at as usize + 1;
        let words = self.data.get(start..start + needed as usize - 1).unwrap_or_default();
        copy(parts, words);
        self.written += needed;
        Ok(Push::Done)
    }

    /// Shows the reader all entries that have been written. Returns whether it sleeps and must be woken.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.head == self.written {
            return false;
        }
        self.head = self.written;
        // Release: the entries' words come before (partner: the load of the head in `RingReader::next_entry`).
        self.data[HEAD].store(self.head, Ordering::Release);
        // Either this sees that the reader sleeps, or the reader sees the head before it does (partner: the fence in
        // `RingReader::sleeps`).
        fence(Ordering::SeqCst);
        self.position[READER_SLEEPS].load(Ordering::Relaxed) != 0
    }

    /// Bytes that are written and not given back by the reader.
    ///
    /// # Errors
    /// As for [`RingWriter::try_push`].
    pub fn used_bytes(&mut self) -> Result<u64, RingError> {
        self.look_at_reader()?;
        Ok((self.written - self.read) * 8)
    }

    /// Says that the writer waits for `len_bytes` of room and is to be woken by the reader. Answers `false`, and takes
    /// the wish back, if the room is there already.
    ///
    /// # Errors
    /// As for [`RingWriter::try_push`].
    pub fn waits(&mut self, len_bytes: usize) -> Result<bool, RingError> {
        self.data[WRITER_WAITS].store(1, Ordering::Relaxed);
        // Either the reader sees the wish, or this sees what the reader gave back (partner: `RingReader::release`).
        fence(Ordering::SeqCst);
        self.look_at_reader()?;
        let room = self.capacity - (self.written - self.read);
        let waits = self.read != self.written && room < 2 * entry_words(len_bytes);
        if !waits {
            self.awake();
        }
        Ok(waits)
    }

    /// Takes the wish of [`RingWriter::waits`] back.
    pub fn awake(&mut self) {
        self.data[WRITER_WAITS].store(0, Ordering::Relaxed);
    }

    /// The words that the ring was made of.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// Where the next entry lies, in words from the first.
    #[inline]
    fn place(&self) -> u64 {
        (self.written - self.restart) % self.capacity
    }

    #[inline]
    fn look_at_reader(&mut self) -> Result<(), RingError> {
        // Acquire: the reader is done with the words before they are written anew (partner: `RingReader::release`).
        let found = self.position[POSITION].load(Ordering::Acquire);
        if !(self.read..=self.head).contains(&found) {
            return Err(RingError::Position { found, from: self.read, head: self.head });
        }
        self.read = found;
        Ok(())
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.data[DATA_START + at as usize]
    }
}

/// Copies consecutive `parts` into words; the rest of the last word becomes zero.
#[inline]
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
