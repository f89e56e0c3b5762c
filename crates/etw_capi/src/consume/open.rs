//! Open traces, by handle.

// UNSAFETY: reads and writes the structures of callers.
#![expect(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use etw_consumer::{InputError, SessionError, StopHandle, Trace, TraceError};
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_TRACE_LOGFILEA, EVENT_TRACE_LOGFILEW};

use super::logfile::Logfile;
use super::process;
use crate::error::{
    ERROR_BAD_PATHNAME, ERROR_CTX_CLOSE_PENDING, ERROR_FILE_NOT_FOUND, ERROR_INVALID_DATA,
    ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_SUCCESS, ERROR_WMI_INSTANCE_NOT_FOUND, SetLastError,
    code_of_io,
};
use crate::wide::Width;

/// `INVALID_PROCESSTRACE_HANDLE`.
const INVALID: u64 = u64::MAX;

static OPEN: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Table {
    last: u64,
    traces: HashMap<u64, Arc<Open>>,
}

/// An open trace.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) logfile: Logfile,
    /// Ends reading when the trace is closed.
    pub(super) stop: StopHandle,
    /// The trace; `None` while it is read.
    pub(super) trace: Mutex<Option<Trace>>,
}

fn table() -> MutexGuard<'static, Table> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an open trace.
pub(super) fn find(handle: u64) -> Option<Arc<Open>> {
    table().traces.get(&handle).cloned()
}

/// Opens a file or a session. Returns `INVALID_PROCESSTRACE_HANDLE` on failure, and sets the last error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceW(logfile: *mut EVENT_TRACE_LOGFILEW) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { open(logfile, Width::Wide16) }
}

/// [`OpenTraceW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceW32(logfile: *mut EVENT_TRACE_LOGFILEW) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { open(logfile, Width::Wide32) }
}

/// [`OpenTraceW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceA(logfile: *mut EVENT_TRACE_LOGFILEA) -> u64 {
    // SAFETY: the caller's promise; the structures differ in the type of their texts only.
    unsafe { open(logfile.cast(), Width::Narrow) }
}

/// Closes a trace. If it is being processed, `ProcessTrace` ends soon, and this returns `ERROR_CTX_CLOSE_PENDING`.
#[unsafe(no_mangle)]
pub extern "C" fn CloseTrace(handle: u64) -> u32 {
    let Some(open) = table().traces.remove(&handle) else { return ERROR_INVALID_HANDLE };
    open.stop.stop();
    let is_idle = open.trace.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    if is_idle { ERROR_SUCCESS } else { ERROR_CTX_CLOSE_PENDING }
}

/// # Safety
///
/// The pointer is null, or to a structure whose texts have this width.
unsafe fn open(logfile: *mut EVENT_TRACE_LOGFILEW, width: Width) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { try_open(logfile, width) } {
        Ok(handle) => handle,
        Err(code) => {
            SetLastError(code);
            INVALID
        }
    }
}

/// # Safety
///
/// As of `open`.
unsafe fn try_open(logfile: *mut EVENT_TRACE_LOGFILEW, width: Width) -> Result<u64, u32> {
    // SAFETY: the caller's promise.
    let place = unsafe { logfile.as_mut() }.ok_or(ERROR_INVALID_PARAMETER)?;
    // SAFETY: the caller's promise.
    let read = unsafe { Logfile::read(place, width) }?;
    let stop = StopHandle::default();
    let mut builder = Logfile::builder().stop_handle(&stop);
    if read.buffer_callback.is_some() {
        builder = builder.on_idle(process::idle);
    }
    let trace = read.add_to(builder).open();
    let trace = trace.map_err(|error| code_of(&error))?;
    let header = trace.headers().first().ok_or(ERROR_INVALID_DATA)?;
    read.describe(place, header, is_kernel(header));
    let mut table = table();
    table.last += 1;
    let handle = table.last;
    let open = Open { logfile: read, stop, trace: Mutex::new(Some(trace)) };
    table.traces.insert(handle, Arc::new(open));
    Ok(handle)
}

/// Whether a trace is that of a system logger.
pub(super) fn is_kernel(header: &etw_etl::LogFileHeader) -> bool {
    header.log_file_mode.contains(etw_etl::LogFileMode::SYSTEM_LOGGER)
        || header.logger_name.eq_ignore_ascii_case("NT Kernel Logger")
}

/// Returns the code of an error.
pub(super) fn code_of(error: &TraceError) -> u32 {
    match error {
        TraceError::Input(InputError::Io { source, .. }) => code_of_io(source),
        TraceError::Input(InputError::Nothing) => ERROR_FILE_NOT_FOUND,
        TraceError::Input(InputError::NotATrace { .. }) => ERROR_INVALID_DATA,
        TraceError::Input(_) => ERROR_BAD_PATHNAME,
        TraceError::Session(SessionError::NoHost { .. } | SessionError::Refused { .. }) => {
            ERROR_WMI_INSTANCE_NOT_FOUND
        }
        TraceError::Session(_) => ERROR_INVALID_PARAMETER,
        _ => ERROR_INVALID_DATA,
    }
}
