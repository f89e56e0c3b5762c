//! Lock-free buffers in shared memory, with one current buffer per processor.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! A [`Region`] is memory that one process writes events to and one logger reads from. It holds a pool of buffers; each
//! processor has a current one. Writing an event reserves room in the current buffer, fills it with a finished ETL
//! record, and commits it with one store of its first word: no lock, no system call, no allocation. If the process dies
//! at any instruction, others never see an incomplete event.
//!
//! The other side is a [`RegionReader`]. It treats the writer as hostile: each word is read once, each size is checked,
//! and whatever the region contains, only the events of this one process can be corrupted.
//!
//! A [`ring`] carries finished buffers from the logger to a real-time consumer in another process.
//!
//! The crate makes no system calls. It works on borrowed atomic words, and with `--cfg loom` on loom's, so that the
//! model checker sees the real code.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicU64;
//!
//! use etw_buffer::{Geometry, Region, RegionReader, Reserve};
//!
//! let geometry = Geometry { processors: 1, buffers: 2, buffer_bytes: 4096 };
//! let words: Arc<[AtomicU64]> = (0..geometry.len_words()).map(|_| AtomicU64::new(0)).collect();
//! let (epoch, process_id, time) = (1, 77, 1000);
//! let mut reader = RegionReader::format(words.clone(), geometry, 0, epoch, process_id, 0, time)?;
//!
//! reader.grant(2);
//!
//! // An event without a payload: its process and time, then its first word.
//! let region = Region::attach(words)?;
//! if let Reserve::Slot(slot) = region.reserve(epoch, 0, 0x50, || time + 1) {
//!     slot.put(1, u64::from(process_id) << 32);
//!     slot.put(2, slot.time);
//!     slot.commit(0xC013_0000 | 0x50);
//! }
//! let mut out = Vec::new();
//! assert_eq!(reader.read(0, u64::MAX, u64::MAX, usize::MAX, &mut out).records, 1);
//! # Ok::<(), etw_buffer::RegionError>(())
//! ```

#![forbid(unsafe_code)]
// Other processes write the words that are read here: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod geometry;
#[cfg(all(test, loom))]
mod model;
mod reader;
mod record;
mod region;
pub mod ring;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

pub use geometry::{Geometry, RegionError};
pub use reader::{Peek, ReadEnd, RegionReader, Taken};
pub use region::{Region, Reserve, Slot, Wanted};
