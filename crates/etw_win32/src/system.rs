//! Functions of Wine, and the block that describes a thread (`TEB`).

// UNSAFETY: calls functions of Wine, and reads the thread's block, which the register GS points to.
#![expect(unsafe_code)]

use std::arch::asm;
use std::ffi::{CStr, CString, c_char, c_void};

use crate::image::{Import, import};

/// Offsets in the `TEB` of 64 bits.
const STACK_END: usize = 0x8;
const PROCESS_ID: usize = 0x40;
const THREAD_ID: usize = 0x48;
const PROCESS_BLOCK: usize = 0x60;
const LAST_ERROR: usize = 0x68;
const STACK_START: usize = 0x1478;
/// Offset in the process's block (`PEB`).
const IMAGE: usize = 0x10;

macro_rules! function {
    ($import:ident: fn($($argument:ty),*) -> $result:ty) => {{
        let address = import(Import::$import);
        // SAFETY: a function of this type, whose address Wine's loader has written, or null.
        unsafe { std::mem::transmute::<*const c_void, Option<unsafe extern "win64" fn($($argument),*) -> $result>>(address) }
    }};
}

/// Reads four bytes of the thread's block, or eight. Only for threads of Wine.
macro_rules! of_thread {
    ($offset:expr) => { of_thread!($offset, u32, ":e") };
    ($offset:expr, $type:ty, $register:literal) => {{
        let value: $type;
        // SAFETY: the caller is a function that a thread of Wine has called, so GS points to its block.
        unsafe {
            asm!(
                concat!("mov {", $register, "}, gs:[{}]"),
                out(reg) value,
                const $offset,
                options(nostack, readonly, preserves_flags)
            )
        };
        value
    }};
}

/// Returns the ids of this process and thread as Windows programs know them. Only for threads of Wine.
pub(crate) fn own_ids() -> (u32, u32) {
    (of_thread!(PROCESS_ID), of_thread!(THREAD_ID))
}

/// Sets the thread's last error. Only for threads of Wine.
pub(crate) fn set_last_error(code: u32) {
    // SAFETY: as of `of_thread`.
    unsafe { asm!("mov gs:[{}], {:e}", const LAST_ERROR, in(reg) code, options(nostack, preserves_flags)) };
}

/// Calls `work`, and keeps the thread's last error. Only for threads of Wine.
fn keeping_last_error<R>(work: impl FnOnce() -> R) -> R {
    let before = of_thread!(LAST_ERROR);
    let result = work();
    set_last_error(before);
    result
}

/// Returns whether this is a thread of Wine, which alone may call functions of Windows.
///
/// A thread that one of Wine's makes without Wine, as a library for Linux does, inherits the register GS, but has a stack of
/// its own.
pub(crate) fn is_own_thread() -> bool {
    const ARCH_GET_GS: libc::c_int = 0x1004;
    let mut base = 0u64;
    // SAFETY: the call writes the base of GS; threads that Wine has not made have none.
    let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_GS, &raw mut base) };
    if result != 0 || base == 0 {
        return false;
    }
    let here = (&raw const base).addr() as u64;
    (of_thread!(STACK_START, u64, "")..of_thread!(STACK_END, u64, "")).contains(&here)
}

/// Returns whether the memory can be read. Only for threads of Wine.
pub(crate) fn is_readable(pointer: *const c_void, size: usize) -> bool {
    if size == 0 {
        return true;
    }
    if pointer.addr().checked_add(size).is_none() {
        return false;
    }
    match function!(IsBadReadPtr: fn(*const c_void, usize) -> i32) {
        // SAFETY: the function takes any pointer.
        Some(is_bad) => unsafe { is_bad(pointer, size) == 0 },
        None => true,
    }
}

/// Returns where the program's image is mapped. Only for threads of Wine.
pub(crate) fn program_image() -> Option<*const u8> {
    let process = of_thread!(PROCESS_BLOCK, u64, "") as *const u8;
    if process.is_null() {
        return None;
    }
    // SAFETY: the thread's block points to the process's block (`PEB`), which has this address.
    let image = unsafe { process.add(IMAGE).cast::<*const u8>().read() };
    (!image.is_null()).then_some(image)
}

/// Writes an address to memory that cannot be written otherwise. Only for threads of Wine.
///
/// # Safety
///
/// The place is of the program's image.
pub(crate) unsafe fn write_protected(place: *mut *mut c_void, value: *mut c_void) {
    const PAGE_READWRITE: u32 = 4;
    let protect = function!(VirtualProtect: fn(*mut c_void, usize, u32, *mut u32) -> i32);
    let (Some(protect), mut before) = (protect, 0) else { return };
    keeping_last_error(|| {
        // SAFETY: the caller's promise; the protection is as before in the end.
        unsafe {
            if protect(place.cast(), size_of::<*mut c_void>(), PAGE_READWRITE, &raw mut before) != 0 {
                place.write(value);
                protect(place.cast(), size_of::<*mut c_void>(), before, &raw mut before);
            }
        }
    });
}

/// Starts a thread of Wine that runs `body`. Only for threads of Wine.
pub(crate) fn start_thread(body: unsafe extern "win64" fn(*mut c_void) -> u32) -> bool {
    type Body = unsafe extern "win64" fn(*mut c_void) -> u32;
    let create =
        function!(CreateThread: fn(*const c_void, usize, Body, *mut c_void, u32, *mut u32) -> *mut c_void);
    let Some(create) = create else { return false };
    keeping_last_error(|| {
        // SAFETY: the arguments are those of a thread with default properties. Its handle is kept, as the thread does not end.
        unsafe { !create(std::ptr::null(), 0, body, std::ptr::null_mut(), 0, std::ptr::null_mut()).is_null() }
    })
}

/// Returns whether the process is exiting, and its other threads have ended. Only for threads of Wine.
pub(crate) fn is_exiting() -> bool {
    // SAFETY: the function has no arguments.
    function!(ShutdownInProgress: fn() -> u8).is_some_and(|is_exiting| unsafe { is_exiting() != 0 })
}

/// Returns the reading of Wine's performance counter, and its ticks per second. Only for threads of Wine.
pub(crate) fn performance_counter() -> Option<(i64, i64)> {
    let counter = function!(QueryPerformanceCounter: fn(*mut i64) -> i32)?;
    let frequency = function!(QueryPerformanceFrequency: fn(*mut i64) -> i32)?;
    let (mut count, mut ticks) = (0, 0);
    // SAFETY: the functions write to these.
    let done = unsafe { frequency(&raw mut ticks) != 0 && counter(&raw mut count) != 0 };
    done.then_some((count, ticks))
}

/// Returns the Linux path of a file with a name of Windows. Only for threads of Wine.
pub(crate) fn unix_path(name: &str) -> Option<String> {
    let convert = function!(GetUnixFileName: fn(*const u16) -> *mut c_char)?;
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    keeping_last_error(|| {
        // SAFETY: the text ends with a zero, and so does the one returned, which is on the process's heap.
        unsafe {
            let path = convert(name.as_ptr());
            if path.is_null() {
                return None;
            }
            let text = CStr::from_ptr(path).to_string_lossy().into_owned();
            free(path.cast());
            Some(text)
        }
    })
}

/// Returns the name that Windows programs have for a file with a Linux path. Only for threads of Wine.
pub(crate) fn windows_name(path: &str) -> Option<String> {
    let convert = function!(GetDosFileName: fn(*const c_char) -> *mut u16)?;
    let path = CString::new(path).ok()?;
    keeping_last_error(|| {
        // SAFETY: as above.
        unsafe {
            let name = convert(path.as_ptr());
            if name.is_null() {
                return None;
            }
            let mut units = Vec::new();
            while *name.add(units.len()) != 0 {
                units.push(*name.add(units.len()));
            }
            free(name.cast());
            Some(String::from_utf16_lossy(&units))
        }
    })
}

/// # Safety
///
/// The memory is of the process's heap, and is not used any more.
unsafe fn free(memory: *mut c_void) {
    let heap = function!(GetProcessHeap: fn() -> *mut c_void);
    let free = function!(HeapFree: fn(*mut c_void, u32, *mut c_void) -> i32);
    if let (Some(heap), Some(free)) = (heap, free) {
        // SAFETY: the caller's promise.
        unsafe { free(heap(), 0, memory) };
    }
}
