//! Writes numbered events.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{CreateFileW, OPEN_EXISTING};
use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::Win32::System::Memory::{CreateFileMappingW, FILE_MAP_WRITE, MapViewOfFile, PAGE_READWRITE};
use windows_sys::Win32::System::Threading::{GetCurrentProcessId, GetCurrentThreadId};
use windows_sys::core::GUID;

use super::support::{data, descriptor, guid, succeed, wide};

static IS_ENABLED: AtomicU32 = AtomicU32::new(0);

unsafe extern "system" fn enabled(
    _: *const GUID,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    _: *const EVENT_FILTER_DESCRIPTOR,
    context: *mut c_void,
) {
    // Code of the program may run here: allocation, output and thread-local storage work.
    println!(
        "callback: code {code} level {level} any {any:#x} all {all:#x} context {:#x} thread {}",
        context.addr(),
        // SAFETY: no arguments.
        unsafe { GetCurrentThreadId() }
    );
    IS_ENABLED.store(code, Ordering::Release);
}

fn register(id: &str) -> REGHANDLE {
    let (id, mut handle) = (guid(id), 0);
    // SAFETY: the pointers are valid.
    succeed("EventRegister", unsafe {
        EventRegister(&id, Some(enabled), std::ptr::without_provenance(0x1234), &mut handle)
    });
    let until = Instant::now() + Duration::from_secs(30);
    while IS_ENABLED.load(Ordering::Acquire) == 0 {
        assert!(Instant::now() < until, "no session enables the provider");
        std::thread::sleep(Duration::from_millis(1));
    }
    handle
}

/// Writes `count` events, `rate` per second or as fast as possible (0).
pub fn run(id: &str, count: u64, rate: u64) {
    let handle = register(id);
    let (event, start, mut lost) = (descriptor(1), Instant::now(), 0u64);
    for number in 0..count {
        if rate != 0 && number % 100 == 0 {
            let due = start + Duration::from_nanos(number * 1_000_000_000 / rate);
            while Instant::now() < due {
                std::hint::spin_loop();
            }
        }
        // SAFETY: the pointers are valid.
        let code = unsafe { EventWrite(handle, &event, 1, &data(&number)) };
        lost += u64::from(code != 0);
    }
    let seconds = start.elapsed().as_secs_f64();
    // SAFETY: no arguments.
    let (process, thread) = unsafe { (GetCurrentProcessId(), GetCurrentThreadId()) };
    // SAFETY: as above.
    succeed("EventUnregister", unsafe { EventUnregister(handle) });
    println!("wrote {count} lost {lost} seconds {seconds:.3} process {process} thread {thread}");
}

/// Writes events for ever, and the number of those written to a file that outlives this process.
pub fn until_killed(id: &str, ledger: &str) {
    // SAFETY: the arguments are those of a file and its mapping; the view lives as long as the process.
    let counter = unsafe {
        let access = GENERIC_READ | GENERIC_WRITE;
        let file = CreateFileW(wide(ledger).as_ptr(), access, 3, null(), OPEN_EXISTING, 0, null_mut());
        let mapping = CreateFileMappingW(file, null(), PAGE_READWRITE, 0, 16, null());
        let view = MapViewOfFile(mapping, FILE_MAP_WRITE, 0, 0, 16).Value.cast::<u64>();
        assert!(!view.is_null(), "cannot map {ledger}");
        view
    };
    let handle = register(id);
    let event = descriptor(1);
    for number in 0.. {
        // SAFETY: the pointers are valid; nobody else writes to the view.
        unsafe {
            // How many were begun, and how many were written or refused.
            counter.write_volatile(number + 1);
            while EventWrite(handle, &event, 1, &data(&number)) != 0 {
                std::thread::yield_now();
            }
            counter.add(1).write_volatile(number + 1);
        }
    }
}
