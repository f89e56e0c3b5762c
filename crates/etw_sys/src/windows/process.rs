//! Processes: whether they run, since when, and what they run; and the machine's memory.

// UNSAFETY: calls functions of Windows.
#![expect(unsafe_code)]

use std::io;

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_INVALID_PARAMETER, FILETIME, HANDLE, WAIT_OBJECT_0};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
    QueryFullProcessImageNameW, WaitForSingleObject,
};

use super::text::text_of;

/// A handle that is closed when dropped.
struct Process(HANDLE);

impl Process {
    fn open(id: u32, rights: u32) -> io::Result<Process> {
        // SAFETY: plain values.
        let handle = unsafe { OpenProcess(rights, 0, id) };
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Process(handle)) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: the handle is this value's own.
        unsafe { CloseHandle(self.0) };
    }
}

/// Returns when this process was created, in units of 100 ns since 1601; 0 if Windows does not say it.
pub fn own_start() -> u64 {
    // SAFETY: the handle of this process needs no closing.
    start_of(unsafe { GetCurrentProcess() }).unwrap_or(0)
}

/// Returns when a running process was created; `None` if no process with this id runs.
///
/// # Errors
///
/// Fails if the process may run, but this one may not query it.
pub fn start(id: u32) -> io::Result<Option<u64>> {
    let process = match Process::open(id, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE) {
        Err(error) if error.raw_os_error() == Some(ERROR_INVALID_PARAMETER.cast_signed()) => return Ok(None),
        process => process?,
    };
    // The id of a process that has ended stays in use while another one has a handle.
    // SAFETY: the handle is open and has the right.
    if unsafe { WaitForSingleObject(process.0, 0) } == WAIT_OBJECT_0 {
        return Ok(None);
    }
    start_of(process.0).map(Some)
}

fn start_of(process: HANDLE) -> io::Result<u64> {
    let mut times = [FILETIME::default(); 4];
    let [created, exited, kernel, user] = &mut times;
    // SAFETY: the handle is open, and the times live until the call returns.
    let done = unsafe {
        GetProcessTimes(process, &raw mut *created, &raw mut *exited, &raw mut *kernel, &raw mut *user)
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(created.dwHighDateTime) << 32 | u64::from(created.dwLowDateTime))
}

/// Returns the path of a process's program.
///
/// # Errors
///
/// Fails if no such process runs, or this one may not query it.
pub fn image(id: u32) -> io::Result<String> {
    let process = Process::open(id, PROCESS_QUERY_LIMITED_INFORMATION)?;
    let mut path = vec![0; 0x8000];
    let mut len = path.len() as u32;
    // SAFETY: the handle is open, and the path has room for `len` characters.
    let done = unsafe { QueryFullProcessImageNameW(process.0, 0, path.as_mut_ptr(), &raw mut len) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    path.truncate(len as usize);
    Ok(text_of(&path))
}

/// Returns the size of the machine's memory; 0 if Windows does not say it.
pub fn physical_memory_bytes() -> u64 {
    let len = size_of::<MEMORYSTATUSEX>() as u32;
    let mut status = MEMORYSTATUSEX { dwLength: len, ..Default::default() };
    // SAFETY: the structure has the length that it says, and lives until the call returns.
    if unsafe { GlobalMemoryStatusEx(&raw mut status) } == 0 { 0 } else { status.ullTotalPhys }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs() {
        assert_eq!(start(std::process::id()).unwrap(), Some(own_start()));
        assert!(image(std::process::id()).unwrap().to_lowercase().ends_with(".exe"));
        // Ids are multiples of 4.
        assert_eq!(start(3).unwrap_or(None), None);
    }
}
