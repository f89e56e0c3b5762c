//! A ring of entries between one writer and one reader in different processes: how a logger hands buffers to a
//! real-time consumer.
//!
//! The ring consists of two pieces of shared memory, seen as words.
//! The *data* is the writer's: the reader maps it for reading only.
//! The *position* is the reader's, so that nothing that a reader does can touch what other readers see.
//! Neither trusts the other: the writer checks the position, the reader checks sizes, and each reads a word once.
//!
//! | data word | is |
//! |---|---|
//! | 0 | head: words ever written, up to which entries are complete |
//! | 1 | restart: the position whose entry lies at the start, whatever lies before it |
//! | 8 | 1 while the writer waits for room |
//! | 16… | entries |
//!
//! | position word | is |
//! |---|---|
//! | 0 | position: words ever read and given back |
//! | 8 | 1 while the reader sleeps |
//!
//! An entry is a word with its length in bytes, and its bytes, padded to whole words.
//! It lies in one piece: where it would not fit before the end, a word of ones says that entries go on at the start.
//! A writer whose reader has caught up restarts, so that as long as the reader keeps up both stay in memory that the
//! caches hold, and a ring takes no more memory than its reader ever fell behind.
//! Who finds the other asleep wakes it by means of its own, such as an eventfd; this module makes no system call.

mod reader;
mod writer;

pub use reader::{Entry, RingReader};
pub use writer::{Push, RingWriter};

/// Words of the smallest piece of memory that can hold the reader's position.
pub const POSITION_WORDS: usize = 16;
/// Words of the data before the first entry.
const DATA_START: usize = 16;
/// Words of the smallest data.
const MIN_DATA_WORDS: usize = DATA_START + 64;

/// Data: words ever written.
const HEAD: usize = 0;
/// Data: a position at which everything before had been given back, and entries went on at the start.
const RESTART: usize = 1;
/// Data: whether the writer waits for room.
const WRITER_WAITS: usize = 8;
/// Position: words ever read.
const POSITION: usize = 0;
/// Position: whether the reader sleeps.
const READER_SLEEPS: usize = 8;

/// Stands where the next entry lies at the start.
const SKIP: u64 = u64::MAX;

/// Why a ring cannot be used, or not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The memory is too small for a ring.
    #[error("a ring of {data_words} words with {position_words} words for the position is too small")]
    TooSmall {
        /// Words of the data.
        data_words: usize,
        /// Words of the position.
        position_words: usize,
    },
    /// The reader's position is not one that it can have reached.
    #[error("the reader's position {found} lies outside of {from}..={head}")]
    Position {
        /// The reader's value.
        found: u64,
        /// Its position before.
        from: u64,
        /// What has been written.
        head: u64,
    },
    /// The writer's head is not one that it can have reached.
    #[error("the writer's head {found} lies outside of {position}..={position}+{capacity}")]
    Head {
        /// The writer's value.
        found: u64,
        /// How far the reader has come.
        position: u64,
        /// Words of the ring.
        capacity: u64,
    },
    /// An entry's length does not fit.
    #[error(
        "an entry of {len_bytes} bytes at word {position} does not fit in the {available} words that are there"
    )]
    Entry {
        /// The writer's value.
        len_bytes: u64,
        /// Where the entry is.
        position: u64,
        /// Words from the entry's length to the end of what is written or of the ring.
        available: u64,
    },
}

/// Words that an entry takes, with its length.
fn entry_words(len_bytes: usize) -> u64 {
    1 + len_bytes.div_ceil(8) as u64
}

/// Words of the ring behind the fixed ones.
fn capacity(data_words: usize, position_words: usize) -> Result<usize, RingError> {
    if data_words < MIN_DATA_WORDS || position_words < POSITION_WORDS {
        return Err(RingError::TooSmall { data_words, position_words });
    }
    Ok(data_words - DATA_START)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod model;
