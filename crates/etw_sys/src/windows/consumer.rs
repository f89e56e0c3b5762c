//! Reading real-time sessions (`OpenTrace`, `ProcessTrace`).

// UNSAFETY: calls functions of ETW, which call back with what they own.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::Foundation::ERROR_CANCELLED;
use windows_sys::Win32::System::Diagnostics::Etw::{
    CloseTrace, EVENT_HEADER, EVENT_RECORD, EVENT_TRACE_LOGFILEW, OpenTraceW,
    PROCESS_TRACE_MODE_EVENT_RECORD, PROCESS_TRACE_MODE_REAL_TIME, PROCESSTRACE_HANDLE, ProcessTrace,
    TRACE_LOGFILE_HEADER,
};

use super::check;
use super::text::wide;

/// The handle of a trace that was not opened.
const INVALID: u64 = u64::MAX;
/// Bytes of the header of an event.
pub const HEADER_BYTES: usize = size_of::<EVENT_HEADER>();
const _: () = assert!(HEADER_BYTES == 80);

/// The receiver of the events of a session.
pub trait Sink: Send {
    /// Handles an event, whose time is in units of 100 ns since 1601.
    fn record(&mut self, record: &EventRecord<'_>);
}

/// An open session.
#[derive(Debug)]
pub struct Consumer<S> {
    /// The context of callbacks. A raw pointer, since a box may not be accessed otherwise while it is moved; `state` frees it.
    state: OwnState<S>,
    closer: Closer,
    header: LogHeader,
}

#[derive(Debug)]
struct State<S> {
    sink: S,
    has_panicked: bool,
}

/// A `Box<State<S>>` as a pointer.
#[derive(Debug)]
struct OwnState<S>(*mut State<S>);

// SAFETY: the value owns the state, and what is sent may be.
unsafe impl<S: Send> Send for OwnState<S> {}

impl<S> OwnState<S> {
    fn into_inner(self) -> State<S> {
        let pointer = self.0;
        std::mem::forget(self);
        // SAFETY: the pointer was made of a box, and is freed once.
        *unsafe { Box::from_raw(pointer) }
    }
}

impl<S> Drop for OwnState<S> {
    fn drop(&mut self) {
        // SAFETY: as above; nothing calls back without `ProcessTrace`, which `process` calls with the value alive.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Closes a trace from any thread; [`Consumer::process`] returns soon after. Cheap to clone. The last clone closes the trace
/// if nobody has.
#[derive(Debug, Clone)]
pub struct Closer(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    value: u64,
    is_closed: AtomicBool,
}

/// The parts of `TRACE_LOGFILE_HEADER` that say what a session is and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHeader {
    /// Size of a buffer in bytes.
    pub buffer_size: u32,
    /// Major and minor version of Windows.
    pub version: (u8, u8),
    /// Build of Windows.
    pub build: u32,
    /// Number of processors.
    pub processors: u32,
    /// Length of a clock tick in units of 100 ns.
    pub timer_resolution: u32,
    /// Bytes of a pointer.
    pub pointer_size: u32,
    /// Speed of the processor.
    pub cpu_speed_in_mhz: u32,
    /// When the machine was started.
    pub boot_time: i64,
    /// When the session was started; 0 if Windows does not say it.
    pub start_time: i64,
}

/// An event as Windows delivers it, valid during the callback.
#[derive(Clone, Copy)]
pub struct EventRecord<'r>(&'r EVENT_RECORD);

impl<S: Sink> Consumer<S> {
    /// Opens a real-time session by its name.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows, or `InvalidInput` for a name with a zero.
    pub fn open(session: &str, sink: S) -> io::Result<Consumer<S>> {
        let mut name = wide(session)?;
        let state = OwnState(Box::into_raw(Box::new(State { sink, has_panicked: false })));
        // SAFETY: zeros are valid in all members.
        let mut logfile: EVENT_TRACE_LOGFILEW = unsafe { std::mem::zeroed() };
        logfile.LoggerName = name.as_mut_ptr();
        logfile.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
        logfile.Anonymous2.EventRecordCallback = Some(record::<S>);
        logfile.BufferCallback = Some(buffer::<S>);
        logfile.Context = state.0.cast();
        // SAFETY: the name ends with a zero. The context is a box that lives until `ProcessTrace` has returned, since
        // `process` owns it; without that call nothing calls back.
        let handle = unsafe { OpenTraceW(&raw mut logfile) }.Value;
        // 32-bit systems return a handle of 32 bits.
        if handle == INVALID || handle == u64::from(u32::MAX) {
            return Err(io::Error::last_os_error());
        }
        let closer = Closer(Arc::new(Handle { value: handle, is_closed: AtomicBool::new(false) }));
        Ok(Consumer { state, closer, header: log_header(&logfile.LogfileHeader) })
    }

    /// Returns what Windows says of the session.
    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    /// Returns a handle that ends reading from another thread.
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Delivers events until the session stops or the trace is closed, and returns the sink.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows, or that the sink panicked.
    pub fn process(self) -> (S, io::Result<()>) {
        let Consumer { state, closer, .. } = self;
        let handle = PROCESSTRACE_HANDLE { Value: closer.0.value };
        // SAFETY: one handle, which was opened; null times mean all events. The state lives until the call returns.
        let code = unsafe { ProcessTrace(&raw const handle, 1, ptr::null(), ptr::null()) };
        closer.close();
        let state = state.into_inner();
        let result = match code {
            _ if state.has_panicked => Err(io::Error::other("the receiver of events panicked")),
            ERROR_CANCELLED => Ok(()),
            code => check(code),
        };
        (state.sink, result)
    }
}

impl Closer {
    /// Closes the trace; later calls do nothing.
    pub fn close(&self) {
        self.0.close();
    }
}

impl Handle {
    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::AcqRel) {
            // While events are delivered, the function only requests the end (`ERROR_CTX_CLOSE_PENDING`).
            // SAFETY: the handle was opened, and is closed once.
            unsafe { CloseTrace(PROCESSTRACE_HANDLE { Value: self.value }) };
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

impl<'r> EventRecord<'r> {
    /// Returns the header (`EVENT_HEADER`).
    #[inline]
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        // SAFETY: the structure has this size and no padding, and any bytes are valid.
        unsafe { ptr::from_ref(&self.0.EventHeader).cast::<[u8; HEADER_BYTES]>().read() }
    }

    /// Returns `EVENT_HEADER_FLAG_*`.
    #[inline]
    pub fn flags(&self) -> u16 {
        self.0.EventHeader.Flags
    }

    /// Returns the processor on which the event was written.
    #[inline]
    pub fn processor(&self) -> u16 {
        let context = &self.0.BufferContext.Anonymous;
        // SAFETY: both members of the union are plain integers of the same bytes.
        unsafe {
            if self.flags() & 0x200 != 0 {
                context.ProcessorIndex
            } else {
                context.Anonymous.ProcessorNumber.into()
            }
        }
    }

    /// Returns the number of the session.
    #[inline]
    pub fn logger_id(&self) -> u16 {
        self.0.BufferContext.LoggerId
    }

    /// Returns the payload, which lies in a buffer of Windows.
    #[inline]
    pub fn payload(&self) -> &'r [u8] {
        // SAFETY: Windows says that the payload has this length during the callback.
        unsafe { bytes_at(self.0.UserData.cast_const().cast(), self.0.UserDataLength.into()) }
    }

    /// Returns the extended items: type and data.
    #[inline]
    pub fn items(&self) -> impl ExactSizeIterator<Item = (u16, &'r [u8])> + Clone + use<'r> {
        let items: &'r [_] = match self.0.ExtendedData.is_null() {
            true => &[],
            // SAFETY: Windows says that there are this many items during the callback.
            false => unsafe { slice::from_raw_parts(self.0.ExtendedData, self.0.ExtendedDataCount.into()) },
        };
        items.iter().map(|item| {
            let start = ptr::with_exposed_provenance(item.DataPtr as usize);
            // SAFETY: as above, for the data of each item.
            (item.ExtType, unsafe { bytes_at(start, item.DataSize.into()) })
        })
    }
}

/// # Safety
///
/// The pointer is null, or to this many bytes during the lifetime.
unsafe fn bytes_at<'r>(start: *const u8, len: usize) -> &'r [u8] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start, len) }
}

fn log_header(header: &TRACE_LOGFILE_HEADER) -> LogHeader {
    // SAFETY: both members of each union are plain integers of the same bytes.
    let (version, numbers) = unsafe { (header.Anonymous1.VersionDetail, header.Anonymous2.Anonymous) };
    LogHeader {
        buffer_size: header.BufferSize,
        version: (version.MajorVersion, version.MinorVersion),
        build: header.ProviderVersion,
        processors: header.NumberOfProcessors,
        timer_resolution: header.TimerResolution,
        pointer_size: numbers.PointerSize,
        cpu_speed_in_mhz: numbers.CpuSpeedInMHz,
        boot_time: header.BootTime,
        start_time: header.StartTime,
    }
}

/// # Safety
///
/// The record is valid during the call, and its context is a `State<S>` that nothing else accesses meanwhile.
unsafe extern "system" fn record<S: Sink>(record: *mut EVENT_RECORD) {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { record.as_ref() }) else { return };
    // SAFETY: `open` passed the state of this type, which lives until `ProcessTrace` returns.
    let state = unsafe { &mut *record.UserContext.cast::<State<S>>() };
    if state.has_panicked {
        return;
    }
    // A panic must not cross the frames of Windows; the panic hook has reported it.
    let done = catch_unwind(AssertUnwindSafe(|| state.sink.record(&EventRecord(record))));
    state.has_panicked = done.is_err();
}

/// Returns whether to go on after a buffer.
///
/// # Safety
///
/// As for [`record`].
unsafe extern "system" fn buffer<S: Sink>(logfile: *mut EVENT_TRACE_LOGFILEW) -> u32 {
    // SAFETY: the caller's promise.
    let context: *mut c_void = unsafe { logfile.as_ref() }.map_or(ptr::null_mut(), |logfile| logfile.Context);
    // SAFETY: as in `record`.
    let state = unsafe { context.cast::<State<S>>().as_ref() };
    state.is_none_or(|state| !state.has_panicked).into()
}
