//! Libraries of Windows by name: their functions are those of this program.

// UNSAFETY: reads texts of callers, and asks the loader for symbols.
#![expect(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};

use crate::error::{ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, SetLastError};
use crate::wide::Width;

/// `ERROR_MOD_NOT_FOUND` and `ERROR_PROC_NOT_FOUND`.
const NO_MODULE: u32 = 126;
const NO_FUNCTION: u32 = 127;

/// The libraries whose functions the headers declare.
const MODULES: &[&str] = &["advapi32", "kernel32", "kernelbase", "ntdll", "ole32", "sechost", "tdh"];

/// The handle of each of them.
const MODULE: usize = 0x1_0000;

/// Loads one of the libraries that this one stands for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LoadLibraryW(name: *const u16) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { module(name.cast(), Width::Wide16, false) }
}

/// [`LoadLibraryW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LoadLibraryW32(name: *const u32) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { module(name.cast(), Width::Wide32, false) }
}

/// [`LoadLibraryW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LoadLibraryA(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { module(name.cast(), Width::Narrow, false) }
}

/// As [`LoadLibraryW`]; without a name the program itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetModuleHandleW(name: *const u16) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { module(name.cast(), Width::Wide16, true) }
}

/// [`GetModuleHandleW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetModuleHandleW32(name: *const u32) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { module(name.cast(), Width::Wide32, true) }
}

/// [`GetModuleHandleW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetModuleHandleA(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { module(name.cast(), Width::Narrow, true) }
}

/// Returns a function by its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetProcAddress(module: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { function(module, name, "") }
}

/// Returns a function by its name, in its form for characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetProcAddress32(module: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { function(module, name, "32") }
}

/// # Safety
///
/// The name is null or of this width.
unsafe fn module(name: *const c_void, width: Width, is_own: bool) -> *mut c_void {
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { width.read(name) }) else {
        if !is_own {
            SetLastError(ERROR_INVALID_PARAMETER);
        }
        return if is_own { MODULE as *mut c_void } else { std::ptr::null_mut() };
    };
    let file = name.rsplit(['\\', '/']).next().unwrap_or_default().to_ascii_lowercase();
    let stem = file.strip_suffix(".dll").unwrap_or(&file);
    if MODULES.contains(&stem) || stem.starts_with("api-ms-win-") {
        return MODULE as *mut c_void;
    }
    SetLastError(NO_MODULE);
    std::ptr::null_mut()
}

/// # Safety
///
/// The name is null or a text.
unsafe fn function(module: *mut c_void, name: *const c_char, suffix: &str) -> *mut c_void {
    if module.addr() != MODULE {
        SetLastError(ERROR_INVALID_HANDLE);
        return std::ptr::null_mut();
    }
    // Low numbers are ordinals.
    if name.addr() < MODULE {
        SetLastError(NO_FUNCTION);
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let forms = [[name, suffix.as_bytes()].concat(), name.to_vec()];
    let found = forms.into_iter().filter_map(|form| CString::new(form).ok()).find_map(|form| symbol(&form));
    found.unwrap_or_else(|| {
        SetLastError(NO_FUNCTION);
        std::ptr::null_mut()
    })
}

/// Returns a symbol of the program and its libraries.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    // SAFETY: a null handle (`RTLD_DEFAULT`) means all libraries; the name is a text.
    let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_by_name() {
        // SAFETY: the texts are valid.
        unsafe {
            let tdh = LoadLibraryA(c"C:\\Windows\\System32\\TDH.dll".as_ptr());
            assert!(!tdh.is_null());
            assert_eq!(GetModuleHandleA(c"ntdll".as_ptr()), tdh);
            assert!(LoadLibraryA(c"other.dll".as_ptr()).is_null());
            assert!(GetProcAddress(tdh, c"no_such_function".as_ptr()).is_null());
            assert!(!GetProcAddress(tdh, c"malloc".as_ptr()).is_null());
            assert!(GetProcAddress(std::ptr::null_mut(), c"malloc".as_ptr()).is_null());
        }
    }
}
