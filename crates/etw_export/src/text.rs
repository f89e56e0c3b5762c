//! Events as human-readable lines.
//!
//! ```
//! use etw_export::{Options, TextWriter};
//! use etw_schema::Event;
//!
//! fn print(events: &[Event<'_>]) {
//!     let mut writer = TextWriter::new(&Options::default());
//!     let mut out = Vec::new();
//!     for event in events {
//!         writer.put(&mut out, event);
//!     }
//!     print!("{}", String::from_utf8_lossy(&out));
//! }
//! ```

use etw_event::Record;
use etw_schema::PropertyValue;

use crate::cache::Cache;
use crate::escape::{self, Escaping, Line};
use crate::fields::FieldSelection;
use crate::options::Options;
use crate::put::{self, TimeWriter};
use etw_schema::Event;

/// Terminal colors.
const DIM: &[u8] = b"\x1b[2m";
const BOLD: &[u8] = b"\x1b[1m";
const RED: &[u8] = b"\x1b[31m";
const YELLOW: &[u8] = b"\x1b[33m";
const CYAN: &[u8] = b"\x1b[36m";
const RESET: &[u8] = b"\x1b[0m";

/// Writes events as lines: time, processor, process and thread, event, then the message or the fields.
///
/// `2026-01-02T03:04:05.1234567Z cpu2 4711:4712 x.exe Contoso/Started Name=value Other="two words"`
///
/// With [`Options::source`], `trace.etl:4096#17 ` comes first: the file, the offset of the event in it, and its number in
/// its buffer.
pub struct TextWriter {
    cache: Cache<Parts>,
    time: TimeWriter,
    raw_time: bool,
    fields: FieldSelection,
    color: bool,
    /// Names of the sources, if they are wanted.
    sources: Option<Vec<String>>,
    scratch: Vec<u8>,
}

/// The output shared by all events with one schema.
struct Parts {
    /// Provider and event.
    name: Vec<u8>,
    level: u8,
    has_message: bool,
}

impl TextWriter {
    /// Creates a writer for events from the sources in the options.
    pub fn new(options: &Options) -> TextWriter {
        TextWriter {
            cache: Cache::new(),
            time: TimeWriter::new(),
            raw_time: options.raw_time,
            fields: options.fields.clone(),
            color: options.color,
            sources: options
                .source
                .then(|| options.sources.iter().map(|source| source.name.clone()).collect()),
            scratch: Vec::new(),
        }
    }

    /// Appends an event as one line, including the line break.
    pub fn put(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        let record = event.record;
        let Some(parts) = self.cache.get(record, event.schema(), || Parts::new(event)) else { return };
        let color = |out: &mut Vec<u8>, code: &[u8]| {
            if self.color {
                out.extend_from_slice(code);
            }
        };
        color(out, DIM);
        if let Some(sources) = &self.sources {
            put_source(out, record, sources);
        }
        if self.raw_time {
            put::signed(out, record.raw_time().0);
        } else {
            self.time.put(out, record.time());
        }
        out.extend_from_slice(b" cpu");
        put::unsigned32(out, record.processor().into());
        color(out, RESET);
        out.push(b' ');
        id(out, record.process_id());
        out.push(b':');
        id(out, record.thread_id());
        out.push(b' ');
        if let Some(process) = event.process {
            color(out, CYAN);
            escape::text::<Line>(out, process);
            color(out, RESET);
            out.push(b' ');
        }
        color(
            out,
            match parts.level {
                1 | 2 => RED,
                3 => YELLOW,
                _ => BOLD,
            },
        );
        out.extend_from_slice(&parts.name);
        color(out, RESET);
        match &event.properties {
            Ok(properties) => {
                if !self.fields.is_all() {
                    for field in self.fields.names() {
                        if let Some(found) = field.find(properties) {
                            put_field(out, &mut self.scratch, field.name(), &found);
                        }
                    }
                } else if parts.has_message {
                    out.extend_from_slice(b": ");
                    properties.write_message(&mut Escaping::<Line>::new(out));
                } else {
                    for property in properties.iter().filter(|property| !property.is_hidden()) {
                        put_field(out, &mut self.scratch, property.name(), &property);
                    }
                }
                if let Some(error) = properties.error() {
                    color(out, RED);
                    out.extend_from_slice(b" (");
                    escape::display::<Line>(out, error);
                    out.push(b')');
                    color(out, RESET);
                }
                if !properties.rest().is_empty() {
                    out.extend_from_slice(b" +0x");
                    put::hex_bytes(out, properties.rest());
                }
                if let Some(inferred) = properties.inferred() {
                    color(out, YELLOW);
                    out.extend_from_slice(b" (inferred: ");
                    escape::display::<Line>(out, inferred);
                    out.push(b')');
                    color(out, RESET);
                }
            }
            Err(reason) => {
                color(out, YELLOW);
                out.extend_from_slice(b" (");
                escape::display::<Line>(out, reason);
                out.push(b')');
                color(out, RESET);
                if !record.payload().is_empty() {
                    out.extend_from_slice(b" 0x");
                    put::hex_bytes(out, record.payload());
                }
            }
        }
        out.push(b'\n');
    }
}

impl Parts {
    fn new(event: &Event<'_>) -> Parts {
        let schema = event.schema().map(|schema| &**schema);
        let names = event.names();
        let descriptor = event.record.descriptor();
        let mut name = Vec::new();
        if names.event_guid().is_none() || !event.record.kind().is_classic() {
            escape::text::<Line>(&mut name, &names.provider_text());
            name.push(b'/');
        }
        escape::text::<Line>(&mut name, &names.event());
        let has_message = schema.is_some_and(|schema| schema.message.is_some());
        Parts { name, level: descriptor.level.0, has_message }
    }
}

/// Writes `FILE:OFFSET#RECORD `, with `+WITHIN` after the offset if the buffer is compressed.
#[cold]
fn put_source(out: &mut Vec<u8>, record: &Record<'_>, sources: &[String]) {
    if let Some(name) = sources.get(record.origin().source as usize) {
        escape::text::<Line>(out, name);
    }
    if let Some(place) = record.place() {
        out.push(b':');
        put::unsigned(out, place.offset);
        if let Some(within) = place.within {
            out.push(b'+');
            put::unsigned32(out, within);
        }
        out.push(b'#');
        put::unsigned32(out, place.record);
    }
    out.push(b' ');
}

fn id(out: &mut Vec<u8>, id: Option<u32>) {
    match id {
        Some(id) => put::unsigned32(out, id),
        None => out.push(b'-'),
    }
}

/// Writes ` Name=value`, with quotes around values that would be ambiguous without them.
fn put_field(out: &mut Vec<u8>, scratch: &mut Vec<u8>, name: &str, property: &PropertyValue<'_>) {
    out.push(b' ');
    escape::text::<Line>(out, name);
    out.push(b'=');
    scratch.clear();
    property.write_text(&mut Escaping::<Line>::new(scratch));
    let is_list = matches!(scratch.first(), Some(b'[' | b'{'));
    let is_plain = is_list || !scratch.iter().any(|byte| matches!(byte, b' ' | b'"'));
    if is_plain && !scratch.is_empty() {
        return out.extend_from_slice(scratch);
    }
    for (index, part) in scratch.split(|byte| *byte == b'"').enumerate() {
        out.extend_from_slice(if index == 0 { b"\"" } else { b"\\\"" });
        out.extend_from_slice(part);
    }
    out.push(b'"');
}
