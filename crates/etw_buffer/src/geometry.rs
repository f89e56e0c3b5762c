//! The layout of a region, and the positions of its parts in words.
//!
//! | words | contents |
//! |---|---|
//! | 0 | magic number |
//! | 1 | processors (bits 0..16), buffers (16..32), size of a buffer in bytes (32..64) |
//! | 2 | the clock, numbered as in `etw_sys::ClockSource` |
//! | 3 | what wakes the logger, [`crate::Wanted`] |
//! | 4 | the time up to which all events have been written by a delayed writer; otherwise 0 |
//! | 16.. | bitmap of free buffers, 64 words |
//! | 80.. | 16 words for each processor: state, events lost, first buffer of a chain |
//! | .. | the buffers, aligned to a page |
//!
//! A processor's state is one word, so that all of it changes at once:
//!
//! | bits | contents |
//! |---|---|
//! | 0..22 | position of the next record, in words from the buffer's start; all ones without a buffer |
//! | 22..34 | number of the buffer |
//! | 34..56 | number of the processor's buffer changes |
//! | 56..64 | epoch: the session; 0 is closed |
//!
//! A buffer starts with space for the header of an ETL buffer (9 words), of which two are used here. Word 0 contains
//! the processor, and the number of the buffer change that made this buffer current. Word 1 is set once another buffer
//! is current: the end of the records, and the next buffer. The first buffer after a state without one is in the
//! processor's third word. The writer that made the change stores both right after it.

use crate::sync::{AtomicU64, Ordering, word_of};

/// The first word: "ETWREGN1".
const MAGIC: u64 = u64::from_le_bytes(*b"ETWREGN1");

pub(crate) const GEOMETRY_WORD: usize = 1;
pub(crate) const CLOCK_WORD: usize = 2;
pub(crate) const WANTED_WORD: usize = 3;
pub(crate) const COMPLETE_WORD: usize = 4;
/// The bitmap of free buffers.
pub(crate) const FREE: usize = 16;
const FREE_WORDS: usize = if cfg!(loom) { 1 } else { 64 };
const PROCESSORS: usize = FREE + FREE_WORDS;
/// 128 bytes per processor, so that processors share neither a cache line nor a pair of lines.
const PROCESSOR_WORDS: usize = if cfg!(loom) { 3 } else { 16 };
/// A page. The model checker tracks each atomic, so it gets as few as possible.
const ALIGNMENT_WORDS: usize = if cfg!(loom) { 1 } else { 512 };

/// Words of a buffer's header.
pub(crate) const BUFFER_HEADER: usize = 9;
#[expect(clippy::cast_possible_truncation, reason = "it is 72")]
const BUFFER_HEADER_BYTES: u32 = (BUFFER_HEADER * 8) as u32;
/// In a buffer: the processor in the low half, and the number of its buffer change in the high half.
pub(crate) const OWNER: usize = 0;
/// In a buffer: an [`End`]; 0 while it accepts records.
pub(crate) const END: usize = 1;
/// Of a processor: its state, the count of events lost, and the buffer that followed a state without one.
pub(crate) const LOST: usize = 1;
/// In the count of lost events: set while the count will be read. Cleared once the region is closed, and in the zero
/// words that replace the region in a process that has left it.
pub(crate) const LOST_OPEN: u64 = 1 << 63;
pub(crate) const CHAIN: usize = 2;

/// The sizes of a region's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// One more than the highest index of a processor; at least 1.
    pub processors: u16,
    /// Buffers in the pool, 1 to [`Geometry::MAX_BUFFERS`]. Unused ones take no memory.
    pub buffers: u16,
    /// Size of a buffer in bytes with its header of 0x48 bytes: a multiple of 8 up to 16 MiB. Sessions use multiples of
    /// 1024.
    pub buffer_bytes: u32,
}

/// The reason why memory is not a valid region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The memory does not start like a region.
    #[error("the shared memory is not a region: it starts with {found:#018x}")]
    Magic {
        /// The first word.
        found: u64,
    },
    /// The numbers are out of range.
    #[error(
        "invalid region with {} processors and {} buffers of {} bytes",
        .0.processors, .0.buffers, .0.buffer_bytes
    )]
    Geometry(Geometry),
    /// The memory is smaller than the region.
    #[error("the region needs {needed} words, the memory has {available}")]
    TooSmall {
        /// Words of the region.
        needed: usize,
        /// Words of the memory.
        available: usize,
    },
}

impl Geometry {
    /// The maximum number of buffers in a region.
    pub const MAX_BUFFERS: u16 = 4094;
    /// The maximum size of a buffer in bytes, as in ETW.
    pub const MAX_BUFFER_BYTES: u32 = 16 << 20;

    /// Returns the size of the region's memory in words.
    pub const fn len_words(&self) -> usize {
        self.buffer_start(self.buffers as usize)
    }

    /// Returns the size in bytes of the largest record that fits into a buffer.
    pub const fn max_record_bytes(&self) -> u32 {
        self.buffer_bytes - BUFFER_HEADER_BYTES
    }

    pub(crate) fn check(self) -> Result<Geometry, RegionError> {
        let buffers = (1..=Geometry::MAX_BUFFERS).contains(&self.buffers);
        let smallest = BUFFER_HEADER_BYTES + 8;
        let bytes = (smallest..=Geometry::MAX_BUFFER_BYTES).contains(&self.buffer_bytes);
        if self.processors == 0 || !buffers || !bytes || !self.buffer_bytes.is_multiple_of(8) {
            return Err(RegionError::Geometry(self));
        }
        Ok(self)
    }

    pub(crate) const fn buffer_words(&self) -> usize {
        (self.buffer_bytes / 8) as usize
    }

    /// Returns the first of a processor's words.
    pub(crate) const fn processor(&self, processor: usize) -> usize {
        PROCESSORS + processor * PROCESSOR_WORDS
    }

    pub(crate) const fn buffer_start(&self, buffer: usize) -> usize {
        let first = self.processor(self.processors as usize).next_multiple_of(ALIGNMENT_WORDS);
        first + buffer * self.buffer_words()
    }

    /// Writes the geometry into its words.
    pub(crate) fn store(&self, words: &[AtomicU64]) -> Result<(), RegionError> {
        self.check_len(words)?;
        let word =
            u64::from(self.processors) | u64::from(self.buffers) << 16 | u64::from(self.buffer_bytes) << 32;
        word_of(words, GEOMETRY_WORD).store(word, Ordering::Relaxed);
        word_of(words, 0).store(MAGIC, Ordering::Release);
        Ok(())
    }

    /// Reads and checks the geometry.
    pub(crate) fn load(words: &[AtomicU64]) -> Result<Geometry, RegionError> {
        let word = |index: usize| words.get(index).map_or(0, |word| word.load(Ordering::Acquire));
        let (found, word) = (word(0), word(GEOMETRY_WORD));
        if found != MAGIC {
            return Err(RegionError::Magic { found });
        }
        let (processors, buffers) = ((word & 0xFFFF) as u16, (word >> 16 & 0xFFFF) as u16);
        let geometry = Geometry { processors, buffers, buffer_bytes: (word >> 32) as u32 }.check()?;
        geometry.check_len(words)?;
        Ok(geometry)
    }

    fn check_len(&self, words: &[AtomicU64]) -> Result<(), RegionError> {
        let (needed, available) = (self.len_words(), words.len());
        if available < needed { Err(RegionError::TooSmall { needed, available }) } else { Ok(()) }
    }
}

/// A processor's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    const OFFSET_BITS: u32 = 22;
    const BUFFER_BITS: u32 = 12;
    const CHANGE_BITS: u32 = 22;
    /// The offset without a buffer: nothing fits after it.
    pub(crate) const NO_OFFSET: u64 = (1 << State::OFFSET_BITS) - 1;
    const NO_BUFFER: u64 = (1 << State::BUFFER_BITS) - 1;
    /// Mask of the bits that hold the number of changes.
    pub(crate) const CHANGE_MASK: u32 = (1 << State::CHANGE_BITS) - 1;

    /// Returns a state without a buffer.
    pub(crate) const fn empty(epoch: u8, change: u32) -> State {
        State::pack(epoch, change, State::NO_BUFFER, State::NO_OFFSET)
    }

    /// Returns a state with an empty buffer.
    pub(crate) const fn open(epoch: u8, change: u32, buffer: u16) -> State {
        State::pack(epoch, change, buffer as u64, BUFFER_HEADER as u64)
    }

    const fn pack(epoch: u8, change: u32, buffer: u64, offset: u64) -> State {
        let change = (change & State::CHANGE_MASK) as u64;
        let low = offset | buffer << State::OFFSET_BITS;
        State(low | change << (State::OFFSET_BITS + State::BUFFER_BITS) | (epoch as u64) << 56)
    }

    #[inline(always)]
    pub(crate) const fn offset(self) -> usize {
        (self.0 & State::NO_OFFSET) as usize
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the mask has 12 bits")]
    pub(crate) const fn buffer(self) -> Option<u16> {
        match self.0 >> State::OFFSET_BITS & State::NO_BUFFER {
            State::NO_BUFFER => None,
            buffer => Some(buffer as u16),
        }
    }

    pub(crate) const fn change(self) -> u32 {
        (self.0 >> (State::OFFSET_BITS + State::BUFFER_BITS)) as u32 & State::CHANGE_MASK
    }

    #[inline(always)]
    pub(crate) const fn epoch(self) -> u8 {
        (self.0 >> 56) as u8
    }
}

/// The contents of a buffer's word [`END`]: the end of its records in words, and the next buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End(pub(crate) u64);

impl End {
    pub(crate) const fn new(offset: usize, next: Option<u16>) -> End {
        let next = match next {
            Some(next) => next as u64 + 1,
            None => 0,
        };
        End(offset as u64 & 0xFFFF_FFFF | next << 32)
    }

    pub(crate) const fn offset(self) -> usize {
        (self.0 & 0xFFFF_FFFF) as usize
    }

    #[expect(clippy::cast_possible_truncation, reason = "the pattern has 16 bits")]
    pub(crate) const fn next(self) -> Option<u16> {
        match self.0 >> 32 {
            next @ 1..=0xFFFF => Some((next - 1) as u16),
            _ => None,
        }
    }
}

/// Returns the value of a processor's word [`CHAIN`]: the number of the change, and the buffer that became current.
pub(crate) const fn chain(change: u32, buffer: u16) -> u64 {
    buffer as u64 | (change as u64) << 16 | 1 << 63
}

/// Returns the value of a buffer's word [`OWNER`].
pub(crate) const fn owner(processor: usize, change: u32) -> u64 {
    processor as u64 | ((change & State::CHANGE_MASK) as u64) << 32 | 1 << 63
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn states_keep_their_parts() {
        let check = |state: State, epoch, change, buffer, offset| {
            assert_eq!(
                (state.epoch(), state.change(), state.buffer(), state.offset()),
                (epoch, change, buffer, offset)
            );
        };
        check(State::empty(7, 5), 7, 5, None, 0x3F_FFFF);
        check(State::open(255, State::CHANGE_MASK + 3, 4094), 255, 2, Some(4094), 9);
        check(State(State::open(1, 2, 3).0 + 12), 1, 2, Some(3), 21);
    }

    #[test]
    fn geometries_are_checked() {
        let good = Geometry { processors: 2, buffers: 3, buffer_bytes: 1024 };
        assert_eq!(good.len_words(), 512 + 3 * 128);
        let words: Vec<AtomicU64> = (0..good.len_words()).map(|_| AtomicU64::new(0)).collect();
        assert_eq!(Geometry::load(&words), Err(RegionError::Magic { found: 0 }));
        good.store(&words).unwrap();
        assert_eq!(Geometry::load(&words), Ok(good));
        assert_eq!(
            Geometry::load(&words[..good.len_words() - 1]),
            Err(RegionError::TooSmall { needed: 896, available: 895 })
        );
        assert_eq!(Geometry::load(&[]), Err(RegionError::Magic { found: 0 }));
        for bad in [
            Geometry { processors: 0, ..good },
            Geometry { buffers: 0, ..good },
            Geometry { buffers: 4095, ..good },
            Geometry { buffer_bytes: 72, ..good },
            Geometry { buffer_bytes: 1028, ..good },
            Geometry { buffer_bytes: (16 << 20) + 8, ..good },
        ] {
            assert_eq!(bad.check(), Err(RegionError::Geometry(bad)));
        }
    }
}
