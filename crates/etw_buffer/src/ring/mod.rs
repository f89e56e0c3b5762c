//! A ring of entries between one writer and one reader in different processes, through which a logger passes buffers to
//! a real-time consumer.
//!
//! The ring consists of two pieces of shared memory, accessed as words.
//! The *data* belongs to the writer; the reader maps it read-only.
//! The *position* belongs to the reader, so a reader cannot affect what other readers see.
//! Neither side trusts the other: the writer checks the position, the reader checks sizes, and each reads a word once.
//!
//! | data word | contents |
//! |---|---|
//! | 0 | head: number of words ever written, up to which entries are complete |
//! | 1 | restart: the position whose entry is at the start, whatever comes before it |
//! | 8 | 1 while the writer waits for room |
//! | 16… | entries |
//!
//! | position word | contents |
//! |---|---|
//! | 0 | position: number of words ever read and released |
//! | 8 | 1 while the reader sleeps |
//!
//! An entry is a word with its length in bytes, followed by its bytes, padded to whole words.
//! It is contiguous: if it does not fit before the end, a word of ones marks that entries continue at the start.
//! A writer whose reader has caught up restarts there. So while the reader keeps up, both use cached memory, and a ring
//! takes no more memory than its reader ever fell behind.
//! A side that finds the other one sleeping must wake it by other means, such as an eventfd; this module makes no
//! system calls.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicU64;
//!
//! use etw_buffer::ring::{POSITION_WORDS, RingReader, RingWriter};
//!
//! let memory = |words| (0..words).map(|_| AtomicU64::new(0)).collect::<Arc<[AtomicU64]>>();
//! let (data, position) = (memory(1024), memory(POSITION_WORDS));
//! let mut writer = RingWriter::format(data.clone(), position.clone())?;
//! let mut reader = RingReader::attach(data, position)?;
//!
//! writer.try_push(&[b"one entry"])?;
//! writer.publish();
//! if let Some(entry) = reader.next_entry()? {
//!     reader.release(entry.end);
//! }
//! # Ok::<(), etw_buffer::ring::RingError>(())
//! ```

mod reader;
mod writer;

pub use reader::{Entry, RingReader};
pub use writer::{Push, RingWriter};

/// Minimum size in words of the memory for the reader's position.
pub const POSITION_WORDS: usize = 16;
/// Number of data words before the first entry.
const DATA_START: usize = 16;
/// Minimum size of the data in words.
const MIN_DATA_WORDS: usize = DATA_START + 64;

/// Data: number of words ever written.
const HEAD: usize = 0;
/// Data: a position at which everything before had been released, and entries continued at the start.
const RESTART: usize = 1;
/// Data: whether the writer waits for room.
const WRITER_WAITS: usize = 8;
/// Position: number of words ever read.
const POSITION: usize = 0;
/// Position: whether the reader sleeps.
const READER_SLEEPS: usize = 8;

/// Marks that the next entry is at the start.
const SKIP: u64 = u64::MAX;

/// The reason why a ring is unusable.
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
    #[error("the reader's position {found} is outside {from}..={head}")]
    Position {
        /// The reader's value.
        found: u64,
        /// Its previous position.
        from: u64,
        /// The head of the writer.
        head: u64,
    },
    /// The writer's head is not one that it can have reached.
    #[error("the writer's head {found} is outside {position}..={position}+{capacity}")]
    Head {
        /// The writer's value.
        found: u64,
        /// The position of the reader.
        position: u64,
        /// Size of the ring in words.
        capacity: u64,
    },
    /// An entry's length does not fit.
    #[error(
        "an entry of {len_bytes} bytes at word {position} does not fit in the {available} words available"
    )]
    Entry {
        /// The writer's value.
        len_bytes: u64,
        /// The position of the entry.
        position: u64,
        /// Words from the entry's length to the end of what is written or of the ring.
        available: u64,
    },
}

/// Returns the number of words of an entry, including its length.
fn entry_words(len_bytes: usize) -> u64 {
    1 + len_bytes.div_ceil(8) as u64
}

/// Returns the number of words in the ring after the fixed ones.
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
