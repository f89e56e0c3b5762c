//! OpenETW's own functions (`openetw.h`).

// UNSAFETY: reads what callers point to, writes into their structures, and calls callbacks of C.
#![expect(unsafe_code)]

mod values;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etw_consumer::{EventFilter, SchemaFiles, StatisticsHandle, StopHandle, Trace};
use etw_event::{Guid, PointerSize, Record};
use etw_export::{JsonWriter, Options};
use etw_schema::{Event, Providers};

use crate::schemas;

/// Files and sessions to read, and how (`openetw_trace`).
#[derive(Debug)]
pub struct OpenTrace {
    stop: StopHandle,
    counts: StatisticsHandle,
    plan: Mutex<Plan>,
}

#[derive(Debug, Clone, Default)]
struct Plan {
    sources: Vec<Source>,
    schemas: Vec<Arc<Providers>>,
    filter: Option<EventFilter>,
}

#[derive(Debug, Clone)]
enum Source {
    File(String),
    Session(String),
}

/// An event (`openetw_event`), as far as it is decoded.
#[allow(missing_debug_implementations, reason = "a view for C")]
pub struct CEvent<'a> {
    record: &'a Record<'a>,
    event: Option<&'a Event<'a>>,
    provider: Option<&'a str>,
    name: Option<&'a str>,
    state: &'a RefCell<State>,
}

/// The writer of a trace, and the texts and bytes that a callback got.
struct State {
    json: JsonWriter,
    texts: Vec<CString>,
    bytes: Vec<Box<[u8]>>,
}

/// The header of an event (`struct openetw_header`).
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "openetw.h has them")]
pub struct CHeader {
    pub size: u32,
    pub source: u32,
    pub time: i64,
    pub keyword: u64,
    pub payload: *const u8,
    pub payload_size: u32,
    pub process_id: u32,
    pub thread_id: u32,
    pub processor: u16,
    pub id: u16,
    pub task: u16,
    pub version: u8,
    pub channel: u8,
    pub level: u8,
    pub opcode: u8,
    pub is_64_bit: u8,
    pub reserved: u8,
    pub provider: [u8; 16],
    pub activity: [u8; 16],
}

/// The counts of a trace (`struct openetw_counts`).
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "openetw.h has them")]
pub struct CCounts {
    pub size: u32,
    pub reserved: u32,
    pub records: u64,
    pub delivered: u64,
    pub undecoded: u64,
    pub failed: u64,
    pub events_lost: u64,
    pub buffers_lost: u64,
    pub damaged: u64,
}

/// A callback (`openetw_callback`).
pub type Callback = Option<unsafe extern "C" fn(*const CEvent<'_>, *mut c_void) -> c_int>;

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Keeps the text of an error.
fn fail(error: &dyn std::fmt::Display) -> c_int {
    ERROR.with_borrow_mut(|place| *place = c_text(&error.to_string()));
    -1
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{FFFD}")).unwrap_or_default()
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn openetw_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Returns the text of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn openetw_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}

/// Adds the schemas in a file to the user's store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_store_add(path: *const c_char) -> c_int {
    // SAFETY: the pointer is null or to a text.
    let Some(path) = (unsafe { text(path) }) else { return fail(&"a pointer is null") };
    schemas::add_to_store(&path).map_or_else(|error| fail(&error), |()| 0)
}

/// Removes a provider from the user's store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_store_remove(provider: *const c_char) -> c_int {
    // SAFETY: the pointer is null or to a text.
    let Some(provider) = (unsafe { text(provider) }) else { return fail(&"a pointer is null") };
    match provider.parse() {
        Ok(guid) => schemas::remove_from_store(&guid).map_or_else(|error| fail(&error), |()| 0),
        Err(_) => fail(&format_args!("'{provider}' is not a GUID")),
    }
}

/// Creates a trace without sources.
#[unsafe(no_mangle)]
pub extern "C" fn openetw_trace_new() -> *mut OpenTrace {
    Box::into_raw(Box::new(OpenTrace {
        stop: StopHandle::default(),
        counts: StatisticsHandle::default(),
        plan: Mutex::default(),
    }))
}

/// Frees a trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_free(trace: *mut OpenTrace) {
    if !trace.is_null() {
        // SAFETY: the pointer is of `openetw_trace_new`, and nobody uses it any more.
        drop(unsafe { Box::from_raw(trace) });
    }
}

/// Adds a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_add_file(trace: *const OpenTrace, path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { plan_with(trace, path, |plan, path| plan.add(Source::File(path))) }
}

/// Adds a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_add_session(trace: *const OpenTrace, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { plan_with(trace, name, |plan, name| plan.add(Source::Session(name))) }
}

/// Adds files with schemas.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_add_schemas(trace: *const OpenTrace, path: *const c_char) -> c_int {
    let add = |plan: &mut Plan, path: String| {
        let providers = SchemaFiles::read([&path]).providers;
        if providers.is_empty() {
            return Err(format!("{path}: no schemas can be read"));
        }
        plan.schemas.push(Arc::new(Providers::from_iter(providers)));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { plan_with(trace, path, add) }
}

/// Sets the filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_set_filter(
    trace: *const OpenTrace,
    expression: *const c_char,
) -> c_int {
    let set = |plan: &mut Plan, text: String| {
        plan.filter = Some(EventFilter::default().expression(&text).map_err(|error| error.to_string())?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { plan_with(trace, expression, set) }
}

/// Reads the events of all sources.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_read(
    trace: *const OpenTrace,
    level: c_int,
    callback: Callback,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the pointer is null or of `openetw_trace_new`.
    let (Some(of), Some(callback)) = (unsafe { trace.as_ref() }, callback) else {
        return fail(&"a pointer is null");
    };
    let plan = of.plan().clone();
    let mut read = match plan.open(of) {
        Ok(trace) => trace,
        Err(error) => return fail(&error),
    };
    let state = RefCell::new(State {
        json: JsonWriter::new(&Options::default()),
        texts: Vec::new(),
        bytes: Vec::new(),
    });
    let deliver =
        |record: &Record<'_>, event: Option<&Event<'_>>, provider: Option<&str>, name: Option<&str>| {
            let event = CEvent { record, event, provider, name, state: &state };
            // SAFETY: the program gave this function for these events, which live until it returns.
            let answer = unsafe { callback(&raw const event, context) };
            let mut kept = state.borrow_mut();
            kept.texts.clear();
            kept.bytes.clear();
            if answer == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
    let done = match level {
        1 => read.for_each_record(|record| deliver(record, None, None, None)),
        2 => read.for_each_schema(|event| {
            let schema = event.schema.ok().map(|compiled| &*compiled.schema);
            let provider = schema.map(|schema| &*schema.provider.name);
            deliver(event.record, None, provider, schema.and_then(|schema| schema.name.as_deref()))
        }),
        3 => read.for_each_event(|event| {
            let schema = event.properties.as_ref().ok().map(|properties| properties.schema());
            let name = schema.and_then(|schema| schema.name.as_deref());
            deliver(event.record, Some(event), event.names().provider(), name)
        }),
        _ => return fail(&format_args!("no level of reading is {level}")),
    };
    done.map_or_else(|error| fail(&error), |()| 0)
}

/// Ends reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_stop(trace: *const OpenTrace) {
    // SAFETY: the pointer is null or of `openetw_trace_new`.
    if let Some(trace) = unsafe { trace.as_ref() } {
        trace.stop.stop();
    }
}

/// Writes the counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_counts(trace: *const OpenTrace, counts: *mut CCounts) {
    // SAFETY: the pointer is null or valid.
    if let Some(trace) = unsafe { trace.as_ref() } {
        let now = trace.counts.read();
        let now = CCounts {
            size: size_of::<CCounts>() as u32,
            reserved: 0,
            records: now.records,
            delivered: now.delivered,
            undecoded: now.undecoded,
            failed: now.failed,
            events_lost: now.events_lost,
            buffers_lost: now.buffers_lost,
            damaged: now.damaged,
        };
        // SAFETY: the pointer is null or to a structure with its size.
        unsafe { put_sized(counts, &now) };
    }
}

/// Writes the header of an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_event_header(event: *const CEvent<'_>, header: *mut CHeader) {
    // SAFETY: the pointers are null or valid.
    let Some(event) = (unsafe { event.as_ref() }) else { return };
    let (record, descriptor) = (event.record, event.record.descriptor());
    let payload = record.payload();
    let found = CHeader {
        size: size_of::<CHeader>() as u32,
        source: record.origin().source,
        time: record.time().0,
        keyword: descriptor.keyword.0,
        payload: payload.as_ptr(),
        payload_size: u32::try_from(payload.len()).unwrap_or(u32::MAX),
        process_id: record.process_id().unwrap_or(u32::MAX),
        thread_id: record.thread_id().unwrap_or(u32::MAX),
        processor: record.processor(),
        id: descriptor.id,
        task: descriptor.task,
        version: descriptor.version,
        channel: descriptor.channel,
        level: descriptor.level.0,
        opcode: descriptor.opcode.0,
        is_64_bit: (record.pointer_size() == PointerSize::Eight).into(),
        reserved: 0,
        provider: record.provider_id().to_bytes(),
        activity: record.activity_id().unwrap_or(Guid::ZERO).to_bytes(),
    };
    // SAFETY: the pointer is null or to a structure with its size.
    unsafe { put_sized(header, &found) };
}

/// Writes as much of a structure as the one of the caller has, whose first member says how large it is; that becomes the
/// number of bytes that are written. So programs work with libraries that have more or fewer members.
///
/// # Safety
///
/// The target is null, or its first four bytes say how many bytes may be written.
unsafe fn put_sized<T>(target: *mut T, source: &T) {
    if target.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let room = unsafe { target.cast::<u32>().read_unaligned() };
    let size = size_of::<T>().min(room as usize);
    if size < size_of::<u32>() {
        return;
    }
    // SAFETY: both have so many bytes, and the target's begin with its size.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(source).cast::<u8>(), target.cast::<u8>(), size);
        target.cast::<u32>().write_unaligned(size as u32);
    }
}

/// Returns the provider's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_event_provider_name(event: *const CEvent<'_>) -> *const c_char {
    // SAFETY: the pointer is null or valid.
    unsafe { text_of(event, |event| event.provider.filter(|name| !name.is_empty()).map(c_text)) }
}

/// Returns the event's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_event_name(event: *const CEvent<'_>) -> *const c_char {
    // SAFETY: the pointer is null or valid.
    unsafe { text_of(event, |event| event.name.map(c_text)) }
}

/// Returns the event as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_event_json(event: *const CEvent<'_>) -> *const c_char {
    let json = |event: &CEvent<'_>| {
        let mut out = Vec::new();
        event.state.borrow_mut().json.put(&mut out, event.event?);
        // JSON has no zeros.
        CString::new(out).ok()
    };
    // SAFETY: the pointer is null or valid.
    unsafe { text_of(event, json) }
}

/// Returns a text that lives until the callback returns.
///
/// # Safety
///
/// The pointer is null or valid.
unsafe fn text_of(
    event: *const CEvent<'_>,
    make: impl FnOnce(&CEvent<'_>) -> Option<CString>,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let Some(event) = (unsafe { event.as_ref() }) else { return std::ptr::null() };
    let Some(text) = make(event) else { return std::ptr::null() };
    let pointer = text.as_ptr();
    event.state.borrow_mut().texts.push(text);
    pointer
}

/// # Safety
///
/// The pointer is null, or to a text with a zero.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// # Safety
///
/// The pointers are null or valid.
unsafe fn plan_with(
    trace: *const OpenTrace,
    argument: *const c_char,
    change: impl FnOnce(&mut Plan, String) -> Result<(), String>,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { (trace.as_ref(), text(argument)) } {
        (Some(trace), Some(argument)) => {
            change(&mut trace.plan(), argument).map_or_else(|error| fail(&error), |()| 0)
        }
        _ => fail(&"a pointer is null"),
    }
}

impl OpenTrace {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn add(&mut self, source: Source) -> Result<(), String> {
        self.sources.push(source);
        Ok(())
    }

    fn open(&self, of: &OpenTrace) -> Result<Trace, etw_consumer::TraceError> {
        let mut schemas = schemas::schemas();
        self.schemas.iter().for_each(|providers| schemas.add(providers.clone()));
        let mut builder = Trace::builder().schemas(&schemas);
        for source in &self.sources {
            builder = match source {
                Source::File(path) => builder.file(path),
                Source::Session(name) => builder.session(name),
            };
        }
        if let Some(filter) = &self.filter {
            builder = builder.filter(filter);
        }
        builder.stop_handle(&of.stop).statistics_handle(&of.counts).open()
    }
}
