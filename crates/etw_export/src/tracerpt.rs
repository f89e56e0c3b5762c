//! Events in the CSV form of tracerpt's dump file.
//!
//! The first line names the columns; each other line is one event. The header is in columns of fixed width, separated
//! by commas and blanks. The fields of the payload follow without names, one column each. Texts are quoted, with
//! quotes in them doubled. Elements of arrays and members of structs are separate columns.
//!
//! Source: public parsers of `tracerpt -of CSV` and their tests, for the columns and their order, the forms of
//! keywords, ids and times, and the zeros in the header of an event without CPU times.
//!
//! ```
//! use etw_export::{Options, TracerptCsvWriter};
//!
//! let writer = TracerptCsvWriter::new(&Options::default());
//! let mut out = Vec::new();
//! writer.put_header(&mut out);
//! // For each event: writer.put(&mut out, &event);
//! assert!(String::from_utf8_lossy(&out).trim_start().starts_with("Event Name,"));
//! ```

use etw_event::{Guid, Record};
use etw_schema::{Format, Members, PropertyValue, Value, text};

use crate::cache::Cache;
use crate::csv::{COLUMNS, milliseconds};
use crate::escape::{self, Csv, Escaping};
use crate::json::is_wpp;
use crate::options::Options;
use crate::put;
use etw_schema::Event;

/// Width of each header field, excluding its comma.
const WIDTHS: [usize; 19] = [18, 11, 11, 11, 11, 11, 11, 11, 19, 11, 11, 17, 13, 20, 39, 39, 21, 11, 11];
/// The columns from `PID` to `Clock-Time`, with their commas, for an event with an empty header. Process and thread
/// have all bits set.
const NOTHING: &[u8; 179] = b" 0xFFFFFFFF, 0xFFFFFFFF,                0,             ,                    , \
{00000000-0000-0000-0000-000000000000},                                       ,                    0,";
/// Limit of the nesting depth of structs in every layout.
const MAX_DEPTH: u16 = etw_schema::MAX_DEPTH;

/// Writes events as lines of tracerpt's CSV.
pub struct TracerptCsvWriter {
    cache: Cache<Parts>,
    resolutions: Vec<u32>,
    raw_time: bool,
    strict: bool,
}

/// The output shared by all events with one schema.
struct Parts {
    /// From `Event Name` to `Keyword`, with the comma, then [`NOTHING`].
    head: Vec<u8>,
    is_wpp: bool,
}

impl TracerptCsvWriter {
    /// Creates a writer for events from the sources in the options.
    pub fn new(options: &Options) -> TracerptCsvWriter {
        TracerptCsvWriter {
            cache: Cache::new(),
            resolutions: options.sources.iter().map(|source| source.timer_resolution).collect(),
            raw_time: options.raw_time,
            strict: options.strict,
        }
    }

    /// Appends the line of column names.
    pub fn put_header(&self, out: &mut Vec<u8>) {
        for (name, width) in COLUMNS.iter().zip(WIDTHS) {
            right(out, name.as_bytes(), width);
            out.push(b',');
        }
        out.extend_from_slice(b"  User Data\r\n");
    }

    /// Appends an event as one line, including the line break.
    #[inline]
    pub fn put(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        let record = event.record;
        let Some(parts) = self.cache.get(record, event.schema(), || Parts::new(event)) else { return };
        out.extend_from_slice(&parts.head);
        if let Some(columns) = out.last_chunk_mut() {
            put_columns(columns, record, self.raw_time);
        }
        match record.cpu_times() {
            Some((kernel, user)) => {
                let resolution = self.resolutions.get(record.origin().source as usize).copied().unwrap_or(0);
                number(out, milliseconds(kernel, resolution), WIDTHS[17]);
                number(out, milliseconds(user, resolution), WIDTHS[18]);
                // Each field starts with its own comma.
                out.pop();
            }
            None => out.extend_from_slice(b"          0,          0"),
        }
        match &event.properties {
            Ok(properties) if !(self.strict && properties.error().is_some()) => {
                if parts.is_wpp {
                    out.extend_from_slice(b", \"");
                    properties.write_message(&mut Escaping::<Csv>::new(out));
                    out.push(b'"');
                } else {
                    let end = out.len() + put::MAX_PAYLOAD_BYTES;
                    members(out, properties.iter(), 0, end);
                }
                undecoded(out, properties.rest());
            }
            _ => undecoded(out, record.payload()),
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl Parts {
    fn new(event: &Event<'_>) -> Parts {
        let schema = event.schema().map(|schema| &**schema);
        let names = event.names();
        let descriptor = event.record.descriptor();
        let mut head = Vec::new();
        name(&mut head, &names.column_name(), WIDTHS[0]);
        match names.opcode() {
            Some(opcode) => name(&mut head, opcode, WIDTHS[1]),
            None => number(&mut head, descriptor.opcode.0.into(), WIDTHS[1]),
        }
        let numbers = [
            descriptor.id,
            descriptor.version.into(),
            descriptor.channel.into(),
            descriptor.level.0.into(),
            descriptor.opcode.0.into(),
            descriptor.task,
        ];
        for (value, width) in numbers.into_iter().zip(&WIDTHS[2..]) {
            number(&mut head, value.into(), *width);
        }
        head.extend_from_slice(format!(" {:#018X},", descriptor.keyword.0).replace('X', "x").as_bytes());
        head.extend_from_slice(NOTHING);
        Parts { head, is_wpp: schema.is_some_and(is_wpp) }
    }
}

/// Appends a text, right-aligned in its column.
#[inline]
fn right(out: &mut Vec<u8>, text: &[u8], width: usize) {
    out.resize(out.len() + width.saturating_sub(text.len()), b' ');
    out.extend_from_slice(text);
}

#[inline]
fn field(out: &mut Vec<u8>, text: &[u8], width: usize) {
    right(out, text, width);
    out.push(b',');
}

#[inline]
fn number(out: &mut Vec<u8>, value: u64, width: usize) {
    field(out, itoa::Buffer::new().format(value).as_bytes(), width);
}

/// Writes the header's values into the columns of [`NOTHING`].
#[inline]
fn put_columns(columns: &mut [u8; NOTHING.len()], record: &Record<'_>, raw_time: bool) {
    if let Some(process) = record.process_id() {
        put_hex32(&mut columns[3..11], process);
    }
    if let Some(thread) = record.thread_id() {
        put_hex32(&mut columns[15..23], thread);
    }
    put_right(&mut columns[24..41], itoa::Buffer::new().format(record.processor()));
    if let Some(instance) = record.instance() {
        put_right(&mut columns[42..55], itoa::Buffer::new().format(instance.id));
        put_right(&mut columns[56..76], itoa::Buffer::new().format(instance.parent_id));
    }
    if let Some(activity) = record.activity_id() {
        put_guid(&mut columns[78..116], activity);
    }
    if let Some(related) = record.related_activity_id() {
        put_guid(&mut columns[118..156], related);
    }
    let time = if raw_time { record.raw_time().0 } else { record.time().0 };
    put_right(&mut columns[157..178], itoa::Buffer::new().format(time));
}

/// Writes a text, right-aligned in a column that is at least as wide.
#[inline]
fn put_right(column: &mut [u8], text: &str) {
    let at = column.len() - text.len();
    column[at..].copy_from_slice(text.as_bytes());
}

/// Writes a GUID in braces.
#[inline]
fn put_guid(column: &mut [u8], guid: Guid) {
    if let [open, digits @ .., close] = column {
        (*open, *close) = (b'{', b'}');
        digits.copy_from_slice(&guid.to_text());
    }
}

/// Writes eight digits.
#[inline]
fn put_hex32(digits: &mut [u8], value: u32) {
    for (digit, shift) in digits.iter_mut().zip((0..8).rev()) {
        *digit = b"0123456789ABCDEF"[(value >> (4 * shift) & 15) as usize];
    }
}

/// Writes a name, with quotes if it would otherwise not be one column.
fn name(out: &mut Vec<u8>, text: &str, width: usize) {
    if text.contains([',', '"', '\r', '\n']) {
        let mut quoted = vec![b'"'];
        escape::text::<Csv>(&mut quoted, text);
        quoted.push(b'"');
        field(out, &quoted, width);
    } else {
        field(out, text.as_bytes(), width);
    }
}

fn undecoded(out: &mut Vec<u8>, payload: &[u8]) {
    if !payload.is_empty() {
        out.extend_from_slice(b", 0x");
        put::hex_bytes(out, payload);
    }
}

fn members(out: &mut Vec<u8>, members: Members<'_>, depth: u16, end: usize) {
    for member in members {
        if out.len() > end {
            return;
        }
        property(out, &member, depth, end);
    }
}

fn property(out: &mut Vec<u8>, member: &PropertyValue<'_>, depth: u16, end: usize) {
    let one = |out: &mut Vec<u8>, value: &Value<'_>| match value {
        Value::Struct(inner) => {
            if depth < MAX_DEPTH {
                members(out, inner.iter(), depth + 1, end);
            }
        }
        value => scalar(out, value, member),
    };
    match &member.value() {
        Value::Array(array) => {
            for index in 0..array.len() {
                if out.len() > end {
                    return;
                }
                let Some(element) = array.get(index) else { return };
                one(out, &element);
            }
        }
        value => one(out, value),
    }
}

/// Writes one column. Texts are quoted, as is anything that would otherwise not be one column.
#[inline]
fn scalar(out: &mut Vec<u8>, value: &Value<'_>, member: &PropertyValue<'_>) {
    let (format, map) = (member.format(), member.map());
    let is_text = matches!(value, Value::Utf16(_) | Value::Ansi(_) | Value::Char16(_) | Value::Char8(_));
    out.extend_from_slice(b", ");
    let start = out.len();
    if is_text {
        out.push(b'"');
    }
    text::write_value(&mut Escaping::<Csv>::new(out), value, format, map);
    if is_text {
        out.push(b'"');
    } else if (map.is_some() || format == Format::FourCharacters)
        && out[start..].iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'))
    {
        out.insert(start, b'"');
        out.push(b'"');
    }
}
