//! `ITraceEvent`: a copy of a record that a program may change.

// UNSAFETY: methods of COM, which get pointers of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use etw_event::{EventDescriptor, HeaderKind, Origin, Record, Ticks};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DESCRIPTOR, EVENT_HEADER_EXTENDED_DATA_ITEM, EVENT_RECORD,
};
use windows_sys::core::GUID;

use super::com::{
    E_INVALIDARG, E_NOINTERFACE, E_NOTIMPL, E_POINTER, IID_EVENT, IID_UNKNOWN, References, S_OK,
    UnknownMethods, result_of, table_of,
};
use crate::consume::event_record;
use crate::error::{ERROR_INVALID_DATA, ERROR_MORE_DATA};
use crate::guid;
use crate::provide::from_descriptor;

/// Methods of `ITraceEvent`, in the order of its table.
#[repr(C)]
struct Methods {
    unknown: UnknownMethods,
    clone: unsafe extern "C" fn(*mut TraceEvent, *mut *mut TraceEvent) -> i32,
    user_context: unsafe extern "C" fn(*mut TraceEvent, *mut *mut c_void) -> i32,
    event_record: unsafe extern "C" fn(*mut TraceEvent, *mut *mut EVENT_RECORD) -> i32,
    set_payload: unsafe extern "C" fn(*mut TraceEvent, *const u8, u32) -> i32,
    set_descriptor: unsafe extern "C" fn(*mut TraceEvent, *const EVENT_DESCRIPTOR) -> i32,
    set_process_id: unsafe extern "C" fn(*mut TraceEvent, u32) -> i32,
    set_processor: unsafe extern "C" fn(*mut TraceEvent, u32) -> i32,
    set_thread_id: unsafe extern "C" fn(*mut TraceEvent, u32) -> i32,
    set_thread_times: unsafe extern "C" fn(*mut TraceEvent, u32, u32) -> i32,
    set_activity: unsafe extern "C" fn(*mut TraceEvent, *const GUID) -> i32,
    set_time: unsafe extern "C" fn(*mut TraceEvent, *const i64) -> i32,
    set_provider: unsafe extern "C" fn(*mut TraceEvent, *const GUID) -> i32,
}

static METHODS: Methods = Methods {
    unknown: UnknownMethods { query_interface, add_ref, release },
    clone,
    user_context,
    event_record: get_event_record,
    set_payload,
    set_descriptor,
    set_process_id,
    set_processor,
    set_thread_id,
    set_thread_times,
    set_activity,
    set_time,
    set_provider,
};

/// Returns the table of methods for the program.
fn methods() -> *const Methods {
    static OF_GUEST: OnceLock<usize> = OnceLock::new();
    // SAFETY: all members are functions with at most four arguments.
    unsafe { table_of(&METHODS, &OF_GUEST) }
}

/// An event as programs get it.
#[repr(C)]
pub(super) struct TraceEvent {
    methods: *const Methods,
    references: References,
    content: Mutex<Content>,
}

/// The record, and what is known of it besides.
#[derive(Clone)]
pub(super) struct Content {
    /// The record's bytes, on the clock of the output.
    pub(super) bytes: Vec<u8>,
    pub(super) origin: Origin,
    pub(super) time: Ticks,
    /// The context of the event's stream, as an address.
    pub(super) context: usize,
    /// Whether this is the header of a file, which the output has already.
    pub(super) is_header: bool,
}

/// The record as C has it, which points into the content.
struct Shown {
    record: EVENT_RECORD,
    items: Vec<EVENT_HEADER_EXTENDED_DATA_ITEM>,
}

impl Content {
    pub(super) fn record(&self) -> Option<Record<'_>> {
        Record::parse(&self.bytes, &self.origin, self.time).ok()
    }

    /// Replaces bytes of the header, if the record has them.
    fn put(&mut self, at: usize, bytes: &[u8]) -> i32 {
        match self.bytes.get_mut(at..at + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                S_OK
            }
            None => result_of(ERROR_INVALID_DATA),
        }
    }

    fn kind(&self) -> Option<HeaderKind> {
        self.record().map(|record| record.kind())
    }

    fn is_classic(&self) -> bool {
        matches!(self.kind(), Some(HeaderKind::Full32 | HeaderKind::Full64))
    }

    fn is_event(&self) -> bool {
        self.kind().is_some_and(|kind| kind.is_event_header())
    }

    pub(super) fn set_time(&mut self, time: Ticks) -> i32 {
        let Some(at) = self.record().and_then(|record| record.time_offset()) else { return E_NOTIMPL };
        self.time = time;
        self.put(at, &time.0.to_le_bytes())
    }

    fn set_payload(&mut self, payload: &[u8]) -> i32 {
        let Some(record) = self.record() else { return result_of(ERROR_INVALID_DATA) };
        let (kind, old) = (record.kind(), record.payload().len());
        let start = self.bytes.len() - old;
        let Ok(size) = u16::try_from(start + payload.len()) else { return result_of(ERROR_MORE_DATA) };
        self.bytes.truncate(start);
        self.bytes.extend_from_slice(payload);
        // Records with a hook id have their size after the kind, all others first.
        self.put(if kind.has_hook_id() { 4 } else { 0 }, &size.to_le_bytes())
    }

    fn set_descriptor(&mut self, descriptor: &EventDescriptor) -> i32 {
        let EventDescriptor { id, version, channel, level, opcode, task, keyword } = *descriptor;
        if self.is_event() {
            let small = [version, channel, level.0, opcode.0];
            let [id, task] = [id, task].map(u16::to_le_bytes);
            // Offset of EVENT_DESCRIPTOR in EVENT_HEADER (evntcons.h).
            return self.put(0x28, &[&id[..], &small, &task, &keyword.0.to_le_bytes()].concat());
        }
        // EVENT_TRACE_HEADER.Class (evntrace.h).
        if self.is_classic() { self.put(4, &[opcode.0, level.0, version, 0]) } else { E_NOTIMPL }
    }

    /// Sets the thread (0) or process (4) at this distance from the ids.
    fn set_id(&mut self, distance: usize, id: u32) -> i32 {
        match self.record().and_then(|record| record.ids_offset()) {
            Some(at) => self.put(at + distance, &id.to_le_bytes()),
            None => E_NOTIMPL,
        }
    }

    fn set_cpu_times(&mut self, kernel: u32, user: u32) -> i32 {
        let times = [kernel.to_le_bytes(), user.to_le_bytes()].concat();
        if self.is_event() {
            // EVENT_HEADER_FLAG_NO_CPUTIME no longer holds.
            if let Some(flags) = self.bytes.get_mut(4) {
                *flags &= !0x10;
            }
            return self.put(0x38, &times);
        }
        if self.is_classic() { self.put(0x28, &times) } else { E_NOTIMPL }
    }

    fn set_provider(&mut self, id: &[u8; 16]) -> i32 {
        // The same place in EVENT_HEADER and EVENT_TRACE_HEADER.
        if self.is_event() || self.is_classic() { self.put(0x18, id) } else { E_NOTIMPL }
    }
}

impl TraceEvent {
    /// Makes an event with one reference.
    pub(super) fn create(content: Content) -> *mut TraceEvent {
        let content = Mutex::new(content);
        let event = Allocated {
            event: TraceEvent { methods: methods(), references: References::one(), content },
            shown: Mutex::new(None),
        };
        Box::into_raw(Box::new(event)).cast()
    }

    /// Returns an event of this library; `None` for others.
    ///
    /// # Safety
    ///
    /// The pointer is null or to an object of COM.
    pub(super) unsafe fn from_pointer<'e>(pointer: *mut c_void) -> Option<&'e TraceEvent> {
        if pointer.is_null() {
            return None;
        }
        // SAFETY: an object of COM starts with the pointer to its methods.
        let methods = unsafe { pointer.cast::<*const Methods>().read() };
        // SAFETY: only events of this library have these methods.
        std::ptr::eq(methods, self::methods()).then(|| unsafe { &*pointer.cast::<TraceEvent>() })
    }

    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the record as C has it. It is valid until the event changes.
    ///
    /// # Safety
    ///
    /// The event was made by [`TraceEvent::create`].
    pub(super) unsafe fn show(this: *mut TraceEvent) -> Option<*mut EVENT_RECORD> {
        // SAFETY: the caller's promise.
        let allocated = unsafe { &*this.cast::<Allocated>() };
        let content = allocated.event.content();
        let record = content.record()?;
        let mut shown = allocated.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: zeros are valid for all members.
        let empty = || Box::new(Shown { record: unsafe { std::mem::zeroed() }, items: Vec::new() });
        let place = shown.get_or_insert_with(empty);
        let context = content.context as *mut c_void;
        place.record = event_record(&record, record.raw_time().0, context, &mut place.items);
        Some(&raw mut place.record)
    }

    /// Frees one reference.
    ///
    /// # Safety
    ///
    /// The event was made by [`TraceEvent::create`], and the caller has a reference.
    pub(super) unsafe fn release(this: *mut TraceEvent) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { release(this.cast()) }
    }
}

/// An event with what is shown of it, whose address must not change.
#[repr(C)]
struct Allocated {
    event: TraceEvent,
    shown: Mutex<Option<Box<Shown>>>,
}

unsafe extern "C" fn query_interface(this: *mut c_void, id: *const GUID, object: *mut *mut c_void) -> i32 {
    if object.is_null() {
        return E_POINTER;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let known = guid::read(id).is_some_and(|id| [IID_UNKNOWN, IID_EVENT].contains(&id.to_u128()));
        object.write(if known { this } else { std::ptr::null_mut() });
        if known {
            add_ref(this);
        }
        if known { S_OK } else { E_NOINTERFACE }
    }
}

unsafe extern "C" fn add_ref(this: *mut c_void) -> u32 {
    // SAFETY: the caller has a reference.
    unsafe { &*this.cast::<TraceEvent>() }.references.add()
}

unsafe extern "C" fn release(this: *mut c_void) -> u32 {
    // SAFETY: the caller has a reference.
    let left = unsafe { &*this.cast::<TraceEvent>() }.references.release();
    if left == 0 {
        // SAFETY: there is no other reference, and `create` has made the event.
        drop(unsafe { Box::from_raw(this.cast::<Allocated>()) });
    }
    left
}

unsafe extern "C" fn clone(this: *mut TraceEvent, new: *mut *mut TraceEvent) -> i32 {
    if new.is_null() {
        return E_POINTER;
    }
    // SAFETY: the caller's promise.
    unsafe { new.write(TraceEvent::create((*this).content().clone())) };
    S_OK
}

unsafe extern "C" fn user_context(this: *mut TraceEvent, context: *mut *mut c_void) -> i32 {
    if context.is_null() {
        return E_POINTER;
    }
    // SAFETY: the caller's promise.
    unsafe { context.write((*this).content().context as *mut c_void) };
    S_OK
}

unsafe extern "C" fn get_event_record(this: *mut TraceEvent, record: *mut *mut EVENT_RECORD) -> i32 {
    if record.is_null() {
        return E_POINTER;
    }
    // SAFETY: the caller's promise.
    match unsafe { TraceEvent::show(this) } {
        Some(shown) => {
            // SAFETY: the caller's promise.
            unsafe { record.write(shown) };
            S_OK
        }
        None => result_of(ERROR_INVALID_DATA),
    }
}

unsafe extern "C" fn set_payload(this: *mut TraceEvent, payload: *const u8, size: u32) -> i32 {
    let bytes = match size {
        0 => &[][..],
        _ if payload.is_null() => return E_INVALIDARG,
        _ if size > 0xFFFF => return result_of(ERROR_MORE_DATA),
        // SAFETY: the caller promises `size` bytes.
        _ => unsafe { std::slice::from_raw_parts(payload, size as usize) },
    }
    .to_vec();
    // SAFETY: the caller has a reference.
    unsafe { &*this }.content().set_payload(&bytes)
}

unsafe extern "C" fn set_descriptor(this: *mut TraceEvent, descriptor: *const EVENT_DESCRIPTOR) -> i32 {
    if descriptor.is_null() {
        return E_INVALIDARG;
    }
    // SAFETY: the caller's promises.
    unsafe { (*this).content().set_descriptor(&from_descriptor(&descriptor.read_unaligned())) }
}

unsafe extern "C" fn set_process_id(this: *mut TraceEvent, id: u32) -> i32 {
    // SAFETY: the caller has a reference.
    unsafe { &*this }.content().set_id(4, id)
}

unsafe extern "C" fn set_processor(this: *mut TraceEvent, processor: u32) -> i32 {
    let Ok(processor) = u16::try_from(processor) else { return E_INVALIDARG };
    // SAFETY: the caller has a reference.
    unsafe { &*this }.content().origin.processor = processor;
    S_OK
}

unsafe extern "C" fn set_thread_id(this: *mut TraceEvent, id: u32) -> i32 {
    // SAFETY: the caller has a reference.
    unsafe { &*this }.content().set_id(0, id)
}

unsafe extern "C" fn set_thread_times(this: *mut TraceEvent, kernel: u32, user: u32) -> i32 {
    // SAFETY: the caller has a reference.
    unsafe { &*this }.content().set_cpu_times(kernel, user)
}

unsafe extern "C" fn set_activity(this: *mut TraceEvent, id: *const GUID) -> i32 {
    // SAFETY: the caller's promise.
    let Some(id) = (unsafe { guid::read(id) }) else { return E_INVALIDARG };
    // SAFETY: the caller has a reference.
    let mut content = unsafe { &*this }.content();
    if content.is_event() { content.put(0x40, &id.to_bytes()) } else { E_NOTIMPL }
}

unsafe extern "C" fn set_time(this: *mut TraceEvent, time: *const i64) -> i32 {
    if time.is_null() {
        return E_INVALIDARG;
    }
    // SAFETY: the caller's promises.
    unsafe { (*this).content().set_time(Ticks(time.read_unaligned())) }
}

unsafe extern "C" fn set_provider(this: *mut TraceEvent, id: *const GUID) -> i32 {
    // SAFETY: the caller's promise.
    let Some(id) = (unsafe { guid::read(id) }) else { return E_INVALIDARG };
    // SAFETY: the caller has a reference.
    unsafe { &*this }.content().set_provider(&id.to_bytes())
}
