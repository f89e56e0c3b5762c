//! Callbacks for the events of one class (`SetTraceCallback`).

// UNSAFETY: reads what callers point to, and calls callbacks of C.
#![expect(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use etw_event::{Guid, Record};
use windows_sys::Win32::System::Diagnostics::Etw::PEVENT_CALLBACK;
use windows_sys::core::GUID;

use super::record;
use crate::error::{ERROR_INVALID_PARAMETER, ERROR_SUCCESS, ERROR_WMI_GUID_NOT_FOUND};
use crate::guest::guest;
use crate::guid;

static CALLBACKS: LazyLock<Mutex<HashMap<Guid, PEVENT_CALLBACK>>> = LazyLock::new(Mutex::default);
/// The number of callbacks, so that reading takes no lock without them.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that `ProcessTrace` calls for each event of a class, besides the callbacks of the trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn SetTraceCallback(class: *const GUID, callback: PEVENT_CALLBACK) -> u32 {
    // SAFETY: the caller's promise.
    let (Some(class), true) = (unsafe { guid::read(class) }, callback.is_some()) else {
        return ERROR_INVALID_PARAMETER;
    };
    let mut callbacks = callbacks();
    callbacks.insert(class, callback);
    COUNT.store(callbacks.len(), Ordering::Release);
    ERROR_SUCCESS
}

/// Removes the function of a class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RemoveTraceCallback(class: *const GUID) -> u32 {
    // SAFETY: the caller's promise.
    let Some(class) = (unsafe { guid::read(class) }) else { return ERROR_INVALID_PARAMETER };
    let mut callbacks = callbacks();
    let removed = callbacks.remove(&class);
    COUNT.store(callbacks.len(), Ordering::Release);
    if removed.is_some() { ERROR_SUCCESS } else { ERROR_WMI_GUID_NOT_FOUND }
}

/// Calls the function of an event's class, if there is one.
pub(super) fn deliver(event: &Record<'_>, time: i64, changed: Option<&[u8]>) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    // A callback may set others, so the lock is released before the call.
    let callback = callbacks().get(&event.provider_id()).copied().flatten();
    if let Some(callback) = callback {
        let mut c = record::event_trace(event, time);
        if let Some(payload) = changed {
            c.MofData = payload.as_ptr().cast_mut().cast();
            c.MofLength = payload.len() as u32;
        }
        // SAFETY: the program gave this function for these events.
        unsafe {
            match guest() {
                None => callback(&mut c),
                Some(guest) => {
                    guest.call(callback as *const c_void, &[(&raw mut c).addr() as u64]);
                }
            }
        };
    }
}

fn callbacks() -> MutexGuard<'static, HashMap<Guid, PEVENT_CALLBACK>> {
    CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner)
}
