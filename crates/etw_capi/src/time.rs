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

/// Writes the parts of the time in UTC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetSystemTime(parts: *mut SYSTEMTIME) {
    if let (false, Some(now)) = (parts.is_null(), system_time(clock::filetime() as i64)) {
        // SAFETY: the pointer is to a SYSTEMTIME.
        unsafe { parts.write_unaligned(now) };
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
    let Some(found) = system_time((u64::from(high) << 32 | u64::from(low)) as i64) else { return 0 };
    // SAFETY: the pointer is to a SYSTEMTIME.
    unsafe { parts.write_unaligned(found) };
    1
}

/// Writes the time in UTC that parts state, without the day of the week; returns 0 if there is no such time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SystemTimeToFileTime(parts: *const SYSTEMTIME, time: *mut FILETIME) -> i32 {
    if time.is_null() || parts.is_null() {
        return 0;
    }
    // SAFETY: the pointer is to a SYSTEMTIME.
    let parts = unsafe { parts.read_unaligned() };
    let small = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
    let fraction = 10_000 * u32::from(parts.wMilliseconds);
    let (date, [hour, minute, second]) =
        ((small(parts.wMonth), small(parts.wDay)), [parts.wHour, parts.wMinute, parts.wSecond].map(small));
    let found = FileTime::from_civil(parts.wYear.into(), date.0, date.1, hour, minute, second, fraction);
    let Some(FileTime(ticks @ 0..)) = found.filter(|_| parts.wMilliseconds < 1000) else { return 0 };
    let found = FILETIME { dwLowDateTime: ticks as u32, dwHighDateTime: (ticks >> 32) as u32 };
    // SAFETY: the pointer is to a FILETIME.
    unsafe { time.write_unaligned(found) };
    1
}

/// Returns the parts of a time in UTC.
pub(crate) fn system_time(ticks: i64) -> Option<SYSTEMTIME> {
    let (year, month, day, hour, minute, second, fraction) = FileTime(ticks).to_civil();
    (ticks >= 0).then_some(SYSTEMTIME {
        wYear: u16::try_from(year).ok()?,
        wMonth: month.into(),
        // The first day of FILETIME was a Monday.
        wDayOfWeek: (ticks / (86_400 * FileTime::PER_SECOND) + 1).rem_euclid(7) as u16,
        wDay: day.into(),
        wHour: hour.into(),
        wMinute: minute.into(),
        wSecond: second.into(),
        wMilliseconds: (fraction / 10_000) as u16,
    })
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
