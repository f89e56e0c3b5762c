//! An event's extended data as JSON.

use std::io::Write;

use etw_event::{ExtendedItem, ExtendedType, Fields, Guid, HeaderKind, Instance, PointerSize, Record, Sid};

use crate::put;

/// Writes `,"ExtendedData":{…}` if the record has any. Omits items already shown by the schema or `Correlation`.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, record: &Record<'_>) {
    let kind = record.kind();
    let plain = match kind {
        kind if kind.is_event_header() => record.flags() & 1 == 0,
        HeaderKind::Message => record.message_sequence().is_none() && record.message_component_id().is_none(),
        HeaderKind::Instance32 | HeaderKind::Instance64 => false,
        _ => record.counters().len() == 0,
    };
    if !plain {
        put_some(out, record);
    }
}

fn put_some(out: &mut Vec<u8>, record: &Record<'_>) {
    let before = out.len();
    out.extend_from_slice(b",\"ExtendedData\":{");
    let start = out.len();
    // Counts uses of each name, to keep names unique. Kinds without a name share the first place.
    let mut seen = [0u16; 0x20];
    for item in record.extended_items() {
        let place = match item.ext_type {
            ExtendedType::RELATED_ACTIVITY_ID | ExtendedType::EVENT_SCHEMA_TL => continue,
            ExtendedType::STACK_TRACE32 => ExtendedType::STACK_TRACE64.0,
            ExtendedType::STACK_KEY32 => ExtendedType::STACK_KEY64.0,
            other => other.0,
        };
        let place = if item.ext_type.name().is_some() { usize::from(place) } else { 0 };
        if let Some(times) = seen.get_mut(place) {
            *times = times.saturating_add(1);
            put_item(out, &item, *times);
        }
    }
    if let Some(instance) = record.instance() {
        out.extend_from_slice(b"\"InstanceInfo\":");
        instance_info(out, instance);
        out.push(b',');
    }
    let mut counters = record.counters();
    if record.kind().has_hook_id() && counters.len() > 0 {
        out.extend_from_slice(b"\"PmcCounters\":");
        numbers(out, &mut counters);
        out.push(b',');
    }
    if let Some(sequence) = record.message_sequence() {
        out.extend_from_slice(b"\"MessageSequence\":");
        put::unsigned32(out, sequence);
        out.push(b',');
    }
    if let Some(component) = record.message_component_id() {
        out.extend_from_slice(b"\"MessageComponentID\":");
        put::unsigned32(out, component);
        out.push(b',');
    }
    if out.len() == start {
        out.truncate(before);
    } else {
        out.pop();
        out.push(b'}');
    }
}

/// Writes one item and a comma, or nothing for provider traits without a group.
fn put_item(out: &mut Vec<u8>, item: &ExtendedItem<'_>, nth: u16) {
    let data = item.data;
    let name = match item.ext_type {
        ExtendedType::PROVIDER_TRAITS => "ProviderGroup",
        other => other.name().unwrap_or("Type"),
    };
    let before = out.len();
    key(out, name, nth, item.ext_type);
    let known = match item.ext_type {
        ExtendedType::PROVIDER_TRAITS => {
            match provider_group(data) {
                Some(group) => quoted_guid(out, group),
                None => return out.truncate(before),
            }
            Some(())
        }
        ExtendedType::SID => Sid::parse(data).map(|sid| {
            // Writing to a vector cannot fail.
            let _ = write!(out, "\"{sid}\"");
        }),
        ExtendedType::TERMINAL_SESSION_ID => data.u32_at(0).map(|id| put::unsigned32(out, id)),
        ExtendedType::INSTANCE_INFO => instance_of(data).map(|instance| instance_info(out, instance)),
        ExtendedType::STACK_TRACE32 | ExtendedType::STACK_TRACE64 => item.stack_trace().map(|stack| {
            out.push(b'[');
            for (index, address) in stack.addresses().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                quoted_hex(out, address);
            }
            out.push(b']');
            if stack.match_id != 0 {
                out.push(b',');
                key(out, "StackMatchID", nth, item.ext_type);
                put::unsigned(out, stack.match_id);
            }
        }),
        ExtendedType::PEBS_INDEX | ExtendedType::EVENT_KEY | ExtendedType::PROCESS_START_KEY => {
            data.u64_at(0).map(|key| put::unsigned(out, key))
        }
        ExtendedType::QPC_DELTA => data.i64_at(0).map(|delta| put::signed(out, delta)),
        ExtendedType::PMC_COUNTERS => {
            numbers(out, &mut data.chunks_exact(8).map(|chunk| chunk.u64_at(0).unwrap_or(0)));
            Some(())
        }
        ExtendedType::CONTROL_GUID | ExtendedType::CONTAINER_ID => {
            data.guid_at(0).map(|guid| quoted_guid(out, guid))
        }
        ExtendedType::STACK_KEY32 => stack_key(out, data, PointerSize::Four),
        ExtendedType::STACK_KEY64 => stack_key(out, data, PointerSize::Eight),
        _ => None,
    };
    if known.is_none() {
        out.push(b'"');
        put::hex_bytes(out, data);
        out.push(b'"');
    }
    out.push(b',');
}

/// Writes `"Name":`. Repeated names get a number, and a kind without a name gets its own number.
fn key(out: &mut Vec<u8>, name: &str, nth: u16, ext_type: ExtendedType) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    if ext_type.name().is_none() {
        put::hex(out, ext_type.0.into());
    }
    if nth > 1 {
        out.push(b'_');
        put::unsigned32(out, nth.into());
    }
    out.extend_from_slice(b"\":");
}

/// Returns the provider group in provider traits: `u16` total size, the name with its NUL, then traits of `u16` size,
/// `u8` kind (1: group GUID) and data.
fn provider_group(traits: &[u8]) -> Option<Guid> {
    let name = traits.get(2..)?;
    let mut rest = name.get(name.iter().position(|byte| *byte == 0)? + 1..)?;
    while let (Some(size), Some(kind)) = (rest.u16_at(0), rest.u8_at(2)) {
        if kind == 1 {
            return rest.guid_at(3);
        }
        rest = rest.get(usize::from(size).max(3)..)?;
    }
    None
}

fn instance_of(data: &[u8]) -> Option<Instance> {
    Some(Instance { id: data.u32_at(0)?, parent_id: data.u32_at(4)?, parent_guid: data.guid_at(8)? })
}

fn instance_info(out: &mut Vec<u8>, instance: Instance) {
    out.extend_from_slice(b"{\"InstanceID\":");
    put::unsigned32(out, instance.id);
    out.extend_from_slice(b",\"ParentInstanceID\":");
    put::unsigned32(out, instance.parent_id);
    out.extend_from_slice(b",\"ParentGuid\":");
    quoted_guid(out, instance.parent_guid);
    out.push(b'}');
}

fn stack_key(out: &mut Vec<u8>, data: &[u8], size: PointerSize) -> Option<()> {
    let (match_id, key) = (data.u64_at(0)?, size.read(data, 8)?);
    out.extend_from_slice(b"{\"MatchID\":");
    put::unsigned(out, match_id);
    out.extend_from_slice(b",\"Key\":");
    quoted_hex(out, key);
    out.push(b'}');
    Some(())
}

fn numbers(out: &mut Vec<u8>, numbers: &mut dyn Iterator<Item = u64>) {
    out.push(b'[');
    for (index, number) in numbers.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put::unsigned(out, number);
    }
    out.push(b']');
}

fn quoted_hex(out: &mut Vec<u8>, value: u64) {
    out.push(b'"');
    put::hex(out, value);
    out.push(b'"');
}

fn quoted_guid(out: &mut Vec<u8>, guid: Guid) {
    out.push(b'"');
    put::guid(out, guid);
    out.push(b'"');
}
