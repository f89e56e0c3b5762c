//! `TraceSetInformation` and `TraceQueryInformation`: settings of the system's events.

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

use etw_controller::{SessionStatus, SessionUpdate};
use etw_event::{Guid, HookId};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_TRACE_FLAG_PROFILE, TraceMaxLoggersQuery, TraceMaxPmcCounterQuery, TraceProfileSourceConfigInfo,
    TraceProfileSourceListInfo, TraceSampledProfileIntervalInfo, TraceStackTracingInfo,
    TraceSystemTraceEnableFlagsInfo, TraceVersionInfo,
};

use super::connection::{Hosting, Session, connected};
use super::sessions::code;
use crate::error::{
    ERROR_BAD_LENGTH, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND, ERROR_NOT_SUPPORTED,
    ERROR_WMI_INSTANCE_NOT_FOUND,
};

/// Bytes of a `CLASSIC_EVENT_ID`, and the most of them.
const EVENT_ID: usize = 24;
const MAX_EVENT_IDS: usize = 256;
/// The interval of the sampled profile, in 100 ns, its limits, and the number of sessions that a host has at most.
const DEFAULT_INTERVAL: u32 = 10_000;
const INTERVALS: RangeInclusive<u32> = 1_000..=10_000_000;
const MAX_SESSIONS: u32 = 64;
/// The only source of the sampled profile, and its name.
const TIMER: u32 = 0;
const TIMER_NAME: &str = "Timer";
/// Bytes of a `PROFILE_SOURCE_INFO` before the name.
const SOURCE: usize = 24;
/// `EtwTraceProcessingVersion` of Windows 10 and 11.
const PROCESSING_VERSION: u32 = 1;

/// The interval that this process has set without a session; 0 if it has not.
static INTERVAL: AtomicU32 = AtomicU32::new(0);

/// Returns the interval of the sampled profile for sessions that this process starts; 0 is the one of the host.
pub(super) fn interval_to_start() -> u32 {
    INTERVAL.load(Ordering::Relaxed)
}

/// Sets which of the system's events have stacks (`TraceStackTracingInfo`), which are recorded
/// (`TraceSystemTraceEnableFlagsInfo`), or the interval of the sampled profile (`TraceSampledProfileIntervalInfo`), in a running
/// session. Without a session (0) the interval is set in all that have the profile, and in those that this process starts.
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
    if class == TraceProfileSourceConfigInfo {
        return code(set_sources(bytes));
    }
    code(update_of(class, bytes).and_then(|update| match (session, update.sample_interval) {
        (0, Some(interval)) => set_interval(interval),
        _ => {
            let session = Session::of_handle(session)?;
            session
                .ask(Hosting::Never, |controller, name| controller.update(name, update.clone()))
                .map(|_| ())
        }
    }))
}

/// The timer is always the source.
fn set_sources(bytes: &[u8]) -> Result<(), u32> {
    match bytes.as_chunks::<4>() {
        (sources, []) if sources.iter().all(|source| u32::from_le_bytes(*source) == TIMER) => Ok(()),
        (_, []) => Err(ERROR_NOT_SUPPORTED),
        _ => Err(ERROR_BAD_LENGTH),
    }
}

/// Sets the interval of all sessions with the profile, running ones and those that this process starts.
fn set_interval(wanted: u32) -> Result<(), u32> {
    let interval = wanted.clamp(*INTERVALS.start(), *INTERVALS.end());
    let changed = connected(Hosting::Never, |controller| {
        for status in controller.list()? {
            if status.properties.enable_flags & EVENT_TRACE_FLAG_PROFILE != 0 {
                let update = SessionUpdate { sample_interval: Some(interval), ..SessionUpdate::default() };
                controller.update(&status.properties.logger_name, update)?;
            }
        }
        Ok(())
    });
    match changed {
        // Without a host there are no sessions.
        Ok(()) | Err(ERROR_WMI_INSTANCE_NOT_FOUND) => {
            INTERVAL.store(interval, Ordering::Relaxed);
            Ok(())
        }
        Err(code) => Err(code),
    }
}

/// Writes what [`TraceSetInformation`] sets, except stacks, the sources of the profile, the highest number of sessions, and
/// the version of the processing. Without a session (0) the interval is the one that sessions of this process get.
///
/// The length is written also if there is no room for the information.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceQueryInformation(
    session: u64,
    class: i32,
    information: *mut c_void,
    size: u32,
    length: *mut u32,
) -> u32 {
    if information.is_null() && size != 0 {
        return ERROR_INVALID_PARAMETER;
    }
    let found = match session {
        0 => of_system(class),
        _ => Session::of_handle(session)
            .and_then(|session| session.ask(Hosting::Never, |controller, name| controller.query(name)))
            .and_then(|status| of_session(class, &status)),
    };
    code(found.and_then(|bytes| {
        // SAFETY: the caller's promise.
        unsafe {
            if !length.is_null() {
                length.write_unaligned(bytes.len() as u32);
            }
            if (size as usize) < bytes.len() {
                return Err(ERROR_BAD_LENGTH);
            }
            information.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Ok(())
    }))
}

/// Returns information that no session is needed for.
fn of_system(class: i32) -> Result<Vec<u8>, u32> {
    match class {
        TraceSampledProfileIntervalInfo => Ok(interval(match interval_to_start() {
            0 => DEFAULT_INTERVAL,
            interval => interval,
        })),
        TraceProfileSourceListInfo => Ok(sources()),
        TraceVersionInfo => Ok([PROCESSING_VERSION, 0].into_iter().flat_map(u32::to_le_bytes).collect()),
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

/// Returns a list of `PROFILE_SOURCE_INFO` with the timer.
fn sources() -> Vec<u8> {
    let mut out: Vec<u8> =
        [0, TIMER, *INTERVALS.start(), *INTERVALS.end()].into_iter().flat_map(u32::to_le_bytes).collect();
    out.resize(SOURCE, 0);
    out.extend(TIMER_NAME.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    out.resize(out.len().next_multiple_of(8), 0);
    out
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

    /// Calls [`TraceQueryInformation`] without a session; returns its code and what it wrote.
    fn query(class: i32, room: usize) -> (u32, Vec<u8>, u32) {
        let (mut bytes, mut length) = (vec![0xAA; room], 77);
        // SAFETY: the pointers are valid.
        let code =
            unsafe { TraceQueryInformation(0, class, bytes.as_mut_ptr().cast(), room as u32, &mut length) };
        (code, bytes, length)
    }

    #[test]
    fn the_length_is_returned_also_without_room() {
        let (code, bytes, length) = query(TraceProfileSourceListInfo, 64);
        let (bytes, rest) = bytes.split_at(length as usize);
        assert_eq!((code, length % 8), (0, 0));
        assert!(rest.iter().all(|byte| *byte == 0xAA));
        let timer: Vec<u8> = "Timer\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!((&bytes[..8], &bytes[24..36]), (&[0; 8][..], &timer[..]));
        let (code, bytes, again) = query(TraceProfileSourceListInfo, length as usize - 1);
        assert_eq!((code, again), (ERROR_BAD_LENGTH, length));
        assert!(bytes.iter().all(|byte| *byte == 0xAA));
        let mut needed = 0;
        // SAFETY: the pointers are null or valid.
        let code = unsafe {
            TraceQueryInformation(0, TraceProfileSourceListInfo, std::ptr::null_mut(), 0, &mut needed)
        };
        assert_eq!((code, needed), (ERROR_BAD_LENGTH, length));
        // SAFETY: as above.
        let code =
            unsafe { TraceQueryInformation(0, TraceVersionInfo, std::ptr::null_mut(), 8, &mut needed) };
        assert_eq!(code, ERROR_INVALID_PARAMETER);
        assert_eq!(query(TraceVersionInfo, 8), (0, vec![1, 0, 0, 0, 0, 0, 0, 0], 8));
    }

    #[test]
    fn the_timer_is_the_only_source() {
        assert_eq!(set_sources(&[0; 8]), Ok(()));
        assert_eq!(set_sources(&[0, 0, 0, 0, 1, 0, 0, 0]), Err(ERROR_NOT_SUPPORTED));
        assert_eq!(set_sources(&[0; 5]), Err(ERROR_BAD_LENGTH));
    }

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
