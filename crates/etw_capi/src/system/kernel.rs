//! What `ntdll` asks the kernel of Windows: nothing of it is there.

// UNSAFETY: exports symbols with the names of Windows' functions.
#![expect(unsafe_code)]

use std::ffi::c_void;

/// `STATUS_INVALID_INFO_CLASS`.
const INVALID_INFO_CLASS: i32 = 0xC000_0003_u32 as i32;

/// Returns `STATUS_INVALID_INFO_CLASS`: Linux has no information of these classes. The flags of a system logger are set by
/// `TraceSetInformation`.
#[unsafe(no_mangle)]
pub extern "C" fn NtQuerySystemInformation(
    _class: i32,
    _information: *mut c_void,
    _size: u32,
    _length: *mut u32,
) -> i32 {
    INVALID_INFO_CLASS
}

/// Returns `STATUS_INVALID_INFO_CLASS`, like [`NtQuerySystemInformation`].
#[unsafe(no_mangle)]
pub extern "C" fn NtSetSystemInformation(_class: i32, _information: *mut c_void, _size: u32) -> i32 {
    INVALID_INFO_CLASS
}
