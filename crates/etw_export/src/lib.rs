//! Decoded events as JSON, CSV, XML, Windows event logs, text, packet captures and columns.
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
#[cfg(feature = "columns")]
pub mod columns;
pub mod csv;
mod escape;
pub mod evtx;
mod fields;
mod header;
mod json;
mod options;
pub mod pcapng;
mod plain;
mod put;
mod source;
mod stack;
pub mod text;
pub mod tracerpt;
pub mod xml;

#[cfg(feature = "columns")]
pub use columns::{ColumnFormat, ColumnsSummary, ColumnsWriter, RowCollector, Rows};
pub use csv::CsvWriter;
pub use evtx::{EvtxSummary, EvtxWriter};
pub use fields::{FieldName, FieldSelection};
pub use header::{HeaderField, Part, SourcePart};
pub use json::JsonWriter;
pub use options::{Options, Separator};
pub use pcapng::{PcapngSummary, PcapngWriter};
pub use plain::{PlainWriter, plain_line};
pub use source::Source;
pub use text::TextWriter;
pub use tracerpt::TracerptCsvWriter;
pub use xml::XmlWriter;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
