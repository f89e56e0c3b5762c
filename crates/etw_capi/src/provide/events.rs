//! `EventRegister`, `EventWrite` and their relatives (`evntprov.h`).

// UNSAFETY: reads what callers point to.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use etw_event::{EventDescriptor, ExtendedType, Guid, Keyword, Level, Opcode};
use etw_provider::{EventMetadata, Outcome, Payload, activity, metadata};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DATA_DESCRIPTOR, EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA,
    EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA, EVENT_DESCRIPTOR, EventProviderSetTraits,
    EventProviderUseDescriptorType, MAX_EVENT_DATA_DESCRIPTORS, PENABLECALLBACK,
};
use windows_sys::core::GUID;

use super::pieces::{Mixed, Plain, bytes_at, is_converted, type_of};
use super::registration::{self, Callback, Registration, find};
use crate::error::{
    ERROR_ARITHMETIC_OVERFLOW, ERROR_INVALID_DATA, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER,
    ERROR_MORE_DATA, ERROR_NOT_ENOUGH_MEMORY, ERROR_NOT_SUPPORTED, ERROR_SUCCESS,
};
use crate::guid;
use crate::wide::Width;

/// The largest payload of an event, with its header.
const MAX_EVENT_BYTES: usize = etw_provider::MAX_RECORD_BYTES - 80;

/// Registers a provider. The callback runs when sessions enable or disable it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventRegister(
    provider: *const GUID,
    callback: PENABLECALLBACK,
    context: *mut c_void,
    handle: *mut u64,
) -> u32 {
    // SAFETY: the pointer is null or to a GUID.
    let Some(id) = (unsafe { guid::read(provider) }) else { return ERROR_INVALID_PARAMETER };
    if handle.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the pointer is to a REGHANDLE.
    let store = |value, _| unsafe { handle.write_unaligned(value) };
    match registration::register("", id, None, Callback::enable(callback, context), store) {
        Some(_) => ERROR_SUCCESS,
        None => ERROR_NOT_ENOUGH_MEMORY,
    }
}

/// Ends a registration. On return its callback does not run, unless it is what calls this.
#[unsafe(no_mangle)]
pub extern "C" fn EventUnregister(handle: u64) -> u32 {
    if registration::unregister(handle) { ERROR_SUCCESS } else { ERROR_INVALID_HANDLE }
}

/// Sets a provider's name and group (`EventProviderSetTraits`). Descriptor types are always used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventSetInformation(
    handle: u64,
    class: i32,
    information: *const c_void,
    size: u32,
) -> u32 {
    let Some(registration) = find(handle) else { return ERROR_INVALID_HANDLE };
    match class {
        EventProviderSetTraits => {
            // SAFETY: the caller promises `size` readable bytes.
            let traits = unsafe { bytes_at(information.addr() as u64, size as usize) };
            match parse_traits(traits) {
                Some((name, group)) => {
                    registration::set_traits(registration, name, group);
                    ERROR_SUCCESS
                }
                None => ERROR_INVALID_PARAMETER,
            }
        }
        EventProviderUseDescriptorType => ERROR_SUCCESS,
        _ => ERROR_NOT_SUPPORTED,
    }
}

/// Returns whether a session wants this event; only level and keywords are checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventEnabled(handle: u64, descriptor: *const EVENT_DESCRIPTOR) -> u8 {
    // SAFETY: the pointer is null or to a descriptor.
    let Some(descriptor) = (unsafe { read_descriptor(descriptor) }) else { return 0 };
    let provider = find(handle).and_then(Registration::provider);
    provider.is_some_and(|provider| provider.event_enabled(&descriptor)).into()
}

/// Returns whether a session wants events of a level (0: any) and keywords (0: any).
#[unsafe(no_mangle)]
pub extern "C" fn EventProviderEnabled(handle: u64, level: u8, keyword: u64) -> u8 {
    let provider = find(handle).and_then(Registration::provider);
    provider.is_some_and(|provider| provider.provider_enabled(Level(level), Keyword(keyword))).into()
}

/// Writes an event of the thread's activity.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWrite(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    // SAFETY: the caller's promises are those of this function.
    unsafe { write(handle, descriptor, ptr::null(), ptr::null(), count, data) }
}

/// Writes an event of an activity (null: the thread's), which another one caused (null: none).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteTransfer(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    activity: *const GUID,
    related: *const GUID,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    // SAFETY: the caller's promises are those of this function.
    unsafe { write(handle, descriptor, activity, related, count, data) }
}

/// Writes an event as [`EventWriteTransfer`]. `filter` must be 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteEx(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    filter: u64,
    _flags: u32,
    activity: *const GUID,
    related: *const GUID,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    if filter != 0 {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { write(handle, descriptor, activity, related, count, data) }
}

/// Writes a text as an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteString(handle: u64, level: u8, keyword: u64, text: *const u16) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { write_string(handle, level, keyword, Width::Wide16, text.cast()) }
}

/// [`EventWriteString`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteString32(handle: u64, level: u8, keyword: u64, text: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { write_string(handle, level, keyword, Width::Wide32, text.cast()) }
}

/// Returns, sets or creates the activity of this thread (`EVENT_ACTIVITY_CTRL_*`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventActivityIdControl(code: u32, id: *mut GUID) -> u32 {
    // SAFETY: the pointer is null or to a GUID.
    let Some(given) = (unsafe { guid::read(id) }) else { return ERROR_INVALID_PARAMETER };
    let returned = match code {
        1 => activity::current(),
        2 => {
            activity::set_current(given);
            return ERROR_SUCCESS;
        }
        3 => activity::create(),
        4 => activity::set_current(given),
        5 => activity::set_current(activity::create()),
        _ => return ERROR_INVALID_PARAMETER,
    };
    // SAFETY: the pointer is to a GUID.
    unsafe { id.write_unaligned(guid::windows_guid(returned)) };
    ERROR_SUCCESS
}

/// # Safety
///
/// `text` is null, or has characters of this width up to a zero.
unsafe fn write_string(handle: u64, level: u8, keyword: u64, width: Width, text: *const c_void) -> u32 {
    let Some(provider) = find(handle).and_then(Registration::provider) else { return ERROR_INVALID_HANDLE };
    if text.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    if !provider.provider_enabled(Level(level), Keyword(keyword)) {
        return ERROR_SUCCESS;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { width.read(text) }.unwrap_or_default();
    code_of(provider.write_string(Level(level), Keyword(keyword), &text), &text.as_str())
}

/// # Safety
///
/// The pointers are null or valid, and the descriptors name readable memory.
#[inline]
unsafe fn write(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    activity: *const GUID,
    related: *const GUID,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    let Some(provider) = find(handle).and_then(Registration::provider) else { return ERROR_INVALID_HANDLE };
    // SAFETY: the caller's promise.
    let Some(descriptor) = (unsafe { read_descriptor(descriptor) }) else { return ERROR_INVALID_PARAMETER };
    if count > MAX_EVENT_DATA_DESCRIPTORS || (data.is_null() && count != 0) {
        return ERROR_INVALID_PARAMETER;
    }
    if !provider.event_enabled(&descriptor) {
        return ERROR_SUCCESS;
    }
    let data = match count {
        0 => &[],
        // SAFETY: the caller promises `count` descriptors.
        _ => unsafe { std::slice::from_raw_parts(data, count as usize) },
    };
    if data.iter().any(|data| data.Ptr == 0 && data.Size != 0) {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the pointers are null or to GUIDs.
    let (activity, related) = unsafe { (guid::read(activity), guid::read(related)) };
    let ids = (activity, related);
    if data.iter().all(|data| type_of(data) == 0) {
        write_payload(provider, &descriptor, &ids, &Plain(data))
    } else if data.iter().all(|data| type_of(data) == 0 || is_converted(data)) {
        write_payload(provider, &descriptor, &ids, &Mixed(data))
    } else {
        write_described(provider, &descriptor, activity, related, data)
    }
}

#[inline]
fn write_payload(
    provider: &etw_provider::Provider,
    descriptor: &EventDescriptor,
    (activity, related): &(Option<Guid>, Option<Guid>),
    payload: &impl Payload,
) -> u32 {
    let outcome = match (activity, related) {
        (None, None) => provider.write(descriptor, payload),
        _ => provider.write_transfer(descriptor, activity.as_ref(), related.as_ref(), payload),
    };
    code_of(outcome, payload)
}

/// Writes an event that brings its own description, as implementations of TraceLogging in other languages do: the
/// first descriptors are the provider's and the event's metadata.
#[cold]
fn write_described(
    provider: &etw_provider::Provider,
    descriptor: &EventDescriptor,
    activity: Option<Guid>,
    related: Option<Guid>,
    data: &[EVENT_DATA_DESCRIPTOR],
) -> u32 {
    let first = data.iter().position(|data| type_of(data) == 0).unwrap_or(data.len());
    let (described, rest) = data.split_at(first);
    let of_kind = |kind| described.iter().find(|data| type_of(data) == kind);
    let known = |data| {
        matches!(
            type_of(data),
            EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA | EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA
        )
    };
    let Some(event) = of_kind(EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA) else {
        return ERROR_INVALID_PARAMETER;
    };
    if !described.iter().all(known) || rest.iter().any(|data| type_of(data) != 0) {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the program promises that a descriptor names readable memory.
    let bytes = unsafe { bytes_at(event.Ptr, event.Size as usize) };
    if bytes.len() < 4 || bytes.len() > MAX_EVENT_BYTES {
        return ERROR_INVALID_DATA;
    }
    let schema = metadata::item_of(ExtendedType::EVENT_SCHEMA_TL, bytes);
    let wanted = provider.wanted(descriptor.level, descriptor.keyword);
    if wanted == 0 {
        return ERROR_SUCCESS;
    }
    let event = EventMetadata::from_parts(*descriptor, "", &schema);
    let payload = Plain(rest);
    code_of(provider.write_event(wanted, &event, activity.as_ref(), related.as_ref(), &payload), &payload)
}

/// Returns the error code of an outcome.
pub(super) fn code_of(outcome: Outcome, payload: &impl Payload) -> u32 {
    match outcome {
        Outcome::NotEnabled | Outcome::Written => ERROR_SUCCESS,
        Outcome::Lost => ERROR_NOT_ENOUGH_MEMORY,
        Outcome::TooLarge if payload.len_bytes() > MAX_EVENT_BYTES => ERROR_ARITHMETIC_OVERFLOW,
        Outcome::TooLarge => ERROR_MORE_DATA,
    }
}

/// # Safety
///
/// The pointer is null or to a descriptor.
#[inline]
unsafe fn read_descriptor(descriptor: *const EVENT_DESCRIPTOR) -> Option<EventDescriptor> {
    if descriptor.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(from_descriptor(&unsafe { descriptor.read_unaligned() }))
}

/// Returns one of our descriptors.
pub(crate) fn from_descriptor(descriptor: &EVENT_DESCRIPTOR) -> EventDescriptor {
    EventDescriptor {
        id: descriptor.Id,
        version: descriptor.Version,
        channel: descriptor.Channel,
        level: Level(descriptor.Level),
        opcode: Opcode(descriptor.Opcode),
        task: descriptor.Task,
        keyword: Keyword(descriptor.Keyword),
    }
}

/// Returns name and group of a provider's traits: size, name, and traits of size, type and data.
fn parse_traits(traits: &[u8]) -> Option<(&str, Option<Guid>)> {
    let (size, rest) = traits.split_first_chunk::<2>()?;
    let rest = rest.get(..usize::from(u16::from_le_bytes(*size)).checked_sub(2)?)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(rest.get(..end)?).ok()?;
    let (mut rest, mut group) = (rest.get(end + 1..)?, None);
    while let Some((size, _)) = rest.split_first_chunk::<2>() {
        let (one, behind) = rest.split_at_checked(usize::from(u16::from_le_bytes(*size)))?;
        let [_, _, kind, data @ ..] = one else { return None };
        if *kind == 1 {
            group = Some(Guid::from_bytes(*data.first_chunk::<16>()?));
        }
        rest = behind;
    }
    Some((name, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_are_read_within_their_size() {
        let group = Guid::from_bytes([7; 16]);
        for (name, group) in [("", None), ("A", None), ("Name", Some(group))] {
            let mut bytes = vec![0; metadata::traits_len(name, group)];
            metadata::put_traits(&mut bytes, name, group);
            assert_eq!(parse_traits(&bytes), Some((name, group)));
            for len in 0..bytes.len() {
                assert_eq!(parse_traits(&bytes[..len]), None);
            }
        }
        assert_eq!(parse_traits(&[1, 0, 0]), None);
        assert_eq!(parse_traits(&[6, 0, 0, 1, 0, 0]), None);
    }

    #[test]
    fn wrong_handles_are_refused() {
        for handle in [0, 1, u64::MAX, 1 << 32, (1 << 32) | 0xFFFF] {
            assert_eq!(EventUnregister(handle), ERROR_INVALID_HANDLE);
            assert_eq!(EventProviderEnabled(handle, 0, 0), 0);
            let descriptor = EVENT_DESCRIPTOR::default();
            // SAFETY: no data.
            assert_eq!(unsafe { EventWrite(handle, &descriptor, 0, ptr::null()) }, ERROR_INVALID_HANDLE);
        }
        let mut handle = 0;
        // SAFETY: the pointers are null or valid.
        unsafe {
            assert_eq!(
                EventRegister(ptr::null(), None, ptr::null_mut(), &mut handle),
                ERROR_INVALID_PARAMETER
            );
            let id = guid::windows_guid(Guid::from_bytes([5; 16]));
            assert_eq!(EventRegister(&id, None, ptr::null_mut(), ptr::null_mut()), ERROR_INVALID_PARAMETER);
            assert_eq!(EventRegister(&id, None, ptr::null_mut(), &mut handle), ERROR_SUCCESS);
            assert_eq!(EventWrite(handle, ptr::null(), 0, ptr::null()), ERROR_INVALID_PARAMETER);
        }
        assert_eq!(EventUnregister(handle), ERROR_SUCCESS);
        assert_eq!(EventUnregister(handle), ERROR_INVALID_HANDLE);
    }
}
