//! `TraceMessage`, which takes any number of arguments.

// UNSAFETY: functions of C, which get pointers of callers.
#![expect(unsafe_code)]

use std::arch::naked_asm;

use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DATA_DESCRIPTOR, EVENT_DATA_DESCRIPTOR_0, MAX_EVENT_DATA_DESCRIPTORS,
};
use windows_sys::core::GUID;

use crate::arguments::{Argument, NO_ACCESS, is_data_readable};
use crate::ids;

/// Passes the address of its further arguments, which are on the stack after the words that a caller reserves for the
/// first four, to [`TraceMessageVa`] as its fifth argument.
#[unsafe(naked)]
pub(crate) unsafe extern "win64" fn TraceMessage() {
    naked_asm!(
        "lea rax, [rsp + 40]",
        "sub rsp, 56",
        "mov [rsp + 32], rax",
        "call {}",
        "add rsp, 56",
        "ret",
        sym TraceMessageVa,
    );
}

/// Writes a WPP message. Its arguments are pairs of a pointer and a size, up to a null pointer.
pub(crate) unsafe extern "win64" fn TraceMessageVa(
    handle: u64,
    flags: u32,
    message: *const GUID,
    number: u16,
    arguments: *const u64,
) -> u32 {
    if !message.is_readable() {
        return NO_ACCESS;
    }
    let mut data = Vec::new();
    if !arguments.is_null() {
        while data.len() < MAX_EVENT_DATA_DESCRIPTORS as usize {
            // SAFETY: there is a pair, or a null pointer.
            let next = unsafe { arguments.add(2 * data.len()) };
            if !next.is_readable() {
                return NO_ACCESS;
            }
            // SAFETY: as above.
            let pointer = unsafe { next.read_unaligned() };
            if pointer == 0 {
                break;
            }
            let second = next.wrapping_add(1);
            if !second.is_readable() {
                return NO_ACCESS;
            }
            // SAFETY: as above.
            let size = unsafe { second.read_unaligned() };
            data.push(EVENT_DATA_DESCRIPTOR {
                Ptr: pointer,
                Size: u32::try_from(size).unwrap_or(u32::MAX),
                Anonymous: EVENT_DATA_DESCRIPTOR_0 { Reserved: 0 },
            });
        }
    }
    let count = data.len() as u32;
    if !is_data_readable(count, data.as_ptr()) {
        return NO_ACCESS;
    }
    ids::publish();
    // SAFETY: the descriptors name readable memory.
    unsafe { etw_capi::openetw_trace_message(handle, flags, message, number, count, data.as_ptr()) }
}
