//! Events as comma-separated values, in tracerpt's columns.
//!
//! The columns are those of `tracerpt -of CSV` (Observed: the header line in the test data of several public parsers
//! of its output). Three differences make the file a table for every CSV reader: no blanks around the commas, fields
//! quoted as in RFC 4180, and the same number of columns in every line. tracerpt, like
//! [`TracerptCsvWriter`](crate::TracerptCsvWriter), writes each field of the payload to its own unnamed column. Here
//! `User Data` is one column with the payload as a JSON object, or one column for each requested field. If fields of
//! the header are requested too ([`HeaderPath`](etw_schema::HeaderPath)), the columns are the requested ones only, in their order.
//!
//! ```
//! use etw_export::{CsvWriter, Options, csv};
//!
//! let writer = CsvWriter::new(&Options::default());
//! let mut out = Vec::new();
//! writer.put_header(&mut out);
//! // For each event: writer.put(&mut out, &event);
//! assert!(out.starts_with(csv::COLUMNS.join(",").as_bytes()));
//! ```

use etw_event::FileTime;
use etw_schema::{Event, HeaderField, HeaderObject, HeaderType, HeaderValue, Source};

use crate::cache::Cache;
use crate::escape::{self, Csv, Escaping, quoted};
use crate::fields::{FieldName, FieldSelection};
use crate::json::{self, Fields};
use crate::options::Options;
use crate::put::{self, TimeWriter};

/// The columns before the payload.
pub const COLUMNS: [&str; 19] = [
    "Event Name",
    "Type",
    "Event ID",
    "Version",
    "Channel",
    "Level",
    "Opcode",
    "Task",
    "Keyword",
    "PID",
    "TID",
    "Processor Number",
    "Instance ID",
    "Parent Instance ID",
    "Activity ID",
    "Related Activity ID",
    "Clock-Time",
    "Kernel(ms)",
    "User(ms)",
];

/// Writes events as lines of comma-separated values.
pub struct CsvWriter {
    cache: Cache<Parts>,
    time: TimeWriter,
    /// Milliseconds per CPU tick, by source.
    resolutions: Vec<u32>,
    raw_time: bool,
    fields: FieldSelection,
    /// Whether only the selected columns are written.
    is_selection: bool,
    pub(crate) separator: u8,
    sources: Vec<Source>,
    /// The columns at the end of each line, which tell where the event is from.
    places: Vec<HeaderField>,
    scratch: Vec<u8>,
}

/// The output shared by all events with one schema.
struct Parts {
    /// From `Event Name` to `Keyword`, with the separator.
    head: Vec<u8>,
    fields: Fields,
}

impl CsvWriter {
    /// Creates a writer for events from the sources in the options.
    pub fn new(options: &Options) -> CsvWriter {
        CsvWriter {
            cache: Cache::new(),
            time: TimeWriter::new(),
            resolutions: options.sources.iter().map(|source| source.timer_resolution).collect(),
            raw_time: options.raw_time,
            fields: options.fields.clone(),
            is_selection: options.fields.has_header(),
            separator: options.separator.byte(),
            sources: options.sources.clone(),
            places: HeaderObject::Source.fields().filter(|_| options.source).collect(),
            scratch: Vec::new(),
        }
    }

    /// Appends the line of column names.
    pub fn put_header(&self, out: &mut Vec<u8>) {
        let tracerpt = if self.is_selection { &[][..] } else { &COLUMNS[..] };
        let payload = self.fields.is_all().then_some("User Data");
        let mut is_first = true;
        let mut separate = |out: &mut Vec<u8>| {
            if !std::mem::take(&mut is_first) {
                out.push(self.separator);
            }
        };
        for name in tracerpt.iter().copied().chain(payload) {
            separate(out);
            out.extend_from_slice(name.as_bytes());
        }
        for field in self.fields.names() {
            separate(out);
            quoted(out, field.name());
        }
        for place in self.places.iter().filter_map(|place| place.path()) {
            separate(out);
            out.extend_from_slice(place.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends an event as one line, including the line break.
    #[inline]
    pub fn put(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        if self.is_selection {
            return self.put_selection(out, event);
        }
        let (record, separator) = (event.record, self.separator);
        let parts = self.cache.get(record, event.schema(), || Parts::new(event, separator));
        let Some(parts) = parts else { return };
        out.extend_from_slice(&parts.head);
        if let Some(process) = record.process_id() {
            put::hex(out, process.into());
        }
        out.push(separator);
        if let Some(thread) = record.thread_id() {
            put::hex(out, thread.into());
        }
        out.push(separator);
        put::unsigned32(out, record.processor().into());
        out.push(separator);
        match record.instance() {
            Some(instance) => {
                put::unsigned32(out, instance.id);
                out.push(separator);
                put::unsigned32(out, instance.parent_id);
                out.push(separator);
            }
            None => out.extend_from_slice(&[separator; 2]),
        }
        for activity in [record.activity_id(), record.related_activity_id()] {
            if let Some(activity) = activity {
                put::guid(out, activity);
            }
            out.push(separator);
        }
        put::signed(out, if self.raw_time { record.raw_time().0 } else { record.time().0 });
        out.push(separator);
        let resolution = self.resolutions.get(record.origin().source as usize).copied().unwrap_or(0);
        match record.cpu_times() {
            Some((kernel, user)) => {
                put::unsigned(out, milliseconds(kernel, resolution));
                out.push(separator);
                put::unsigned(out, milliseconds(user, resolution));
                out.push(separator);
            }
            None => out.extend_from_slice(&[separator; 2]),
        }
        if self.fields.is_all() {
            self.scratch.clear();
            match &event.properties {
                Ok(properties) => {
                    json::put_fields(
                        &mut self.scratch,
                        &self.fields,
                        &parts.fields,
                        &mut self.time,
                        properties,
                    );
                }
                Err(reason) => {
                    self.scratch.extend_from_slice(b"{\"Undecoded\":");
                    json::put_undecoded(&mut self.scratch, reason, record.payload());
                    self.scratch.push(b'}');
                }
            }
            quoted_bytes(out, &self.scratch);
        } else {
            selected(out, &self.fields, separator, event);
        }
        self.put_places(out, event);
        out.extend_from_slice(b"\r\n");
    }
}

impl CsvWriter {
    /// Appends only the selected columns.
    #[cold]
    fn put_selection(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        for (index, field) in self.fields.names().iter().enumerate() {
            if index > 0 {
                out.push(self.separator);
            }
            match field.header() {
                Some(path) if path.field == HeaderField::Time && self.raw_time => {
                    put::signed(out, event.record.raw_time().0);
                }
                Some(path) => {
                    let source = self.sources.get(event.record.origin().source as usize);
                    if let Some((field, value)) = path.value(event, source) {
                        put_value(out, field, &value, &mut self.time);
                    }
                }
                None => put_field(out, field, event),
            }
        }
        self.put_places(out, event);
        out.extend_from_slice(b"\r\n");
    }
}

impl CsvWriter {
    /// Appends the columns that tell where the event is from.
    fn put_places(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        let source = self.sources.get(event.record.origin().source as usize);
        for place in &self.places {
            out.push(self.separator);
            if let Some(value) = place.value(event, source) {
                put_value(out, *place, &value, &mut self.time);
            }
        }
    }
}

impl Parts {
    fn new(event: &Event<'_>, separator: u8) -> Parts {
        let schema = event.schema().map(|schema| &**schema);
        let names = event.names();
        let descriptor = event.record.descriptor();
        let mut head = Vec::new();
        quoted(&mut head, &names.column_name());
        head.push(separator);
        match names.opcode() {
            Some(opcode) => quoted(&mut head, opcode),
            None => put::unsigned32(&mut head, descriptor.opcode.0.into()),
        }
        head.push(separator);
        let numbers = [
            descriptor.id,
            descriptor.version.into(),
            descriptor.channel.into(),
            descriptor.level.0.into(),
            descriptor.opcode.0.into(),
            descriptor.task,
        ];
        for number in numbers {
            put::unsigned32(&mut head, number.into());
            head.push(separator);
        }
        put::hex(&mut head, descriptor.keyword.0);
        head.push(separator);
        Parts { head, fields: schema.map(Fields::new).unwrap_or_default() }
    }
}

/// Writes one column for each field, empty if the event does not have the field.
fn selected(out: &mut Vec<u8>, fields: &FieldSelection, separator: u8, event: &Event<'_>) {
    for (index, field) in fields.names().iter().enumerate() {
        if index > 0 {
            out.push(separator);
        }
        put_field(out, field, event);
    }
}

/// Writes a value of the header, with quotes around text.
fn put_value(out: &mut Vec<u8>, field: HeaderField, value: &HeaderValue<'_>, time: &mut TimeWriter) {
    match value {
        HeaderValue::Number(mask) if field.value_type() == HeaderType::Mask => put::hex(out, *mask),
        HeaderValue::Number(number) => put::unsigned(out, *number),
        HeaderValue::Signed(number) => put::signed(out, *number),
        HeaderValue::Time(at) => time.put(out, *at),
        HeaderValue::Guid(guid) => put::guid(out, *guid),
        HeaderValue::Text(text) => quoted(out, text),
        HeaderValue::Names(names) => quoted(out, &names.join(" ")),
        HeaderValue::Bytes(bytes) => put::hex_bytes(out, bytes),
        _ => {}
    }
}

fn put_field(out: &mut Vec<u8>, field: &FieldName, event: &Event<'_>) {
    if let Ok(properties) = &event.properties
        && let Some(property) = field.find(properties)
    {
        out.push(b'"');
        property.write_text(&mut Escaping::<Csv>::new(out));
        out.push(b'"');
    }
}

/// Writes CPU time in milliseconds, or in ticks if the source's unit is unknown.
#[inline]
pub(crate) fn milliseconds(ticks: u32, resolution_100ns: u32) -> u64 {
    const UNITS: u64 = FileTime::PER_SECOND as u64 / 1000;
    match resolution_100ns {
        0 => ticks.into(),
        resolution => u64::from(ticks) * u64::from(resolution) / UNITS,
    }
}

/// Writes bytes that are UTF-8 like [`quoted`].
#[inline]
fn quoted_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    escape::doubled_quotes(out, bytes);
    out.push(b'"');
}
