//! Values as text (`TdhFormatProperty`).

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use etw_event::{Clock, EventDescriptor, Guid, Origin, Record, Ticks};
use etw_schema::{
    CompiledSchema, Count, Decoding, EventSchema, InType, Length, Located, OutType, Property, PropertyType,
    ProviderInfo, ValueMap,
};
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_MAP_INFO, TRACE_EVENT_INFO};

use super::map;
use super::out::copy;
use crate::error::{ERROR_EVT_INVALID_EVENT_DATA, ERROR_INVALID_PARAMETER};
use crate::wide::Width;

/// Types with a schema that is kept.
const MAX_KEPT: usize = 256;

thread_local! {
    /// The schemas of single values, by in-type, out-type and length.
    static KEPT: RefCell<HashMap<(u16, u16, u16), Arc<CompiledSchema>>> = RefCell::default();
}

/// Writes the text of one value at the start of `data`, and the number of its bytes to `consumed`. The buffer's size is in
/// bytes. Structures are formatted member by member.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhFormatProperty(
    _event: *const TRACE_EVENT_INFO,
    map: *const EVENT_MAP_INFO,
    pointer_size: u32,
    in_type: u16,
    out_type: u16,
    length: u16,
    data_size: u16,
    data: *const u8,
    size: *mut u32,
    buffer: *mut u16,
    consumed: *mut u16,
) -> u32 {
    let value = Value { pointer_size, in_type, out_type, length };
    // SAFETY: the caller's promise.
    unsafe { format(&value, map, data_size, data, size, buffer.cast(), consumed, Width::Wide16) }
}

/// [`TdhFormatProperty`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhFormatProperty32(
    _event: *const TRACE_EVENT_INFO,
    map: *const EVENT_MAP_INFO,
    pointer_size: u32,
    in_type: u16,
    out_type: u16,
    length: u16,
    data_size: u16,
    data: *const u8,
    size: *mut u32,
    buffer: *mut u32,
    consumed: *mut u16,
) -> u32 {
    let value = Value { pointer_size, in_type, out_type, length };
    // SAFETY: the caller's promise.
    unsafe { format(&value, map, data_size, data, size, buffer.cast(), consumed, Width::Wide32) }
}

struct Value {
    pointer_size: u32,
    in_type: u16,
    out_type: u16,
    length: u16,
}

/// # Safety
///
/// The pointers are null or valid, and the sizes those of what they point to.
#[expect(clippy::too_many_arguments, reason = "they are those of TdhFormatProperty")]
unsafe fn format(
    value: &Value,
    map: *const EVENT_MAP_INFO,
    data_size: u16,
    data: *const u8,
    size: *mut u32,
    buffer: *mut u8,
    consumed: *mut u16,
    width: Width,
) -> u32 {
    if size.is_null() || (data.is_null() && data_size != 0) || !matches!(value.pointer_size, 4 | 8) {
        return ERROR_INVALID_PARAMETER;
    }
    let data = match data_size {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(data, data_size.into()) },
    };
    // SAFETY: the caller's promise.
    let map = unsafe { map::read(map, width) };
    let Some((text, len)) = text_of(value, map, data) else { return ERROR_EVT_INVALID_EVENT_DATA };
    if !consumed.is_null() {
        // SAFETY: the caller's promise.
        unsafe { consumed.write_unaligned(len as u16) };
    }
    // SAFETY: the caller's promise.
    unsafe { copy(&width.encode(&text), buffer, size) }
}

/// Returns the text of a value, and the bytes that it takes.
fn text_of(value: &Value, map: Option<Arc<ValueMap>>, data: &[u8]) -> Option<(String, usize)> {
    let schema = match map {
        Some(map) => schema_of(value, Some(map)),
        None => KEPT.with_borrow_mut(|kept| {
            let key = (value.in_type, value.out_type, value.length);
            if kept.len() >= MAX_KEPT && !kept.contains_key(&key) {
                kept.clear();
            }
            kept.entry(key).or_insert_with(|| schema_of(value, None)).clone()
        }),
    };
    let mut bytes = vec![0; 80];
    bytes.extend(data);
    let kind = if value.pointer_size == 4 { 0x12 } else { 0x13 };
    let [low, high] = u16::try_from(bytes.len()).ok()?.to_le_bytes();
    bytes.get_mut(..4)?.copy_from_slice(&[low, high, kind, 0xC0]);
    let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
    let record = Record::parse(&bytes, &origin, Ticks(0)).ok()?;
    let mut located = Located::new();
    let properties = schema.locate(&record, &mut located);
    let text = properties.iter().next()?.text().to_string();
    Some((text, located.consumed_bytes()))
}

/// Returns the schema of an event that is this value.
fn schema_of(value: &Value, map: Option<Arc<ValueMap>>) -> Arc<CompiledSchema> {
    let info = Arc::new(ProviderInfo::new(Guid::ZERO, "", Decoding::Manifest, "TdhFormatProperty"));
    let mut schema = EventSchema::new(info, EventDescriptor::default());
    let in_type = InType(value.in_type);
    let has_length = matches!(in_type, InType::UNICODE_STRING | InType::ANSI_STRING | InType::BINARY);
    schema.properties.push(Property {
        name: "value".into(),
        kind: PropertyType::Value { in_type, out_type: OutType(value.out_type), map },
        length: if has_length && value.length != 0 { Length::Fixed(value.length) } else { Length::Natural },
        count: Count::One,
        tags: 0,
    });
    schema.top_level = 1;
    CompiledSchema::new(Arc::new(schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_text() {
        let check =
            |in_type: InType, out_type: OutType, length, data: &[u8], expected: Option<(&str, usize)>| {
                let value = Value { pointer_size: 8, in_type: in_type.0, out_type: out_type.0, length };
                let found = text_of(&value, None, data);
                assert_eq!(found, expected.map(|(text, len)| (text.to_owned(), len)), "{in_type:?}");
            };
        check(InType::UINT32, OutType::UNSIGNED_INT, 4, &[7, 0, 0, 0, 9], Some(("7", 4)));
        check(InType::UINT32, OutType::UNSIGNED_INT, 4, &[7, 0], None);
        check(InType::UNICODE_STRING, OutType::STRING, 0, b"a\0b\0\0\0rest", Some(("ab", 6)));
        check(InType::ANSI_STRING, OutType::STRING, 3, b"abcdef", Some(("abc", 3)));
        check(InType::POINTER, OutType::HEX_INT64, 8, &[1, 0, 0, 0, 0, 0, 0, 0], Some(("0x1", 8)));
        check(InType(999), OutType::NULL, 0, &[1], None);
        let entries = vec![MapEntry { value: 2, text: "two".into() }];
        let map = ValueMap { name: "m".into(), kind: etw_schema::MapKind::Value, entries };
        let value = Value { pointer_size: 8, in_type: 8, out_type: 8, length: 4 };
        let found = text_of(&value, Some(Arc::new(map)), &[2, 0, 0, 0]);
        assert_eq!(found, Some(("two".to_owned(), 4)));
    }

    use etw_schema::MapEntry;
}
