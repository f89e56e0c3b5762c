//! Checks of arguments: pointers that cannot be read are refused, as by the kernel of Windows.

// UNSAFETY: reads descriptors whose memory has been checked.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::mem::size_of;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Diagnostics::Etw::{
    ENABLE_TRACE_PARAMETERS, ETW_BUFFER_HEADER, ETW_OPEN_TRACE_OPTIONS, EVENT_DATA_DESCRIPTOR,
    EVENT_DESCRIPTOR, EVENT_FILTER_DESCRIPTOR, EVENT_HEADER_EXTENDED_DATA_ITEM, EVENT_INSTANCE_HEADER,
    EVENT_INSTANCE_INFO, EVENT_MAP_INFO, EVENT_RECORD, EVENT_TRACE_HEADER, EVENT_TRACE_LOGFILEA,
    EVENT_TRACE_LOGFILEW, EVENT_TRACE_PROPERTIES, MAX_EVENT_DATA_DESCRIPTORS, PAYLOAD_FILTER_PREDICATE,
    PROPERTY_DATA_DESCRIPTOR, PROVIDER_ENUMERATION_INFO, PROVIDER_EVENT_INFO, PROVIDER_FIELD_INFOARRAY,
    TDH_CONTEXT, TRACE_EVENT_INFO, TRACE_GUID_PROPERTIES, TRACE_LOGFILE_HEADER,
};
use windows_sys::core::GUID;

use crate::system::is_readable;

/// `ERROR_NOACCESS`: the memory cannot be read.
pub(crate) const NO_ACCESS: u32 = 998;

/// An argument of a function.
pub(crate) trait Argument: Copy {
    /// Returns whether it is a value, null, or a pointer to readable memory.
    fn is_readable(self) -> bool {
        true
    }
}

/// Values, and pointers to memory whose size another argument has, which conditions check.
macro_rules! unchecked {
    ($($type:ty),*) => { $(impl Argument for $type {})* };
}

unchecked! { u8, u16, u32, u64, i32 }
unchecked! { *const c_void, *mut c_void, *const u8, *mut u8, *mut u16 }
unchecked! {
    *mut TRACE_EVENT_INFO, *mut *mut TRACE_EVENT_INFO, *const ETW_BUFFER_HEADER, *mut EVENT_MAP_INFO, *mut PROVIDER_EVENT_INFO, *mut PROVIDER_ENUMERATION_INFO,
    *mut PROVIDER_FIELD_INFOARRAY
}

/// Pointers to one value.
macro_rules! checked {
    ($($type:ty),*) => {
        $(
            impl Argument for $type {
                fn is_readable(self) -> bool {
                    fn size<T>(_: *const T) -> u32 {
                        size_of::<T>() as u32
                    }
                    has(self, size(self))
                }
            }
        )*
    };
}

checked! {
    *const GUID, *mut GUID, *const u16, *const u64, *mut u64, *const u32, *mut u32, *const FILETIME,
    *const EVENT_DESCRIPTOR, *const EVENT_FILTER_DESCRIPTOR, *mut EVENT_FILTER_DESCRIPTOR,
    *const EVENT_INSTANCE_HEADER, *const EVENT_INSTANCE_INFO, *mut EVENT_INSTANCE_INFO,
    *const EVENT_MAP_INFO, *const EVENT_RECORD, *const EVENT_TRACE_HEADER, *const EVENT_TRACE_PROPERTIES,
    *const ENABLE_TRACE_PARAMETERS, *const ETW_OPEN_TRACE_OPTIONS, *mut EVENT_TRACE_LOGFILEA,
    *mut EVENT_TRACE_LOGFILEW, *mut TRACE_LOGFILE_HEADER, *const PAYLOAD_FILTER_PREDICATE,
    *const PROPERTY_DATA_DESCRIPTOR, *const TDH_CONTEXT, *mut TDH_CONTEXT, *const TRACE_EVENT_INFO,
    *const *const c_void, *mut *mut c_void, *mut *mut EVENT_TRACE_PROPERTIES,
    *mut *mut TRACE_GUID_PROPERTIES
}

/// Pointers to functions are used when they are called.
macro_rules! callbacks {
    ($($name:ident)*) => {
        $(impl Argument for windows_sys::Win32::System::Diagnostics::Etw::$name {})*
    };
}

callbacks! { PENABLECALLBACK PEVENT_CALLBACK WMIDPREQUEST }

/// Returns whether the pointer is null, or to this many readable bytes.
pub(crate) fn has<T>(pointer: *const T, size: u32) -> bool {
    pointer.is_null() || is_readable(pointer.cast(), size as usize)
}

/// Returns whether the buffer is null, or has as many bytes as `size` points to.
pub(crate) fn has_room<T>(buffer: *mut T, size: *const u32) -> bool {
    // SAFETY: the number can be read.
    size.is_null() || size.is_readable() && has(buffer, unsafe { size.read_unaligned() })
}

/// Returns whether a record and what it points to can be read.
pub(crate) fn is_record(record: *const EVENT_RECORD) -> bool {
    if record.is_null() || !record.is_readable() {
        return record.is_null();
    }
    // SAFETY: the record can be read.
    let record = unsafe { record.read_unaligned() };
    let count = usize::from(record.ExtendedDataCount);
    let items = record.ExtendedData.cast_const();
    let are_items_readable = || {
        is_readable(items.cast(), size_of::<EVENT_HEADER_EXTENDED_DATA_ITEM>() * count)
            && (0..count).all(|index| {
                // SAFETY: the items can be read.
                let item = unsafe { items.add(index).read_unaligned() };
                has(item.DataPtr as *const c_void, item.DataSize.into())
            })
    };
    has(record.UserData, record.UserDataLength.into()) && (items.is_null() || are_items_readable())
}

/// Returns whether the data of an event can be read.
pub(crate) fn is_data_readable(count: u32, data: *const EVENT_DATA_DESCRIPTOR) -> bool {
    // Wrong counts and null are refused where they are used.
    if data.is_null() || count > MAX_EVENT_DATA_DESCRIPTORS {
        return true;
    }
    let count = count as usize;
    is_readable(data.cast(), size_of::<EVENT_DATA_DESCRIPTOR>() * count)
        && (0..count).all(|index| {
            // SAFETY: the descriptors can be read.
            let one = unsafe { data.add(index).read_unaligned() };
            one.Ptr == 0 || is_readable(one.Ptr as *const c_void, one.Size as usize)
        })
}

/// Returns whether the structure can be read to the end that it states.
pub(crate) fn are_properties_readable(properties: *const EVENT_TRACE_PROPERTIES) -> bool {
    properties.is_null()
        || properties.is_readable() && {
            // SAFETY: the structure can be read.
            let size = unsafe { (&raw const (*properties).Wnode.BufferSize).read_unaligned() };
            is_readable(properties.cast(), size as usize)
        }
}
