//! Events as JSON, one object per line (see `docs/json.md` for the format).

mod extended;
mod fields;
mod system;
mod value;

use std::fmt;

use etw_schema::{Decoding, EventSchema, Properties};

use crate::cache::Cache;
use crate::escape::{self, Escaping, Json};
use crate::fields::FieldSelection;
use crate::options::Options;
use crate::put::{self, TimeWriter};
use etw_schema::Event;
pub(crate) use fields::Fields;
use system::System;
use value::ValueWriter;

/// Writes events as JSON objects.
///
/// Output shared by all events with one schema (names, keywords, the keys of their fields) is prepared once, so use one
/// writer for a whole trace. Writing does not allocate once the buffer has grown large enough.
pub struct JsonWriter {
    cache: Cache<Parts>,
    time: TimeWriter,
    /// `"Computer":"…",` for each source.
    computers: Vec<Vec<u8>>,
    raw_time: bool,
    /// `,"Source":{"File":"…"` for each source, if it is wanted.
    files: Option<Vec<Vec<u8>>>,
    fields: FieldSelection,
}

/// The output shared by all events with one schema.
struct Parts {
    system: System,
    /// `{"EventData":`, or `UserData`.
    open: &'static [u8],
    fields: Fields,
    has_message: bool,
}

impl JsonWriter {
    /// Creates a writer for events from the sources in the options.
    pub fn new(options: &Options) -> JsonWriter {
        JsonWriter {
            cache: Cache::new(),
            time: TimeWriter::new(),
            computers: options.sources.iter().map(system::computer).collect(),
            raw_time: options.raw_time,
            files: options.source.then(|| options.sources.iter().map(system::source).collect()),
            fields: options.fields.clone(),
        }
    }

    /// Appends an event as one object, without a line break.
    #[inline]
    pub fn put(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        let record = event.record;
        let schema = event.schema();
        let parts = self.cache.get(record, schema, || Parts::new(event));
        let Some(parts) = parts else { return };
        match &event.properties {
            Ok(properties) => {
                out.extend_from_slice(parts.open);
                put_fields(out, &self.fields, &parts.fields, &mut self.time, properties);
                out.push(b',');
            }
            Err(_) => out.extend_from_slice(b"{\"EventData\":null,"),
        }
        let computer = self.computers.get(record.origin().source as usize).map_or(&[][..], Vec::as_slice);
        parts.system.put(out, record, computer, &mut self.time, self.raw_time);
        if let Some(files) = &self.files {
            system::put_source(out, record, files);
        }
        out.push(b'}');
        extended::put(out, record);
        match &event.properties {
            Ok(properties) => {
                if parts.has_message {
                    out.extend_from_slice(b",\"Message\":\"");
                    properties.write_message(&mut Escaping::<Json>::new(out));
                    out.push(b'"');
                }
                unparsed(out, properties);
            }
            Err(reason) => {
                out.extend_from_slice(b",\"Undecoded\":");
                put_undecoded(out, reason, record.payload());
            }
        }
        out.push(b'}');
    }
}

impl JsonWriter {
    /// Appends the fields of an event's payload as one object. For an event that could not be decoded, appends the
    /// reason and the payload, as in `Undecoded`.
    pub fn put_fields(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        let Some(parts) = self.cache.get(event.record, event.schema(), || Parts::new(event)) else { return };
        match &event.properties {
            Ok(properties) => put_fields(out, &self.fields, &parts.fields, &mut self.time, properties),
            Err(reason) => put_undecoded(out, reason, event.record.payload()),
        }
    }
}

impl Parts {
    fn new(event: &Event<'_>) -> Parts {
        let schema: Option<&EventSchema> = event.schema().map(|schema| &**schema);
        Parts {
            system: System::new(event),
            open: match schema {
                Some(schema) if schema.user_data => b"{\"UserData\":",
                _ => b"{\"EventData\":",
            },
            fields: schema.map(Fields::new).unwrap_or_default(),
            has_message: schema.is_some_and(|schema| schema.message.is_some() && !is_wpp(schema)),
        }
    }
}

/// Returns whether the event is a WPP message, which is shown by its text.
pub(crate) fn is_wpp(schema: &EventSchema) -> bool {
    schema.decoding == Decoding::Wpp
}

/// Writes the part of the payload that the schema does not describe.
#[inline]
fn unparsed(out: &mut Vec<u8>, properties: &Properties<'_>) {
    if let Some(error) = properties.error() {
        out.extend_from_slice(b",\"DecodeError\":\"");
        escape::display::<Json>(out, error);
        out.push(b'"');
    }
    let rest = properties.rest();
    if !rest.is_empty() {
        out.extend_from_slice(b",\"ExtraPayload\":\"");
        put::hex_bytes(out, rest);
        out.push(b'"');
    }
    if let Some(inferred) = properties.inferred() {
        out.extend_from_slice(b",\"Inferred\":\"");
        escape::display::<Json>(out, inferred);
        out.push(b'"');
    }
}

/// Writes the object with the payload's fields.
#[inline]
pub(crate) fn put_fields(
    out: &mut Vec<u8>,
    selection: &FieldSelection,
    fields: &Fields,
    time: &mut TimeWriter,
    properties: &Properties<'_>,
) {
    out.push(b'{');
    if selection.is_all() && is_wpp(properties.schema()) {
        out.extend_from_slice(b"\"Message\":\"");
        properties.write_message(&mut Escaping::<Json>::new(out));
        out.extend_from_slice(if properties.is_empty() { b"\"" } else { b"\"," });
    }
    let end = out.len() + put::MAX_PAYLOAD_BYTES;
    let mut writer = ValueWriter { out, fields, time, end };
    if selection.is_all() {
        writer.properties(properties);
    } else {
        writer.selected(selection, properties);
    }
    out.push(b'}');
}

/// Writes `{"Reason":…,"Payload":…}`.
pub(crate) fn put_undecoded(out: &mut Vec<u8>, reason: &dyn fmt::Display, payload: &[u8]) {
    out.extend_from_slice(b"{\"Reason\":\"");
    escape::display::<Json>(out, reason);
    out.extend_from_slice(b"\",\"Payload\":\"");
    put::hex_bytes(out, payload);
    out.extend_from_slice(b"\"}");
}

/// Writes a JSON string.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape::text::<Json>(out, text);
    out.push(b'"');
}
