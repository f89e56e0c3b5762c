//! Decoded events as JSON, CSV, XML, Windows event logs, text, packet captures and columns.
//!
//! Each writer takes [`Event`](etw_schema::Event)s and appends to a byte buffer, which the caller empties at any time.
//! Output shared by all events with one schema is prepared once. Writing an event then costs only what is specific to
//! it, and does not allocate.

#![forbid(unsafe_code)]

mod cache;
#[cfg(feature = "columns")]
pub mod columns;
pub mod csv;
mod escape;
pub mod evtx;
mod fields;
mod json;
mod options;
pub mod pcapng;
mod put;
pub mod text;
pub mod tracerpt;
pub mod xml;

#[cfg(feature = "columns")]
pub use columns::{ColumnFormat, ColumnsSummary, ColumnsWriter};
pub use csv::CsvWriter;
pub use evtx::{EvtxSummary, EvtxWriter};
pub use fields::{FieldName, FieldSelection};
pub use json::JsonWriter;
pub use options::{Options, Source};
pub use pcapng::{PcapngSummary, PcapngWriter};
pub use text::TextWriter;
pub use tracerpt::TracerptCsvWriter;
pub use xml::XmlWriter;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
