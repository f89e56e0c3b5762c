//! Records as `EVENT_RECORD` and `EVENT_TRACE`.

// UNSAFETY: makes structures of C, for which zeros are valid.
#![expect(unsafe_code)]

use std::ffi::c_void;

use etw_event::{EventDescriptor, Guid, HeaderKind, PointerSize, Record};
use windows_sys::Win32::System::Diagnostics::Etw::{
    ETW_BUFFER_CONTEXT, ETW_BUFFER_CONTEXT_0, EVENT_DESCRIPTOR, EVENT_HEADER, EVENT_HEADER_0,
    EVENT_HEADER_0_0, EVENT_HEADER_EXTENDED_DATA_ITEM, EVENT_HEADER_EXTENDED_DATA_ITEM_0,
    EVENT_HEADER_FLAG_32_BIT_HEADER, EVENT_HEADER_FLAG_64_BIT_HEADER, EVENT_HEADER_FLAG_CLASSIC_HEADER,
    EVENT_HEADER_FLAG_NO_CPUTIME, EVENT_HEADER_FLAG_PRIVATE_SESSION, EVENT_HEADER_FLAG_PROCESSOR_INDEX,
    EVENT_HEADER_FLAG_TRACE_MESSAGE, EVENT_RECORD, EVENT_TRACE, EVENT_TRACE_0, EVENT_TRACE_HEADER,
    EVENT_TRACE_HEADER_0, EVENT_TRACE_HEADER_0_0, EVENT_TRACE_HEADER_1, EVENT_TRACE_HEADER_1_0,
    EVENT_TRACE_HEADER_2, EVENT_TRACE_HEADER_3, EVENT_TRACE_HEADER_3_0,
};

use crate::guest::ids_of;
use crate::guid;
use crate::provide::from_descriptor;

/// Returns a record as C has it, with a time. It points into the record's bytes and into `items`.
pub(crate) fn event_record(
    record: &Record<'_>,
    time: i64,
    context: *mut c_void,
    items: &mut Vec<EVENT_HEADER_EXTENDED_DATA_ITEM>,
) -> EVENT_RECORD {
    items.clear();
    items.extend(record.extended_items().map(|item| EVENT_HEADER_EXTENDED_DATA_ITEM {
        Reserved1: 0,
        ExtType: item.ext_type.0,
        Anonymous: EVENT_HEADER_EXTENDED_DATA_ITEM_0 { _bitfield: 1 },
        DataSize: item.data.len() as u16,
        DataPtr: item.data.as_ptr().addr() as u64,
    }));
    if let Some(last) = items.last_mut() {
        last.Anonymous._bitfield = 0;
    }
    let payload = record.payload();
    let bytes = record.as_bytes();
    let (kernel, user) = times(record);
    let (process, thread) = ids(record);
    EVENT_RECORD {
        EventHeader: EVENT_HEADER {
            Size: u16::try_from(bytes.len()).unwrap_or(u16::MAX),
            HeaderType: bytes.get(2).copied().unwrap_or(0).into(),
            Flags: flags(record),
            EventProperty: record.event_property(),
            ThreadId: thread,
            ProcessId: process,
            TimeStamp: time,
            ProviderId: guid::windows_guid(record.provider_id()),
            EventDescriptor: descriptor(&record.descriptor()),
            Anonymous: EVENT_HEADER_0 { Anonymous: EVENT_HEADER_0_0 { KernelTime: kernel, UserTime: user } },
            ActivityId: guid::windows_guid(record.activity_id().unwrap_or(Guid::ZERO)),
        },
        BufferContext: buffer_context(record),
        ExtendedDataCount: items.len() as u16,
        UserDataLength: u16::try_from(payload.len()).unwrap_or(u16::MAX),
        ExtendedData: if items.is_empty() { std::ptr::null_mut() } else { items.as_mut_ptr() },
        UserData: payload.as_ptr().cast_mut().cast(),
        UserContext: context,
    }
}

/// Whether a record of C says of what its schema depends on the same as a record, and has the same payload and extended data.
pub(super) fn shows(c: &EVENT_RECORD, record: &Record<'_>) -> bool {
    let (header, payload) = (&c.EventHeader, record.payload());
    let of_header = from_descriptor(&header.EventDescriptor);
    c.UserData.cast_const().cast() == payload.as_ptr()
        && usize::from(c.UserDataLength) == payload.len()
        && usize::from(c.ExtendedDataCount) == record.extended_items().count()
        && guid::from(&header.ProviderId) == record.provider_id()
        && of_header == record.descriptor()
        && header.Flags == flags(record)
}

/// Returns a record as callbacks without `PROCESS_TRACE_MODE_EVENT_RECORD` get it.
pub(super) fn event_trace(record: &Record<'_>, time: i64) -> EVENT_TRACE {
    let EventDescriptor { opcode, level, version, .. } = record.descriptor();
    let (kernel, user) = times(record);
    let instance = record.instance();
    let payload = record.payload();
    let (process, thread) = ids(record);
    EVENT_TRACE {
        Header: EVENT_TRACE_HEADER {
            Size: u16::try_from(record.as_bytes().len()).unwrap_or(u16::MAX),
            Anonymous1: EVENT_TRACE_HEADER_0 {
                Anonymous: EVENT_TRACE_HEADER_0_0 { HeaderType: 0, MarkerFlags: 0 },
            },
            Anonymous2: EVENT_TRACE_HEADER_1 {
                Class: EVENT_TRACE_HEADER_1_0 { Type: opcode.0, Level: level.0, Version: version.into() },
            },
            ThreadId: thread,
            ProcessId: process,
            TimeStamp: time,
            Anonymous3: EVENT_TRACE_HEADER_2 { Guid: guid::windows_guid(record.provider_id()) },
            Anonymous4: EVENT_TRACE_HEADER_3 {
                Anonymous1: EVENT_TRACE_HEADER_3_0 { KernelTime: kernel, UserTime: user },
            },
        },
        InstanceId: instance.map_or(0, |instance| instance.id),
        ParentInstanceId: instance.map_or(0, |instance| instance.parent_id),
        ParentGuid: guid::windows_guid(instance.map_or(Guid::ZERO, |instance| instance.parent_guid)),
        MofData: payload.as_ptr().cast_mut().cast(),
        MofLength: payload.len() as u32,
        Anonymous: EVENT_TRACE_0 { BufferContext: buffer_context(record) },
    }
}

fn ids(record: &Record<'_>) -> (u32, u32) {
    ids_of(record.process_id().unwrap_or(u32::MAX), record.thread_id().unwrap_or(u32::MAX))
}

fn buffer_context(record: &Record<'_>) -> ETW_BUFFER_CONTEXT {
    ETW_BUFFER_CONTEXT {
        Anonymous: ETW_BUFFER_CONTEXT_0 { ProcessorIndex: record.processor() },
        LoggerId: record.origin().logger_id,
    }
}

/// Returns kernel and user time, or the halves of the processor time, which shares their place.
fn times(record: &Record<'_>) -> (u32, u32) {
    let halves = |time: u64| (time as u32, (time >> 32) as u32);
    record.cpu_times().or_else(|| record.processor_time().map(halves)).unwrap_or_default()
}

fn flags(record: &Record<'_>) -> u16 {
    let kind = record.kind();
    let stored = match kind {
        kind if kind.is_event_header() => u32::from(record.flags()),
        HeaderKind::Message => EVENT_HEADER_FLAG_TRACE_MESSAGE,
        _ => EVENT_HEADER_FLAG_CLASSIC_HEADER,
    };
    let pointer = match record.pointer_size() {
        PointerSize::Four => EVENT_HEADER_FLAG_32_BIT_HEADER,
        PointerSize::Eight => EVENT_HEADER_FLAG_64_BIT_HEADER,
    };
    let times = match (record.cpu_times(), record.processor_time()) {
        (Some(_), _) => 0,
        (None, None) => EVENT_HEADER_FLAG_NO_CPUTIME,
        (None, Some(_)) => EVENT_HEADER_FLAG_NO_CPUTIME | EVENT_HEADER_FLAG_PRIVATE_SESSION,
    };
    (stored | pointer | times | EVENT_HEADER_FLAG_PROCESSOR_INDEX) as u16
}

fn descriptor(descriptor: &EventDescriptor) -> EVENT_DESCRIPTOR {
    EVENT_DESCRIPTOR {
        Id: descriptor.id,
        Version: descriptor.version,
        Channel: descriptor.channel,
        Level: descriptor.level.0,
        Opcode: descriptor.opcode.0,
        Task: descriptor.task,
        Keyword: descriptor.keyword.0,
    }
}

/// A record rebuilt from its form in C, as far as its schema depends on it: the bytes of a header, extended items and
/// payload. Returns `None` if the structure contradicts itself or is of a kind that is not rebuilt.
///
/// # Safety
///
/// The pointers in the record are null or to as many bytes as it says.
pub(crate) unsafe fn rebuild(record: &EVENT_RECORD) -> Option<Vec<u8>> {
    let header = &record.EventHeader;
    let flags = u32::from(header.Flags);
    let is_32 = flags & EVENT_HEADER_FLAG_32_BIT_HEADER != 0;
    let payload = match record.UserDataLength {
        0 => &[],
        _ if record.UserData.is_null() => return None,
        // SAFETY: the caller's promise.
        len => unsafe { std::slice::from_raw_parts(record.UserData.cast::<u8>(), len.into()) },
    };
    let mut bytes = Vec::with_capacity(80 + payload.len());
    let descriptor = &header.EventDescriptor;
    if flags & EVENT_HEADER_FLAG_TRACE_MESSAGE != 0 {
        // The message's GUID and the size of pointers are all that decoding needs.
        let options: u16 = 0x02 | if is_32 { 0x40 } else { 0x80 };
        bytes.extend([0, 0, 0, 0x90]);
        bytes.extend(descriptor.Id.to_le_bytes());
        bytes.extend(options.to_le_bytes());
        bytes.extend(guid::from(&header.ProviderId).to_bytes());
    } else if flags & EVENT_HEADER_FLAG_CLASSIC_HEADER != 0 {
        bytes.extend([0, 0, if is_32 { 0x0A } else { 0x14 }, 0xC0]);
        bytes.extend([descriptor.Opcode, descriptor.Level, descriptor.Version, 0]);
        bytes.extend(header.ThreadId.to_le_bytes());
        bytes.extend(header.ProcessId.to_le_bytes());
        bytes.extend(header.TimeStamp.to_le_bytes());
        bytes.extend(guid::from(&header.ProviderId).to_bytes());
        bytes.extend([0; 8]);
    } else {
        bytes.extend([0, 0, if is_32 { 0x12 } else { 0x13 }, 0xC0]);
        let has_items = record.ExtendedDataCount != 0;
        bytes.extend(((flags & !1) as u16 | u16::from(has_items)).to_le_bytes());
        bytes.extend(header.EventProperty.to_le_bytes());
        bytes.extend(header.ThreadId.to_le_bytes());
        bytes.extend(header.ProcessId.to_le_bytes());
        bytes.extend(header.TimeStamp.to_le_bytes());
        bytes.extend(guid::from(&header.ProviderId).to_bytes());
        bytes.extend(descriptor.Id.to_le_bytes());
        bytes.extend([descriptor.Version, descriptor.Channel, descriptor.Level, descriptor.Opcode]);
        bytes.extend(descriptor.Task.to_le_bytes());
        bytes.extend(descriptor.Keyword.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(guid::from(&header.ActivityId).to_bytes());
        if has_items {
            // SAFETY: the caller's promise.
            unsafe { append_items(record, &mut bytes)? };
        }
    }
    bytes.extend(payload);
    let size = u16::try_from(bytes.len()).ok()?.to_le_bytes();
    bytes.get_mut(..2)?.copy_from_slice(&size);
    Some(bytes)
}

/// # Safety
///
/// The pointers in the record are null or to as many bytes as it says.
unsafe fn append_items(record: &EVENT_RECORD, bytes: &mut Vec<u8>) -> Option<()> {
    if record.ExtendedData.is_null() {
        return None;
    }
    let count = usize::from(record.ExtendedDataCount);
    // SAFETY: the caller's promise.
    let items = unsafe { std::slice::from_raw_parts(record.ExtendedData, count) };
    for (index, item) in items.iter().enumerate() {
        let data = match item.DataSize {
            0 => &[],
            _ if item.DataPtr == 0 => return None,
            // SAFETY: the caller's promise.
            size => unsafe { std::slice::from_raw_parts(item.DataPtr as *const u8, size.into()) },
        };
        let padded = data.len().next_multiple_of(8);
        bytes.extend(u16::try_from(8 + padded).ok()?.to_le_bytes());
        bytes.extend(item.ExtType.to_le_bytes());
        bytes.extend(u16::from(index + 1 < count).to_le_bytes());
        bytes.extend(item.DataSize.to_le_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len() + padded - data.len(), 0);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::{Clock, Origin, Ticks};

    /// Checks that a record survives the way to C and back.
    fn check(bytes: &[u8]) {
        let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
        let record = Record::parse(bytes, &origin, Ticks(0)).unwrap();
        let mut items = Vec::new();
        let c = event_record(&record, record.time().0, std::ptr::null_mut(), &mut items);
        // SAFETY: the pointers are those of `event_record`.
        let rebuilt = unsafe { rebuild(&c) }.unwrap();
        let again = Record::parse(&rebuilt, &origin, Ticks(0)).unwrap();
        assert_eq!(again.provider_id(), record.provider_id());
        assert_eq!(again.payload(), record.payload());
        assert_eq!(again.pointer_size(), record.pointer_size());
        let data = |record: &Record<'_>| {
            record.extended_items().map(|item| (item.ext_type, item.data.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(data(&again), data(&record));
        assert_eq!(again.descriptor().id, record.descriptor().id);
        assert_eq!(again.descriptor().version, record.descriptor().version);
    }

    #[test]
    fn records_are_rebuilt() {
        let mut event = vec![0u8; 0x50];
        event[..6].copy_from_slice(&[0, 0, 0x13, 0xC0, 1, 0]);
        event[0x18..0x28].copy_from_slice(&[9; 16]);
        event[0x28..0x30].copy_from_slice(&[1, 0, 3, 16, 4, 1, 2, 0]);
        event.extend([0x18, 0, 1, 0, 1, 0, 16, 0]);
        event.extend([7; 16]);
        event.extend([0x10, 0, 11, 0, 0, 0, 3, 0]);
        event.extend([5, 5, 5, 0, 0, 0, 0, 0]);
        event.extend(b"payload");
        let size = (event.len() as u16).to_le_bytes();
        event[..2].copy_from_slice(&size);
        check(&event);
        let mut classic = vec![0u8; 0x30];
        classic[..8].copy_from_slice(&[0x34, 0, 0x14, 0xC0, 10, 4, 2, 0]);
        classic[0x18..0x28].copy_from_slice(&[3; 16]);
        classic.extend([1, 2, 3, 4]);
        check(&classic);
    }

    #[test]
    fn contradictions_are_refused() {
        // SAFETY: zeros are valid for all members.
        let mut record: EVENT_RECORD = unsafe { std::mem::zeroed() };
        // SAFETY: all pointers are null.
        unsafe {
            assert!(rebuild(&record).is_some());
            record.UserDataLength = 8;
            assert!(rebuild(&record).is_none());
            record.UserDataLength = 0;
            record.ExtendedDataCount = 1;
            assert!(rebuild(&record).is_none());
        }
    }
}
