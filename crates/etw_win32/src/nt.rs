//! `NtQuerySystemInformation` and `NtSetSystemInformation` of `ntdll`, by which programs choose groups of the kernel's events.
//!
//! Wine's `ntdll.dll` belongs to Wine's loader, and cannot be replaced by another file. A program that starts a session has
//! called this library by then, which makes the program's own imports of the two functions those below.

// UNSAFETY: reads the headers of the program's image, and writes into the table of its imports.
#![expect(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use etw_capi::PERFORMANCE_TRACE;

use crate::arguments::{Argument, has};
use crate::system;

/// `STATUS_ACCESS_VIOLATION` and `STATUS_NOT_IMPLEMENTED`.
const ACCESS_VIOLATION: i32 = 0xC000_0005_u32.cast_signed();
const NOT_IMPLEMENTED: i32 = 0xC000_0002_u32.cast_signed();

type Query = unsafe extern "win64" fn(i32, *mut c_void, u32, *mut u32) -> i32;
type Set = unsafe extern "win64" fn(i32, *mut c_void, u32) -> i32;

/// What the program's imports were before.
static QUERY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static SET: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the program call the functions below. Only for threads of Wine.
pub(crate) fn take_over() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(image) = system::program_image() else { return };
        // SAFETY: Wine has mapped the image there.
        unsafe {
            replace(image, c"NtQuerySystemInformation", query as *const c_void, &QUERY);
            replace(image, c"NtSetSystemInformation", set as *const c_void, &SET);
        }
    });
}

unsafe extern "win64" fn query(class: i32, information: *mut c_void, size: u32, length: *mut u32) -> i32 {
    if class != PERFORMANCE_TRACE {
        let before = QUERY.load(Ordering::Acquire);
        if before.is_null() {
            return NOT_IMPLEMENTED;
        }
        // SAFETY: the import was this function.
        return unsafe {
            std::mem::transmute::<*mut c_void, Query>(before)(class, information, size, length)
        };
    }
    if !has(information, size) || !length.is_null() && !length.is_readable() {
        return ACCESS_VIOLATION;
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::NtQuerySystemInformation(class, information, size, length) }
}

unsafe extern "win64" fn set(class: i32, information: *mut c_void, size: u32) -> i32 {
    if class != PERFORMANCE_TRACE {
        let before = SET.load(Ordering::Acquire);
        if before.is_null() {
            return NOT_IMPLEMENTED;
        }
        // SAFETY: the import was this function.
        return unsafe { std::mem::transmute::<*mut c_void, Set>(before)(class, information, size) };
    }
    if !has(information, size) {
        return ACCESS_VIOLATION;
    }
    // SAFETY: the caller's promises are those of this function.
    unsafe { etw_capi::NtSetSystemInformation(class, information, size) }
}

/// Offsets in the headers of a PE image of 64 bits: that of the newer headers, and in them of the directory of imports.
const NEW_HEADERS: usize = 0x3C;
const IMPORTS: usize = 0x18 + 0x70 + 8;
/// Bytes of a descriptor of imports, and the offsets in it: table of names, name of the library, table of addresses.
const DESCRIPTOR: usize = 20;
const NAMES: usize = 0;
const LIBRARY: usize = 12;
const ADDRESSES: usize = 16;

/// Makes an import of `ntdll` another function, and keeps what it was.
///
/// # Safety
///
/// A PE image of 64 bits is mapped there.
unsafe fn replace(image: *const u8, name: &CStr, with: *const c_void, before: &AtomicPtr<c_void>) {
    // SAFETY: the headers of a mapped image are as the loader has read them, with tables that end with zeros.
    unsafe {
        let number = |at: usize| image.add(at).cast::<u32>().read_unaligned() as usize;
        let text = |at: usize| CStr::from_ptr(image.add(at).cast::<c_char>());
        let mut descriptor = number(number(NEW_HEADERS) + IMPORTS);
        if descriptor == 0 {
            return;
        }
        while number(descriptor + LIBRARY) != 0 {
            let names = number(descriptor + NAMES);
            if names != 0 && text(number(descriptor + LIBRARY)).to_bytes().eq_ignore_ascii_case(b"ntdll.dll")
            {
                for index in 0.. {
                    let import = image.add(names + 8 * index).cast::<u64>().read_unaligned();
                    if import == 0 {
                        break;
                    }
                    // The highest bit says that the import is by number. A name follows two bytes of a hint.
                    if import >> 63 == 0 && text(import as usize + 2) == name {
                        let place = image.add(number(descriptor + ADDRESSES) + 8 * index).cast_mut().cast();
                        before.store(*place, Ordering::Release);
                        system::write_protected(place, with.cast_mut());
                    }
                }
            }
            descriptor += DESCRIPTOR;
        }
    }
}
