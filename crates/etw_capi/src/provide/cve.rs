//! `CveEventWrite`: an event for the attempt to exploit a known vulnerability.

// UNSAFETY: reads texts of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR};
use windows_sys::core::GUID;

use super::events::{EventRegister, EventWrite};
use crate::error::{ERROR_INVALID_PARAMETER, ERROR_NOT_ENOUGH_MEMORY, ERROR_SUCCESS};
use crate::wide::Width;

/// `Microsoft-Windows-Audit-CVE`. Source: the documentation of the function.
const PROVIDER: GUID = GUID::from_u128(0x85a62a0d_7e17_485f_9d4f_749a287193a6);
/// Its event for programs, at level 3 (warning). Source: the provider's manifest.
const EVENT: EVENT_DESCRIPTOR =
    EVENT_DESCRIPTOR { Id: 1, Version: 0, Channel: 0, Level: 3, Opcode: 0, Task: 0, Keyword: 0 };

/// Writes the id of a vulnerability (`CVE-2026-1234`) whose exploit was attempted, and details, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CveEventWrite(id: *const u16, details: *const u16) -> i32 {
    // SAFETY: the caller promises texts.
    unsafe { write(id.cast(), details.cast(), Width::Wide16) }
}

/// [`CveEventWrite`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CveEventWrite32(id: *const u32, details: *const u32) -> i32 {
    // SAFETY: the caller promises texts.
    unsafe { write(id.cast(), details.cast(), Width::Wide32) }
}

/// # Safety
///
/// The texts are null, or have this width.
unsafe fn write(id: *const c_void, details: *const c_void, width: Width) -> i32 {
    // SAFETY: the caller's promise.
    let (id, details) = unsafe { (width.read(id), width.read(details)) };
    let Some(id) = id.filter(|id| !id.is_empty()) else { return ERROR_INVALID_PARAMETER as i32 };
    let Some(handle) = registered() else { return ERROR_NOT_ENOUGH_MEMORY as i32 };
    let texts = [id, details.unwrap_or_default()].map(|text| Width::Wide16.encode(&text));
    let pieces = texts.each_ref().map(|text| {
        // SAFETY: zeros are valid for the structure.
        let mut piece: EVENT_DATA_DESCRIPTOR = unsafe { std::mem::zeroed() };
        piece.Ptr = text.as_ptr().addr() as u64;
        piece.Size = text.len() as u32;
        piece
    });
    // SAFETY: the descriptor and the pieces live until it returns.
    unsafe { EventWrite(handle, &EVENT, pieces.len() as u32, pieces.as_ptr()) as i32 }
}

/// Returns the handle of the provider, which the first call registers.
fn registered() -> Option<u64> {
    static HANDLE: OnceLock<Option<u64>> = OnceLock::new();
    *HANDLE.get_or_init(|| {
        let mut handle = 0;
        // SAFETY: the pointers are to a GUID and a handle.
        let code = unsafe { EventRegister(&PROVIDER, None, ptr::null_mut(), &mut handle) };
        (code == ERROR_SUCCESS).then_some(handle)
    })
}
