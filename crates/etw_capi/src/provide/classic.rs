//! Classic providers: `RegisterTraceGuids`, `TraceEvent` and what they need (`evntrace.h`).
//!
//! The handle that a provider gets has the level and flags that sessions want, as on Windows, and below them the number
//! of its registration. Events go to all sessions that want them.

// UNSAFETY: reads what callers point to, and calls callbacks of C.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use etw_event::{Guid, Instance, Level, Opcode};
use etw_provider::payload::PayloadWriter;
use etw_provider::{Outcome, Payload};
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DATA_DESCRIPTOR, EVENT_INSTANCE_HEADER, EVENT_INSTANCE_INFO, EVENT_TRACE_HEADER,
    MAX_EVENT_DATA_DESCRIPTORS, MAX_MOF_FIELDS, MOF_FIELD, TRACE_GUID_REGISTRATION,
    TRACE_MESSAGE_COMPONENTID, TRACE_MESSAGE_GUID, WMI_DISABLE_EVENTS, WMI_ENABLE_EVENTS, WMIDPREQUEST,
    WNODE_FLAG_TRACED_GUID, WNODE_FLAG_USE_GUID_PTR, WNODE_FLAG_USE_MOF_PTR, WNODE_HEADER,
};
use windows_sys::core::GUID;

use super::events::code_of;
use super::pieces::{Plain, bytes_at};
use super::registration::{self, Callback, Classic};
use crate::error::{
    ERROR_BAD_LENGTH, ERROR_INVALID_FLAG_NUMBER, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER,
    ERROR_MORE_DATA, ERROR_NOT_ENOUGH_MEMORY, ERROR_NOT_SUPPORTED, ERROR_SUCCESS, SetLastError,
};
use crate::guest::guest;
use crate::guid;

/// Bytes of an `EVENT_TRACE_HEADER`.
const HEADER: usize = size_of::<EVENT_TRACE_HEADER>();
/// `INVALID_HANDLE_VALUE`.
const INVALID: u64 = u64::MAX;

/// Registers a classic provider; the classes are not checked, and get a handle each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RegisterTraceGuidsW(
    request: WMIDPREQUEST,
    context: *const c_void,
    control: *const GUID,
    count: u32,
    classes: *mut TRACE_GUID_REGISTRATION,
    _image: *const c_void,
    _resource: *const c_void,
    handle: *mut u64,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { register(request, context, control, count, classes, handle) }
}

/// [`RegisterTraceGuidsW`] with 8-bit names, which are not used either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RegisterTraceGuidsA(
    request: WMIDPREQUEST,
    context: *const c_void,
    control: *const GUID,
    count: u32,
    classes: *mut TRACE_GUID_REGISTRATION,
    _image: *const c_void,
    _resource: *const c_void,
    handle: *mut u64,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { register(request, context, control, count, classes, handle) }
}

/// Ends a registration. On return its callback does not run, unless it is what calls this.
#[unsafe(no_mangle)]
pub extern "C" fn UnregisterTraceGuids(handle: u64) -> u32 {
    if registration::unregister(handle) { ERROR_SUCCESS } else { ERROR_INVALID_HANDLE }
}

/// Returns the handle in what a provider's callback gets; `INVALID_HANDLE_VALUE` and a last error without one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetTraceLoggerHandle(buffer: *const c_void) -> u64 {
    if buffer.is_null() {
        SetLastError(ERROR_INVALID_PARAMETER);
        return INVALID;
    }
    // SAFETY: the caller's promise: a WNODE_HEADER.
    let header = unsafe { buffer.cast::<WNODE_HEADER>().read_unaligned() };
    if (header.BufferSize as usize) < size_of::<WNODE_HEADER>() {
        SetLastError(ERROR_BAD_LENGTH);
        return INVALID;
    }
    // SAFETY: every value of the union is one of its members.
    unsafe { header.Anonymous1.HistoricalContext }
}

/// Returns the level in a provider's handle.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableLevel(handle: u64) -> u8 {
    if handle == INVALID || handle == 0 {
        SetLastError(ERROR_INVALID_HANDLE);
        return 0;
    }
    (handle >> 24) as u8
}

/// Returns the flags in a provider's handle.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableFlags(handle: u64) -> u32 {
    if handle == INVALID || handle == 0 {
        SetLastError(ERROR_INVALID_HANDLE);
        return 0;
    }
    (handle >> 32) as u32
}

/// Writes a classic event: the data follows the header, or `MOF_FIELD`s do that point to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceEvent(handle: u64, header: *const EVENT_TRACE_HEADER) -> u32 {
    let Some(provider) = provider_of(handle) else { return ERROR_INVALID_HANDLE };
    if header.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the pointer is to a header.
    let event = unsafe { header.read_unaligned() };
    let size = usize::from(event.Size);
    if size < HEADER {
        return ERROR_BAD_LENGTH;
    }
    // SAFETY: every value of the unions is one of their members.
    let (flags, class) = unsafe { (event.Anonymous4.Anonymous2.Flags, event.Anonymous2.Class) };
    if flags & WNODE_FLAG_TRACED_GUID == 0 {
        return ERROR_INVALID_FLAG_NUMBER;
    }
    // SAFETY: the flag says which member is used; the pointer is to a GUID.
    let id = unsafe {
        match flags & WNODE_FLAG_USE_GUID_PTR {
            0 => Some(guid::from(&event.Anonymous3.Guid)),
            _ => guid::read(event.Anonymous3.GuidPtr as *const GUID),
        }
    };
    let Some(id) = id else { return ERROR_INVALID_PARAMETER };
    // SAFETY: the caller promises `Size` bytes, which the header starts.
    let data = unsafe { bytes_at((header.addr() + HEADER) as u64, size - HEADER) };
    let Some(payload) = Data::parse(data, flags) else { return ERROR_INVALID_PARAMETER };
    let (kind, level) = (Opcode(class.Type), Level(class.Level));
    // A class has a version of 16 bits; records have 16 too, of which the high byte is 0 in practice.
    let version = class.Version.to_le_bytes()[0];
    code_of(provider.trace_event(&id, kind, version, level, &payload), &payload)
}

/// Gives an instance of a class its number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CreateTraceInstanceId(class: HANDLE, instance: *mut EVENT_INSTANCE_INFO) -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    if class.is_null() || instance.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let id = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    // SAFETY: the pointer is to an EVENT_INSTANCE_INFO.
    unsafe { instance.write_unaligned(EVENT_INSTANCE_INFO { RegHandle: class, InstanceId: id }) };
    ERROR_SUCCESS
}

/// Writes an event of an instance, and of the one that caused it (or null).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceEventInstance(
    handle: u64,
    header: *const EVENT_INSTANCE_HEADER,
    instance: *const EVENT_INSTANCE_INFO,
    parent: *const EVENT_INSTANCE_INFO,
) -> u32 {
    let Some(provider) = provider_of(handle) else { return ERROR_INVALID_HANDLE };
    if header.is_null() || instance.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the pointers are to a header and to instances, or null.
    let (event, instance, parent) = unsafe {
        let none = EVENT_INSTANCE_INFO { RegHandle: std::ptr::null_mut(), InstanceId: 0 };
        let parent = if parent.is_null() { none } else { parent.read_unaligned() };
        (header.read_unaligned(), instance.read_unaligned(), parent)
    };
    let size = usize::from(event.Size);
    if size < size_of::<EVENT_INSTANCE_HEADER>() {
        return ERROR_BAD_LENGTH;
    }
    // SAFETY: every value of the unions is one of their members; handles of classes are pointers to their GUIDs.
    let (flags, class, id, parent_id) = unsafe {
        let (flags, class) = (event.Anonymous3.Anonymous2.Flags, event.Anonymous2.Class);
        (
            flags,
            class,
            guid::read(instance.RegHandle as *const GUID),
            guid::read(parent.RegHandle as *const GUID),
        )
    };
    if flags & WNODE_FLAG_TRACED_GUID == 0 {
        return ERROR_INVALID_FLAG_NUMBER;
    }
    let Some(id) = id else { return ERROR_INVALID_PARAMETER };
    let rest = size - size_of::<EVENT_INSTANCE_HEADER>();
    // SAFETY: the caller promises `Size` bytes, which the header starts.
    let data = unsafe { bytes_at((header.addr() + size - rest) as u64, rest) };
    let Some(payload) = Data::parse(data, flags) else { return ERROR_INVALID_PARAMETER };
    let instance = Instance {
        id: instance.InstanceId,
        parent_id: parent.InstanceId,
        parent_guid: parent_id.unwrap_or(Guid::ZERO),
    };
    let version = class.Version.to_le_bytes()[0];
    let (kind, level) = (Opcode(class.Type), Level(class.Level));
    code_of(provider.trace_event_instance(&id, kind, version, level, &instance, &payload), &payload)
}

/// Writes a WPP message (`TraceMessage`, `TraceMessageVa`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_trace_message(
    handle: u64,
    flags: u32,
    message: *const GUID,
    number: u16,
    count: u32,
    data: *const EVENT_DATA_DESCRIPTOR,
) -> u32 {
    let Some(provider) = provider_of(handle) else { return ERROR_INVALID_HANDLE };
    if count > MAX_EVENT_DATA_DESCRIPTORS || (data.is_null() && count != 0) {
        return ERROR_INVALID_PARAMETER;
    }
    let message = match (flags & TRACE_MESSAGE_GUID, flags & TRACE_MESSAGE_COMPONENTID) {
        (0, 0) => None,
        // A component's number would move the time to half a word.
        (0, _) => return ERROR_NOT_SUPPORTED,
        // SAFETY: the pointer is null or to a GUID.
        _ => match unsafe { guid::read(message) } {
            Some(id) => Some(id),
            None => return ERROR_INVALID_PARAMETER,
        },
    };
    let data = match count {
        0 => &[],
        // SAFETY: the caller promises `count` descriptors.
        _ => unsafe { std::slice::from_raw_parts(data, count as usize) },
    };
    let payload = Plain(data);
    match provider.trace_message(message.as_ref(), number, &payload) {
        // A message has a limit of its own.
        Outcome::TooLarge => ERROR_MORE_DATA,
        outcome => code_of(outcome, &payload),
    }
}

/// The data of a classic event.
enum Data<'a> {
    Bytes(&'a [u8]),
    /// `MOF_FIELD`s.
    Fields(&'a [[u8; 16]]),
}

impl<'a> Data<'a> {
    /// Returns the data after a header with these flags; `None` if its fields are too many or cut.
    fn parse(data: &'a [u8], flags: u32) -> Option<Data<'a>> {
        if flags & WNODE_FLAG_USE_MOF_PTR == 0 {
            return Some(Data::Bytes(data));
        }
        let (fields, rest) = data.as_chunks::<{ size_of::<MOF_FIELD>() }>();
        (rest.is_empty() && fields.len() <= MAX_MOF_FIELDS as usize).then_some(Data::Fields(fields))
    }

    fn for_each(&self, mut each: impl FnMut(&[u8])) {
        match self {
            Data::Bytes(bytes) => each(bytes),
            Data::Fields(fields) => {
                for [a, b, c, d, e, f, g, h, rest @ ..] in *fields {
                    let pointer = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                    let len = rest.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
                    // SAFETY: the program promises that a field names readable memory.
                    each(unsafe { bytes_at(pointer, len as usize) });
                }
            }
        }
    }
}

impl Payload for Data<'_> {
    fn len_bytes(&self) -> usize {
        let mut len = 0;
        self.for_each(|bytes| len += bytes.len());
        len
    }

    fn put(&self, out: &mut PayloadWriter<'_>) {
        self.for_each(|bytes| out.put_bytes(bytes));
    }
}

/// Returns the provider of a handle that its callback got, or of its registration.
fn provider_of(handle: u64) -> Option<&'static etw_provider::Provider> {
    registration::at((handle as u32 & 0xFF_FFFF).wrapping_sub(1))?.provider()
}

/// # Safety
///
/// The pointers are null or valid; `classes` has `count` elements.
unsafe fn register(
    request: WMIDPREQUEST,
    context: *const c_void,
    control: *const GUID,
    count: u32,
    classes: *mut TRACE_GUID_REGISTRATION,
    handle: *mut u64,
) -> u32 {
    // SAFETY: the caller's promise.
    let Some(id) = (unsafe { guid::read(control) }) else { return ERROR_INVALID_PARAMETER };
    let Some(function) = request else { return ERROR_INVALID_PARAMETER };
    if handle.is_null() || (classes.is_null() && count != 0) {
        return ERROR_INVALID_PARAMETER;
    }
    for index in 0..count as usize {
        // SAFETY: the caller's promise. The class has no state here, so its GUID is its handle.
        unsafe {
            let class = classes.add(index);
            (*class).RegHandle = (*class).Guid.cast_mut().cast::<c_void>() as HANDLE;
        }
    }
    // SAFETY: the pointer is to a TRACEHANDLE.
    let store = |value, _| unsafe { handle.write_unaligned(value) };
    let callback = Callback::Classic(Classic { function, context: context.addr() });
    match registration::register("", id, None, Some(callback), store) {
        Some(_) => ERROR_SUCCESS,
        None => ERROR_NOT_ENOUGH_MEMORY,
    }
}

impl Classic {
    /// Tells a provider that sessions enabled or disabled it.
    pub(super) fn call(&self, index: u32, control: &etw_provider::Control) {
        // SAFETY: zeros are valid for all members.
        let mut header: WNODE_HEADER = unsafe { std::mem::zeroed() };
        let mut size = size_of::<WNODE_HEADER>() as u32;
        header.BufferSize = size;
        header.Flags = WNODE_FLAG_TRACED_GUID;
        header.Guid = guid::windows_guid(Guid::ZERO);
        let flags = control.any.0 & 0xFFFF_FFFF;
        header.Anonymous1.HistoricalContext =
            flags << 32 | u64::from(control.level.0) << 24 | u64::from(index + 1);
        let code = if control.is_enabled { WMI_ENABLE_EVENTS } else { WMI_DISABLE_EVENTS };
        // SAFETY: the program registered this function for these arguments; the pointers live until it returns.
        unsafe {
            match guest() {
                None => {
                    (self.function)(code, self.context as *const c_void, &mut size, (&raw mut header).cast());
                }
                Some(guest) => {
                    let (size, header) = ((&raw mut size).addr(), (&raw mut header).addr());
                    let arguments = [code as u64, self.context as u64, size as u64, header as u64];
                    guest.call(self.function as *const c_void, &arguments);
                }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_refused() {
        // SAFETY: zeros are valid for all members.
        let mut header: EVENT_TRACE_HEADER = unsafe { std::mem::zeroed() };
        // SAFETY: the pointers are null or valid.
        unsafe {
            assert_eq!(TraceEvent(0, &header), ERROR_INVALID_HANDLE);
            assert_eq!(TraceEvent(u64::MAX, &header), ERROR_INVALID_HANDLE);
            assert_eq!(GetTraceLoggerHandle(std::ptr::null()), INVALID);
            let mut handle = 0;
            let null = std::ptr::null();
            let register = |request, id: *const GUID, handle| {
                RegisterTraceGuidsW(request, null, id, 0, std::ptr::null_mut(), null, null, handle)
            };
            unsafe extern "system" fn nothing(_: i32, _: *const c_void, _: *mut u32, _: *mut c_void) -> u32 {
                0
            }
            let id = guid::windows_guid(Guid::from_u128(7));
            assert_eq!(register(None, &id, &mut handle), ERROR_INVALID_PARAMETER);
            assert_eq!(register(Some(nothing), &id, std::ptr::null_mut()), ERROR_INVALID_PARAMETER);
            assert_eq!(register(Some(nothing), std::ptr::null(), &mut handle), ERROR_INVALID_PARAMETER);
            assert_eq!(register(Some(nothing), &id, &mut handle), ERROR_SUCCESS);
            assert_eq!(TraceEvent(handle, std::ptr::null()), ERROR_INVALID_PARAMETER);
            assert_eq!(TraceEvent(handle, &header), ERROR_BAD_LENGTH);
            header.Size = HEADER as u16;
            assert_eq!(TraceEvent(handle, &header), ERROR_INVALID_FLAG_NUMBER);
            header.Anonymous4.Anonymous2.Flags = WNODE_FLAG_TRACED_GUID;
            assert_eq!(TraceEvent(handle, &header), ERROR_SUCCESS);
            assert_eq!(UnregisterTraceGuids(handle), ERROR_SUCCESS);
            assert_eq!(UnregisterTraceGuids(handle), ERROR_INVALID_HANDLE);
        }
    }
}
