//! Lock-free buffers in shared memory, one current buffer a processor.
//!
//! A [`Region`] is memory that one process writes events to and one logger reads from. It holds a pool of buffers; each
//! processor has a current one. To write an event is to reserve room in the current buffer, to fill it with a finished
//! ETL record, and to commit it by one store of its first word: no lock, no system call, no allocation, and nothing
//! that a process that dies at any instruction leaves half done for others to see.
//!
//! The other side is a [`RegionReader`]. It takes the writer for hostile: each word is read once, each size is checked,
//! and whatever stands in the region, only the events of this one process can come out wrong.
//!
//! A [`ring`] carries the finished buffers from the logger to a consumer of real time in another process.
//!
//! The crate makes no system call. It works on atomic words that somebody else owns, and with `--cfg loom` on loom's,
//! so that the model checker sees the code that runs.

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
