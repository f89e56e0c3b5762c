//! Error codes, and the last error of a thread.

// UNSAFETY: exports symbols with the names of Windows' functions.
#![expect(unsafe_code)]

use std::cell::Cell;

pub(crate) use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_ALREADY_EXISTS, ERROR_ARITHMETIC_OVERFLOW, ERROR_BAD_LENGTH,
    ERROR_BAD_PATHNAME, ERROR_BUSY, ERROR_CANCELLED, ERROR_CTX_CLOSE_PENDING, ERROR_EVT_INVALID_EVENT_DATA,
    ERROR_FILE_NOT_FOUND, ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_DATA, ERROR_INVALID_FLAG_NUMBER,
    ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_MORE_DATA, ERROR_NO_SUCH_PRIVILEGE,
    ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ALL_ASSIGNED, ERROR_NOT_ENOUGH_MEMORY, ERROR_NOT_FOUND,
    ERROR_NOT_SUPPORTED, ERROR_SHARING_VIOLATION, ERROR_SUCCESS, ERROR_WMI_GUID_NOT_FOUND,
    ERROR_WMI_INSTANCE_NOT_FOUND,
};

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// Returns the error of this thread's last function that reports its error so.
#[unsafe(no_mangle)]
pub extern "C" fn GetLastError() -> u32 {
    LAST.get()
}

/// Sets what [`GetLastError`] returns.
#[unsafe(no_mangle)]
pub extern "C" fn SetLastError(code: u32) {
    LAST.set(code);
}

/// Returns the code of a system error.
pub(crate) fn code_of_io(error: &std::io::Error) -> u32 {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => ERROR_FILE_NOT_FOUND,
        ErrorKind::PermissionDenied => ERROR_ACCESS_DENIED,
        ErrorKind::AlreadyExists => ERROR_ALREADY_EXISTS,
        ErrorKind::OutOfMemory => ERROR_NOT_ENOUGH_MEMORY,
        ErrorKind::InvalidInput => ERROR_BAD_PATHNAME,
        _ => ERROR_INVALID_DATA,
    }
}

/// Sets the last error, and returns what functions return that report it so.
pub(crate) fn failed(code: u32) -> i32 {
    SetLastError(code);
    0
}
