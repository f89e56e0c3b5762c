//! The JSON of an event's header. The parts shared by all events with one schema are prepared once.

use etw_event::Record;
use etw_schema::{
    Event, HeaderField, HeaderObject, HeaderOrigin, HeaderType, HeaderValue, HeaderVisitor, Source,
};

use super::string;
use crate::put::{self, TimeWriter};

/// The JSON shared by all events with one schema and descriptor.
pub(super) struct System {
    /// The members of `System` itself, with a comma after each.
    head: Vec<u8>,
    /// From `"Keywords"` to `"SystemTime":"`.
    tail: Vec<u8>,
}

impl System {
    /// Creates the parts shared by events with the header and the schema of `event`.
    pub(super) fn new(event: &Event<'_>) -> System {
        let mut head = Vec::new();
        // The channel comes first, although its number is a later column than the id.
        let (first, others): (Vec<HeaderField>, Vec<HeaderField>) = HeaderObject::System
            .fields()
            .filter(|field| matches!(field.origin(), HeaderOrigin::Descriptor | HeaderOrigin::Schema))
            .partition(|field| *field == HeaderField::ChannelName);
        for field in first.into_iter().chain(others) {
            if let Some(value) = field.value(event, None) {
                member(&mut head, field, &value);
                head.push(b',');
            }
        }
        let mut tail = Vec::new();
        for object in HeaderObject::ALL.into_iter().filter(|object| object.is_of_schema()) {
            string(&mut tail, object.key());
            tail.push(b':');
            let start = tail.len();
            for field in object.fields() {
                if let Some(value) = field.value(event, None) {
                    tail.push(if tail.len() == start { b'{' } else { b',' });
                    member(&mut tail, field, &value);
                }
            }
            tail.extend_from_slice(b"},");
        }
        tail.extend_from_slice(HeaderField::Time.json_first().as_bytes());
        tail.push(b'"');
        System { head, tail }
    }

    /// Writes the `System` object, without its end. `computer` is written before it, with its comma.
    #[inline]
    pub(super) fn put(
        &self,
        out: &mut Vec<u8>,
        record: &Record<'_>,
        computer: &[u8],
        time: &mut TimeWriter,
        raw_time: bool,
    ) {
        out.extend_from_slice(b"\"System\":{");
        out.extend_from_slice(computer);
        out.extend_from_slice(&self.head);
        object::<{ HeaderObject::Correlation as u8 }>(out, record);
        object::<{ HeaderObject::Execution as u8 }>(out, record);
        out.extend_from_slice(&self.tail);
        time.put(out, record.time());
        out.push(b'"');
        if raw_time {
            out.extend_from_slice(HeaderField::RawTime.json_next().as_bytes());
            put::signed(out, record.raw_time().0);
        }
        out.push(b'}');
    }
}

/// Returns the member of `System` with the source's computer, with its comma.
pub(super) fn computer(source: &Source) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(computer) = &source.computer {
        member(&mut out, HeaderField::Computer, &HeaderValue::Text(computer.as_str().into()));
        out.push(b',');
    }
    out
}

/// Returns the start of `Source`, up to the name of the file.
pub(super) fn source(source: &Source) -> Vec<u8> {
    let mut start = b",".to_vec();
    start.extend_from_slice(HeaderField::SourceFile.json_first().as_bytes());
    string(&mut start, &source.name);
    start
}

/// Writes `,"Source":{…}`, where an event is from.
#[cold]
pub(super) fn put_source(out: &mut Vec<u8>, record: &Record<'_>, files: &[Vec<u8>]) {
    let Some(start) = files.get(record.origin().source as usize) else { return };
    out.extend_from_slice(start);
    for field in HeaderObject::Source.fields() {
        if let Some(number) = field.number(record) {
            out.extend_from_slice(field.json_next().as_bytes());
            put::unsigned(out, number);
        }
    }
    out.push(b'}');
}

/// Writes an object with what records have, `"Execution":{…},`; nothing if this one has nothing of it.
#[inline(always)]
fn object<const OBJECT: u8>(out: &mut Vec<u8>, record: &Record<'_>) {
    let mut members = Members::<OBJECT> { out, record, is_open: false };
    HeaderField::visit(&mut members);
    if members.is_open {
        out.extend_from_slice(b"},");
    }
}

/// Writes the members of an object. All that depends on the field alone is decided when this is compiled.
struct Members<'o, 'r, const OBJECT: u8> {
    out: &'o mut Vec<u8>,
    record: &'r Record<'r>,
    is_open: bool,
}

impl<const OBJECT: u8> Members<'_, '_, OBJECT> {
    #[inline(always)]
    fn begin(&mut self, field: HeaderField) {
        // Each text has a length that is known here, and is copied without a call.
        match self.is_open {
            true => self.out.extend_from_slice(field.json_next().as_bytes()),
            false => self.out.extend_from_slice(field.json_first().as_bytes()),
        }
        self.is_open = true;
    }
}

impl<const OBJECT: u8> HeaderVisitor for Members<'_, '_, OBJECT> {
    #[inline(always)]
    fn field(&mut self, field: HeaderField) {
        if field.object() as u8 != OBJECT {
            return;
        }
        if field.value_type() == HeaderType::Guid {
            if let Some(id) = field.activity(self.record) {
                self.begin(field);
                self.out.push(b'"');
                put::guid(self.out, id);
                self.out.push(b'"');
            }
        } else if let Some(number) = field.number(self.record) {
            self.begin(field);
            match field.value_type() {
                HeaderType::U64 => put::unsigned(self.out, number),
                _ => put::unsigned32(self.out, number as u32),
            }
        }
    }
}

/// Writes a key with its value.
fn member(out: &mut Vec<u8>, field: HeaderField, value: &HeaderValue<'_>) {
    string(out, field.key());
    out.push(b':');
    match value {
        HeaderValue::Number(mask) if field.value_type() == HeaderType::Mask => {
            out.push(b'"');
            put::hex(out, *mask);
            out.push(b'"');
        }
        HeaderValue::Number(number) => put::unsigned(out, *number),
        HeaderValue::Guid(guid) => {
            out.push(b'"');
            put::guid(out, *guid);
            out.push(b'"');
        }
        HeaderValue::Text(text) => string(out, text),
        HeaderValue::Names(names) => {
            for (index, name) in names.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                string(out, name);
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(b"null"),
    }
}
