//! What a provider is told when sessions enable, disable or ask it.

use std::fmt;

use etw_event::{Guid, Keyword, Level};

/// What happened to a provider (`EVENT_CONTROL_CODE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlCode {
    /// No session has it enabled any more, or one session less has.
    Disable,
    /// A session has enabled it, or wants something else of it than before.
    Enable,
    /// A session wants to know the provider's state: it is to write the events that describe it. What the callback
    /// writes goes to this session only.
    CaptureState,
}

/// What a callback of [`Provider::register_with`](crate::Provider::register_with) gets, as `PENABLECALLBACK` does.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Control {
    /// What happened.
    pub code: ControlCode,
    /// Whether a session has the provider enabled now.
    pub is_enabled: bool,
    /// The level of all sessions together, 0 for all levels; of [`ControlCode::CaptureState`], what is asked for.
    pub level: Level,
    /// The keywords that one of the sessions asks for; of [`ControlCode::CaptureState`], what is asked for.
    pub any: Keyword,
    /// The keywords that all sessions demand.
    pub all: Keyword,
    /// Who asks (`SourceId`); zero if nobody in particular.
    pub source: Guid,
    /// Data of filters that the session passes to the provider: `EVENT_FILTER_DESCRIPTOR.Type` and the bytes.
    pub filter_data: Vec<(u32, Vec<u8>)>,
}

/// A provider's callback, kept as long as the program runs.
pub(crate) struct Callback(pub(crate) Box<dyn Fn(&Control) + Send + Sync>);

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}
