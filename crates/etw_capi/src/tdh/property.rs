//! The values of properties (`TdhGetProperty`).

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use etw_schema::{Count, Event, PropertyValue, Value};
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_RECORD, PROPERTY_DATA_DESCRIPTOR, TDH_CONTEXT};

use super::decoding::named_formats;
use super::event::{decode, text_at};
use super::wpp::{is_message, part_of_event, part_of_record};
use crate::error::{ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND, ERROR_SUCCESS};
use crate::wide::{Width, character};

/// Deepest path to a member.
const MAX_DEPTH: u32 = 32;

/// Writes the size of what [`TdhGetProperty`] writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetPropertySize(
    event: *const EVENT_RECORD,
    contexts: u32,
    context: *const TDH_CONTEXT,
    count: u32,
    path: *const PROPERTY_DATA_DESCRIPTOR,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { property_size(event, (contexts, context), (count, path), size, Width::Wide16) }
}

/// [`TdhGetPropertySize`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetPropertySize32(
    event: *const EVENT_RECORD,
    contexts: u32,
    context: *const TDH_CONTEXT,
    count: u32,
    path: *const PROPERTY_DATA_DESCRIPTOR,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { property_size(event, (contexts, context), (count, path), size, Width::Wide32) }
}

/// Writes the value of a property; texts have a zero at their end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetProperty(
    event: *const EVENT_RECORD,
    contexts: u32,
    context: *const TDH_CONTEXT,
    count: u32,
    path: *const PROPERTY_DATA_DESCRIPTOR,
    size: u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { property(event, (contexts, context), (count, path), size, buffer, Width::Wide16) }
}

/// [`TdhGetProperty`] with texts in characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetProperty32(
    event: *const EVENT_RECORD,
    contexts: u32,
    context: *const TDH_CONTEXT,
    count: u32,
    path: *const PROPERTY_DATA_DESCRIPTOR,
    size: u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { property(event, (contexts, context), (count, path), size, buffer, Width::Wide32) }
}

/// # Safety
///
/// The pointers are null or valid.
unsafe fn property_size(
    event: *const EVENT_RECORD,
    contexts: (u32, *const TDH_CONTEXT),
    path: (u32, *const PROPERTY_DATA_DESCRIPTOR),
    size: *mut u32,
    width: Width,
) -> u32 {
    if size.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller's promise.
    match unsafe { value(event, contexts, path, width) } {
        Ok(bytes) => {
            // SAFETY: the caller's promise.
            unsafe { size.write_unaligned(bytes.len() as u32) };
            ERROR_SUCCESS
        }
        Err(code) => code,
    }
}

/// # Safety
///
/// The pointers are null or valid; the buffer has `size` bytes.
unsafe fn property(
    event: *const EVENT_RECORD,
    contexts: (u32, *const TDH_CONTEXT),
    path: (u32, *const PROPERTY_DATA_DESCRIPTOR),
    size: u32,
    buffer: *mut u8,
    width: Width,
) -> u32 {
    if buffer.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller's promise.
    match unsafe { value(event, contexts, path, width) } {
        Ok(bytes) if bytes.len() > size as usize => ERROR_INSUFFICIENT_BUFFER,
        Ok(bytes) => {
            // SAFETY: the buffer has `size` bytes.
            unsafe { buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            ERROR_SUCCESS
        }
        Err(code) => code,
    }
}

/// # Safety
///
/// The pointers are null or valid.
unsafe fn value(
    event: *const EVENT_RECORD,
    (contexts, context): (u32, *const TDH_CONTEXT),
    (count, path): (u32, *const PROPERTY_DATA_DESCRIPTOR),
    width: Width,
) -> Result<Vec<u8>, u32> {
    if path.is_null() || count == 0 || count > MAX_DEPTH {
        return Err(ERROR_INVALID_PARAMETER);
    }
    let mut steps = Vec::new();
    for index in 0..count as usize {
        // SAFETY: the caller promises `count` descriptors, whose names are texts of this width.
        let (name, index) = unsafe {
            let step = path.add(index).read_unaligned();
            (text_at(step.PropertyName, width), step.ArrayIndex)
        };
        steps.push((name.ok_or(ERROR_INVALID_PARAMETER)?, (index != u32::MAX).then_some(index as usize)));
    }
    // SAFETY: the caller's promise.
    let (formats, record) =
        unsafe { (named_formats(contexts, context, width)?, event.as_ref().ok_or(ERROR_INVALID_PARAMETER)?) };
    let message_part = match &*steps {
        [(name, _)] if is_message(record) => Some(name),
        _ => None,
    };
    if let Some(part) = message_part.and_then(|name| part_of_record(record, name)) {
        return Ok(part);
    }
    let found = |event: &Event<'_>| match message_part.and_then(|name| part_of_event(event, name, width)) {
        Some(part) => Ok(part),
        None => find(event, &steps, width),
    };
    // SAFETY: the caller's promise.
    unsafe { decode(event, &formats, found) }?
}

/// Returns the bytes of the value that a path of names and array indexes leads to.
fn find(event: &Event<'_>, steps: &[(String, Option<usize>)], width: Width) -> Result<Vec<u8>, u32> {
    let properties = event.properties.as_ref().map_err(|_| ERROR_NOT_FOUND)?;
    let Some(((name, index), rest)) = steps.split_first() else { return Err(ERROR_INVALID_PARAMETER) };
    if let Some(number) = number_of_elements(name, |array| properties.find(array)) {
        return Ok(number);
    }
    let mut found = properties.find(name).ok_or(ERROR_NOT_FOUND)?;
    let mut index = *index;
    for (name, next) in rest {
        let members = match (found.stored_value(), index) {
            (Value::Struct(members), _) => members,
            (Value::Array(array), index) => match array.get(index.unwrap_or(0)) {
                Some(Value::Struct(members)) => members,
                _ => return Err(ERROR_INVALID_PARAMETER),
            },
            _ => return Err(ERROR_INVALID_PARAMETER),
        };
        if let Some(number) = number_of_elements(name, |array| members.find(array)) {
            return Ok(number);
        }
        found = members.find(name).ok_or(ERROR_NOT_FOUND)?;
        index = *next;
    }
    let payload = properties.payload();
    let (mut bytes, mut position) = (Vec::new(), 0);
    // An index into an array of structures without a member means the whole structure.
    let is_of_structs = matches!((found.stored_value(), index), (Value::Array(array), Some(at)) if matches!(array.get(at), Some(Value::Struct(_))));
    if is_of_structs {
        return Err(ERROR_INVALID_PARAMETER);
    }
    let is_array = matches!(found.stored_value(), Value::Array(_));
    found.for_each_plain(&mut |range, value| {
        if !is_array || index.is_none_or(|index| index == position) {
            append(&mut bytes, payload.get(range).unwrap_or_default(), &value, width);
        }
        position += 1;
    });
    if is_array && index.is_some_and(|index| index >= position) {
        return Err(ERROR_INVALID_PARAMETER);
    }
    Ok(bytes)
}

/// Returns the value of `NAME.Count`, the property that TDH has before an array with a number of elements.
fn number_of_elements<'a>(name: &str, find: impl Fn(&str) -> Option<PropertyValue<'a>>) -> Option<Vec<u8>> {
    let found = find(name.strip_suffix(".Count")?)?;
    match (found.property().count, found.stored_value()) {
        (Count::Prefixed, Value::Array(array)) => Some((array.len() as u16).to_le_bytes().to_vec()),
        _ => None,
    }
}

/// Appends a scalar: the bytes of the payload, and texts with their zero.
fn append(out: &mut Vec<u8>, stored: &[u8], value: &Value<'_>, width: Width) {
    match value {
        Value::Utf16(text) if width == Width::Wide32 => {
            let units = text.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
            let characters = char::decode_utf16(units)
                .map(|unit| unit.unwrap_or_else(|error| character(error.unpaired_surrogate().into())));
            out.extend(characters.map(u32::from).chain([0]).flat_map(u32::to_le_bytes));
        }
        Value::Utf16(text) => {
            out.extend(*text);
            out.extend([0, 0]);
        }
        Value::Ansi(text) => {
            out.extend(*text);
            out.push(0);
        }
        _ => out.extend(stored),
    }
}
