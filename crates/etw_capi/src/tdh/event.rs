//! The schema of an event (`TdhGetEventInformation`).

// UNSAFETY: reads what callers point to.
#![expect(unsafe_code)]

use std::ffi::c_void;

use etw_event::{Clock, Guid, Origin, PointerSize, Record, Ticks};
use etw_schema::{Event, EventSchema, Located, Resolver, event_metadata};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DESCRIPTOR, EVENT_HEADER_FLAG_CLASSIC_HEADER, EVENT_RECORD, PROVIDER_EVENT_INFO, TDH_CONTEXT,
    TRACE_EVENT_INFO,
};
use windows_sys::core::GUID;

use super::classes::{SYSTEM_PROVIDER, as_on_windows};
use super::decoding::{named_formats, with_formats};
use super::info::{Labels, event_info, source_of};
use super::out::{Blob, copy};
use crate::consume::{is_of_system, rebuild, with_event};
use crate::error::{ERROR_INVALID_DATA, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND};
use crate::guid;
use crate::provide::from_descriptor;
use crate::schemas::state;
use crate::wide::Width;

/// Writes the schema of an event. With too small a buffer, writes the size that is needed and returns
/// `ERROR_INSUFFICIENT_BUFFER`. Of contexts, files of trace formats are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetEventInformation(
    event: *const EVENT_RECORD,
    contexts: u32,
    context: *const TDH_CONTEXT,
    buffer: *mut TRACE_EVENT_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { event_information(event, (contexts, context), buffer.cast(), size, Width::Wide16) }
}

/// [`TdhGetEventInformation`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetEventInformation32(
    event: *const EVENT_RECORD,
    contexts: u32,
    context: *const TDH_CONTEXT,
    buffer: *mut TRACE_EVENT_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { event_information(event, (contexts, context), buffer.cast(), size, Width::Wide32) }
}

/// Writes the schema of an event of a manifest, found by id and version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetManifestEventInformation(
    provider: *const GUID,
    descriptor: *const EVENT_DESCRIPTOR,
    buffer: *mut TRACE_EVENT_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { manifest_information(provider, descriptor, buffer.cast(), size, Width::Wide16) }
}

/// [`TdhGetManifestEventInformation`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetManifestEventInformation32(
    provider: *const GUID,
    descriptor: *const EVENT_DESCRIPTOR,
    buffer: *mut TRACE_EVENT_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { manifest_information(provider, descriptor, buffer.cast(), size, Width::Wide32) }
}

/// Writes the descriptors of all events of a manifest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhEnumerateManifestProviderEvents(
    provider: *const GUID,
    buffer: *mut PROVIDER_EVENT_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the pointer is null or to a GUID.
    let Some(id) = (unsafe { guid::read(provider) }) else { return ERROR_INVALID_PARAMETER };
    let Some(events) = state().events(&id).into_iter().next() else { return ERROR_NOT_FOUND };
    let mut blob = Blob::new(8 + 16 * events.len(), Width::Wide16);
    blob.put_u32(0, events.len() as u32);
    for (event, at) in events.iter().zip((8..).step_by(16)) {
        let descriptor = &event.descriptor;
        blob.put_u16(at, descriptor.id);
        blob.put(at + 2, &[descriptor.version, descriptor.channel, descriptor.level.0, descriptor.opcode.0]);
        blob.put_u16(at + 6, descriptor.task);
        blob.put_u64(at + 8, descriptor.keyword.0);
    }
    // SAFETY: the caller's promise.
    unsafe { copy(&blob.into_bytes(), buffer.cast(), size) }
}

/// Calls `work` with the decoded event of a record: that of the callback which this thread runs, or one decoded from the record
/// alone, with files of trace formats, if it is another one or its header was changed.
///
/// # Errors
///
/// Fails with an error code if the record is null or contradicts itself.
///
/// # Safety
///
/// The record is null, or its pointers are null or to as many bytes as it says.
pub(super) unsafe fn decode<R>(
    record: *const EVENT_RECORD,
    formats: &[String],
    work: impl FnOnce(&Event<'_>) -> R,
) -> Result<R, u32> {
    // SAFETY: the caller's promise.
    let record = unsafe { record.as_ref() }.ok_or(ERROR_INVALID_PARAMETER)?;
    let mut work = Some(work);
    let found = with_event(record, |event| {
        // The program may have loaded a manifest since the trace was opened.
        event.properties.is_ok().then(|| work.take().map(|work| as_on_windows(event, work))).flatten()
    });
    let Some(work) = work else { return found.flatten().ok_or(ERROR_INVALID_DATA) };
    // SAFETY: the caller's promise.
    let bytes = unsafe { rebuild(record) }.ok_or(ERROR_INVALID_PARAMETER)?;
    let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
    let record = Record::parse(&bytes, &origin, Ticks(0)).map_err(|_| ERROR_INVALID_DATA)?;
    let mut located = Located::new();
    let work = |resolver: &mut Resolver| as_on_windows(&resolver.decode(&record, &mut located), work);
    Ok(match formats {
        [] => work(state().resolver()),
        formats => with_formats(formats, work),
    })
}

/// # Safety
///
/// As of `named_formats`, `decode` and `copy`.
unsafe fn event_information(
    record: *const EVENT_RECORD,
    (contexts, context): (u32, *const TDH_CONTEXT),
    buffer: *mut u8,
    size: *mut u32,
    width: Width,
) -> u32 {
    let info = |event: &Event<'_>| {
        let properties = event.properties.as_ref().ok()?;
        let (schema, names) = (properties.schema(), event.names());
        let is_class = source_of(schema) == 1;
        let labels = Labels {
            provider: names.provider_guid(),
            event: names.event_guid().unwrap_or(Guid::ZERO),
            descriptor: event.record.descriptor(),
            provider_name: match is_of_system(schema) {
                true => Some(SYSTEM_PROVIDER),
                false => names.provider(),
            },
            level: names.level().filter(|_| !is_class || event.record.descriptor().level.0 != 0),
            channel: names.channel(),
            // TraceLogging has no tasks; its event's name is there, as on Windows before names had a place of their own.
            task: match schema.decoding {
                etw_schema::Decoding::TraceLogging => schema.name.as_deref(),
                // A class without a display name is no task.
                etw_schema::Decoding::Mof => schema.task_name.as_deref(),
                _ => names.task(),
            },
            opcode: names.opcode(),
            keywords: names.keywords().collect(),
            pointer: event.record.pointer_size(),
        };
        Some(event_info(schema, &labels, Some(properties), width))
    };
    // SAFETY: the caller's promise.
    let found =
        unsafe { named_formats(contexts, context, width).and_then(|formats| decode(record, &formats, info)) };
    match found {
        // SAFETY: the caller's promise.
        Ok(Some(bytes)) => unsafe { copy(&bytes, buffer, size) },
        Ok(None) => ERROR_NOT_FOUND,
        Err(code) => code,
    }
}

/// # Safety
///
/// The pointers are null or valid, and as of `copy`.
unsafe fn manifest_information(
    provider: *const GUID,
    descriptor: *const EVENT_DESCRIPTOR,
    buffer: *mut u8,
    size: *mut u32,
    width: Width,
) -> u32 {
    // SAFETY: the caller's promise.
    let (id, descriptor) = unsafe { (guid::read(provider), descriptor.as_ref()) };
    let (Some(id), Some(descriptor)) = (id, descriptor) else { return ERROR_INVALID_PARAMETER };
    let wanted = from_descriptor(descriptor);
    let described = state().events(&id);
    let mut events = described.iter().flatten();
    let same = |event: &&std::sync::Arc<EventSchema>| {
        (event.descriptor.id, event.descriptor.version) == (wanted.id, wanted.version)
    };
    let Some(event) = events.find(same) else { return ERROR_NOT_FOUND };
    // SAFETY: the caller's promise.
    unsafe { copy(&info_of(id, event, width), buffer, size) }
}

/// Writes the schemas of all events of the provider of an event that have its version: pointers to them, and then the schemas.
/// `index` gets the place of the event's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetAllEventsInformation(
    event: *const EVENT_RECORD,
    service: *const c_void,
    index: *mut u32,
    count: *mut u32,
    buffer: *mut *mut TRACE_EVENT_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { all_information(event, service, (index, count), buffer, size, Width::Wide16) }
}

/// [`TdhGetAllEventsInformation`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetAllEventsInformation32(
    event: *const EVENT_RECORD,
    service: *const c_void,
    index: *mut u32,
    count: *mut u32,
    buffer: *mut *mut TRACE_EVENT_INFO,
    size: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { all_information(event, service, (index, count), buffer, size, Width::Wide32) }
}

/// # Safety
///
/// The pointers are null or valid, and as of `copy`.
unsafe fn all_information(
    record: *const EVENT_RECORD,
    service: *const c_void,
    (index, count): (*mut u32, *mut u32),
    buffer: *mut *mut TRACE_EVENT_INFO,
    size: *mut u32,
    width: Width,
) -> u32 {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { record.as_ref() }) else { return ERROR_INVALID_PARAMETER };
    // `service` is a connection to WMI (`IWbemServices`), which does not exist here.
    if index.is_null() || count.is_null() || size.is_null() || !service.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let id = guid::from(&record.EventHeader.ProviderId);
    let wanted = from_descriptor(&record.EventHeader.EventDescriptor);
    let described = state().events(&id);
    let first = described.first().into_iter().flatten();
    let events: Vec<_> = first.filter(|event| event.descriptor.version == wanted.version).collect();
    let is_class = record.EventHeader.Flags & EVENT_HEADER_FLAG_CLASSIC_HEADER as u16 != 0;
    let is_own = |event: &&std::sync::Arc<EventSchema>| match is_class {
        true => event.descriptor.opcode == wanted.opcode,
        false => event.descriptor.id == wanted.id,
    };
    let Some(own) = events.iter().position(is_own) else { return ERROR_NOT_FOUND };
    // Each structure begins at a multiple of eight bytes.
    let mut infos = Vec::new();
    let mut places = Vec::new();
    for event in &events {
        places.push(size_of::<u64>() * events.len() + infos.len());
        infos.extend(info_of(id, event, width));
        infos.resize(infos.len().next_multiple_of(8), 0);
    }
    let addresses = places.iter().map(|place| (buffer.addr() + place) as u64);
    let mut bytes: Vec<u8> = addresses.flat_map(u64::to_le_bytes).collect();
    bytes.extend(infos);
    // SAFETY: the caller's promise.
    unsafe {
        index.write_unaligned(own as u32);
        count.write_unaligned(events.len() as u32);
        copy(&bytes, buffer.cast(), size)
    }
}

/// Returns the structure of an event of a manifest or class.
fn info_of(provider: Guid, event: &std::sync::Arc<EventSchema>, width: Width) -> Vec<u8> {
    let schema = event_metadata::schema_of_event(event, &event.descriptor);
    let labels = Labels {
        provider,
        event: Guid::ZERO,
        descriptor: schema.descriptor,
        provider_name: Some(&schema.provider.name),
        level: schema.level_name.as_deref(),
        channel: schema.channel_name.as_deref(),
        task: schema.task_name.as_deref(),
        opcode: schema.opcode_name.as_deref(),
        keywords: schema.keyword_names.iter().map(|name| &**name).collect(),
        pointer: PointerSize::Eight,
    };
    event_info(&schema, &labels, None, width)
}

/// Returns a text at a number that a structure has in place of a pointer.
///
/// # Safety
///
/// The number is 0, or the address of a text of this width.
pub(super) unsafe fn text_at(address: u64, width: Width) -> Option<String> {
    // SAFETY: the caller's promise.
    unsafe { width.read(address as *const c_void) }
}
