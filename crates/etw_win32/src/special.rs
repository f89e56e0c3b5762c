//! Functions that do more than to call those of `etw_capi`: they set the last error, read structures behind pointers, or
//! are on the path of every event.

// UNSAFETY: functions of C, which get pointers of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;

use windows_sys::Win32::System::Diagnostics::Etw::{
    ETW_OPEN_TRACE_OPTIONS, EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR, EVENT_TRACE_LOGFILEA,
    EVENT_TRACE_LOGFILEW, EVENT_TRACE_PROPERTIES, PENABLECALLBACK, PETW_BUFFER_COMPLETION_CALLBACK,
    TRACE_GUID_REGISTRATION, TRACE_LOGFILE_HEADER, WMIDPREQUEST, WNODE_HEADER,
};
use windows_sys::core::GUID;

use crate::arguments::{Argument, NO_ACCESS, are_properties_readable, has, is_data_readable};
use crate::{ids, nt, system, threads};

/// `INVALID_PROCESSTRACE_HANDLE`, and the invalid handle of a logger.
const INVALID: u64 = u64::MAX;

pub(crate) unsafe extern "win64" fn EventRegister(
    provider: *const GUID,
    callback: PENABLECALLBACK,
    context: *mut c_void,
    handle: *mut u64,
) -> u32 {
    if !provider.is_readable() || !handle.is_readable() {
        return NO_ACCESS;
    }
    ids::publish();
    if callback.is_some() {
        threads::start();
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::EventRegister(provider, callback, context, handle) }
}

pub(crate) extern "win64" fn EventUnregister(handle: u64) -> u32 {
    // The threads that a callback would run on have ended, whatever they held.
    if system::is_exiting() { 0 } else { etw_capi::EventUnregister(handle) }
}

pub(crate) unsafe extern "win64" fn EventEnabled(handle: u64, descriptor: *const EVENT_DESCRIPTOR) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { etw_capi::EventEnabled(handle, descriptor) }
}

pub(crate) extern "win64" fn EventProviderEnabled(handle: u64, level: u8, keyword: u64) -> u8 {
    etw_capi::EventProviderEnabled(handle, level, keyword)
}

pub(crate) unsafe extern "win64" fn EventWrite(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    // SAFETY: the caller's promises are those of these functions.
    unsafe {
        if etw_capi::EventEnabled(handle, descriptor) != 0 && !is_ready(count, data) {
            return NO_ACCESS;
        }
        etw_capi::EventWrite(handle, descriptor, count, data)
    }
}

pub(crate) unsafe extern "win64" fn EventWriteTransfer(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    activity: *const GUID,
    related: *const GUID,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    // SAFETY: the caller's promises are those of these functions.
    unsafe {
        if etw_capi::EventEnabled(handle, descriptor) != 0
            && !(is_ready(count, data) && activity.is_readable() && related.is_readable())
        {
            return NO_ACCESS;
        }
        etw_capi::EventWriteTransfer(handle, descriptor, activity, related, count, data)
    }
}

pub(crate) unsafe extern "win64" fn EventWriteEx(
    handle: u64,
    descriptor: *const EVENT_DESCRIPTOR,
    filter: u64,
    flags: u32,
    activity: *const GUID,
    related: *const GUID,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    // SAFETY: the caller's promises are those of these functions.
    unsafe {
        if etw_capi::EventEnabled(handle, descriptor) != 0
            && !(is_ready(count, data) && activity.is_readable() && related.is_readable())
        {
            return NO_ACCESS;
        }
        etw_capi::EventWriteEx(handle, descriptor, filter, flags, activity, related, count, data)
    }
}

pub(crate) unsafe extern "win64" fn EventWriteString(
    handle: u64,
    level: u8,
    keyword: u64,
    text: *const u16,
) -> u32 {
    if !text.is_readable() {
        return NO_ACCESS;
    }
    ids::publish();
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::EventWriteString(handle, level, keyword, text) }
}

/// Returns whether an event can be written, and makes the thread known.
fn is_ready(count: u32, data: *const EVENT_DATA_DESCRIPTOR) -> bool {
    ids::publish();
    is_data_readable(count, data)
}

macro_rules! register {
    ($($name:ident)*) => {
        $(
            pub(crate) unsafe extern "win64" fn $name(
                request: WMIDPREQUEST,
                context: *const c_void,
                control: *const GUID,
                count: u32,
                classes: *mut TRACE_GUID_REGISTRATION,
                image: *const c_void,
                resource: *const c_void,
                handle: *mut u64,
            ) -> u32 {
                let size = (count as usize).saturating_mul(size_of::<TRACE_GUID_REGISTRATION>());
                let are_classes_readable = classes.is_null() || system::is_readable(classes.cast(), size);
                if !control.is_readable() || !handle.is_readable() || !are_classes_readable {
                    return NO_ACCESS;
                }
                ids::publish();
                threads::start();
                // SAFETY: the caller's promises are those of this function.
                unsafe { etw_capi::$name(request, context, control, count, classes, image, resource, handle) }
            }
        )*
    };
}

register! { RegisterTraceGuidsW RegisterTraceGuidsA }

pub(crate) extern "win64" fn UnregisterTraceGuids(handle: u64) -> u32 {
    if system::is_exiting() { 0 } else { etw_capi::UnregisterTraceGuids(handle) }
}

/// Returns a result, and sets the last error if it is the one that says so.
fn reported<T: PartialEq>(result: T, failure: T) -> T {
    let code = etw_capi::GetLastError();
    if result == failure && code != 0 {
        system::set_last_error(code);
    }
    result
}

fn refused<T>(failure: T) -> T {
    system::set_last_error(NO_ACCESS);
    failure
}

pub(crate) unsafe extern "win64" fn GetTraceLoggerHandle(buffer: *const c_void) -> u64 {
    if !has(buffer, size_of::<WNODE_HEADER>() as u32) {
        return refused(INVALID);
    }
    // SAFETY: the caller's promise.
    reported(unsafe { etw_capi::GetTraceLoggerHandle(buffer) }, INVALID)
}

pub(crate) extern "win64" fn GetTraceEnableLevel(handle: u64) -> u8 {
    etw_capi::SetLastError(0);
    reported(etw_capi::GetTraceEnableLevel(handle), 0)
}

pub(crate) extern "win64" fn GetTraceEnableFlags(handle: u64) -> u32 {
    etw_capi::SetLastError(0);
    reported(etw_capi::GetTraceEnableFlags(handle), 0)
}

macro_rules! start {
    ($($name:ident($text:ty))*) => {
        $(
            pub(crate) unsafe extern "win64" fn $name(
                handle: *mut u64,
                name: *const $text,
                properties: *mut EVENT_TRACE_PROPERTIES,
            ) -> u32 {
                if !handle.is_readable() || !has(name, 1) || !are_properties_readable(properties) {
                    return NO_ACCESS;
                }
                ids::publish();
                nt::take_over();
                // SAFETY: the caller's promises are those of this function.
                unsafe { etw_capi::$name(handle, name, properties) }
            }
        )*
    };
}

start! { StartTraceW(u16) StartTraceA(u8) }

macro_rules! control {
    ($($name:ident($text:ty $(, $code:ident)?))*) => {
        $(
            pub(crate) unsafe extern "win64" fn $name(
                handle: u64,
                name: *const $text,
                properties: *mut EVENT_TRACE_PROPERTIES,
                $($code: u32,)?
            ) -> u32 {
                if !has(name, 1) || !are_properties_readable(properties) {
                    return NO_ACCESS;
                }
                // SAFETY: the caller's promises are those of this function.
                unsafe { etw_capi::$name(handle, name, properties $(, $code)?) }
            }
        )*
    };
}

control! {
    ControlTraceW(u16, code) ControlTraceA(u8, code)
    StopTraceW(u16) StopTraceA(u8) QueryTraceW(u16) QueryTraceA(u8)
    UpdateTraceW(u16) UpdateTraceA(u8) FlushTraceW(u16) FlushTraceA(u8)
}

macro_rules! open {
    ($($name:ident($logfile:ty))*) => {
        $(
            pub(crate) unsafe extern "win64" fn $name(logfile: *mut $logfile) -> u64 {
                if !logfile.is_readable() {
                    return refused(INVALID);
                }
                ids::publish();
                // SAFETY: the caller's promises are those of this function.
                reported(unsafe { etw_capi::$name(logfile) }, INVALID)
            }
        )*
    };
}

open! { OpenTraceW(EVENT_TRACE_LOGFILEW) OpenTraceA(EVENT_TRACE_LOGFILEA) }

macro_rules! open_from {
    ($($name:ident)*) => {
        $(
            pub(crate) unsafe extern "win64" fn $name(
                name: *const u16,
                options: *const ETW_OPEN_TRACE_OPTIONS,
                header: *mut TRACE_LOGFILE_HEADER,
            ) -> u64 {
                if !name.is_readable() || !options.is_readable() || !header.is_readable() {
                    return refused(INVALID);
                }
                // SAFETY: the caller's promises are those of this function.
                reported(unsafe { etw_capi::$name(name, options, header) }, INVALID)
            }
        )*
    };
}

open_from! { OpenTraceFromFile OpenTraceFromRealTimeLogger }

pub(crate) unsafe extern "win64" fn OpenTraceFromRealTimeLoggerWithAllocationOptions(
    name: *const u16,
    options: *const ETW_OPEN_TRACE_OPTIONS,
    allocation_size: usize,
    partition: *mut c_void,
    header: *mut TRACE_LOGFILE_HEADER,
) -> u64 {
    if !name.is_readable() || !options.is_readable() || !header.is_readable() {
        return refused(INVALID);
    }
    // SAFETY: the caller's promises are those of this function.
    let handle = unsafe {
        etw_capi::OpenTraceFromRealTimeLoggerWithAllocationOptions(
            name,
            options,
            allocation_size,
            partition,
            header,
        )
    };
    reported(handle, INVALID)
}

pub(crate) unsafe extern "win64" fn OpenTraceFromBufferStream(
    options: *const ETW_OPEN_TRACE_OPTIONS,
    completion: PETW_BUFFER_COMPLETION_CALLBACK,
    context: *const c_void,
) -> u64 {
    if !options.is_readable() {
        return refused(INVALID);
    }
    // SAFETY: the caller's promises are those of this function.
    reported(unsafe { etw_capi::OpenTraceFromBufferStream(options, completion, context) }, INVALID)
}

pub(crate) unsafe extern "win64" fn CveEventWrite(id: *const u16, details: *const u16) -> i32 {
    if !id.is_readable() || !details.is_readable() {
        return NO_ACCESS as i32;
    }
    ids::publish();
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::CveEventWrite(id, details) }
}
