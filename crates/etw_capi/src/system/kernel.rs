//! What `ntdll` asks the kernel of Windows: here only which events a system logger records.

// UNSAFETY: exports symbols with the names of Windows' functions, and reads and writes what callers point to.
#![expect(unsafe_code)]

use std::ffi::c_void;

use windows_sys::Win32::System::Diagnostics::Etw::TraceSystemTraceEnableFlagsInfo;

use crate::control::{TraceQueryInformation, TraceSetInformation};
use crate::error::{
    ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER, ERROR_SUCCESS, ERROR_WMI_INSTANCE_NOT_FOUND,
};

/// `SystemPerformanceTraceInformation`, and of its classes the one of groups of events.
pub const PERFORMANCE_TRACE: i32 = 31;
const GROUP_MASKS: u32 = 1;

/// Bytes of `EVENT_TRACE_GROUPMASK_INFORMATION`: class, session, eight masks of groups. The first is that of `EnableFlags`.
const BYTES: u32 = 48;
const SESSION_AT: usize = 8;
const MASKS_AT: usize = 16;
const MASKS: usize = 32;

const SUCCESS: u32 = 0;
const UNSUCCESSFUL: u32 = 0xC000_0001;
const INVALID_INFO_CLASS: u32 = 0xC000_0003;
const INFO_LENGTH_MISMATCH: u32 = 0xC000_0004;
const ACCESS_VIOLATION: u32 = 0xC000_0005;
const INVALID_PARAMETER: u32 = 0xC000_000D;
const ACCESS_DENIED: u32 = 0xC000_0022;
const NOT_SUPPORTED: u32 = 0xC000_00BB;
const WMI_INSTANCE_NOT_FOUND: u32 = 0xC000_0297;

/// Returns the groups of events that a system logger records (`SystemPerformanceTraceInformation` with
/// `EventTraceGroupMaskInformation`). Linux has no information of other classes: `STATUS_INVALID_INFO_CLASS`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn NtQuerySystemInformation(
    class: i32,
    information: *mut c_void,
    size: u32,
    length: *mut u32,
) -> i32 {
    // SAFETY: the caller's promise.
    let status = unsafe {
        match session_of(class, information, size) {
            Err(status) => status,
            Ok(session) => {
                if !length.is_null() {
                    length.write_unaligned(BYTES);
                }
                let masks = information.byte_add(MASKS_AT);
                let class = TraceSystemTraceEnableFlagsInfo;
                status_of(TraceQueryInformation(session, class, masks, MASKS as u32, std::ptr::null_mut()))
            }
        }
    };
    status.cast_signed()
}

/// Sets what [`NtQuerySystemInformation`] returns. Groups that no `EnableFlags` have are not recorded on Linux:
/// `STATUS_NOT_SUPPORTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn NtSetSystemInformation(class: i32, information: *mut c_void, size: u32) -> i32 {
    // SAFETY: the caller's promise.
    let status = unsafe {
        match session_of(class, information, size) {
            Err(status) => status,
            Ok(session) => {
                let masks = information.byte_add(MASKS_AT).cast::<[u32; 8]>();
                match masks.read_unaligned() {
                    [_, 0, 0, 0, 0, 0, 0, 0] => {
                        let class = TraceSystemTraceEnableFlagsInfo;
                        status_of(TraceSetInformation(session, class, masks.cast(), MASKS as u32))
                    }
                    _ => NOT_SUPPORTED,
                }
            }
        }
    };
    status.cast_signed()
}

/// Reads the session that information is of, or returns why that is not to be had.
///
/// # Safety
///
/// The pointer is null or to as many bytes.
unsafe fn session_of(class: i32, information: *const c_void, size: u32) -> Result<u64, u32> {
    if class != PERFORMANCE_TRACE {
        return Err(INVALID_INFO_CLASS);
    }
    if information.is_null() {
        return Err(ACCESS_VIOLATION);
    }
    if size < size_of::<u32>() as u32 {
        return Err(INFO_LENGTH_MISMATCH);
    }
    // SAFETY: the caller's promise.
    if unsafe { information.cast::<u32>().read_unaligned() } != GROUP_MASKS {
        return Err(INVALID_INFO_CLASS);
    }
    if size < BYTES {
        return Err(INFO_LENGTH_MISMATCH);
    }
    // SAFETY: as above.
    Ok(unsafe { information.byte_add(SESSION_AT).cast::<u64>().read_unaligned() })
}

fn status_of(code: u32) -> u32 {
    match code {
        ERROR_SUCCESS => SUCCESS,
        ERROR_ACCESS_DENIED => ACCESS_DENIED,
        ERROR_INVALID_PARAMETER => INVALID_PARAMETER,
        ERROR_WMI_INSTANCE_NOT_FOUND => WMI_INSTANCE_NOT_FOUND,
        _ => UNSUCCESSFUL,
    }
}
