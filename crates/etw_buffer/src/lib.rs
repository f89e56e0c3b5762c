//! Lock-free buffers in shared memory, with one current buffer per processor.
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

#![forbid(unsafe_code)]

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
