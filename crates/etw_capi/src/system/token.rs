//! Access tokens: what controllers do to get the right to profile.
//!
//! Root is elevated and has every privilege; other users are not and have none.

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::ffi::c_void;

use super::objects::{is_token, new_token};
use crate::error::{
    ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_NO_SUCH_PRIVILEGE,
    ERROR_NOT_ALL_ASSIGNED, ERROR_NOT_SUPPORTED, ERROR_SUCCESS, SetLastError, failed,
};
use crate::wide::Width;

/// `TokenElevationType` and `TokenElevation` of `TOKEN_INFORMATION_CLASS`.
const ELEVATION_TYPE: i32 = 18;
const ELEVATION: i32 = 20;

/// The privileges that controllers ask for, and their numbers on Windows.
const PRIVILEGES: &[(&str, u32)] = &[
    ("SeSecurityPrivilege", 8),
    ("SeLoadDriverPrivilege", 10),
    ("SeSystemProfilePrivilege", 11),
    ("SeProfileSingleProcessPrivilege", 13),
    ("SeBackupPrivilege", 17),
    ("SeRestorePrivilege", 18),
    ("SeDebugPrivilege", 20),
    ("SeAuditPrivilege", 21),
    ("SeLockMemoryPrivilege", 4),
    ("SeIncreaseQuotaPrivilege", 5),
    ("SeIncreaseBasePriorityPrivilege", 14),
    ("SeSystemtimePrivilege", 12),
    ("SeShutdownPrivilege", 19),
    ("SeImpersonatePrivilege", 29),
    ("SeCreateGlobalPrivilege", 30),
];

/// Opens this process's token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenProcessToken(
    process: *mut c_void,
    _access: u32,
    token: *mut *mut c_void,
) -> i32 {
    // The pseudo handle of the current process.
    if process.addr() != usize::MAX {
        return failed(ERROR_INVALID_HANDLE);
    }
    if token.is_null() {
        return failed(ERROR_INVALID_PARAMETER);
    }
    // SAFETY: the pointer is to a handle.
    unsafe { token.write_unaligned(new_token()) };
    1
}

/// Writes whether a token is elevated (`TokenElevation`, `TokenElevationType`). Other classes of information fail with
/// `ERROR_NOT_SUPPORTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetTokenInformation(
    token: *mut c_void,
    class: i32,
    information: *mut c_void,
    size: u32,
    needed: *mut u32,
) -> i32 {
    if !is_token(token) {
        return failed(ERROR_INVALID_HANDLE);
    }
    let value: u32 = match (class, is_root()) {
        // TokenElevationTypeDefault and TokenElevationTypeFull.
        (ELEVATION_TYPE, is_root) => 1 + u32::from(is_root),
        (ELEVATION, is_root) => is_root.into(),
        _ => return failed(ERROR_NOT_SUPPORTED),
    };
    if !needed.is_null() {
        // SAFETY: the pointer is to a DWORD.
        unsafe { needed.write_unaligned(4) };
    }
    if size < 4 {
        return failed(ERROR_INSUFFICIENT_BUFFER);
    }
    if information.is_null() {
        return failed(ERROR_INVALID_PARAMETER);
    }
    // SAFETY: the caller promises `size` writable bytes.
    unsafe { information.cast::<u32>().write_unaligned(value) };
    1
}

/// Writes the number of a privilege.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LookupPrivilegeValueW(system: *const u16, name: *const u16, luid: *mut u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { lookup(system.cast(), name.cast(), luid, Width::Wide16) }
}

/// [`LookupPrivilegeValueW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LookupPrivilegeValueW32(
    system: *const u32,
    name: *const u32,
    luid: *mut u64,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { lookup(system.cast(), name.cast(), luid, Width::Wide32) }
}

/// [`LookupPrivilegeValueW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LookupPrivilegeValueA(system: *const u8, name: *const u8, luid: *mut u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { lookup(system.cast(), name.cast(), luid, Width::Narrow) }
}

/// Changes nothing, since privileges follow from the user; the last error says whether all are assigned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AdjustTokenPrivileges(
    token: *mut c_void,
    disable_all: i32,
    new: *const c_void,
    size: u32,
    previous: *mut c_void,
    needed: *mut u32,
) -> i32 {
    if !is_token(token) {
        return failed(ERROR_INVALID_HANDLE);
    }
    if disable_all == 0 && new.is_null() {
        return failed(ERROR_INVALID_PARAMETER);
    }
    if !previous.is_null() && size < 4 {
        return failed(ERROR_INSUFFICIENT_BUFFER);
    }
    // SAFETY: the pointers are null or to `size` bytes and a DWORD.
    unsafe {
        if !previous.is_null() {
            previous.cast::<u32>().write_unaligned(0);
        }
        if !needed.is_null() {
            needed.write_unaligned(4);
        }
    }
    SetLastError(if disable_all != 0 || is_root() { ERROR_SUCCESS } else { ERROR_NOT_ALL_ASSIGNED });
    1
}

/// # Safety
///
/// The texts are null or of this width, and the last pointer is null or to a LUID.
unsafe fn lookup(system: *const c_void, name: *const c_void, luid: *mut u64, width: Width) -> i32 {
    // SAFETY: the caller's promise.
    let (system, name) = unsafe { (width.read(system), width.read(name)) };
    let Some(name) = name.filter(|_| !luid.is_null()) else { return failed(ERROR_INVALID_PARAMETER) };
    if system.is_some_and(|system| !system.is_empty()) {
        return failed(ERROR_NOT_SUPPORTED);
    }
    let Some((_, number)) = PRIVILEGES.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name)) else {
        return failed(ERROR_NO_SUCH_PRIVILEGE);
    };
    // SAFETY: the caller's promise.
    unsafe { luid.write_unaligned((*number).into()) };
    1
}

fn is_root() -> bool {
    etw_sys::credentials::effective_uid() == 0
}
