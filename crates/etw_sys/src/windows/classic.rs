//! Classic events and WPP messages (`TraceEvent`, `TraceMessage`), which are written to one session by its handle.

// UNSAFETY: calls functions of ETW, which call back.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use etw_event::Guid;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_TRACE_HEADER, GetTraceLoggerHandle, RegisterTraceGuidsW, TRACE_GUID_REGISTRATION, TraceEvent,
    TraceMessage,
};

use super::provider::NOT_REGISTERED;
use super::{check, guid_of_words, windows_guid};

/// Requests of the control callback (`WMIDPREQUESTCODE`).
const WMI_ENABLE_EVENTS: i32 = 4;
const WMI_DISABLE_EVENTS: i32 = 5;
/// `WNODE_FLAG_TRACED_GUID` and `WNODE_FLAG_USE_MOF_PTR`.
const FLAGS: u64 = 0x0002_0000 | 0x0010_0000;
/// `TRACE_MESSAGE_GUID`, `TRACE_MESSAGE_TIMESTAMP` and `TRACE_MESSAGE_SYSTEMINFO`.
const MESSAGE_FLAGS: u32 = 0x02 | 0x08 | 0x20;
/// `TRACE_MESSAGE_GUID`.
const MESSAGE_GUID: u32 = 0x02;

/// The registration of a provider of classic events; it is never ended.
#[derive(Debug, Default)]
pub struct Classic {
    /// The session that has enabled the provider last; 0 for none.
    session: AtomicU64,
}

impl Classic {
    /// Registers a provider (`RegisterTraceGuids`). If a session has enabled it, that is known on return.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn register(&'static self, provider: &Guid) -> io::Result<()> {
        let provider = windows_guid(provider);
        let class = TRACE_GUID_REGISTRATION { Guid: &raw const provider, RegHandle: ptr::null_mut() };
        let context = ptr::from_ref(self).cast::<c_void>();
        let mut handle = 0;
        // SAFETY: one class; the GUID, the class and the handle's place live until the call returns, and the context lives
        // forever.
        check(unsafe {
            RegisterTraceGuidsW(
                Some(callback),
                context,
                &raw const provider,
                1,
                &raw const class,
                ptr::null(),
                ptr::null(),
                &raw mut handle,
            )
        })
    }

    /// Writes an event of a class (`TraceEvent`) and returns the code of Windows.
    pub fn event(&self, class: [u64; 2], event_type: u8, level: u8, version: u8, payload: &[u8]) -> u32 {
        // EVENT_TRACE_HEADER and one MOF_FIELD.
        const SIZE: u64 = size_of::<EVENT_TRACE_HEADER>() as u64 + 16;
        const { assert!(SIZE == 64) };
        let of_class = u64::from(event_type) << 32 | u64::from(level) << 40 | u64::from(version) << 48;
        let header: [u64; 8] = [
            SIZE | of_class,
            0,
            0,
            class[0],
            class[1],
            FLAGS << 32,
            payload.as_ptr().expose_provenance() as u64,
            payload.len() as u64,
        ];
        match self.session.load(Ordering::Acquire) {
            0 => NOT_REGISTERED,
            // SAFETY: the header is as large as it says, and the payload as its field says.
            session => unsafe { TraceEvent(session, header.as_ptr().cast()) },
        }
    }

    /// Writes a WPP message (`TraceMessage`) and returns the code of Windows.
    pub fn message(&self, message: Option<[u64; 2]>, number: u16, payload: &[u8]) -> u32 {
        let guid = message.map(guid_of_words);
        let flags = if guid.is_some() { MESSAGE_FLAGS } else { MESSAGE_FLAGS & !MESSAGE_GUID };
        let guid = guid.as_ref().map_or(ptr::null(), ptr::from_ref);
        let end = ptr::null::<c_void>();
        match self.session.load(Ordering::Acquire) {
            0 => NOT_REGISTERED,
            // SAFETY: the arguments after the number are the address and size of each part of the payload, up to a null
            // address.
            session => unsafe {
                TraceMessage(session, flags, guid, number, payload.as_ptr(), payload.len(), end)
            },
        }
    }
}

/// # Safety
///
/// The context is a `&'static Classic`, and the buffer is that of the request.
unsafe extern "system" fn callback(
    request: i32,
    context: *const c_void,
    _size: *mut u32,
    buffer: *mut c_void,
) -> u32 {
    // SAFETY: `register` passed a reference of this type, which is valid forever.
    let classic = unsafe { &*context.cast::<Classic>() };
    match request {
        WMI_ENABLE_EVENTS => {
            // SAFETY: the buffer is that of an enable request.
            let session = unsafe { GetTraceLoggerHandle(buffer) };
            classic.session.store(session, Ordering::Release);
        }
        WMI_DISABLE_EVENTS => classic.session.store(0, Ordering::Release),
        _ => {}
    }
    0
}
