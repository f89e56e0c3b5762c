//! Typed readers of the kernel's events: of all versions and sizes of pointers, borrowed and checked.
//!
//! A reader returns the fields of the layout that the event's version has, by the tables of this crate (`tables/`), in which a
//! line `reader NAME OPCODE…` makes one. A field that the version lacks, or behind the payload's end, is `None`.
//!
//! ```
//! use etw_event::{Origin, Record, Ticks};
//! use etw_kernel_events::classes::{CSwitch, RecordBuffer, Stamp};
//! use etw_kernel_events::read;
//!
//! let mut buffer = RecordBuffer::new();
//! let switch = CSwitch { new_thread_id: 7, old_thread_id: 8, ..CSwitch::default() };
//! buffer.put(&Stamp::new(Ticks(5), 0, 0), &switch);
//! let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
//! let origin = Origin::default();
//! let record = Record::parse(&bytes, &origin, Ticks(0))?;
//! assert_eq!(read::CSwitch::new(&record).new_thread_id(), Some(7));
//! # Ok::<(), etw_event::RecordError>(())
//! ```

mod fields;

use std::net::IpAddr;

use etw_event::{Guid, Record};

pub use fields::is_sid_behind_zeros;
use fields::{Fields, Kind, Layout, Place};

use crate::ids::{Class, EventId};

include!(concat!(env!("OUT_DIR"), "/read.rs"));
