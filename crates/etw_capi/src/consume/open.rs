//! Open traces, by handle.

// UNSAFETY: reads and writes the structures of callers.
#![expect(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use etw_consumer::{Input, InputError, InputLimits, SessionError, StopHandle, Trace, TraceError};
use etw_etl::LogFileHeader;
use windows_sys::Win32::System::Diagnostics::Etw::{
    ETW_OPEN_TRACE_OPTIONS, ETW_PROCESS_TRACE_MODE_RAW_TIMESTAMP, EVENT_TRACE_LOGFILEA, EVENT_TRACE_LOGFILEW,
    PETW_BUFFER_COMPLETION_CALLBACK, PROCESS_TRACE_MODE_EVENT_RECORD, PROCESS_TRACE_MODE_RAW_TIMESTAMP,
    PROCESS_TRACE_MODE_REAL_TIME, TRACE_LOGFILE_HEADER,
};

use super::current;
use super::logfile::{EventCallback, Logfile, Source};
use super::raw_buffers::BufferCallback;
use super::stream::BufferStream;
use crate::error::{
    ERROR_BAD_PATHNAME, ERROR_CTX_CLOSE_PENDING, ERROR_FILE_NOT_FOUND, ERROR_INVALID_DATA,
    ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED, ERROR_SUCCESS,
    ERROR_WMI_INSTANCE_NOT_FOUND, SetLastError, code_of_io,
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
    pub(super) handle: u64,
    pub(super) logfile: Logfile,
    /// Ends reading when the trace is closed.
    pub(super) stop: StopHandle,
    /// Its log file header; that of a stream comes with the first buffer.
    pub(super) header: OnceLock<LogFileHeader>,
    /// The trace; `None` while it is read, and before the first buffer of a stream has come.
    pub(super) trace: Mutex<Option<Trace>>,
    /// The buffers that the program brings.
    pub(super) stream: Option<BufferStream>,
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
    unsafe { open(logfile, Width::Wide16, None) }
}

/// [`OpenTraceW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceW32(logfile: *mut EVENT_TRACE_LOGFILEW) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { open(logfile, Width::Wide32, None) }
}

/// [`OpenTraceW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceA(logfile: *mut EVENT_TRACE_LOGFILEA) -> u64 {
    // SAFETY: the caller's promise; the structures differ in the type of their texts only.
    unsafe { open(logfile.cast(), Width::Narrow, None) }
}

macro_rules! open_from {
    ($($(#[$doc:meta])* $name:ident ($text:ty, $width:expr, $is_live:expr);)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                name: *const $text,
                options: *const ETW_OPEN_TRACE_OPTIONS,
                header: *mut TRACE_LOGFILE_HEADER,
            ) -> u64 {
                // SAFETY: the caller's promise.
                unsafe { open_from(name.cast_mut().cast(), options, header, $width, $is_live) }
            }
        )*
    };
}

open_from! {
    /// Opens a file. The header may be null.
    OpenTraceFromFile(u16, Width::Wide16, false);
    /// [`OpenTraceFromFile`] with characters of 32 bits.
    OpenTraceFromFile32(u32, Width::Wide32, false);
    /// Opens a session. The header may be null.
    OpenTraceFromRealTimeLogger(u16, Width::Wide16, true);
    /// [`OpenTraceFromRealTimeLogger`] with characters of 32 bits.
    OpenTraceFromRealTimeLogger32(u32, Width::Wide32, true);
}

macro_rules! open_with_allocation {
    ($($(#[$doc:meta])* $name:ident ($text:ty, $width:expr);)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                name: *const $text,
                options: *const ETW_OPEN_TRACE_OPTIONS,
                allocation_size: usize,
                partition: *mut c_void,
                header: *mut TRACE_LOGFILE_HEADER,
            ) -> u64 {
                let _ = allocation_size;
                if !partition.is_null() {
                    SetLastError(ERROR_NOT_SUPPORTED);
                    return INVALID;
                }
                // SAFETY: the caller's promise.
                unsafe { open_from(name.cast_mut().cast(), options, header, $width, true) }
            }
        )*
    };
}

open_with_allocation! {
    /// As [`OpenTraceFromRealTimeLogger`]. The size of the memory for buffers is chosen here, whatever the program asks for; there
    /// are no partitions of memory (`ERROR_NOT_SUPPORTED`).
    OpenTraceFromRealTimeLoggerWithAllocationOptions(u16, Width::Wide16);
    /// [`OpenTraceFromRealTimeLoggerWithAllocationOptions`] with characters of 32 bits.
    OpenTraceFromRealTimeLoggerWithAllocationOptions32(u32, Width::Wide32);
}

/// Opens a trace of buffers that the program brings with [`ProcessTraceAddBufferToBufferStream`](super::ProcessTraceAddBufferToBufferStream).
/// `completion` is called for each that is no longer needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OpenTraceFromBufferStream(
    options: *const ETW_OPEN_TRACE_OPTIONS,
    completion: PETW_BUFFER_COMPLETION_CALLBACK,
    context: *const c_void,
) -> u64 {
    // SAFETY: the caller promises null or options.
    let Some(options) = (!options.is_null()).then(|| unsafe { options.read_unaligned() }) else {
        SetLastError(ERROR_INVALID_PARAMETER);
        return INVALID;
    };
    // Whoever brings the buffers has them.
    if options.BufferCallback.is_some() {
        SetLastError(ERROR_INVALID_PARAMETER);
        return INVALID;
    }
    let logfile = Logfile {
        source: Source::Stream,
        mode: mode_of(&options),
        callback: options.EventCallback.map_or(EventCallback::None, EventCallback::Record),
        buffer_callback: None,
        raw_buffers: None,
        context: options.EventCallbackContext.addr(),
        name: Vec::new(),
    };
    add(logfile, StopHandle::default(), None, Some(BufferStream::new(completion, context)))
}

/// Returns the mode of a trace with these options.
fn mode_of(options: &ETW_OPEN_TRACE_OPTIONS) -> u32 {
    match options.ProcessTraceModes & ETW_PROCESS_TRACE_MODE_RAW_TIMESTAMP {
        0 => PROCESS_TRACE_MODE_EVENT_RECORD,
        _ => PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP,
    }
}

/// Adds an open trace to the table. Returns its handle.
fn add(logfile: Logfile, stop: StopHandle, trace: Option<Trace>, stream: Option<BufferStream>) -> u64 {
    let header = OnceLock::new();
    if let Some(first) = trace.as_ref().and_then(|trace| trace.headers().first()) {
        let _ = header.set(first.clone());
    }
    let mut table = table();
    table.last += 1;
    let handle = table.last;
    let open = Open { handle, logfile, stop, header, trace: Mutex::new(trace), stream };
    table.traces.insert(handle, Arc::new(open));
    handle
}

/// # Safety
///
/// The name has this width, and the pointers are null or valid.
unsafe fn open_from(
    name: *mut u16,
    options: *const ETW_OPEN_TRACE_OPTIONS,
    header: *mut TRACE_LOGFILE_HEADER,
    width: Width,
    is_live: bool,
) -> u64 {
    if options.is_null() {
        SetLastError(ERROR_INVALID_PARAMETER);
        return INVALID;
    }
    // SAFETY: the caller's promise; zeros are valid for all members of the other structure.
    let (options, mut logfile) =
        unsafe { (options.read_unaligned(), std::mem::zeroed::<EVENT_TRACE_LOGFILEW>()) };
    let buffers = options
        .BufferCallback
        .map(|function| BufferCallback { function, context: options.BufferCallbackContext.addr() });
    let mut mode = mode_of(&options);
    if is_live {
        mode |= PROCESS_TRACE_MODE_REAL_TIME;
        logfile.LoggerName = name;
    } else {
        logfile.LogFileName = name;
    }
    logfile.Anonymous1.ProcessTraceMode = mode;
    logfile.Anonymous2.EventRecordCallback = options.EventCallback;
    logfile.Context = options.EventCallbackContext;
    // SAFETY: the caller's promise for the name.
    let handle = unsafe { open(&mut logfile, width, buffers) };
    if handle != INVALID && !header.is_null() {
        // SAFETY: the pointer is to a header.
        unsafe { header.write_unaligned(logfile.LogfileHeader) };
    }
    handle
}

/// Closes a trace. If it is being processed, `ProcessTrace` ends soon, and this returns `ERROR_CTX_CLOSE_PENDING`.
#[unsafe(no_mangle)]
pub extern "C" fn CloseTrace(handle: u64) -> u32 {
    let Some(open) = table().traces.remove(&handle) else { return ERROR_INVALID_HANDLE };
    match &open.stream {
        // What it was given is still delivered.
        Some(stream) => stream.end(),
        None => open.stop.stop(),
    }
    let is_idle = open.trace.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    if is_idle { ERROR_SUCCESS } else { ERROR_CTX_CLOSE_PENDING }
}

/// # Safety
///
/// The pointer is null, or to a structure whose texts have this width.
unsafe fn open(logfile: *mut EVENT_TRACE_LOGFILEW, width: Width, buffers: Option<BufferCallback>) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { try_open(logfile, width, buffers) } {
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
unsafe fn try_open(
    logfile: *mut EVENT_TRACE_LOGFILEW,
    width: Width,
    buffers: Option<BufferCallback>,
) -> Result<u64, u32> {
    // SAFETY: the caller's promise.
    let place = unsafe { logfile.as_mut() }.ok_or(ERROR_INVALID_PARAMETER)?;
    // SAFETY: the caller's promise.
    let read = Logfile { raw_buffers: buffers, ..unsafe { Logfile::read(place, width) }? };
    let stop = StopHandle::default();
    let trace = read.add_to(Logfile::builder()).on_idle(current::idle).stop_handle(&stop).open();
    let trace = trace.map_err(|error| code_of(&error))?;
    let header = trace.headers().first().ok_or(ERROR_INVALID_DATA)?;
    read.describe(place, header, is_kernel(header));
    Ok(add(read, stop, Some(trace), None))
}

/// Whether a trace is that of a system logger.
pub(super) fn is_kernel(header: &LogFileHeader) -> bool {
    header.log_file_mode.contains(etw_etl::LogFileMode::SYSTEM_LOGGER)
        || header.logger_name.eq_ignore_ascii_case("NT Kernel Logger")
}

/// Opens the file of a trace a second time, for its buffers. Fails with the code of the error.
pub(super) fn open_file(path: &Path) -> Result<Input, u32> {
    let opened = Input::open(path, &InputLimits::default());
    let mut inputs = opened.map_err(|error| code_of(&TraceError::Input(error)))?;
    inputs.pop().ok_or(ERROR_INVALID_DATA)
}

/// Returns the code of an error.
pub(crate) fn code_of(error: &TraceError) -> u32 {
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
