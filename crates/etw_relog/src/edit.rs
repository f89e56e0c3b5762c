//! Copies of events whose fields and header can be changed.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use etw_consumer::Event;
use etw_etl::encode::MAX_RECORD_BYTES;
use etw_event::{EventDescriptor, Guid, Origin, Record, Ticks};
use etw_schema::{
    CompiledSchema, Count, EventSchema, InType, Length, Located, Properties, Property, PropertyType,
    PropertyValue, Undecoded, Value, ValueMap,
};

use super::redact::describes;

/// The reason why an event could not be changed. The copy is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The event has no schema, so its fields are unknown.
    #[error("field '{field}' of an event without schema: {reason}")]
    Undecoded {
        /// The field.
        field: String,
        /// Why the event has no schema.
        reason: Undecoded,
    },
    /// The event has no such field.
    #[error("event {event}: no field '{field}'")]
    NoField {
        /// The event.
        event: String,
        /// The field.
        field: String,
    },
    /// The payload does not match the schema, so the field cannot be located.
    #[error("event {event}: field '{field}' cannot be located: {reason}")]
    Payload {
        /// The event.
        event: String,
        /// The field.
        field: String,
        /// The reason.
        reason: String,
    },
    /// The value is of another type, or does not fit.
    #[error("event {event}: '{value}' does not fit in field '{field}' ({room})")]
    Value {
        /// The event.
        event: String,
        /// The field.
        field: String,
        /// The value.
        value: String,
        /// What fits.
        room: String,
    },
    /// Fields of this kind cannot be set.
    #[error("event {event}: field '{field}' cannot be set: it {reason}")]
    Unsupported {
        /// The event.
        event: String,
        /// The field.
        field: String,
        /// What it is.
        reason: String,
    },
    /// The header has no such part.
    #[error("a record of kind {kind} has no {part} that can be set")]
    Header {
        /// The kind of the record.
        kind: String,
        /// The part.
        part: &'static str,
    },
    /// The record would become larger than the format allows.
    #[error("the event would have {size} bytes; a record has at most {MAX_RECORD_BYTES}")]
    TooLarge {
        /// The size.
        size: usize,
    },
}

/// A copy of an event that can be changed and then written by a [`Relogger`](super::Relogger).
///
/// The copy keeps the time, processor and extended data of the event.
#[derive(Debug, Clone)]
pub struct EventCopy {
    bytes: Vec<u8>,
    origin: Origin,
    time: Ticks,
    schema: Result<Arc<CompiledSchema>, Undecoded>,
}

/// The change of a payload: bytes to replace, and the property that has their new length.
struct Change {
    bytes: Range<usize>,
    new: Vec<u8>,
    length: Option<(Range<usize>, Vec<u8>)>,
}

impl EventCopy {
    /// Returns a copy of an event.
    pub fn from_event(event: &Event<'_>) -> EventCopy {
        let record = event.record;
        EventCopy {
            bytes: record.as_bytes().to_vec(),
            origin: *record.origin(),
            time: record.raw_time(),
            schema: match &event.properties {
                Ok(properties) => Ok(properties.compiled().shared()),
                Err(reason) => Err((*reason).clone()),
            },
        }
    }

    /// Returns the record, whose header was valid when it was copied.
    fn record(&self) -> Option<Record<'_>> {
        Record::parse(&self.bytes, &self.origin, self.time).ok()
    }

    /// Returns the bytes of the record.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Sets a field: a property, or `Struct.Member`, ignoring case. The value's text is converted to the type in the
    /// event's schema.
    ///
    /// Numbers are decimal or hexadecimal (`0x…`), truth values also `true` and `false`, values with names also their
    /// names. A text may be longer or shorter than the one before: the payload grows or shrinks, and a field with the
    /// text's length is set too.
    ///
    /// # Errors
    ///
    /// Fails if the event has no such field, if the value is of another type or does not fit, or if the field is an
    /// array, a struct, a SID, an address or binary data, or the length or count of another.
    pub fn set(&mut self, field: &str, value: impl Display) -> Result<(), EditError> {
        let schema = match &self.schema {
            Ok(schema) => schema.clone(),
            Err(reason) => {
                return Err(EditError::Undecoded { field: field.to_owned(), reason: reason.clone() });
            }
        };
        let mut located = Located::new();
        let Some(record) = self.record() else {
            return Err(EditError::NoField { event: schema.label().to_string(), field: field.to_owned() });
        };
        let properties = schema.locate(&record, &mut located);
        let change = change(&properties, &record, field, &value.to_string())?;
        // The bytes that a schema skips come before the payload of the properties.
        let start = record.as_bytes().len() - properties.payload().len();
        self.splice(start, change)
    }

    /// Replaces the payload.
    ///
    /// # Errors
    ///
    /// Fails if the record becomes too large.
    pub fn set_payload(&mut self, payload: &[u8]) -> Result<(), EditError> {
        let len_bytes = self.record().map_or(0, |record| record.payload().len());
        let start = self.bytes.len() - len_bytes;
        self.splice(start, Change { bytes: 0..len_bytes, new: payload.to_vec(), length: None })
    }

    /// Sets the process and thread in the header.
    ///
    /// # Errors
    ///
    /// Fails if the header has none.
    pub fn set_process(&mut self, process_id: u32, thread_id: u32) -> Result<(), EditError> {
        let ids = self.record().and_then(|record| record.ids_offset());
        let ids = ids.and_then(|at| self.bytes.get_mut(at..at + 8)?.first_chunk_mut::<8>());
        let Some(ids) = ids else { return Err(self.no_part("process and thread")) };
        *ids = (u64::from(process_id) << 32 | u64::from(thread_id)).to_le_bytes();
        Ok(())
    }

    /// Sets id, version, channel, level, opcode, task and keyword of an event of a manifest or TraceLogging provider.
    ///
    /// Another id or version usually means another schema, so set the fields first.
    ///
    /// # Errors
    ///
    /// Fails for records with other headers.
    pub fn set_descriptor(&mut self, descriptor: &EventDescriptor) -> Result<(), EditError> {
        let is_event = self.record().is_some_and(|record| record.kind().is_event_header());
        // Offset of EVENT_DESCRIPTOR in EVENT_HEADER (evntcons.h).
        let bytes = self.bytes.get_mut(0x28..0x38).filter(|_| is_event);
        let Some(bytes) = bytes else { return Err(self.no_part("descriptor")) };
        let small = [descriptor.version, descriptor.channel, descriptor.level.0, descriptor.opcode.0];
        let parts = [
            &descriptor.id.to_le_bytes()[..],
            &small,
            &descriptor.task.to_le_bytes(),
            &descriptor.keyword.0.to_le_bytes(),
        ];
        bytes.copy_from_slice(&parts.concat());
        Ok(())
    }

    fn no_part(&self, part: &'static str) -> EditError {
        let kind = self.record().map(|record| format!("{:?}", record.kind())).unwrap_or_default();
        EditError::Header { kind, part }
    }

    /// Makes a change in the payload that starts at this offset of the record.
    fn splice(&mut self, start: usize, change: Change) -> Result<(), EditError> {
        let Change { bytes, new, length } = change;
        let size = self.bytes.len() - bytes.len() + new.len();
        let Ok(size_bytes) = u16::try_from(size) else { return Err(EditError::TooLarge { size }) };
        if let Some((bytes, new)) = length
            && let Some(bytes) = self.bytes.get_mut(start + bytes.start..start + bytes.end)
        {
            bytes.copy_from_slice(&new);
        }
        let has_hook_id = self.record().is_some_and(|record| record.kind().has_hook_id());
        self.bytes.splice(start + bytes.start..start + bytes.end, new);
        // Records with a hook id have their size after the kind, all others first.
        let at = if has_hook_id { 4 } else { 0 };
        if let Some(bytes) = self.bytes.get_mut(at..at + 2) {
            bytes.copy_from_slice(&size_bytes.to_le_bytes());
        }
        Ok(())
    }
}

/// Returns how to set a field.
fn change(
    properties: &Properties<'_>,
    record: &Record<'_>,
    field: &str,
    value: &str,
) -> Result<Change, EditError> {
    let event = || properties.compiled().label().to_string();
    let unsupported = |reason: &str| EditError::Unsupported {
        event: event(),
        field: field.to_owned(),
        reason: reason.to_owned(),
    };
    let misfit = |room: String| EditError::Value {
        event: event(),
        field: field.to_owned(),
        value: value.to_owned(),
        room,
    };
    let found = match find(properties, field) {
        Found::Property(found) => found,
        Found::InArray => return Err(unsupported("is in an array")),
        Found::Absent => {
            let is_known = knows(properties.schema(), field);
            return Err(match properties.error().filter(|_| is_known) {
                Some(reason) => {
                    let (event, field) = (event(), field.to_owned());
                    EditError::Payload { event, field, reason: reason.to_string() }
                }
                None => EditError::NoField { event: event(), field: field.to_owned() },
            });
        }
    };
    let property = found.property();
    let PropertyType::Value { in_type, map, .. } = &property.kind else {
        return Err(unsupported("is a struct"));
    };
    if property.count != Count::One {
        return Err(unsupported("is an array"));
    }
    if let Some(other) = describes(properties.schema(), &found) {
        return Err(unsupported(&format!("is the length or count of '{other}'")));
    }
    let bytes = bytes_of(&found);
    let type_name = in_type.name().unwrap_or("an unknown type");
    let Some(unit) = unit_of(*in_type) else {
        let new = scalar(value, *in_type, map.as_deref(), record);
        return match new {
            Some(new) if new.len() == bytes.len() => Ok(Change { bytes, new, length: None }),
            Some(_) => Err(unsupported("is cut")),
            None if is_settable(*in_type) => Err(misfit(type_name.to_owned())),
            None => Err(unsupported(&format!("is of type {type_name}"))),
        };
    };
    let mut new: Vec<u8> = match unit {
        2 => value.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        _ => value.as_bytes().to_vec(),
    };
    let units = new.len() / unit;
    let length = match (*in_type, property.length) {
        (InType::UNICODE_STRING | InType::ANSI_STRING, Length::Fixed(most)) if most > 0 => {
            if units > usize::from(most) {
                return Err(misfit(format!("{most} characters")));
            }
            new.resize(bytes.len().max(new.len()), 0);
            None
        }
        (InType::UNICODE_STRING | InType::ANSI_STRING, Length::Property(index)) => {
            let Some(length) = length_of(properties, property, index) else {
                return Err(unsupported("shares its length with another field, or is in a struct"));
            };
            let PropertyType::Value { in_type, .. } = length.property().kind else {
                return Err(unsupported("has no integer as its length"));
            };
            let new = in_type.encode_integer(units as i128, record.pointer_size());
            let Some(new) = new.filter(|new| new.len() == bytes_of(&length).len()) else {
                return Err(misfit(format!("its length is in '{}'", length.name())));
            };
            Some((bytes_of(&length), new))
        }
        (InType::UNICODE_STRING | InType::ANSI_STRING, _) => {
            if value.contains('\0') {
                return Err(misfit("a text that ends with a null character".to_owned()));
            }
            None
        }
        (InType::NON_NULL_TERMINATED_STRING | InType::NON_NULL_TERMINATED_ANSI_STRING, _) => None,
        (in_type, _) => {
            let most = || misfit(format!("{} bytes", u16::MAX));
            let count = u16::try_from(new.len()).map_err(|_| most())?;
            let is_reversed =
                matches!(in_type, InType::REVERSED_COUNTED_STRING | InType::REVERSED_COUNTED_ANSI_STRING);
            let count = if is_reversed { count.swap_bytes() } else { count };
            bytes.start.checked_sub(2).map(|at| (at..at + 2, count.to_le_bytes().to_vec()))
        }
    };
    Ok(Change { bytes, new, length })
}

/// The result of looking for a field.
enum Found<'a> {
    Property(PropertyValue<'a>),
    /// The path leads through an array.
    InArray,
    Absent,
}

fn find<'a>(properties: &Properties<'a>, field: &str) -> Found<'a> {
    let named = |name: &str| properties.iter().find(|property| property.name().eq_ignore_ascii_case(name));
    // A name may itself contain a dot.
    if let Some(found) = named(field) {
        return Found::Property(found);
    }
    let mut parts = field.split('.');
    let Some(mut found) = parts.next().and_then(named) else { return Found::Absent };
    for part in parts {
        found = match found.value() {
            Value::Struct(members) => {
                match members.iter().find(|member| member.name().eq_ignore_ascii_case(part)) {
                    Some(member) => member,
                    None => return Found::Absent,
                }
            }
            Value::Array(_) => return Found::InArray,
            _ => return Found::Absent,
        };
    }
    Found::Property(found)
}

/// Whether a schema has a field, by the first part of its path.
fn knows(schema: &EventSchema, field: &str) -> bool {
    let first = field.split('.').next().unwrap_or(field);
    let mut properties = schema.properties.iter().take(schema.top_level.into());
    properties.any(|property| {
        property.name.eq_ignore_ascii_case(first) || property.name.eq_ignore_ascii_case(field)
    })
}

/// Returns the bytes of a scalar in the payload.
fn bytes_of(property: &PropertyValue<'_>) -> Range<usize> {
    let mut found = 0..0;
    property.for_each_plain(&mut |bytes, _| found = bytes);
    found
}

/// Returns the top-level property with the length of a text, if it is the length of no other property.
fn length_of<'a>(properties: &Properties<'a>, text: &Property, index: u16) -> Option<PropertyValue<'a>> {
    let schema = properties.schema();
    let is_of = |property: &&Property| {
        property.length == Length::Property(index) || property.count == Count::Property(index)
    };
    let mut described = schema.properties.iter().filter(is_of);
    let is_alone =
        described.next().is_some_and(|first| std::ptr::eq(first, text)) && described.next().is_none();
    let is_top_level = index < schema.top_level
        && schema.properties.iter().take(schema.top_level.into()).any(|known| std::ptr::eq(known, text));
    properties.iter().nth(usize::from(index)).filter(|_| is_alone && is_top_level)
}

/// Returns the bytes of a character, if the type is a text.
fn unit_of(in_type: InType) -> Option<usize> {
    match in_type {
        InType::UNICODE_STRING
        | InType::COUNTED_UNICODE_STRING
        | InType::COUNTED_STRING
        | InType::REVERSED_COUNTED_STRING
        | InType::NON_NULL_TERMINATED_STRING => Some(2),
        InType::ANSI_STRING
        | InType::COUNTED_ANSI_STRING
        | InType::COUNTED_STRING_ANSI
        | InType::REVERSED_COUNTED_ANSI_STRING
        | InType::NON_NULL_TERMINATED_ANSI_STRING => Some(1),
        _ => None,
    }
}

/// Whether [`scalar`] converts values to a type.
fn is_settable(in_type: InType) -> bool {
    in_type.is_integer()
        || matches!(
            in_type,
            InType::BOOLEAN
                | InType::FLOAT
                | InType::DOUBLE
                | InType::GUID
                | InType::POINTER
                | InType::SIZE_T
                | InType::FILETIME
                | InType::WMI_TIME
                | InType::ANSI_CHAR
                | InType::UNICODE_CHAR
        )
}

/// Converts the text of a value to a type of fixed size; returns `None` if it is not a value of the type.
fn scalar(text: &str, in_type: InType, map: Option<&ValueMap>, record: &Record<'_>) -> Option<Vec<u8>> {
    match in_type {
        InType::FLOAT => return Some(text.parse::<f32>().ok()?.to_le_bytes().to_vec()),
        InType::DOUBLE => return Some(text.parse::<f64>().ok()?.to_le_bytes().to_vec()),
        InType::GUID => return Some(text.parse::<Guid>().ok()?.to_bytes().to_vec()),
        _ => {}
    }
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let named = || map?.entries.iter().find(|entry| *entry.text == *text).map(|entry| entry.value.into());
    let value = match (hex, text) {
        (Some(digits), _) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        (None, "true") if in_type == InType::BOOLEAN => 1,
        (None, "false") if in_type == InType::BOOLEAN => 0,
        _ => text.parse().ok().or_else(named)?,
    };
    let bytes = in_type.encode_integer(value, record.pointer_size())?;
    // Only hexadecimal numbers may be the bits of a negative number; others must be in the range of the type.
    let is_signed = matches!(in_type, InType::INT8 | InType::INT16 | InType::INT32 | InType::INT64);
    let bits = 8 * bytes.len() as u32;
    let fits = match is_signed {
        true => hex.is_some() || value < 1i128 << (bits - 1),
        false => value >= 0,
    };
    fits.then_some(bytes)
}
