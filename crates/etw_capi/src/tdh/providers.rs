//! The known providers, and the names that they define.

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::collections::BTreeMap;

use etw_event::Guid;
use etw_schema::{Decoding, ProviderInfo, builtin};
use windows_sys::Win32::System::Diagnostics::Etw::{
    DecodingSourceWbem, DecodingSourceXMLFile, PROVIDER_ENUMERATION_INFO, PROVIDER_FIELD_INFOARRAY,
};
use windows_sys::core::GUID;

use super::out::{Blob, copy};
use crate::error::{ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND, ERROR_NOT_SUPPORTED};
use crate::guid;
use crate::schemas::state;
use crate::wide::Width;

/// Writes all known providers, sorted by name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviders(
    buffer: *mut PROVIDER_ENUMERATION_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { copy(&all(Width::Wide16, None), buffer.cast(), size) }
}

/// [`TdhEnumerateProviders`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviders32(
    buffer: *mut PROVIDER_ENUMERATION_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { copy(&all(Width::Wide32, None), buffer.cast(), size) }
}

/// Writes the known providers of one kind of description (`DecodingSourceXMLFile`, `DecodingSourceWbem`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProvidersForDecodingSource(
    kind: i32,
    buffer: *mut PROVIDER_ENUMERATION_INFO,
    size: u32,
    needed: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { of_source(kind, buffer, size, needed, Width::Wide16) }
}

/// [`TdhEnumerateProvidersForDecodingSource`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProvidersForDecodingSource32(
    kind: i32,
    buffer: *mut PROVIDER_ENUMERATION_INFO,
    size: u32,
    needed: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { of_source(kind, buffer, size, needed, Width::Wide32) }
}

/// # Safety
///
/// The pointers are null or valid.
unsafe fn of_source(
    kind: i32,
    buffer: *mut PROVIDER_ENUMERATION_INFO,
    size: u32,
    needed: *mut u32,
    width: Width,
) -> u32 {
    if needed.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let kind = match kind {
        DecodingSourceXMLFile => 0,
        DecodingSourceWbem => 1,
        _ => return ERROR_NOT_SUPPORTED,
    };
    // SAFETY: the caller's promise.
    unsafe {
        needed.write_unaligned(size);
        copy(&all(width, Some(kind)), buffer.cast(), needed)
    }
}

/// Writes the keywords, levels, channels, tasks or opcodes of a provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviderFieldInformation(
    provider: *const GUID,
    kind: i32,
    buffer: *mut PROVIDER_FIELD_INFOARRAY,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { fields(provider, kind, None, buffer.cast(), size, Width::Wide16) }
}

/// [`TdhEnumerateProviderFieldInformation`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateProviderFieldInformation32(
    provider: *const GUID,
    kind: i32,
    buffer: *mut PROVIDER_FIELD_INFOARRAY,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { fields(provider, kind, None, buffer.cast(), size, Width::Wide32) }
}

/// Writes the fields of a provider with a value; keywords are those of a mask's bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhQueryProviderFieldInformation(
    provider: *const GUID,
    value: u64,
    kind: i32,
    buffer: *mut PROVIDER_FIELD_INFOARRAY,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { fields(provider, kind, Some(value), buffer.cast(), size, Width::Wide16) }
}

/// [`TdhQueryProviderFieldInformation`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhQueryProviderFieldInformation32(
    provider: *const GUID,
    value: u64,
    kind: i32,
    buffer: *mut PROVIDER_FIELD_INFOARRAY,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { fields(provider, kind, Some(value), buffer.cast(), size, Width::Wide32) }
}

/// Returns all providers, or those of one source.
fn all(width: Width, only: Option<u32>) -> Vec<u8> {
    // Name and `SchemaSource`: 0 a manifest, 1 MOF.
    let mut found: BTreeMap<(String, [u8; 16]), u32> = BTreeMap::new();
    let mut add = |name: &str, guid: &Guid, source| {
        found.insert((name.to_owned(), guid.to_bytes()), source);
    };
    let mut state = state();
    for entry in builtin::providers() {
        add(entry.name, &entry.guid, entry.is_class.into());
    }
    if let Some(windows) = state.windows() {
        for listed in windows.providers() {
            add(&listed.name, &listed.guid, listed.is_class.into());
        }
    }
    if let Some(listed) = state.store().and_then(|store| store.list().ok()) {
        for one in listed {
            add(&one.name, &one.guid, (one.decoding == Decoding::Mof).into());
        }
    }
    for provider in state.loaded() {
        add(&provider.info.name, &provider.info.guid, (provider.info.decoding == Decoding::Mof).into());
    }
    found.retain(|_, source| only.is_none_or(|only| *source == only));
    let mut blob = Blob::new(8 + 24 * found.len(), width);
    blob.put_u32(0, found.len() as u32);
    for (((name, guid), source), at) in found.iter().zip((8..).step_by(24)) {
        blob.put(at, guid);
        blob.put_u32(at + 16, *source);
        blob.put_text(at + 20, Some(name));
    }
    blob.into_bytes()
}

/// # Safety
///
/// The pointers are null or valid, and as of `copy`.
unsafe fn fields(
    provider: *const GUID,
    kind: i32,
    value: Option<u64>,
    buffer: *mut u8,
    size: *mut u32,
    width: Width,
) -> u32 {
    // SAFETY: the caller's promise.
    let Some(id) = (unsafe { guid::read(provider) }) else { return ERROR_INVALID_PARAMETER };
    let providers = state().providers(&id);
    let Some(provider) = providers.first() else { return ERROR_NOT_FOUND };
    let Some(mut listed) = fields_of(&provider.info, kind) else { return ERROR_INVALID_PARAMETER };
    if let Some(value) = value {
        listed.retain(|field| if kind == 0 { field.value & value != 0 } else { field.value == value });
    }
    if listed.is_empty() {
        return ERROR_NOT_FOUND;
    }
    let mut blob = Blob::new(8 + 16 * listed.len(), width);
    blob.put_u32(0, listed.len() as u32);
    blob.put_u32(4, kind as u32);
    for (field, at) in listed.iter().zip((8..).step_by(16)) {
        blob.put_text(at, Some(field.name));
        blob.put_text(at + 4, field.message);
        blob.put_u64(at + 8, field.value);
    }
    // SAFETY: the caller's promise.
    unsafe { copy(&blob.into_bytes(), buffer, size) }
}

struct Field<'a> {
    name: &'a str,
    message: Option<&'a str>,
    value: u64,
}

/// Returns the fields of a kind (`EVENT_FIELD_TYPE`); `None` if there is no such kind.
fn fields_of(info: &ProviderInfo, kind: i32) -> Option<Vec<Field<'_>>> {
    macro_rules! listed {
        ($list:ident, $entry:ident => $value:expr) => {
            info.$list
                .iter()
                .map(|$entry| Field { name: &$entry.name, message: $entry.message.as_deref(), value: $value })
                .collect()
        };
    }
    Some(match kind {
        0 => listed!(keywords, entry => entry.mask),
        1 => listed!(levels, entry => entry.value.into()),
        2 => listed!(channels, entry => entry.value.into()),
        3 => listed!(tasks, entry => entry.value.into()),
        // The task in the low half; 0 for opcodes of all tasks.
        4 => listed!(opcodes, entry => u64::from(entry.value) << 16 | u64::from(entry.task.unwrap_or(0))),
        _ => return None,
    })
}
