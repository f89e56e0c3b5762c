//! `TraceSetInformation` and `TraceQueryInformation`: settings of the system's events.

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::ffi::c_void;

use etw_controller::{SessionStatus, SessionUpdate};
use etw_event::{Guid, HookId};
use windows_sys::Win32::System::Diagnostics::Etw::{
    TraceMaxLoggersQuery, TraceMaxPmcCounterQuery, TraceSampledProfileIntervalInfo, TraceStackTracingInfo,
    TraceSystemTraceEnableFlagsInfo,
};

use super::connection::{Hosting, Session};
use super::sessions::code;
use crate::error::{ERROR_BAD_LENGTH, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND, ERROR_NOT_SUPPORTED};

/// Bytes of a `CLASSIC_EVENT_ID`, and the most of them.
const EVENT_ID: usize = 24;
const MAX_EVENT_IDS: usize = 256;
/// The interval of the sampled profile, in 100 ns, and the number of sessions that a host has at most.
const DEFAULT_INTERVAL: u32 = 10_000;
const MAX_SESSIONS: u32 = 64;

/// Sets which of the system's events have stacks (`TraceStackTracingInfo`), which are recorded
/// (`TraceSystemTraceEnableFlagsInfo`), or the interval of the sampled profile (`TraceSampledProfileIntervalInfo`), in a running
/// session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceSetInformation(
    session: u64,
    class: i32,
    information: *const c_void,
    size: u32,
) -> u32 {
    if information.is_null() || size as usize > EVENT_ID * MAX_EVENT_IDS {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller promises `size` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(information.cast::<u8>(), size as usize) };
    code(update_of(class, bytes).and_then(|update| {
        let session = Session::of_handle(session)?;
        session.ask(Hosting::Never, |controller, name| controller.update(name, update.clone())).map(|_| ())
    }))
}

/// Writes what [`TraceSetInformation`] sets, except stacks, and the highest number of sessions. Without a session (0) the
/// interval is the one that sessions have by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceQueryInformation(
    session: u64,
    class: i32,
    information: *mut c_void,
    size: u32,
    length: *mut u32,
) -> u32 {
    if information.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let found = match session {
        0 => of_system(class),
        _ => Session::of_handle(session)
            .and_then(|session| session.ask(Hosting::Never, |controller, name| controller.query(name)))
            .and_then(|status| of_session(class, &status)),
    };
    code(found.and_then(|bytes| {
        if (size as usize) < bytes.len() {
            return Err(ERROR_BAD_LENGTH);
        }
        // SAFETY: the caller's promise.
        unsafe {
            information.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            if !length.is_null() {
                length.write_unaligned(bytes.len() as u32);
            }
        }
        Ok(())
    }))
}

/// Returns information that no session is needed for.
fn of_system(class: i32) -> Result<Vec<u8>, u32> {
    match class {
        TraceSampledProfileIntervalInfo => Ok(interval(DEFAULT_INTERVAL)),
        TraceMaxLoggersQuery => Ok(MAX_SESSIONS.to_le_bytes().to_vec()),
        // Counters of processors are not recorded.
        TraceMaxPmcCounterQuery => Ok(vec![0; 4]),
        TraceSystemTraceEnableFlagsInfo => Err(ERROR_INVALID_PARAMETER),
        _ => Err(ERROR_NOT_SUPPORTED),
    }
}

fn of_session(class: i32, status: &SessionStatus) -> Result<Vec<u8>, u32> {
    match class {
        TraceSystemTraceEnableFlagsInfo => {
            let mut masks = status.properties.enable_flags.to_le_bytes().to_vec();
            masks.resize(32, 0);
            Ok(masks)
        }
        TraceSampledProfileIntervalInfo => Ok(interval(match status.properties.sample_interval {
            0 => DEFAULT_INTERVAL,
            interval => interval,
        })),
        _ => of_system(class),
    }
}

/// Returns `TRACE_PROFILE_INTERVAL` of the timer.
fn interval(interval: u32) -> Vec<u8> {
    [0u32, interval].into_iter().flat_map(u32::to_le_bytes).collect()
}

fn update_of(class: i32, bytes: &[u8]) -> Result<SessionUpdate, u32> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four));
    Ok(match class {
        TraceStackTracingInfo => {
            let (ids, []) = bytes.as_chunks::<EVENT_ID>() else { return Err(ERROR_BAD_LENGTH) };
            let hooks = ids.iter().map(hook_of).collect::<Option<_>>().ok_or(ERROR_NOT_FOUND)?;
            SessionUpdate { stack_tracing: Some(hooks), ..SessionUpdate::default() }
        }
        TraceSystemTraceEnableFlagsInfo => {
            SessionUpdate { enable_flags: Some(word(0).ok_or(ERROR_BAD_LENGTH)?), ..SessionUpdate::default() }
        }
        TraceSampledProfileIntervalInfo => SessionUpdate {
            sample_interval: Some(word(4).ok_or(ERROR_BAD_LENGTH)?),
            ..SessionUpdate::default()
        },
        _ => return Err(ERROR_NOT_SUPPORTED),
    })
}

/// Returns the hook of a `CLASSIC_EVENT_ID`: class and type.
fn hook_of(id: &[u8; EVENT_ID]) -> Option<u16> {
    let class = Guid::from_bytes(*id.first_chunk::<16>()?);
    let event_type = u16::from(*id.get(16)?);
    let hooks = (0..=0xFFu16).map(|group| group << 8 | event_type);
    hooks.into_iter().find(|hook| HookId(*hook).class_guid() == class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::classes;

    #[test]
    fn events_with_stacks_are_named_by_class_and_type() {
        let mut id = [0; EVENT_ID];
        id[..16].copy_from_slice(&classes::THREAD.to_bytes());
        id[16] = 36;
        let update = update_of(TraceStackTracingInfo, &id).unwrap();
        assert_eq!(update.stack_tracing, Some(vec![0x0524]));
        assert_eq!(update_of(TraceStackTracingInfo, &id[..20]), Err(ERROR_BAD_LENGTH));
        assert_eq!(update_of(TraceStackTracingInfo, &[9; EVENT_ID]), Err(ERROR_NOT_FOUND));
        assert_eq!(update_of(-1, &id), Err(ERROR_NOT_SUPPORTED));
    }
}
