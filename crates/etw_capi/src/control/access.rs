//! `EventAccessControl` and its like.
//!
//! Rights here are those of the access list, a file of the administrator that the host reads when it starts. No request
//! changes or returns them, so these functions check their arguments and return `ERROR_NOT_SUPPORTED`.

// UNSAFETY: exports symbols with the names of Windows' functions.
#![expect(unsafe_code)]

use std::ffi::c_void;

use windows_sys::Win32::System::Diagnostics::Etw::{EVENTSECURITYOPERATION, EventSecurityMax};
use windows_sys::core::GUID;

use crate::error::{ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED};

/// Would change the rights to a provider or session; returns `ERROR_NOT_SUPPORTED`.
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessControl(
    guid: *const GUID,
    operation: EVENTSECURITYOPERATION,
    sid: *const c_void,
    _rights: u32,
    _allow: u8,
) -> u32 {
    if guid.is_null() || sid.is_null() || !(0..EventSecurityMax).contains(&operation) {
        return ERROR_INVALID_PARAMETER;
    }
    ERROR_NOT_SUPPORTED
}

/// Would write the rights to a provider or session; returns `ERROR_NOT_SUPPORTED`.
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessQuery(guid: *const GUID, _descriptor: *mut c_void, size: *mut u32) -> u32 {
    if guid.is_null() || size.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    ERROR_NOT_SUPPORTED
}

/// Would remove the rights that were set; returns `ERROR_NOT_SUPPORTED`.
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessRemove(guid: *const GUID) -> u32 {
    if guid.is_null() { ERROR_INVALID_PARAMETER } else { ERROR_NOT_SUPPORTED }
}
