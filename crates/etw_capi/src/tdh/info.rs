//! `TRACE_EVENT_INFO` of a schema.

use etw_event::{EventDescriptor, Guid, PointerSize};
use etw_schema::{
    Count, Decoding, EventSchema, InType, Length, OutType, Properties, Property, PropertyType, Value,
    manifest,
};

use super::out::Blob;
use crate::wide::Width;

/// Bytes before the properties, and bytes of a property.
const HEADER: usize = 0x70;
const PROPERTY: usize = 24;

/// The names and numbers of an event, as far as they depend on the event itself.
pub(super) struct Labels<'a> {
    pub(super) provider: Guid,
    pub(super) event: Guid,
    pub(super) descriptor: EventDescriptor,
    pub(super) provider_name: Option<&'a str>,
    pub(super) level: Option<&'a str>,
    pub(super) channel: Option<&'a str>,
    pub(super) task: Option<&'a str>,
    pub(super) opcode: Option<&'a str>,
    pub(super) keywords: Vec<&'a str>,
    pub(super) pointer: PointerSize,
}

/// Returns the structure. TDH describes an array whose number of elements precedes it as two properties; the first is
/// named `NAME.Count`.
pub(super) fn event_info(
    schema: &EventSchema,
    labels: &Labels<'_>,
    properties: Option<&Properties<'_>>,
    width: Width,
) -> Vec<u8> {
    let old = &schema.properties;
    // Where each property goes: after as many numbers of elements.
    let is_counted = |property: &Property| property.count == Count::Prefixed;
    let mut places = Vec::with_capacity(old.len() + 1);
    let mut next = 0u16;
    for property in old {
        places.push(next);
        next = next.saturating_add(1 + u16::from(is_counted(property)));
    }
    places.push(next);
    let start_of = |index: u16| places.get(usize::from(index)).copied().unwrap_or(next);
    let place_of = |index: u16| {
        let counted = old.get(usize::from(index)).is_some_and(is_counted);
        start_of(index) + u16::from(counted)
    };
    let mut blob = Blob::new(HEADER + PROPERTY * usize::from(next), width);
    blob.put(0, &labels.provider.to_bytes());
    blob.put(0x10, &labels.event.to_bytes());
    let descriptor = &labels.descriptor;
    blob.put_u16(0x20, descriptor.id);
    blob.put(0x22, &[descriptor.version, descriptor.channel, descriptor.level.0, descriptor.opcode.0]);
    blob.put_u16(0x26, descriptor.task);
    blob.put_u64(0x28, descriptor.keyword.0);
    blob.put_u32(0x30, source_of(schema));
    blob.put_text(0x34, labels.provider_name);
    blob.put_text(0x38, labels.level);
    blob.put_text(0x3C, labels.channel);
    if !labels.keywords.is_empty() {
        blob.put_texts(0x40, &mut labels.keywords.iter().copied());
        blob.end_list();
    }
    blob.put_text(0x44, labels.task);
    blob.put_text(0x48, labels.opcode);
    blob.put_text(0x4C, schema.message.as_deref());
    // In a class, this is the place of the name of an activity, which it has none of.
    blob.put_text(0x5C, schema.name.as_deref().filter(|_| source_of(schema) != 1));
    blob.put_u32(0x64, next.into());
    blob.put_u32(0x68, start_of(schema.top_level).into());
    blob.put_u32(0x6C, if schema.user_data { 2 } else { 1 });
    for (index, property) in old.iter().enumerate() {
        let mut at = HEADER + PROPERTY * usize::from(start_of(index as u16));
        if is_counted(property) {
            blob.put_text(at + 4, Some(&format!("{}.Count", property.name)));
            blob.put_u16(at + 8, InType::UINT16.0);
            blob.put_u16(at + 10, OutType::UNSIGNED_SHORT.0);
            blob.put_u16(at + 0x10, 1);
            blob.put_u16(at + 0x12, 2);
            at += PROPERTY;
        }
        let mut flags = 0;
        let mut length = match property.length {
            Length::Natural => 0,
            Length::Fixed(length) => {
                flags |= 0x10;
                length
            }
            Length::Property(index) => {
                flags |= 0x02;
                place_of(index)
            }
        };
        match &property.kind {
            PropertyType::Struct { first, members } => {
                flags |= 0x01;
                let start = start_of(*first);
                blob.put_u16(at + 8, start);
                blob.put_u16(at + 10, start_of(first.saturating_add(*members)) - start);
            }
            PropertyType::Value { in_type, out_type, map } => {
                let (in_type, natural) = stored(*in_type, schema.decoding, labels.pointer);
                if length == 0 && flags & 0x02 == 0 {
                    length = natural;
                }
                blob.put_u16(at + 8, in_type.0);
                blob.put_u16(at + 10, shown(in_type, *out_type).0);
                blob.put_text(at + 12, map.as_ref().map(|map| &*map.name));
            }
        }
        let count = match property.count {
            Count::One => 1,
            Count::Fixed(count) => {
                flags |= 0x20;
                count
            }
            Count::Property(index) => {
                flags |= 0x04;
                place_of(index)
            }
            Count::Prefixed => {
                flags |= 0x04;
                start_of(index as u16)
            }
            Count::ToEnd => {
                flags |= 0x20;
                let value =
                    properties.and_then(|all| all.find(&property.name)).map(|found| found.stored_value());
                match value {
                    Some(Value::Array(array)) => u16::try_from(array.len()).unwrap_or(u16::MAX),
                    _ => 0,
                }
            }
        };
        if property.tags != 0 {
            flags |= 0x40;
            blob.put_u32(at + 0x14, property.tags);
        }
        blob.put_u32(at, flags);
        blob.put_text(at + 4, Some(&property.name));
        blob.put_u16(at + 0x10, count);
        blob.put_u16(at + 0x12, length);
    }
    blob.into_bytes()
}

/// Returns `DECODING_SOURCE`.
pub(super) fn source_of(schema: &EventSchema) -> u32 {
    match schema.decoding {
        Decoding::TraceLogging => 3,
        Decoding::Wpp => 2,
        Decoding::Mof => 1,
        _ if schema.provider.class_of.is_some() => 1,
        _ => 0,
    }
}

/// Returns the type as TDH has it, and its size if that is the same for all values.
fn stored(in_type: InType, decoding: Decoding, pointer: PointerSize) -> (InType, u16) {
    let pointer = pointer.bytes() as u16;
    match in_type {
        InType::INT8 | InType::UINT8 | InType::ANSI_CHAR => (in_type, 1),
        InType::INT16 | InType::UINT16 | InType::UNICODE_CHAR => (in_type, 2),
        InType::INT32 | InType::UINT32 | InType::HEX_INT32 | InType::FLOAT | InType::BOOLEAN => (in_type, 4),
        InType::INT64 | InType::UINT64 | InType::HEX_INT64 | InType::DOUBLE | InType::FILETIME => {
            (in_type, 8)
        }
        InType::GUID | InType::SYSTEMTIME => (in_type, 16),
        InType::POINTER | InType::SIZE_T => (in_type, pointer),
        InType::WMI_TIME => (InType::INT64, 8),
        // TDH had these types for TraceLogging before manifests got theirs, and programs know them (one_collect, krabsetw).
        InType::COUNTED_UNICODE_STRING if decoding == Decoding::TraceLogging => (InType::COUNTED_STRING, 0),
        InType::COUNTED_ANSI_STRING if decoding == Decoding::TraceLogging => (InType::COUNTED_STRING_ANSI, 0),
        InType::WPP_HEX_DUMP => (InType::COUNTED_BINARY, 0),
        InType(0x8000..) => (InType::BINARY, 0),
        _ => (in_type, 0),
    }
}

/// Returns the out-type, or the default one of the in-type.
fn shown(in_type: InType, out_type: OutType) -> OutType {
    if out_type != OutType::NULL && out_type.0 < 0x8000 {
        return out_type;
    }
    match manifest::default_out_type(in_type) {
        OutType::NULL if in_type == InType::SIZE_T => OutType::HEX_INT64,
        // Of classes: all the others are text.
        OutType::NULL => OutType::STRING,
        out_type => out_type,
    }
}
