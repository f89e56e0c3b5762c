//! Events as a Windows event log (`.evtx`), the format of Event Viewer.
//!
//! A file header is followed by independent chunks of 64 KB, each with records and the names and templates that these
//! refer to. A record is an `Event` element in binary XML: an instance of the `System` template, with the payload as an
//! instance of the template for its schema. Content that does not fit a template (arrays, structs) is written as
//! elements of text.
//!
//! Only one chunk is held in memory. An event too large for a chunk has a `ProcessingErrorData` instead of its fields,
//! and is counted in the summary.
//!
//! Source: MS-EVEN6, 2.2.12 to 2.2.17 (binary XML); the documentation of libevtx (file header, chunks, string and
//! template tables, record headers); `HTTP_Server.evtx` in the repository of Tx (the elements and their types).
//!
//! ```
//! use std::io::Cursor;
//!
//! use etw_export::{EvtxWriter, Options};
//!
//! let mut file = Cursor::new(Vec::new());
//! let writer = EvtxWriter::new(&mut file, &Options::default())?;
//! // For each event: writer.put(&event)?;
//! assert_eq!(writer.finish()?.records, 0);
//! assert!(file.into_inner().starts_with(b"ElfFile\0"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod chunk;
mod element;
mod kind;
mod payload;
mod value;

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use etw_event::Guid;

use crate::cache::Cache;
use crate::fields::FieldSelection;
use crate::options::Options;
use chunk::{Chunk, Full};
use element::{Element, Template, attribute, child, substitution};
use etw_schema::Event;
use kind::Kind;
use payload::Payload;
use value::Values;

/// Size of the block with the file header.
const HEADER_BLOCK: usize = 4096;
/// The header has a 16-bit count of chunks.
const MAX_CHUNKS: u64 = u16::MAX as u64;
/// Limit in characters of provider and channel names; events may contain names of any length.
const MAX_NAME: usize = 1024;
/// Header flag of a file that is being written.
const DIRTY: u32 = 1;

/// Writes events as records of an event log.
pub struct EvtxWriter<W> {
    out: W,
    chunk: Chunk,
    system: Template,
    cache: Cache<Parts>,
    computers: Vec<String>,
    fields: FieldSelection,
    strict: bool,
    /// Number of the next record, starting at 1.
    next: u64,
    chunks: u64,
    cut: u64,
}

/// The result of writing an event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvtxSummary {
    /// Number of records written.
    pub records: u64,
    /// Number of events whose payload was too long for a record, so that all fields were omitted.
    pub cut: u64,
}

/// The parts shared by all events with one schema.
struct Parts {
    provider: Option<String>,
    provider_guid: String,
    channel: Option<String>,
    event_guid: Option<Guid>,
    payload: Payload,
}

/// How much of an event is written.
#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    /// The fields that fit in a record.
    Cut,
    /// The first bytes of the payload.
    Start,
}

impl<W: Write + Seek> EvtxWriter<W> {
    /// Creates a writer for events from the sources in the options, and writes the header. The log starts at the
    /// beginning of `out`.
    ///
    /// # Errors
    ///
    /// Fails if the header cannot be written.
    pub fn new(mut out: W, options: &Options) -> io::Result<EvtxWriter<W>> {
        out.write_all(&file_header(0, 1, DIRTY))?;
        let computer = |source: &etw_schema::Source| source.computer.as_deref().map(cut).unwrap_or_default();
        Ok(EvtxWriter {
            out,
            chunk: Chunk::new(),
            system: Template::new(system()),
            cache: Cache::new(),
            computers: options.sources.iter().map(computer).collect(),
            fields: options.fields.clone(),
            strict: options.strict,
            next: 1,
            chunks: 0,
            cut: 0,
        })
    }

    /// Writes an event as a record.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, or would exceed 65,535 chunks (4 GiB).
    pub fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        match self.try_put(event, Part::Whole) {
            Ok(()) => return Ok(()),
            Err(Full) if !self.chunk.is_empty() => self.flush()?,
            Err(Full) => {}
        }
        if self.try_put(event, Part::Whole).is_ok() {
            return Ok(());
        }
        self.cut += 1;
        if self.try_put(event, Part::Cut).is_ok() {
            return Ok(());
        }
        let too_long = || io::Error::other("an event's header is too long for an event log");
        self.try_put(event, Part::Start).map_err(|Full| too_long())
    }

    /// Writes the remaining records and completes the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn finish(mut self) -> io::Result<EvtxSummary> {
        if !self.chunk.is_empty() {
            self.flush()?;
        }
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&file_header(self.chunks, self.next, 0))?;
        self.out.flush()?;
        Ok(EvtxSummary { records: self.next - 1, cut: self.cut })
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunks == MAX_CHUNKS {
            return Err(io::Error::other(
                "an event log has 65,535 chunks (4 GiB) at most; write fewer events, or CSV or XML",
            ));
        }
        self.out.write_all(self.chunk.complete())?;
        self.chunk.clear();
        self.chunks += 1;
        Ok(())
    }

    /// Writes a record into the chunk. If there is no room, the chunk is left unchanged.
    fn try_put(&mut self, event: &Event<'_>, part: Part) -> Result<(), Full> {
        let record = event.record;
        let fields = &self.fields;
        let Some(parts) = self.cache.get(record, event.schema(), || Parts::new(event, fields)) else {
            return Ok(());
        };
        let number = self.next;
        let (system, computers, strict) = (&self.system, &self.computers, self.strict);
        self.chunk.record(number, record.time(), |chunk| {
            let descriptor = record.descriptor();
            let mut values = Values::begin(chunk, system, 24)?;
            values.optional_text(chunk, parts.provider.as_deref())?;
            values.text(chunk, &parts.provider_guid)?;
            values.put(chunk, Kind::UINT16, &descriptor.id.to_le_bytes())?;
            values.put(chunk, Kind::UINT8, &[descriptor.version])?;
            values.put(chunk, Kind::UINT8, &[descriptor.level.0])?;
            values.put(chunk, Kind::UINT16, &descriptor.task.to_le_bytes())?;
            values.put(chunk, Kind::UINT8, &[descriptor.opcode.0])?;
            values.put(chunk, Kind::HEX64, &descriptor.keyword.0.to_le_bytes())?;
            values.put(chunk, Kind::FILETIME, &record.time().0.to_le_bytes())?;
            values.put(chunk, Kind::UINT64, &number.to_le_bytes())?;
            values.optional_guid(chunk, record.activity_id())?;
            values.optional_guid(chunk, record.related_activity_id())?;
            values.optional_u32(chunk, record.process_id())?;
            values.optional_u32(chunk, record.thread_id())?;
            values.put(chunk, Kind::UINT32, &u32::from(record.processor()).to_le_bytes())?;
            let (kernel, user) = record.cpu_times().unzip();
            values.optional_u32(chunk, kernel)?;
            values.optional_u32(chunk, user)?;
            match record.processor_time() {
                Some(time) => values.put(chunk, Kind::UINT64, &time.to_le_bytes())?,
                None => values.null(chunk)?,
            }
            values.optional_text(chunk, parts.channel.as_deref())?;
            values.text(chunk, computers.get(record.origin().source as usize).map_or("", String::as_str))?;
            match record.sid() {
                Some(sid) => values.put(chunk, Kind::SID, sid.as_bytes())?,
                None => values.null(chunk)?,
            }
            match part {
                Part::Whole => parts.payload.put(chunk, &mut values, event, strict, fields)?,
                Part::Cut => parts.payload.put_cut(chunk, &mut values, event, fields)?,
                Part::Start => parts.payload.put_too_long(chunk, &mut values, event)?,
            }
            match part {
                Part::Whole | Part::Cut => {
                    payload::put_tracing_info(chunk, &mut values, record, parts.event_guid)?;
                }
                Part::Start => values.null(chunk)?,
            }
            Ok(())
        })?;
        self.next += 1;
        Ok(())
    }
}

impl Parts {
    fn new(event: &Event<'_>, fields: &FieldSelection) -> Parts {
        let schema = event.schema();
        let names = event.names();
        Parts {
            provider: names.provider().map(cut),
            provider_guid: names.provider_guid().to_string(),
            channel: names.channel().map(cut),
            event_guid: names.event_guid(),
            payload: Payload::new(schema.map(Arc::as_ref), fields),
        }
    }
}

/// Shortens a name, to leave room for the rest of a record.
fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

/// Builds the `Event` element, with `System`.
fn system() -> Element {
    let element = |name: &str, index, kind| Element::new(name).with(substitution(index, kind));
    let event_system = Element::new("System")
        .with(child(
            Element::new("Provider")
                .attribute(attribute("Name", substitution(0, Kind::STRING)))
                .attribute(attribute("Guid", substitution(1, Kind::STRING))),
        ))
        .with(child(element("EventID", 2, Kind::UINT16)))
        .with(child(element("Version", 3, Kind::UINT8)))
        .with(child(element("Level", 4, Kind::UINT8)))
        .with(child(element("Task", 5, Kind::UINT16)))
        .with(child(element("Opcode", 6, Kind::UINT8)))
        .with(child(element("Keywords", 7, Kind::HEX64)))
        .with(child(
            Element::new("TimeCreated").attribute(attribute("SystemTime", substitution(8, Kind::FILETIME))),
        ))
        .with(child(element("EventRecordID", 9, Kind::UINT64)))
        .with(child(
            Element::new("Correlation")
                .attribute(attribute("ActivityID", substitution(10, Kind::GUID)))
                .attribute(attribute("RelatedActivityID", substitution(11, Kind::GUID))),
        ))
        .with(child(
            Element::new("Execution")
                .attribute(attribute("ProcessID", substitution(12, Kind::UINT32)))
                .attribute(attribute("ThreadID", substitution(13, Kind::UINT32)))
                .attribute(attribute("ProcessorID", substitution(14, Kind::UINT32)))
                .attribute(attribute("KernelTime", substitution(15, Kind::UINT32)))
                .attribute(attribute("UserTime", substitution(16, Kind::UINT32)))
                .attribute(attribute("ProcessorTime", substitution(17, Kind::UINT64))),
        ))
        .with(child(element("Channel", 18, Kind::STRING)))
        .with(child(element("Computer", 19, Kind::STRING)))
        .with(child(Element::new("Security").attribute(attribute("UserID", substitution(20, Kind::SID)))));
    Element::new("Event")
        .attribute(attribute("xmlns", element::text("http://schemas.microsoft.com/win/2004/08/events/event")))
        .with(child(event_system))
        .with(substitution(21, Kind::BINXML))
        .with(substitution(22, Kind::BINXML))
        .with(substitution(23, Kind::BINXML))
}

/// Returns the file header for `chunks` chunks; `next` is the number of the next record.
fn file_header(chunks: u64, next: u64, flags: u32) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BLOCK);
    header.extend_from_slice(b"ElfFile\0");
    header.extend_from_slice(&0_u64.to_le_bytes());
    header.extend_from_slice(&chunks.saturating_sub(1).to_le_bytes());
    header.extend_from_slice(&next.to_le_bytes());
    header.extend_from_slice(&128_u32.to_le_bytes());
    // Version 3.1.
    header.extend_from_slice(&1_u16.to_le_bytes());
    header.extend_from_slice(&3_u16.to_le_bytes());
    header.extend_from_slice(&(HEADER_BLOCK as u16).to_le_bytes());
    header.extend_from_slice(&(chunks as u16).to_le_bytes());
    header.resize(120, 0);
    let sum = crc32fast::hash(&header);
    header.extend_from_slice(&flags.to_le_bytes());
    header.extend_from_slice(&sum.to_le_bytes());
    header.resize(HEADER_BLOCK, 0);
    header
}

#[cfg(test)]
mod tests;
