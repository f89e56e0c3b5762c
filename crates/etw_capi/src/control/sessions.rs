//! `StartTrace`, `ControlTrace` and their relatives.

// UNSAFETY: reads what callers point to.
#![expect(unsafe_code)]

use std::ffi::c_void;

use etw_controller::{Controller, SessionStatus};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME, EVENT_TRACE_CONTROL_FLUSH, EVENT_TRACE_CONTROL_INCREMENT_FILE,
    EVENT_TRACE_CONTROL_QUERY, EVENT_TRACE_CONTROL_STOP, EVENT_TRACE_CONTROL_UPDATE, EVENT_TRACE_PROPERTIES,
};

use super::connection::{Hosting, Session, connected, handle_of};
use super::properties::Place;
use crate::error::{ERROR_INVALID_PARAMETER, ERROR_MORE_DATA, ERROR_NOT_SUPPORTED, ERROR_SUCCESS};
use crate::wide::Width;

/// The environment variable that makes `StartTrace` refuse flags of which some have no events here, if it is 1.
const STRICT_FLAGS: &str = "OPENETW_STRICT_FLAGS";

macro_rules! of_every_width {
    ($($(#[$doc:meta])* $wide:ident $wide32:ident $narrow:ident, $code:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $wide(
                handle: u64,
                name: *const u16,
                properties: *mut EVENT_TRACE_PROPERTIES,
            ) -> u32 {
                // SAFETY: the caller's promise.
                unsafe { control(handle, name.cast(), properties, $code, Width::Wide16) }
            }

            #[doc = concat!("[`", stringify!($wide), "`] with characters of 32 bits.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $wide32(
                handle: u64,
                name: *const u32,
                properties: *mut EVENT_TRACE_PROPERTIES,
            ) -> u32 {
                // SAFETY: the caller's promise.
                unsafe { control(handle, name.cast(), properties, $code, Width::Wide32) }
            }

            #[doc = concat!("[`", stringify!($wide), "`] with 8-bit text.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $narrow(
                handle: u64,
                name: *const u8,
                properties: *mut EVENT_TRACE_PROPERTIES,
            ) -> u32 {
                // SAFETY: the caller's promise.
                unsafe { control(handle, name.cast(), properties, $code, Width::Narrow) }
            }
        )*
    };
}

of_every_width! {
    /// Stops a session, and writes its last status.
    StopTraceW StopTraceW32 StopTraceA, EVENT_TRACE_CONTROL_STOP;
    /// Writes the status of a session.
    QueryTraceW QueryTraceW32 QueryTraceA, EVENT_TRACE_CONTROL_QUERY;
    /// Changes a session.
    UpdateTraceW UpdateTraceW32 UpdateTraceA, EVENT_TRACE_CONTROL_UPDATE;
    /// Delivers everything that was written to a session so far.
    FlushTraceW FlushTraceW32 FlushTraceA, EVENT_TRACE_CONTROL_FLUSH;
}

/// Starts a session. If no host runs, this process hosts the session, which then ends with it, as private sessions
/// (`EVENT_TRACE_PRIVATE_IN_PROC`) always do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn StartTraceW(
    handle: *mut u64,
    name: *const u16,
    properties: *mut EVENT_TRACE_PROPERTIES,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe { start(handle, name.cast(), properties, Width::Wide16) })
}

/// [`StartTraceW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn StartTraceW32(
    handle: *mut u64,
    name: *const u32,
    properties: *mut EVENT_TRACE_PROPERTIES,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe { start(handle, name.cast(), properties, Width::Wide32) })
}

/// [`StartTraceW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn StartTraceA(
    handle: *mut u64,
    name: *const u8,
    properties: *mut EVENT_TRACE_PROPERTIES,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe { start(handle, name.cast(), properties, Width::Narrow) })
}

/// Stops, queries, changes or flushes a session (`EVENT_TRACE_CONTROL_*`), by its name or else its handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ControlTraceW(
    handle: u64,
    name: *const u16,
    properties: *mut EVENT_TRACE_PROPERTIES,
    control_code: u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { control(handle, name.cast(), properties, control_code, Width::Wide16) }
}

/// [`ControlTraceW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ControlTraceW32(
    handle: u64,
    name: *const u32,
    properties: *mut EVENT_TRACE_PROPERTIES,
    control_code: u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { control(handle, name.cast(), properties, control_code, Width::Wide32) }
}

/// [`ControlTraceW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ControlTraceA(
    handle: u64,
    name: *const u8,
    properties: *mut EVENT_TRACE_PROPERTIES,
    control_code: u32,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { control(handle, name.cast(), properties, control_code, Width::Narrow) }
}

/// Writes the status of all sessions that the user may see, and their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QueryAllTracesW(
    properties: *mut *mut EVENT_TRACE_PROPERTIES,
    room: u32,
    count: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe { query_all(properties, room, count, Width::Wide16) })
}

/// [`QueryAllTracesW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QueryAllTracesW32(
    properties: *mut *mut EVENT_TRACE_PROPERTIES,
    room: u32,
    count: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe { query_all(properties, room, count, Width::Wide32) })
}

/// [`QueryAllTracesW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QueryAllTracesA(
    properties: *mut *mut EVENT_TRACE_PROPERTIES,
    room: u32,
    count: *mut u32,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe { query_all(properties, room, count, Width::Narrow) })
}

/// Returns the error code of a result.
pub(super) fn code(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(ERROR_SUCCESS)
}

/// # Safety
///
/// The pointers are null or valid; texts have this width.
unsafe fn start(
    handle: *mut u64,
    name: *const c_void,
    properties: *mut EVENT_TRACE_PROPERTIES,
    width: Width,
) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    let (name, place) = unsafe { (width.read(name), Place::new(properties, width)?) };
    let name = name.filter(|name| !name.is_empty()).ok_or(ERROR_INVALID_PARAMETER)?;
    if handle.is_null() {
        return Err(ERROR_INVALID_PARAMETER);
    }
    let wanted = place.to_start(&name)?;
    let status = Session::new(&name, wanted.log_file_mode)
        .ask(Hosting::IfNeeded, |controller, _| controller.start(wanted.clone(), false))?;
    if !status.system_missing.is_empty() && std::env::var_os(STRICT_FLAGS).is_some_and(|value| value == "1") {
        Session::of_handle(handle_of(&status))?
            .ask(Hosting::Never, |controller, name| controller.stop(name))?;
        return Err(ERROR_NOT_SUPPORTED);
    }
    // SAFETY: the caller's promise.
    unsafe { handle.write_unaligned(handle_of(&status)) };
    // The session runs, whether its names fit or not.
    let _ = place.put(&status);
    Ok(())
}

/// # Safety
///
/// The pointers are null or valid; texts have this width.
unsafe fn control(
    handle: u64,
    name: *const c_void,
    properties: *mut EVENT_TRACE_PROPERTIES,
    control_code: u32,
    width: Width,
) -> u32 {
    // SAFETY: the caller's promise.
    let (name, place) = unsafe { (width.read(name), Place::new(properties, width)) };
    let controlled = place.and_then(|place| {
        if control_code > EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME {
            return Err(ERROR_INVALID_PARAMETER);
        }
        let session = Session::find(handle, name, place.mode())?;
        place.put(&ask(control_code, &session, &place)?)
    });
    code(controlled)
}

fn ask(control_code: u32, session: &Session, place: &Place) -> Result<SessionStatus, u32> {
    session.ask(Hosting::Never, |controller, name| match control_code {
        EVENT_TRACE_CONTROL_QUERY => controller.query(name),
        EVENT_TRACE_CONTROL_STOP => controller.stop(name),
        EVENT_TRACE_CONTROL_UPDATE => controller.update(name, place.to_update()),
        EVENT_TRACE_CONTROL_FLUSH => controller.flush(name),
        EVENT_TRACE_CONTROL_INCREMENT_FILE => controller.increment_file(name),
        _ => controller.convert_to_real_time(name),
    })
}

/// # Safety
///
/// The pointers are null or valid, and `properties` are `room` pointers.
unsafe fn query_all(
    properties: *mut *mut EVENT_TRACE_PROPERTIES,
    room: u32,
    count: *mut u32,
    width: Width,
) -> Result<(), u32> {
    if count.is_null() || (properties.is_null() && room != 0) {
        return Err(ERROR_INVALID_PARAMETER);
    }
    // Without a host there are no sessions.
    let sessions = match connected(Hosting::Never, Controller::list) {
        Err(crate::error::ERROR_WMI_INSTANCE_NOT_FOUND) => Vec::new(),
        sessions => sessions?,
    };
    // SAFETY: the caller's promise.
    unsafe { count.write_unaligned(sessions.len() as u32) };
    let mut is_complete = sessions.len() <= room as usize;
    for (index, status) in sessions.iter().take(room as usize).enumerate() {
        // SAFETY: the caller promises `room` pointers.
        let place = unsafe { Place::new(properties.add(index).read_unaligned(), width)? };
        is_complete &= place.put(status).is_ok();
    }
    if is_complete { Ok(()) } else { Err(ERROR_MORE_DATA) }
}
