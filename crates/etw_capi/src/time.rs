//! Clocks and ids that programs of Windows ask for.

// UNSAFETY: exports symbols with the names of Windows' functions, which write through pointers of callers.
#![expect(unsafe_code)]

use etw_event::FileTime;
use etw_sys::clock::{self, ClockSource};
use windows_sys::Win32::Foundation::{FILETIME, SYSTEMTIME};

/// Returns the process id.
#[unsafe(no_mangle)]
pub extern "C" fn GetCurrentProcessId() -> u32 {
    std::process::id()
}

/// Returns the thread id, as in the headers of events.
#[unsafe(no_mangle)]
pub extern "C" fn GetCurrentThreadId() -> u32 {
    etw_sys::ids::thread_and_process() as u32
}

/// Blocks the thread.
#[unsafe(no_mangle)]
pub extern "C" fn Sleep(milliseconds: u32) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds.into()));
}

/// Writes the time in UTC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetSystemTimeAsFileTime(time: *mut FILETIME) {
    let now = clock::filetime();
    let parts = FILETIME { dwLowDateTime: now as u32, dwHighDateTime: (now >> 32) as u32 };
    if !time.is_null() {
        // SAFETY: the pointer is to a FILETIME.
        unsafe { time.write_unaligned(parts) };
    }
}

/// Writes the parts of a time in UTC; returns 0 if the time cannot be written so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FileTimeToSystemTime(time: *const FILETIME, parts: *mut SYSTEMTIME) -> i32 {
    if time.is_null() || parts.is_null() {
        return 0;
    }
    // SAFETY: the pointer is to a FILETIME.
    let FILETIME { dwLowDateTime: low, dwHighDateTime: high } = unsafe { time.read_unaligned() };
    let ticks = (u64::from(high) << 32 | u64::from(low)) as i64;
    let (year, month, day, hour, minute, second, fraction) = FileTime(ticks).to_civil();
    let Ok(year) = u16::try_from(year) else { return 0 };
    if ticks < 0 {
        return 0;
    }
    let found = SYSTEMTIME {
        wYear: year,
        wMonth: month as u16,
        // The first day of FILETIME was a Monday.
        wDayOfWeek: (ticks / (86_400 * FileTime::PER_SECOND) + 1).rem_euclid(7) as u16,
        wDay: day as u16,
        wHour: hour as u16,
        wMinute: minute as u16,
        wSecond: second as u16,
        wMilliseconds: (fraction / 10_000) as u16,
    };
    // SAFETY: the pointer is to a SYSTEMTIME.
    unsafe { parts.write_unaligned(found) };
    1
}

/// Writes the ticks per second of [`QueryPerformanceCounter`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QueryPerformanceFrequency(frequency: *mut i64) -> i32 {
    if frequency.is_null() {
        return 0;
    }
    // SAFETY: the pointer is to a LARGE_INTEGER.
    unsafe { frequency.write_unaligned(ClockSource::of_performance_counter().frequency() as i64) };
    1
}

/// Writes the time of the performance counter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QueryPerformanceCounter(count: *mut i64) -> i32 {
    if count.is_null() {
        return 0;
    }
    // SAFETY: the pointer is to a LARGE_INTEGER.
    unsafe { count.write_unaligned(ClockSource::of_performance_counter().now() as i64) };
    1
}
