//! Traces of .NET's EventPipe (`.nettrace`, `.netperf`): their blocks, metadata, events, stacks and losses, read from
//! borrowed bytes.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Formats 3 to 6 are read. Format 3 (`.netperf`) has complete events with their stacks; 4 and 5 have blocks of
//! compressed events that refer to metadata and stacks; 6 has another framing, threads of several processes, and
//! labels. Source: `NetPerfFormat.md`, `NetTraceFormat_v5.md` and `NetTraceFormat.md` of microsoft/perfview.
//!
//! [`ipc`] has the messages that start and stop such a trace in a running program.
//!
//! The crate does no I/O, and does not interpret payloads: [`Definition::fields`] describes them.
//!
//! ```no_run
//! use etw_nettrace::{Item, TraceFile};
//!
//! let bytes = std::fs::read("trace.nettrace")?;
//! let file = TraceFile::open(&bytes)?;
//! let mut items = file.items();
//! while let Some(item) = items.next() {
//!     match item {
//!         Item::Event(event) => {
//!             let definition = items.definition(event.definition);
//!             println!("{} {} {}", event.time.0, definition.provider, definition.event_id);
//!         }
//!         Item::Damage(damage) => eprintln!("{damage}"),
//!         _ => {}
//!     }
//! }
//! println!("{} events were lost", items.lost());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
// The bytes that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod blocks;
mod cursor;
mod definition;
mod error;
mod event_headers;
mod header;
pub mod ipc;
mod items;
mod labels;
mod rows;
mod sequences;
mod threads;

pub use definition::{Definition, Field, FieldType, MAX_TYPE_DEPTH};
pub use error::{Damage, OpenError};
pub use header::TraceHeader;
pub use items::{DefinitionId, Event, Item, Items, SequencePoint, Stack, TraceFile, is_nettrace};
pub use labels::{Label, Labels};
