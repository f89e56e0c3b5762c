//! The layout of a trace file: buffers, compression, the log file header; reader and writer.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! A trace file (`.etl`) is a sequence of buffers without index or trailer; the first record of the first buffer is the
//! log file header. This crate reads and writes these bytes. It opens no files, starts no threads, and does not decode
//! payloads.
//!
//! Reading borrows from the bytes of the file, and continues after damage:
//!
//! ```
//! use etw_etl::{EtlFile, OpenError, Records};
//!
//! fn count(bytes: &[u8]) -> Result<(usize, usize), OpenError> {
//!     let file = EtlFile::open(bytes)?;
//!     let (mut records, mut damages) = (0, 0);
//!     let mut scratch = Vec::new();
//!     for buffer in file.buffers() {
//!         let Ok(buffer) = buffer else {
//!             damages += 1;
//!             continue;
//!         };
//!         let data = buffer.data(&mut scratch);
//!         damages += usize::from(data.damage.is_some());
//!         let origin = buffer.origin(file.clock(), 0);
//!         for record in Records::new(data.bytes, &origin, buffer.place()) {
//!             match record {
//!                 Ok(_) => records += 1,
//!                 Err(_) => damages += 1,
//!             }
//!         }
//!     }
//!     Ok((records, damages))
//! }
//! assert!(matches!(count(b"no trace"), Err(OpenError::TooShort { .. })));
//! ```

#![forbid(unsafe_code)]
// The bytes that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod buffer;
mod buffer_ref;
mod buffers;
mod cswitch;
mod damage;
pub mod encode;
mod file;
mod log_file_header;
mod loss;
mod records;
mod time_zone;
mod writer;
pub mod xpress;

pub use buffer::{BufferFlags, BufferHeader, BufferState, BufferType};
pub use buffer_ref::{BufferData, BufferRef};
pub use buffers::{Buffers, MAX_BUFFER_BYTES};
pub use cswitch::{ContextSwitch, ContextSwitches, SwitchedOut};
pub use damage::{Damage, DamageKind};
pub use file::{Beginning, EtlFile, OpenError};
pub use log_file_header::{LogFileHeader, LogFileMode};
pub use loss::{Loss, loss_of, lost_count};
pub use records::{Place, RecordCursor, Records};
pub use time_zone::TimeZone;
pub use writer::{EtlWriter, GroupMasks, HeaderRecords, WriteError, WriterOptions, Written};
