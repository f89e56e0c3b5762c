//! The vocabulary of event tracing: GUIDs, descriptors, headers, timestamps, levels, keywords, and records as
//! borrowed views.
//!
//! Everything here is a plain value or a view over bytes that somebody else owns; nothing does I/O, allocates on
//! a hot path, or knows what a payload means.
//!
//! A [`Record`] is one event as it lies in a trace buffer, whatever its header kind: it answers for its provider,
//! descriptor, time, process, extended data and payload without copying any of them.

mod bytes;
mod clock;
mod descriptor;
mod extended;
mod guid;
mod header;
mod outline;
mod owned_record;
mod record;
mod sid;
mod system_time;

pub use bytes::Fields;
pub use clock::{Clock, ClockType, FileTime, Ticks};
pub use descriptor::{EventDescriptor, Keyword, Level, Opcode, passes};
pub use extended::{ExtendedItem, ExtendedItems, ExtendedType, StackTrace};
pub use guid::{Guid, GuidParseError};
pub use header::{HeaderKind, HookId, PointerSize, classes};
pub use outline::Outline;
pub use owned_record::OwnedRecord;
pub use record::{Instance, MessageFlags, Origin, Record, RecordError};
pub use sid::Sid;
pub use system_time::SystemTime;
