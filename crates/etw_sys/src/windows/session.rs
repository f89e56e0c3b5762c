//! Sessions: start, control, list, and what is enabled in them.

// UNSAFETY: calls functions of ETW.
#![expect(unsafe_code)]

use std::io;
use std::ptr;

use etw_event::Guid;
use windows_sys::Win32::Foundation::ERROR_MORE_DATA;
use windows_sys::Win32::System::Diagnostics::Etw::{
    CLASSIC_EVENT_ID, CONTROLTRACE_HANDLE, ControlTraceW, ENABLE_TRACE_PARAMETERS,
    ENABLE_TRACE_PARAMETERS_VERSION_2, EVENT_CONTROL_CODE_CAPTURE_STATE, EVENT_CONTROL_CODE_DISABLE_PROVIDER,
    EVENT_CONTROL_CODE_ENABLE_PROVIDER, EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME, EVENT_TRACE_CONTROL_FLUSH,
    EVENT_TRACE_CONTROL_INCREMENT_FILE, EVENT_TRACE_CONTROL_QUERY, EVENT_TRACE_CONTROL_STOP,
    EVENT_TRACE_CONTROL_UPDATE, EnableTraceEx2, QueryAllTracesW, StartTraceW, TRACE_PROFILE_INTERVAL,
    TraceSampledProfileIntervalInfo, TraceSetInformation, TraceStackTracingInfo,
};

use super::filters::Filters;
use super::properties::Block;
use super::text::wide;
use super::{Properties, check, windows_guid};

/// Maximum number of sessions that one query returns; Windows 10 has at most 64, and a registry value raises that to 256.
const MAX_SESSIONS: usize = 256;

/// What to do with a session (`EVENT_TRACE_CONTROL_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Returns the properties.
    Query,
    /// Stops it.
    Stop,
    /// Changes it.
    Update,
    /// Writes its buffers.
    Flush,
    /// Continues in the next file.
    IncrementFile,
    /// Ends the file.
    ConvertToRealTime,
}

/// Starts a session (`StartTrace`), and returns its properties with the handle.
///
/// # Errors
///
/// Returns the error of Windows, or `InvalidInput` for a name that is too long.
pub fn start(properties: &Properties) -> io::Result<Properties> {
    let name = wide(&properties.logger_name)?;
    let mut block = Block::new(properties)?;
    let mut handle = CONTROLTRACE_HANDLE { Value: 0 };
    // SAFETY: the name ends with a zero, the block is as large as it says, and all live until the call returns.
    check(unsafe { StartTraceW(&raw mut handle, name.as_ptr(), (&raw mut *block).cast()) })?;
    Ok(Properties { handle: handle.Value, ..block.values() })
}

/// Controls a session (`ControlTrace`), given by its handle or, if that is 0, by its name. Returns its properties.
///
/// # Errors
///
/// Returns the error of Windows, or `InvalidInput` for a name that is too long.
pub fn control(action: Action, properties: &Properties) -> io::Result<Properties> {
    let code = match action {
        Action::Query => EVENT_TRACE_CONTROL_QUERY,
        Action::Stop => EVENT_TRACE_CONTROL_STOP,
        Action::Update => EVENT_TRACE_CONTROL_UPDATE,
        Action::Flush => EVENT_TRACE_CONTROL_FLUSH,
        Action::IncrementFile => EVENT_TRACE_CONTROL_INCREMENT_FILE,
        Action::ConvertToRealTime => EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME,
    };
    let name = wide(&properties.logger_name)?;
    let mut block = Block::new(properties)?;
    if matches!(action, Action::Query | Action::Stop) {
        // The results have a file, whatever the request has.
        block.properties.LogFileNameOffset = Block::empty().properties.LogFileNameOffset;
    }
    let by_name = if properties.handle == 0 { name.as_ptr() } else { ptr::null() };
    let handle = CONTROLTRACE_HANDLE { Value: properties.handle };
    // SAFETY: the name is null or ends with a zero, the block is as large as it says, and all live until the call returns.
    match unsafe { ControlTraceW(handle, by_name, (&raw mut *block).cast(), code) } {
        // The names do not fit, but the numbers are there and the action was done.
        ERROR_MORE_DATA => {}
        code => check(code)?,
    }
    Ok(block.values())
}

/// Returns the properties of all sessions that this process may query (`QueryAllTraces`).
///
/// # Errors
///
/// Returns the error of Windows.
pub fn all() -> io::Result<Vec<Properties>> {
    let mut blocks: Vec<Box<Block>> = (0..MAX_SESSIONS).map(|_| Block::empty()).collect();
    let mut pointers: Vec<_> = blocks.iter_mut().map(|block| (&raw mut **block).cast()).collect();
    let mut count = 0;
    // SAFETY: each pointer is to a block that is as large as it says; the blocks live until the call returns.
    let code = unsafe { QueryAllTracesW(pointers.as_mut_ptr(), pointers.len() as u32, &raw mut count) };
    if code != ERROR_MORE_DATA {
        check(code)?;
    }
    Ok(blocks.iter().take(count as usize).map(|block| block.values()).collect())
}

/// What a session wants of a provider (`EnableTraceEx2`).
#[derive(Debug)]
pub struct Enable<'f> {
    /// Maximum level.
    pub level: u8,
    /// Keywords of which an event must have one; 0 for all.
    pub any: u64,
    /// Keywords that an event must have.
    pub all: u64,
    /// `EVENT_ENABLE_PROPERTY_*`.
    pub properties: u32,
    /// Source of the request, for the provider's callback.
    pub source: Guid,
    /// Further filters.
    pub filters: &'f Filters,
    /// Milliseconds to wait until all processes have been notified.
    pub timeout_millis: u32,
}

/// Enables a provider or a group in the session with this handle.
///
/// # Errors
///
/// Returns the error of Windows; `ERROR_TIMEOUT` if a process was not notified in time, though it will be.
pub fn enable(session: u64, provider: &Guid, enable: &Enable<'_>) -> io::Result<()> {
    let mut descriptors = enable.filters.descriptors();
    let parameters = ENABLE_TRACE_PARAMETERS {
        Version: ENABLE_TRACE_PARAMETERS_VERSION_2,
        EnableProperty: enable.properties,
        ControlFlags: 0,
        SourceId: windows_guid(&enable.source),
        EnableFilterDesc: if descriptors.is_empty() { ptr::null_mut() } else { descriptors.as_mut_ptr() },
        FilterDescCount: descriptors.len() as u32,
    };
    let Enable { level, any, all, timeout_millis, .. } = *enable;
    let guid = windows_guid(provider);
    // SAFETY: the filters are as large as their descriptors say, and everything lives until the call returns.
    check(unsafe {
        EnableTraceEx2(
            CONTROLTRACE_HANDLE { Value: session },
            &raw const guid,
            EVENT_CONTROL_CODE_ENABLE_PROVIDER,
            level,
            any,
            all,
            timeout_millis,
            &raw const parameters,
        )
    })
}

/// Disables a provider or a group in the session with this handle.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn disable(session: u64, provider: &Guid) -> io::Result<()> {
    request(session, provider, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0)
}

/// Requests a provider to write its state.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn capture_state(session: u64, provider: &Guid, level: u8, any: u64) -> io::Result<()> {
    request(session, provider, EVENT_CONTROL_CODE_CAPTURE_STATE, level, any)
}

fn request(session: u64, provider: &Guid, code: u32, level: u8, any: u64) -> io::Result<()> {
    let provider = windows_guid(provider);
    let session = CONTROLTRACE_HANDLE { Value: session };
    // SAFETY: the GUID lives until the call returns, and there may be no parameters.
    check(unsafe { EnableTraceEx2(session, &raw const provider, code, level, any, 0, 0, ptr::null()) })
}

/// Records stacks for the system events of these classes and types (`TraceStackTracingInfo`).
///
/// # Errors
///
/// Returns the error of Windows.
pub fn set_stack_tracing(session: u64, events: &[(Guid, u8)]) -> io::Result<()> {
    let events: Vec<CLASSIC_EVENT_ID> = events
        .iter()
        .map(|(class, event_type)| CLASSIC_EVENT_ID {
            EventGuid: windows_guid(class),
            Type: *event_type,
            Reserved: [0; 7],
        })
        .collect();
    let session = CONTROLTRACE_HANDLE { Value: session };
    let size = size_of_val(&*events) as u32;
    // SAFETY: the events are `size` bytes of this class of information.
    check(unsafe { TraceSetInformation(session, TraceStackTracingInfo, events.as_ptr().cast(), size) })
}

/// Sets the interval of the sampled profile in units of 100 ns, for all sessions (`TraceSampledProfileIntervalInfo`).
///
/// # Errors
///
/// Returns the error of Windows.
pub fn set_sample_interval(units: u32) -> io::Result<()> {
    let interval = TRACE_PROFILE_INTERVAL { Source: 0, Interval: units };
    let (none, size) = (CONTROLTRACE_HANDLE { Value: 0 }, size_of_val(&interval) as u32);
    let class = TraceSampledProfileIntervalInfo;
    // SAFETY: the interval is `size` bytes of this class of information.
    check(unsafe { TraceSetInformation(none, class, (&raw const interval).cast(), size) })
}
