//! Notifications to a provider when sessions enable, disable or query it.

use std::fmt;

use etw_event::{Guid, Keyword, Level};

/// What happened to a provider (`EVENT_CONTROL_CODE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlCode {
    /// A session has disabled the provider; others may still have it enabled.
    Disable,
    /// A session has enabled the provider, or changed its settings.
    Enable,
    /// A session requests the provider's state: the callback should write the events that describe it. Events written
    /// by the callback go to this session only.
    CaptureState,
}

/// The argument of a callback of [`Provider::register_with`](crate::Provider::register_with), as of `PENABLECALLBACK`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Control {
    /// What happened.
    pub code: ControlCode,
    /// Whether any session has the provider enabled now.
    pub is_enabled: bool,
    /// The highest level of all sessions, 0 for all levels; for [`ControlCode::CaptureState`], the requested level.
    pub level: Level,
    /// The keywords requested by any session; for [`ControlCode::CaptureState`], the requested keywords.
    pub any: Keyword,
    /// The keywords required by all sessions.
    pub all: Keyword,
    /// The source of the request (`SourceId`); zero if unspecified.
    pub source: Guid,
    /// Filter data that the session passes to the provider: `EVENT_FILTER_DESCRIPTOR.Type` and the bytes.
    pub filter_data: Vec<(u32, Vec<u8>)>,
}

/// A provider's callback, kept for the lifetime of the process.
pub(crate) struct Callback(pub(crate) Box<dyn Fn(&Control) + Send + Sync>);

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}
