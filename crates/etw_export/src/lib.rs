//! Decoded events as JSON, CSV, XML, Windows event logs, text and packet captures.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Each writer takes [`Event`](etw_schema::Event)s and appends to a byte buffer, which the caller empties at any time.
//! Output shared by all events with one schema is prepared once. Writing an event then costs only what is specific to
//! it, and does not allocate.
//!
//! ```
//! use etw_export::{JsonWriter, Options};
//! use etw_schema::Event;
//!
//! /// Returns an event as a line of JSON.
//! fn line(event: &Event<'_>) -> Vec<u8> {
//!     let mut out = Vec::new();
//!     JsonWriter::new(&Options::default()).put(&mut out, event);
//!     out
//! }
//! ```

#![forbid(unsafe_code)]

mod cache;
pub mod csv;
mod escape;
pub mod evtx;
mod fields;
mod json;
mod options;
pub mod pcapng;
mod plain;
mod put;
mod stack;
pub mod text;
pub mod tracerpt;
pub mod xml;

pub use csv::CsvWriter;
pub use etw_schema::{HeaderField, HeaderPath, Source};
pub use evtx::{EvtxSummary, EvtxWriter};
pub use fields::{FieldName, FieldSelection};
pub use json::JsonWriter;
pub use options::{Options, Separator};
pub use pcapng::{PcapngSummary, PcapngWriter};
pub use plain::{PlainWriter, plain_line};
pub use text::TextWriter;
pub use tracerpt::TracerptCsvWriter;
pub use xml::XmlWriter;

#[cfg(test)]
mod tests;
