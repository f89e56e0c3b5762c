//! The fields of an event as debug annotations.

use etw_consumer::Event;
use etw_schema::{Format, PropertyValue, Value, text::Text};

use super::interned::Interned;
use super::proto::{self, DebugAnnotation};

/// Limit for the annotations of one event; 64 KiB of structs and arrays can make more than anyone reads.
const MAX_ANNOTATIONS: usize = 4096;
const MAX_DEPTH: u32 = 8;

/// Returns the fields of an event, or the reason why it has none.
pub(super) fn of_event(event: &Event<'_>, names: &mut Interned) -> Vec<DebugAnnotation> {
    let mut room = MAX_ANNOTATIONS;
    match &event.properties {
        Ok(properties) => {
            let fields = properties.iter().filter(|property| !property.is_hidden());
            let mut annotations = Vec::new();
            for field in fields {
                if room == 0 {
                    break;
                }
                annotations.push(property(&field, names, &mut room, 0));
            }
            annotations
        }
        Err(reason) => vec![named("Undecoded", proto::Value::String(reason.to_string()), names)],
    }
}

/// Returns a single named value.
pub(super) fn named(name: &str, value: proto::Value, names: &mut Interned) -> DebugAnnotation {
    let name_iid = Some(names.annotation(name));
    DebugAnnotation { name_iid, value: Some(value), ..DebugAnnotation::default() }
}

fn property(
    property: &PropertyValue<'_>,
    names: &mut Interned,
    room: &mut usize,
    depth: u32,
) -> DebugAnnotation {
    let mut annotation = value(property, property.value(), names, room, depth);
    annotation.name_iid = Some(names.annotation(property.name()));
    annotation
}

fn value(
    of: &PropertyValue<'_>,
    value: Value<'_>,
    names: &mut Interned,
    room: &mut usize,
    depth: u32,
) -> DebugAnnotation {
    *room = room.saturating_sub(1);
    let mut annotation = DebugAnnotation::default();
    match value {
        Value::Array(array) if depth < MAX_DEPTH => {
            for element in array.iter() {
                if *room == 0 {
                    break;
                }
                annotation.array_values.push(self::value(of, element, names, room, depth + 1));
            }
        }
        Value::Struct(members) if depth < MAX_DEPTH => {
            for member in members.iter() {
                if *room == 0 {
                    break;
                }
                annotation.dict_entries.push(property(&member, names, room, depth + 1));
            }
        }
        value => annotation.value = Some(scalar(of, value)),
    }
    annotation
}

/// Converts numbers to numbers, unless they have names.
fn scalar(of: &PropertyValue<'_>, value: Value<'_>) -> proto::Value {
    let text = || proto::Value::String(Text::new(value, of.format(), of.map()).to_string());
    if of.map().is_some() {
        return text();
    }
    match value {
        Value::Bool(value) => proto::Value::Bool(value),
        Value::F32(value) => proto::Value::Double(value.into()),
        Value::F64(value) => proto::Value::Double(value),
        Value::Pointer(value, _) => proto::Value::Pointer(value),
        Value::U8(_)
        | Value::U16(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::I8(_)
        | Value::I16(_)
        | Value::I32(_)
        | Value::I64(_)
            if matches!(of.format(), Format::NtStatus | Format::HResult | Format::FourCharacters) =>
        {
            text()
        }
        Value::U8(value) => proto::Value::Uint(value.into()),
        Value::U16(value) => proto::Value::Uint(value.into()),
        Value::U32(value) => proto::Value::Uint(value.into()),
        Value::U64(value) => proto::Value::Uint(value),
        Value::I8(value) => proto::Value::Int(value.into()),
        Value::I16(value) => proto::Value::Int(value.into()),
        Value::I32(value) => proto::Value::Int(value.into()),
        Value::I64(value) => proto::Value::Int(value),
        _ => text(),
    }
}
