//! The vocabulary of event tracing: GUIDs, descriptors, headers, time stamps, levels, keywords, and records as
//! borrowed views.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Everything here is a plain value or a view over borrowed bytes. The crate does no I/O, does not allocate on hot
//! paths, and does not decode payloads.
//!
//! A [`Record`] is one event in a trace buffer, whatever its header kind. Its methods return the provider, descriptor,
//! time, process, extended data and payload without copying them:
//!
//! ```
//! use etw_event::{Clock, FileTime, HeaderKind, Origin, Record, Ticks};
//!
//! let mut bytes = vec![0; 0x58]; // an `EVENT_HEADER` of 0x50 bytes and a payload of 8
//! bytes[0] = 0x58;
//! bytes[2..4].copy_from_slice(&[0x13, 0xC0]);
//! bytes[0x10] = 100; // time stamp
//! bytes[0x28] = 7; // id
//! let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
//!
//! let record = Record::parse(&bytes, &origin, Ticks(0))?;
//! assert_eq!(record.kind(), HeaderKind::Event64);
//! assert_eq!(record.descriptor().id, 7);
//! assert_eq!(record.time(), FileTime(100));
//! assert_eq!(record.payload(), [0; 8]);
//! # Ok::<(), etw_event::RecordError>(())
//! ```

#![forbid(unsafe_code)]
// The bytes that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod bytes;
mod clock;
mod descriptor;
mod extended;
mod guid;
mod header;
mod outline;
mod owned_record;
mod place;
mod record;
mod sha1;
mod sid;
mod stack_frame;
mod system_time;

pub use bytes::Fields;
pub use clock::{Clock, ClockType, FileTime, Ticks};
pub use descriptor::{EventDescriptor, Keyword, Level, Opcode, passes};
pub use extended::{ExtendedItem, ExtendedItems, ExtendedType, StackTrace};
pub use guid::{Guid, GuidParseError, guid_from_name};
pub use header::{HeaderKind, HookId, PointerSize, classes};
pub use outline::Outline;
pub use owned_record::OwnedRecord;
pub use place::{BufferPlace, Position, RecordPlace, Storage};
pub use record::{Instance, MessageFlags, Origin, Record, RecordError};
pub use sid::Sid;
pub use stack_frame::StackFrame;
pub use system_time::SystemTime;
