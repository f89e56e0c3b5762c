//! Names of values (`TdhGetEventMapInformation`).

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use etw_schema::{Event, MapEntry, MapKind, PropertyType, ValueMap};
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_MAP_INFO, EVENT_RECORD};

use super::event::decode;
use super::out::{Blob, copy};
use crate::error::{ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND};
use crate::wide::Width;

/// Bytes before the entries, and bytes of an entry.
const HEADER: usize = 16;
const ENTRY: usize = 8;

/// More entries than any map has.
const MAX_ENTRIES: u32 = 0x1_0000;

/// Writes the map of a name, as `MapNameOffset` of a property has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetEventMapInformation(
    event: *const EVENT_RECORD,
    name: *const u16,
    buffer: *mut EVENT_MAP_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { map_information(event, name.cast(), buffer.cast(), size, Width::Wide16) }
}

/// [`TdhGetEventMapInformation`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetEventMapInformation32(
    event: *const EVENT_RECORD,
    name: *const u32,
    buffer: *mut EVENT_MAP_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { map_information(event, name.cast(), buffer.cast(), size, Width::Wide32) }
}

/// # Safety
///
/// The pointers are null or valid, and as of `copy`.
unsafe fn map_information(
    event: *const EVENT_RECORD,
    name: *const c_void,
    buffer: *mut u8,
    size: *mut u32,
    width: Width,
) -> u32 {
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { width.read(name) }) else { return ERROR_INVALID_PARAMETER };
    // SAFETY: the caller's promise.
    match unsafe { decode(event, &[], |event| find(event, &name).map(|map| encode(&map, width))) } {
        // SAFETY: the caller's promise.
        Ok(Some(bytes)) => unsafe { copy(&bytes, buffer, size) },
        Ok(None) => ERROR_NOT_FOUND,
        Err(code) => code,
    }
}

fn find(event: &Event<'_>, name: &str) -> Option<Arc<ValueMap>> {
    let schema = event.schema()?;
    let of_properties = schema.properties.iter().filter_map(|property| match &property.kind {
        PropertyType::Value { map, .. } => map.as_ref(),
        PropertyType::Struct { .. } => None,
    });
    of_properties.chain(&schema.provider.maps).find(|map| *map.name == *name).cloned()
}

fn encode(map: &ValueMap, width: Width) -> Vec<u8> {
    let mut blob = Blob::new(HEADER + ENTRY * map.entries.len(), width);
    let flags = match map.kind {
        MapKind::Value => 1,
        MapKind::Bits => 2,
        MapKind::BitPositions => 0x10,
    };
    blob.put_text(0, Some(&map.name));
    blob.put_u32(4, flags);
    blob.put_u32(8, map.entries.len() as u32);
    for (entry, at) in map.entries.iter().zip((HEADER..).step_by(ENTRY)) {
        // A text may be empty, but has a place.
        blob.put_texts(at, &mut [&*entry.text].into_iter());
        blob.put_u32(at + 4, entry.value as u32);
    }
    blob.into_bytes()
}

/// Returns the map of a structure that [`TdhGetEventMapInformation`] wrote; `None` if it is null or contradicts itself.
///
/// # Safety
///
/// The pointer is null, or to such a structure with texts of this width.
pub(super) unsafe fn read(info: *const EVENT_MAP_INFO, width: Width) -> Option<Arc<ValueMap>> {
    if info.is_null() {
        return None;
    }
    let word = |at: usize| {
        // SAFETY: the caller's promise; the header and as many entries as it says are there.
        unsafe { info.cast::<u8>().add(at).cast::<u32>().read_unaligned() }
    };
    let text = |offset: u32| match offset {
        0 => Some(String::new()),
        // SAFETY: the caller's promise; offsets of the structure are to texts.
        _ => unsafe { width.read(info.cast::<u8>().add(offset as usize).cast()) },
    };
    let kind = match word(4) {
        flags if flags & (2 | 0x20) != 0 => MapKind::Bits,
        flags if flags & 0x10 != 0 => MapKind::BitPositions,
        _ => MapKind::Value,
    };
    let count = word(8);
    if count > MAX_ENTRIES {
        return None;
    }
    let entries = (0..count as usize).map(|index| {
        let at = HEADER + ENTRY * index;
        Some(MapEntry { value: word(at + 4).into(), text: text(word(at))?.into() })
    });
    let entries = entries.collect::<Option<_>>()?;
    Some(Arc::new(ValueMap { name: text(word(0))?.into(), kind, entries }))
}
