//! What the macros of `TraceLoggingProvider.h` call.

// UNSAFETY: uses the structures that the macros define.
#![expect(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicU32;

use etw_event::{Guid, Keyword, Level};
use etw_provider::{EventMetadata, Payload, Provider};
use windows_sys::Win32::System::Diagnostics::Etw::PENABLECALLBACK;
use windows_sys::core::GUID;

use super::events::code_of;
use super::pieces::{Piece, Pieces, Words};
use super::registration::{self, Callback};
use crate::error::{ERROR_NOT_SUPPORTED, ERROR_SUCCESS};
use crate::guid;
use crate::wide::Width;

/// A provider of TraceLogging (`_tlgProvider_t`).
#[repr(C)]
#[allow(missing_debug_implementations, reason = "GUID has none")]
pub struct TraceLoggingProvider {
    /// The copy of the provider's gate, which macros test.
    gate: AtomicU32,
    reserved: u32,
    handle: u64,
    provider: *const Provider,
    /// Size, name and traits, which are constant.
    metadata: *const u16,
    guid: GUID,
}

/// The constant part of an event (`openetw_tl_event`); its extended item follows.
#[repr(C)]
#[derive(Debug)]
pub struct TraceLoggingEvent {
    /// As records store it.
    descriptor: u64,
    keyword: u64,
}

/// Registers a provider; returns an `HRESULT`. A provider that is registered already is registered anew.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_tl_register(
    provider: *mut TraceLoggingProvider,
    callback: PENABLECALLBACK,
    context: *mut c_void,
) -> i32 {
    if provider.is_null() {
        return E_INVALIDARG;
    }
    // SAFETY: the pointer is to a provider that the macros define.
    unsafe {
        openetw_tl_unregister(provider);
        let (name, group) = (name_of(provider), group_of(provider));
        let id = id_of(provider);
        // The provider is static, or its owner unregisters it before it goes.
        let gate: &'static AtomicU32 = &(*provider).gate;
        let callback = Callback::enable(callback, context);
        let registered = registration::register(&name, id, group, callback, |handle, own| {
            (*provider).handle = handle;
            (*provider).provider = own;
            own.mirror_gate(Some(gate));
        });
        if registered.is_none() {
            return E_OUTOFMEMORY;
        }
    }
    0
}

/// Unregisters a provider; does nothing if it is not registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_tl_unregister(provider: *mut TraceLoggingProvider) {
    if provider.is_null() {
        return;
    }
    // SAFETY: the pointer is to a provider that the macros define.
    unsafe {
        let handle = std::mem::take(&mut (*provider).handle);
        if handle != 0 {
            registration::unregister(handle);
            (*provider).gate.store(0, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Fails, since what could be set is set by the macros; returns an `HRESULT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_tl_set_information(
    provider: *mut TraceLoggingProvider,
    _class: i32,
    _information: *const c_void,
    _size: u32,
) -> i32 {
    if provider.is_null() { E_INVALIDARG } else { 0x8007_0000_u32 as i32 | ERROR_NOT_SUPPORTED as i32 }
}

/// Writes a provider's GUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_tl_provider_id(provider: *const TraceLoggingProvider, id: *mut GUID) {
    if !provider.is_null() && !id.is_null() {
        // SAFETY: the pointers are to a provider that the macros define, and to a GUID.
        unsafe { id.write_unaligned(guid::windows_guid(id_of(provider))) };
    }
}

/// Returns whether a session wants events of a level (0: any) and keywords (0: any).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_tl_enabled(
    provider: *const TraceLoggingProvider,
    level: u8,
    keyword: u64,
) -> u8 {
    // SAFETY: the pointer is null or to a provider that the macros define; what it has is never freed.
    let own = unsafe { provider.as_ref().and_then(|provider| provider.provider.as_ref()) };
    own.is_some_and(|own| own.provider_enabled(Level(level), Keyword(keyword))).into()
}

/// Writes an event to the sessions that want it; returns an error code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_tl_write(
    provider: *const TraceLoggingProvider,
    event: *const TraceLoggingEvent,
    activity: *const GUID,
    related: *const GUID,
    count: u32,
    data: *const Piece,
) -> u32 {
    // SAFETY: the macros make as many pieces as they say, and the caller's promises.
    unsafe {
        let pieces = std::slice::from_raw_parts(data, count as usize);
        write(provider, event, activity, related, Pieces(pieces))
    }
}

/// [`openetw_tl_write`] with a payload of `size` bytes, the last word filled with zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_tl_write_words(
    provider: *const TraceLoggingProvider,
    event: *const TraceLoggingEvent,
    activity: *const GUID,
    related: *const GUID,
    size: u32,
    words: *const u64,
) -> u32 {
    // SAFETY: the macros make as many words as `size` bytes take, and the caller's promises.
    unsafe {
        let words = std::slice::from_raw_parts(words, size.div_ceil(8) as usize);
        write(provider, event, activity, related, Words { words, size: size as usize })
    }
}

/// # Safety
///
/// The pointers are to a provider and an event that the macros define, and to GUIDs or null.
#[inline(always)]
unsafe fn write<P: Payload + Copy>(
    provider: *const TraceLoggingProvider,
    event: *const TraceLoggingEvent,
    activity: *const GUID,
    related: *const GUID,
    payload: P,
) -> u32 {
    // SAFETY: the pointers are to a provider and an event that the macros define; what they have is never freed.
    let (own, words) = unsafe {
        let Some(own) = (*provider).provider.as_ref() else { return ERROR_SUCCESS };
        (own, [(*event).descriptor, (*event).keyword])
    };
    let [descriptor, keyword] = words;
    let wanted = own.wanted(Level((descriptor >> 32) as u8), Keyword(keyword));
    if wanted == 0 {
        return ERROR_SUCCESS;
    }
    // SAFETY: the macros define the event.
    let schema = unsafe { schema_of(event) };
    let is_plain = activity.is_null() && related.is_null();
    if is_plain && own.try_write_event(wanted, words, schema, payload) {
        return ERROR_SUCCESS;
    }
    // SAFETY: the caller's promise.
    unsafe { write_anyhow(own, wanted, event, activity, related, payload) }
}

/// Returns the extended item of an event.
///
/// # Safety
///
/// The event is one that the macros define; it is never freed.
#[inline(always)]
unsafe fn schema_of<'e>(event: *const TraceLoggingEvent) -> &'e [u64] {
    // SAFETY: the item follows the event. Its first two bytes are its size: a multiple of 8, at an address that is one.
    unsafe {
        let item = event.add(1).cast::<u64>();
        std::slice::from_raw_parts(item, usize::from(item.cast::<u16>().read()) / 8)
    }
}

/// Writes an event in all other cases.
///
/// # Safety
///
/// As of `write`.
#[cold]
#[inline(never)]
unsafe fn write_anyhow<P: Payload>(
    own: &Provider,
    wanted: u32,
    event: *const TraceLoggingEvent,
    activity: *const GUID,
    related: *const GUID,
    payload: P,
) -> u32 {
    // SAFETY: the caller's promises.
    let (words, schema, activity, related) = unsafe {
        ([(*event).descriptor, (*event).keyword], schema_of(event), guid::read(activity), guid::read(related))
    };
    let metadata = EventMetadata::from_words(words, schema);
    code_of(own.write_event(wanted, &metadata, activity.as_ref(), related.as_ref(), &payload), &payload)
}

/// # Safety
///
/// The pointer is to a provider that the macros define.
unsafe fn id_of(provider: *const TraceLoggingProvider) -> Guid {
    // SAFETY: the caller's promise.
    unsafe {
        let id = guid::from(&(*provider).guid);
        if !id.is_zero() {
            return id;
        }
        Guid::from_provider_name(&name_of(provider))
    }
}

/// # Safety
///
/// The pointer is to a provider that the macros define.
unsafe fn name_of(provider: *const TraceLoggingProvider) -> String {
    // SAFETY: the name follows the size, and ends with a zero.
    unsafe { Width::Narrow.read((*provider).metadata.add(1).cast()).unwrap_or_default() }
}

/// Returns the group, which is the only trait.
///
/// # Safety
///
/// The pointer is to a provider that the macros define.
unsafe fn group_of(provider: *const TraceLoggingProvider) -> Option<Guid> {
    // SAFETY: the metadata has as many bytes as it says; a group is at its end.
    unsafe {
        let metadata = (*provider).metadata;
        let size = usize::from(metadata.read());
        let named = size_of::<u16>() + CStr::from_ptr(metadata.add(1).cast()).count_bytes() + 1;
        (size == named + GROUP_BYTES).then(|| {
            let group = metadata.byte_add(size - size_of::<GUID>()).cast::<GUID>();
            guid::from(&group.read_unaligned())
        })
    }
}

/// Bytes of the trait of a group: a size, a type, and the GUID.
const GROUP_BYTES: usize = 2 + 1 + size_of::<GUID>();

const E_INVALIDARG: i32 = 0x8007_0057_u32 as i32;
const E_OUTOFMEMORY: i32 = 0x8007_000E_u32 as i32;
