//! Decoded events as JSON, CSV, XML, Windows event logs and text.
//!
//! Each writer takes [`Event`]s and appends to a buffer of bytes that the caller empties when it pleases. What events
//! with one schema have in common is worked out once, so writing costs what is particular to the event, and allocates
//! nothing.

mod cache;
pub mod csv;
mod escape;
mod event;
pub mod evtx;
mod json;
mod names;
mod options;
mod put;
pub mod text;
pub mod tracerpt;
pub mod xml;

pub use csv::CsvWriter;
pub use event::{Event, FieldName, FieldSelection};
pub use evtx::{EvtxSummary, EvtxWriter};
pub use json::JsonWriter;
pub use names::{KERNEL_PROVIDER, Names};
pub use options::{Options, Source};
pub use text::TextWriter;
pub use tracerpt::TracerptCsvWriter;
pub use xml::XmlWriter;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
