//! `ProcessTrace`: delivers the events of open traces in time order.

// UNSAFETY: reads what callers point to, and calls callbacks of C.
#![expect(unsafe_code)]

use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use etw_consumer::{StopHandle, TimePoint, Trace};
use etw_event::FileTime;
use etw_schema::Event;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_HEADER_EXTENDED_DATA_ITEM, EVENT_TRACE_LOGFILEW};

use super::clock::RawClock;
use super::logfile::{EventCallback, Logfile};
use super::open::{Open, code_of, find, is_kernel};
use super::raw_buffers::RawBuffers;
use super::system_values::SystemValues;
use super::{classes, current, record};
use crate::error::{
    ERROR_BAD_LENGTH, ERROR_BUSY, ERROR_CANCELLED, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER,
    ERROR_SUCCESS,
};
use crate::guest::guest;

/// Most traces that can be processed together.
const MAX_TRACES: u32 = 64;

/// Delivers the events of open traces, all in time order, to their callbacks. Returns at the end of the files and
/// sessions, when a trace is closed, or with `ERROR_CANCELLED` when a buffer callback returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ProcessTrace(
    handles: *const u64,
    count: u32,
    start: *const FILETIME,
    end: *const FILETIME,
) -> u32 {
    if handles.is_null() || count == 0 {
        return ERROR_INVALID_PARAMETER;
    }
    if count > MAX_TRACES {
        return ERROR_BAD_LENGTH;
    }
    // SAFETY: the caller promises `count` handles, and that the times are null or valid.
    let (handles, start, end) = unsafe {
        let handles: Vec<u64> =
            (0..count as usize).map(|index| handles.add(index).read_unaligned()).collect();
        // The year 1601 is no bound.
        (handles, read_time(start).filter(|start| start.0 != 0), read_time(end))
    };
    match process(&handles, start, end) {
        Ok(()) => ERROR_SUCCESS,
        Err(code) => code,
    }
}

fn process(handles: &[u64], start: Option<FileTime>, end: Option<FileTime>) -> Result<(), u32> {
    let open: Vec<Arc<Open>> =
        handles.iter().map(|handle| find(*handle)).collect::<Option<_>>().ok_or(ERROR_INVALID_HANDLE)?;
    let sessions = open.iter().filter(|open| open.logfile.is_live()).count();
    if open.len() > 1 && (sessions > 1 || open.iter().any(|open| open.stream.is_some())) {
        return Err(ERROR_INVALID_PARAMETER);
    }
    if let Some(stream) = open.first().and_then(|open| open.stream.as_ref())
        && !stream.wait_for_first()
    {
        return Ok(());
    }
    // Taking the traces marks them as being processed.
    let mut taken: Vec<Option<Trace>> = Vec::new();
    for one in &open {
        let trace = one.trace.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_busy = trace.is_none();
        taken.push(trace);
        if is_busy {
            put_back(&open, taken);
            return Err(ERROR_BUSY);
        }
    }
    let done = read_all(&open, &mut taken, start, end);
    put_back(&open, taken);
    done
}

fn put_back(open: &[Arc<Open>], taken: Vec<Option<Trace>>) {
    for (one, trace) in open.iter().zip(taken) {
        if trace.is_some() {
            *one.trace.lock().unwrap_or_else(PoisonError::into_inner) = trace;
        }
    }
}

fn read_all(
    open: &[Arc<Open>],
    taken: &mut [Option<Trace>],
    start: Option<FileTime>,
    end: Option<FileTime>,
) -> Result<(), u32> {
    // A live session keeps its place in the stream, so its trace is used as it was opened.
    let is_one_session =
        open.len() == 1 && open.iter().all(|one| one.logfile.is_live() || one.stream.is_some());
    let mut joined = None;
    let needs_new = !is_one_session && (open.len() > 1 || start.is_some() || end.is_some());
    if needs_new {
        let mut builder = Logfile::builder().stop_handle(&open.first().ok_or(ERROR_INVALID_PARAMETER)?.stop);
        if let Some(start) = start {
            builder = builder.from(TimePoint::At(start));
        }
        if let Some(end) = end {
            builder = builder.to(TimePoint::At(FileTime(end.0.saturating_add(1))));
        }
        builder = builder.on_idle(current::idle);
        for one in open {
            builder = one.logfile.add_to(builder);
        }
        joined = Some(builder.open().map_err(|error| code_of(&error))?);
    }
    let trace = joined.as_mut().or(taken.first_mut().and_then(Option::as_mut)).ok_or(ERROR_BUSY)?;
    let sources = open
        .iter()
        .zip(trace.headers())
        .map(|(open, header)| {
            let mut logfile = Box::new(open.logfile.clone());
            let description = logfile.for_callbacks(header, is_kernel(header));
            let clock = RawClock::from_header(header, logfile.is_live());
            let raw_buffers = logfile
                .raw_buffers
                .map(|callback| RawBuffers::new(callback, open.handle, header, logfile.path()))
                .transpose()?;
            Ok(Source { open: open.clone(), logfile, description, clock, filled: 0, raw_buffers })
        })
        .collect::<Result<_, u32>>()?;
    let processing = Processing {
        sources,
        items: Vec::new(),
        system_values: SystemValues::default(),
        is_cancelled: false,
        bounds: if is_one_session { (start, end) } else { (None, None) },
        stop: open.first().ok_or(ERROR_INVALID_PARAMETER)?.stop.clone(),
    };
    let processing = Rc::new(RefCell::new(processing));
    let active = Rc::new(Shared(processing.clone()));
    let read =
        current::with_active(active, || trace.for_each_event(|event| processing.borrow_mut().deliver(event)));
    let mut processing = processing.borrow_mut();
    if !processing.is_cancelled {
        processing.flush();
    }
    processing.finish_buffers();
    read.map_err(|error| code_of(&error))?;
    if processing.is_cancelled { Err(ERROR_CANCELLED) } else { Ok(()) }
}

/// The state of a call of `ProcessTrace`.
struct Processing {
    sources: Vec<Source>,
    items: Vec<EVENT_HEADER_EXTENDED_DATA_ITEM>,
    system_values: SystemValues,
    is_cancelled: bool,
    /// The first and the last time to deliver, unless the trace observes them.
    bounds: (Option<FileTime>, Option<FileTime>),
    stop: StopHandle,
}

/// A call of `ProcessTrace`, between events.
struct Shared(Rc<RefCell<Processing>>);

impl current::Active for Shared {
    // A callback that processes another trace has this one borrowed.
    fn idle(&self) {
        if let Ok(mut processing) = self.0.try_borrow_mut() {
            processing.flush();
        }
    }

    fn buffer(&self, buffer: &[u8]) {
        if let Ok(mut processing) = self.0.try_borrow_mut() {
            processing.raw_buffer(buffer);
        }
    }
}

struct Source {
    open: Arc<Open>,
    /// Owns the name that the description points to.
    logfile: Box<Logfile>,
    description: EVENT_TRACE_LOGFILEW,
    clock: RawClock,
    /// Bytes delivered since the last buffer callback.
    filled: usize,
    raw_buffers: Option<RawBuffers>,
}

impl Processing {
    fn deliver(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let record = event.record;
        let Some(source) = self.sources.get_mut(record.origin().source as usize) else {
            return ControlFlow::Continue(());
        };
        if source.open.stop.is_stopped() {
            return ControlFlow::Break(());
        }
        let (start, end) = self.bounds;
        if start.is_some_and(|start| record.time() < start) {
            return ControlFlow::Continue(());
        }
        if end.is_some_and(|end| record.time() > end) {
            return ControlFlow::Break(());
        }
        if let Some(buffers) = &mut source.raw_buffers
            && !buffers.deliver_before(record.time())
        {
            self.is_cancelled = true;
            self.stop.stop();
            return ControlFlow::Break(());
        }
        let time = match source.logfile.is_raw() {
            true => source.clock.time_of(record),
            false => record.time().0,
        };
        let of_guest = || guest().and_then(|guest| self.system_values.payload(event, guest));
        let changed = source.clock.header_event(record).or_else(of_guest);
        let context = source.logfile.context();
        match source.logfile.callback {
            EventCallback::Record(function) => {
                let mut c = record::event_record(record, time, context, &mut self.items);
                if let Some(payload) = &changed {
                    c.UserData = payload.as_ptr().cast_mut().cast();
                    c.UserDataLength = payload.len() as u16;
                }
                let pointer = &raw mut c;
                // SAFETY: the program gave this function for these records; what it points to lives until it returns.
                current::during(pointer, event, || unsafe {
                    match guest() {
                        None => function(pointer),
                        Some(guest) => {
                            guest.call(function as *const c_void, &[pointer.addr() as u64]);
                        }
                    }
                });
            }
            EventCallback::Trace(function) => {
                let mut c = record::event_trace(record, time);
                if let Some(payload) = &changed {
                    c.MofData = payload.as_ptr().cast_mut().cast();
                    c.MofLength = payload.len() as u32;
                }
                // SAFETY: as above.
                unsafe {
                    match guest() {
                        None => function(&mut c),
                        Some(guest) => {
                            guest.call(function as *const c_void, &[(&raw mut c).addr() as u64]);
                        }
                    }
                };
            }
            EventCallback::None => {}
        }
        classes::deliver(record, time, changed.as_deref());
        source.filled += record.stride_bytes();
        source.description.CurrentTime = record.time().0;
        if source.filled >= source.description.BufferSize as usize {
            self.flush();
        }
        if self.is_cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Calls the callback of a session for a buffer; there is one session at most.
    fn raw_buffer(&mut self, buffer: &[u8]) {
        let mut live = self.sources.iter_mut().filter(|source| source.logfile.is_live());
        let Some(buffers) = live.find_map(|source| source.raw_buffers.as_mut()) else { return };
        if !self.is_cancelled && !buffers.deliver(&[buffer], buffer.len()) {
            self.is_cancelled = true;
            self.stop.stop();
        }
    }

    /// Calls the callbacks for the buffers of files that are left, and waits for those that the program keeps.
    fn finish_buffers(&mut self) {
        for buffers in self.sources.iter_mut().filter_map(|source| source.raw_buffers.as_mut()) {
            match self.is_cancelled || self.stop.is_stopped() {
                true => buffers.cancel(),
                false => self.is_cancelled = !buffers.finish(),
            }
        }
    }

    /// Calls the buffer callbacks of the traces that delivered something, and of sessions.
    fn flush(&mut self) {
        for source in &mut self.sources {
            source.clock.compare();
            let Some(function) = source.logfile.buffer_callback else { continue };
            if source.filled == 0 && !source.logfile.is_live() {
                continue;
            }
            source.description.BuffersRead = source.description.BuffersRead.wrapping_add(1);
            source.description.Filled = source.filled as u32;
            source.filled = 0;
            let description = &raw mut source.description;
            // SAFETY: the program gave this function for this structure.
            let result = unsafe {
                match guest() {
                    None => function(description),
                    Some(guest) => guest.call(function as *const c_void, &[description.addr() as u64]) as u32,
                }
            };
            if result == 0 {
                self.is_cancelled = true;
                self.stop.stop();
            }
        }
    }
}

/// # Safety
///
/// The pointer is null or to a FILETIME.
unsafe fn read_time(time: *const FILETIME) -> Option<FileTime> {
    if time.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let FILETIME { dwLowDateTime: low, dwHighDateTime: high } = unsafe { time.read_unaligned() };
    Some(FileTime((u64::from(high) << 32 | u64::from(low)) as i64))
}
