//! Functions of TDH whose first argument is a name and no address.

// UNSAFETY: functions of C, which get pointers of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;

use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_RECORD, TDH_CONTEXT};

use crate::arguments::{Argument, NO_ACCESS, has_room, is_record};

/// A function that no documentation describes. Some programs look it up when they start, and do not call it.
pub(crate) extern "win64" fn TdhGetPropertyOffsetAndSize() -> u32 {
    const NOT_SUPPORTED: u32 = 50;
    NOT_SUPPORTED
}

pub(crate) extern "win64" fn TdhCloseDecodingHandle(handle: *const c_void) -> u32 {
    etw_capi::TdhCloseDecodingHandle(handle)
}

pub(crate) unsafe extern "win64" fn TdhSetDecodingParameter(
    handle: *const c_void,
    context: *const TDH_CONTEXT,
) -> u32 {
    if !context.is_readable() {
        return NO_ACCESS;
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::TdhSetDecodingParameter(handle, context) }
}

pub(crate) unsafe extern "win64" fn TdhGetDecodingParameter(
    handle: *const c_void,
    context: *mut TDH_CONTEXT,
) -> u32 {
    if !context.is_readable() {
        return NO_ACCESS;
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::TdhGetDecodingParameter(handle, context) }
}

pub(crate) unsafe extern "win64" fn TdhGetWppMessage(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    if !is_record(event) || !has_room(buffer, size) {
        return NO_ACCESS;
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::TdhGetWppMessage(handle, event, size, buffer) }
}

pub(crate) unsafe extern "win64" fn TdhGetWppProperty(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    name: *const u16,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    if !is_record(event) || !name.is_readable() || !has_room(buffer, size) {
        return NO_ACCESS;
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::TdhGetWppProperty(handle, event, name, size, buffer) }
}

pub(crate) extern "win64" fn TdhUnloadManifestFromMemory(data: *const c_void, size: u32) -> u32 {
    etw_capi::TdhUnloadManifestFromMemory(data, size)
}
