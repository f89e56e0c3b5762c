//! `ITraceRelogger`, and making it.

// UNSAFETY: methods of COM, which get pointers of callers and call methods of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use etw_consumer::{StopHandle, Trace};
use etw_etl::LogFileHeader;
use etw_etl::encode::RecordBuilder;
use etw_event::{Clock, EventDescriptor, FileTime, Guid, HookId, Origin, PointerSize, Ticks};
use etw_schema::Event;
use windows_sys::core::GUID;

use super::com::{
    CLSID_RELOGGER, E_INVALIDARG, E_NOINTERFACE, E_POINTER, IID_RELOGGER, IID_UNKNOWN, NO_AGGREGATION,
    NO_CLASS, References, S_OK, UnknownMethods, result_of, table_of,
};
use super::event::{Content, TraceEvent};
use super::output::Output;
use crate::consume::{code_of, during};
use crate::error::{
    ERROR_BUSY, ERROR_CANCELLED, ERROR_INVALID_DATA, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND,
    ERROR_SHARING_VIOLATION,
};
use crate::guest::{guest, path_of};
use crate::guid;
use crate::schemas::schemas;
use crate::wide::Width;

/// Most streams of a relogger.
const MAX_STREAMS: usize = 64;

/// Methods of `ITraceRelogger`, in the order of its table.
#[repr(C)]
struct Methods {
    unknown: UnknownMethods,
    add_file: unsafe extern "C" fn(*mut Relogger, *const c_void, *mut c_void, *mut u64) -> i32,
    add_session: unsafe extern "C" fn(*mut Relogger, *const c_void, *mut c_void, *mut u64) -> i32,
    register_callback: unsafe extern "C" fn(*mut Relogger, *mut Callback) -> i32,
    inject: unsafe extern "C" fn(*mut Relogger, *mut c_void) -> i32,
    create_event: unsafe extern "C" fn(*mut Relogger, u64, u32, *mut *mut TraceEvent) -> i32,
    process: unsafe extern "C" fn(*mut Relogger) -> i32,
    set_output: unsafe extern "C" fn(*mut Relogger, *const c_void) -> i32,
    set_compression: unsafe extern "C" fn(*mut Relogger, u8) -> i32,
    cancel: unsafe extern "C" fn(*mut Relogger) -> i32,
}

static METHODS: Methods = Methods {
    unknown: UnknownMethods { query_interface, add_ref, release },
    add_file,
    add_session,
    register_callback,
    inject,
    create_event,
    process,
    set_output,
    set_compression,
    cancel,
};

/// `ITraceEventCallback`, which programs implement.
#[repr(C)]
struct Callback {
    methods: *const CallbackMethods,
}

#[repr(C)]
struct CallbackMethods {
    unknown: UnknownMethods,
    on_begin: unsafe extern "C" fn(*mut Callback, *mut TraceEvent, *mut Relogger) -> i32,
    on_finalize: unsafe extern "C" fn(*mut Callback, *mut Relogger) -> i32,
    on_event: unsafe extern "C" fn(*mut Callback, *mut TraceEvent, *mut Relogger) -> i32,
}

/// Calls of the program's methods.
macro_rules! methods_of_program {
    ($($name:ident: $($member:ident).+ ($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Callback {
            $(
                /// # Safety
                ///
                /// The object lives, and the pointers are those that the method expects.
                unsafe fn $name(this: *mut Callback $(, $argument: $type)*) -> $result {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let method = (*(*this).methods).$($member).+;
                        match guest() {
                            None => method(this.cast() $(, $argument)*),
                            Some(guest) => {
                                let arguments = [this.addr() as u64 $(, $argument.addr() as u64)*];
                                guest.call(method as *const c_void, &arguments) as $result
                            }
                        }
                    }
                }
            )*
        }
    };
}

methods_of_program! {
    add_ref: unknown.add_ref() -> u32;
    release: unknown.release() -> u32;
    on_begin: on_begin(event: *mut TraceEvent, relogger: *mut Relogger) -> i32;
    on_finalize: on_finalize(relogger: *mut Relogger) -> i32;
    on_event: on_event(event: *mut TraceEvent, relogger: *mut Relogger) -> i32;
}

/// Returns the table of methods for the program.
fn methods() -> *const Methods {
    static OF_GUEST: OnceLock<usize> = OnceLock::new();
    // SAFETY: all members are functions with at most four arguments.
    unsafe { table_of(&METHODS, &OF_GUEST) }
}

#[repr(C)]
struct Relogger {
    methods: *const Methods,
    references: References,
    /// The characters of the texts that it gets.
    width: Width,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    streams: Vec<Stream>,
    /// The callbacks, as addresses; each has a reference.
    callbacks: Vec<usize>,
    output: Option<PathBuf>,
    is_compressed: bool,
    /// Ends `ProcessTrace` while it runs.
    stop: Option<StopHandle>,
    writing: Option<Output>,
    /// The clock of the output and the time of the current event.
    now: (Option<Clock>, Ticks),
}

#[derive(Clone)]
struct Stream {
    source: Source,
    /// The program's context, as an address.
    context: usize,
}

#[derive(Clone)]
enum Source {
    File(PathBuf),
    Session(String),
}

/// Makes an object of a class of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CoCreateInstance(
    class: *const GUID,
    outer: *mut c_void,
    context: u32,
    id: *const GUID,
    object: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { create(class, outer, context, id, object, Width::Wide16) }
}

/// [`CoCreateInstance`] for texts with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CoCreateInstance32(
    class: *const GUID,
    outer: *mut c_void,
    context: u32,
    id: *const GUID,
    object: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { create(class, outer, context, id, object, Width::Wide32) }
}

/// # Safety
///
/// The pointers are null or valid.
unsafe fn create(
    class: *const GUID,
    outer: *mut c_void,
    _context: u32,
    id: *const GUID,
    object: *mut *mut c_void,
    width: Width,
) -> i32 {
    if object.is_null() {
        return E_POINTER;
    }
    // SAFETY: the caller's promise.
    unsafe {
        object.write(std::ptr::null_mut());
        if guid::read(class).map(|class| class.to_u128()) != Some(CLSID_RELOGGER) {
            return NO_CLASS;
        }
        if !outer.is_null() {
            return NO_AGGREGATION;
        }
        let relogger =
            Relogger { methods: methods(), references: References::one(), width, state: Mutex::default() };
        let relogger = Box::into_raw(Box::new(relogger)).cast();
        let result = query_interface(relogger, id, object);
        release(relogger);
        result
    }
}

impl Relogger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

unsafe extern "C" fn query_interface(this: *mut c_void, id: *const GUID, object: *mut *mut c_void) -> i32 {
    if object.is_null() {
        return E_POINTER;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let known = guid::read(id).is_some_and(|id| [IID_UNKNOWN, IID_RELOGGER].contains(&id.to_u128()));
        object.write(if known { this } else { std::ptr::null_mut() });
        if known {
            add_ref(this);
        }
        if known { S_OK } else { E_NOINTERFACE }
    }
}

unsafe extern "C" fn add_ref(this: *mut c_void) -> u32 {
    // SAFETY: the caller has a reference.
    unsafe { &*this.cast::<Relogger>() }.references.add()
}

unsafe extern "C" fn release(this: *mut c_void) -> u32 {
    // SAFETY: the caller has a reference.
    let left = unsafe { &*this.cast::<Relogger>() }.references.release();
    if left == 0 {
        // SAFETY: there is no other reference, and `create` has made the object.
        let relogger = unsafe { Box::from_raw(this.cast::<Relogger>()) };
        let callbacks = std::mem::take(&mut relogger.state().callbacks);
        for callback in callbacks {
            let callback = callback as *mut Callback;
            // SAFETY: the relogger has a reference of each.
            unsafe { Callback::release(callback) };
        }
    }
    left
}

unsafe extern "C" fn add_file(
    this: *mut Relogger,
    name: *const c_void,
    context: *mut c_void,
    handle: *mut u64,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { add_stream(&*this, name, context, handle, |name| Source::File(path_of(name).into())) }
}

unsafe extern "C" fn add_session(
    this: *mut Relogger,
    name: *const c_void,
    context: *mut c_void,
    handle: *mut u64,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { add_stream(&*this, name, context, handle, Source::Session) }
}

/// # Safety
///
/// The name is null or a text of the relogger's width, and `handle` is null or to a handle.
unsafe fn add_stream(
    relogger: &Relogger,
    name: *const c_void,
    context: *mut c_void,
    handle: *mut u64,
    source: impl FnOnce(String) -> Source,
) -> i32 {
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { relogger.width.read(name) }).filter(|name| !name.is_empty()) else {
        return E_INVALIDARG;
    };
    let source = source(name);
    // A missing file is an error of the call that names it, and not of the processing.
    if let Source::File(path) = &source
        && !path.exists()
    {
        return result_of(crate::error::ERROR_FILE_NOT_FOUND);
    }
    let mut state = relogger.state();
    if state.stop.is_some() || state.streams.len() == MAX_STREAMS {
        return result_of(ERROR_BUSY);
    }
    state.streams.push(Stream { source, context: context.addr() });
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        unsafe { handle.write_unaligned(state.streams.len() as u64) };
    }
    S_OK
}

unsafe extern "C" fn register_callback(this: *mut Relogger, callback: *mut Callback) -> i32 {
    if callback.is_null() {
        return E_INVALIDARG;
    }
    // SAFETY: the caller's promises.
    unsafe {
        Callback::add_ref(callback);
        (*this).state().callbacks.push(callback.addr());
    }
    S_OK
}

unsafe extern "C" fn inject(this: *mut Relogger, event: *mut c_void) -> i32 {
    // SAFETY: the caller's promises.
    let (relogger, Some(event)) = (unsafe { &*this }, unsafe { TraceEvent::from_pointer(event) }) else {
        return E_INVALIDARG;
    };
    let content = event.content().clone();
    if content.is_header {
        return S_OK;
    }
    match &mut relogger.state().writing {
        Some(output) => output.put(content).map_or_else(result_of, |()| S_OK),
        None => result_of(ERROR_NOT_FOUND),
    }
}

unsafe extern "C" fn create_event(
    this: *mut Relogger,
    stream: u64,
    flags: u32,
    event: *mut *mut TraceEvent,
) -> i32 {
    if event.is_null() {
        return E_POINTER;
    }
    if flags != 0 {
        return E_INVALIDARG;
    }
    // SAFETY: the caller's promise.
    let relogger = unsafe { &*this };
    let state = relogger.state();
    // 0 is no stream; the event has no context then.
    let context = match usize::try_from(stream).unwrap_or(usize::MAX) {
        0 => 0,
        stream => match state.streams.get(stream - 1) {
            Some(stream) => stream.context,
            None => return E_INVALIDARG,
        },
    };
    let (clock, time) = state.now;
    let origin = Origin { clock: clock.unwrap_or(Clock::system_time()), ..Origin::default() };
    let builder = RecordBuilder::event(PointerSize::Eight, Guid::ZERO, &EventDescriptor::ZERO);
    let Ok(bytes) = builder.time(time).build() else { return result_of(ERROR_INVALID_DATA) };
    let content = Content { bytes, origin, time, context, is_header: false };
    // SAFETY: the caller's promise.
    unsafe { event.write(TraceEvent::create(content)) };
    S_OK
}

unsafe extern "C" fn set_output(this: *mut Relogger, name: *const c_void) -> i32 {
    // SAFETY: the caller's promises.
    let (relogger, name) = unsafe { (&*this, (*this).width.read(name)) };
    let Some(name) = name.filter(|name| !name.is_empty()) else { return E_INVALIDARG };
    relogger.state().output = Some(path_of(name).into());
    S_OK
}

unsafe extern "C" fn set_compression(this: *mut Relogger, mode: u8) -> i32 {
    // SAFETY: the caller has a reference.
    unsafe { &*this }.state().is_compressed = mode != 0;
    S_OK
}

unsafe extern "C" fn cancel(this: *mut Relogger) -> i32 {
    // SAFETY: the caller has a reference.
    if let Some(stop) = &unsafe { &*this }.state().stop {
        stop.stop();
    }
    S_OK
}

unsafe extern "C" fn process(this: *mut Relogger) -> i32 {
    // SAFETY: the caller has a reference.
    let relogger = unsafe { &*this };
    let stop = StopHandle::default();
    let (streams, callbacks) = {
        let mut state = relogger.state();
        if state.stop.is_some() {
            return result_of(ERROR_BUSY);
        }
        if state.streams.is_empty() {
            return result_of(ERROR_INVALID_PARAMETER);
        }
        state.stop = Some(stop.clone());
        (state.streams.clone(), state.callbacks.clone())
    };
    let done = process_streams(this, relogger, &streams, &callbacks, &stop);
    let mut state = relogger.state();
    state.stop = None;
    state.writing = None;
    done.err().unwrap_or(S_OK)
}

fn process_streams(
    this: *mut Relogger,
    relogger: &Relogger,
    streams: &[Stream],
    callbacks: &[usize],
    stop: &StopHandle,
) -> Result<(), i32> {
    let mut builder = Trace::builder().schemas(&schemas()).stop_handle(stop);
    for stream in streams {
        builder = match &stream.source {
            Source::File(path) => builder.file(path),
            Source::Session(name) => builder.session(name),
        };
    }
    let mut trace = builder.open().map_err(|error| result_of(code_of(&error)))?;
    let headers = trace.headers().to_vec();
    let first = headers.first().ok_or(result_of(ERROR_INVALID_DATA))?;
    let clock = first.clock();
    {
        let mut state = relogger.state();
        state.now = (Some(clock), first.anchor);
        if let Some(path) = &state.output {
            let real = path.canonicalize().ok();
            let is_input = |stream: &Stream| matches!(&stream.source, Source::File(input) if real.is_some() && input.canonicalize().ok() == real);
            if streams.iter().any(is_input) {
                return Err(result_of(ERROR_SHARING_VIOLATION));
            }
            let output = Output::create(path, &headers, state.is_compressed).map_err(result_of)?;
            state.writing = Some(output);
        }
    }
    let contexts: Vec<usize> = streams.iter().map(|stream| stream.context).collect();
    let header =
        header_of(first, contexts.first().copied().unwrap_or(0)).ok_or(result_of(ERROR_INVALID_DATA))?;
    let event = TraceEvent::create(header);
    let begun = call(callbacks, |callback| {
        // SAFETY: the program registered this callback; the pointers live until it returns.
        unsafe { Callback::on_begin(callback, event, this) }
    });
    // SAFETY: this is the reference of `create`.
    unsafe { TraceEvent::release(event) };
    begun?;
    let mut failure = None;
    let read = trace.for_each_event(|event| {
        if stop.is_stopped() {
            return ControlFlow::Break(());
        }
        let context = contexts.get(event.record.origin().source as usize).copied().unwrap_or(0);
        match deliver(this, relogger, event, clock, context, callbacks) {
            Ok(()) => ControlFlow::Continue(()),
            Err(result) => {
                failure = Some(result);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(result) = failure {
        return Err(result);
    }
    read.map_err(|error| result_of(code_of(&error)))?;
    call(callbacks, |callback| {
        // SAFETY: as above.
        unsafe { Callback::on_finalize(callback, this) }
    })?;
    let end = headers.iter().map(|header| header.end_time).max().filter(|end| end.0 != 0);
    let end = end.unwrap_or(FileTime(etw_sys::clock::filetime() as i64));
    if let Some(output) = relogger.state().writing.take() {
        output.finish(end).map_err(result_of)?;
    }
    if stop.is_stopped() { Err(result_of(ERROR_CANCELLED)) } else { Ok(()) }
}

/// Calls the callbacks with an event, after writing what comes before it.
fn deliver(
    this: *mut Relogger,
    relogger: &Relogger,
    event: &Event<'_>,
    clock: Clock,
    context: usize,
    callbacks: &[usize],
) -> Result<(), i32> {
    let record = event.record;
    if record.is_log_file_header() {
        return Ok(());
    }
    let origin = Origin { clock, ..*record.origin() };
    let mut content = Content {
        bytes: record.as_bytes().to_vec(),
        origin,
        time: record.raw_time(),
        context,
        is_header: false,
    };
    // Events of other files are brought to the clock of the first.
    if record.origin().clock != clock {
        let time = clock.to_ticks(record.time());
        if content.set_time(time) != S_OK {
            content.time = time;
        }
    }
    let time = content.time;
    {
        let mut state = relogger.state();
        state.now.1 = time;
        if let Some(output) = &mut state.writing {
            output.write_before(time.0).map_err(result_of)?;
        }
    }
    let object = TraceEvent::create(content);
    // SAFETY: `create` made the object.
    let shown = unsafe { TraceEvent::show(object) };
    let called = during(shown.unwrap_or(std::ptr::null_mut()), event, || {
        call(callbacks, |callback| {
            // SAFETY: the program registered this callback; the pointers live until it returns.
            unsafe { Callback::on_event(callback, object, this) }
        })
    });
    // SAFETY: this is the reference of `create`.
    unsafe { TraceEvent::release(object) };
    called
}

/// Calls each callback; the first failure ends the processing.
fn call(callbacks: &[usize], mut method: impl FnMut(*mut Callback) -> i32) -> Result<(), i32> {
    for callback in callbacks {
        let result = method(*callback as *mut Callback);
        if result < 0 {
            return Err(result);
        }
    }
    Ok(())
}

/// Returns the event of a file's header.
fn header_of(header: &LogFileHeader, context: usize) -> Option<Content> {
    let mut payload = Vec::new();
    header.encode(&mut payload);
    let builder = RecordBuilder::system(header.layout, HookId::LOG_FILE_HEADER, 2);
    let bytes = builder.time(header.anchor).process(0, 0).payload(&payload).build().ok()?;
    let origin = Origin { clock: header.clock(), ..Origin::default() };
    Some(Content { bytes, origin, time: header.anchor, context, is_header: true })
}
