//! Calls of TDH's functions with records that a hostile program or trace made: the body of a fuzz target.

// UNSAFETY: calls the functions of C with pointers into its own buffers.
#![expect(unsafe_code)]

use std::ptr::{null, null_mut};

use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_HEADER, EVENT_HEADER_EXTENDED_DATA_ITEM, EVENT_HEADER_EXTENDED_DATA_ITEM_0, EVENT_MAP_INFO,
    EVENT_RECORD, PROPERTY_DATA_DESCRIPTOR, TRACE_EVENT_INFO,
};

use super::{
    TdhFormatProperty, TdhGetEventInformation, TdhGetEventInformation32, TdhGetEventMapInformation,
    TdhGetProperty, TdhGetPropertySize,
};

/// Bytes of an `EVENT_HEADER`.
const HEADER: usize = size_of::<EVENT_HEADER>();

/// Decodes a record of these bytes: a header, up to three extended items (type and size before each), and a payload.
/// The pointers are valid; everything that they point to is not trusted.
pub fn decode_hostile_record(data: &[u8]) {
    let (head, mut rest) = data.split_at_checked(HEADER).unwrap_or((data, &[]));
    // SAFETY: zeros are valid for all members, and so are any bytes.
    let mut record: EVENT_RECORD = unsafe { std::mem::zeroed() };
    // SAFETY: the header has at least as many bytes.
    unsafe { (&raw mut record.EventHeader).cast::<u8>().copy_from_nonoverlapping(head.as_ptr(), head.len()) };
    let mut items = Vec::new();
    for _ in 0..3 {
        let [kind, size, body @ ..] = rest else { break };
        let Some((item, after)) = body.split_at_checked((*size).into()) else { break };
        items.push(EVENT_HEADER_EXTENDED_DATA_ITEM {
            Reserved1: 0,
            ExtType: (*kind).into(),
            Anonymous: EVENT_HEADER_EXTENDED_DATA_ITEM_0 { _bitfield: 0 },
            DataSize: item.len() as u16,
            DataPtr: item.as_ptr().addr() as u64,
        });
        rest = after;
    }
    let payload = rest.get(..0xFFFF).unwrap_or(rest);
    record.ExtendedData = items.as_mut_ptr();
    record.ExtendedDataCount = items.len() as u16;
    record.UserData = payload.as_ptr().cast_mut().cast();
    record.UserDataLength = payload.len() as u16;
    decode(&record, payload);
}

fn decode(record: &EVENT_RECORD, payload: &[u8]) {
    let mut size = 0;
    // SAFETY: the record is valid, and the sizes are those of the buffers.
    unsafe {
        TdhGetEventInformation32(record, 0, null(), null_mut(), &mut size);
        size = 0;
        TdhGetEventInformation(record, 0, null(), null_mut(), &mut size);
        let mut buffer = vec![0u64; size as usize / 8 + 1];
        let info = buffer.as_mut_ptr().cast::<TRACE_EVENT_INFO>();
        // One byte too few must change nothing.
        let mut less = size.saturating_sub(1);
        assert!(TdhGetEventInformation(record, 0, null(), info, &mut less) != 0 || size == 0);
        if TdhGetEventInformation(record, 0, null(), info, &mut size) != 0 {
            return;
        }
        let base = info.cast::<u8>();
        let properties = (&raw const (*info).EventPropertyInfoArray)
            .cast::<windows_sys::Win32::System::Diagnostics::Etw::EVENT_PROPERTY_INFO>();
        for index in 0..((*info).PropertyCount as usize).min(64) {
            let property = properties.add(index);
            let path = PROPERTY_DATA_DESCRIPTOR {
                PropertyName: base.add((*property).NameOffset as usize).addr() as u64,
                ArrayIndex: if index % 2 == 0 { u32::MAX } else { 0 },
                Reserved: 0,
            };
            let mut len = 0;
            if TdhGetPropertySize(record, 0, null(), 1, &path, &mut len) == 0 {
                let mut value = vec![0; len as usize];
                TdhGetProperty(record, 0, null(), 1, &path, len, value.as_mut_ptr());
                TdhGetProperty(record, 0, null(), 1, &path, len / 2, value.as_mut_ptr());
            }
            let kind = (*property).Anonymous1.nonStructType;
            let mut map = vec![0u64; 0];
            let mut map_size = 0;
            if (*property).Flags & 1 == 0 && kind.MapNameOffset != 0 {
                let name = base.add(kind.MapNameOffset as usize).cast();
                TdhGetEventMapInformation(record, name, null_mut(), &mut map_size);
                map.resize(map_size as usize / 8 + 1, 0);
                TdhGetEventMapInformation(record, name, map.as_mut_ptr().cast(), &mut map_size);
            }
            let map = if map.is_empty() { null() } else { map.as_ptr().cast::<EVENT_MAP_INFO>() };
            let (mut text, mut text_size, mut used) = ([0u16; 64], 128, 0);
            let (in_type, out_type) = (kind.InType, kind.OutType);
            TdhFormatProperty(
                info,
                map,
                8,
                in_type,
                out_type,
                (*property).Anonymous3.length,
                payload.len() as u16,
                payload.as_ptr(),
                &mut text_size,
                text.as_mut_ptr(),
                &mut used,
            );
            assert!(usize::from(used) <= payload.len());
        }
    }
}
