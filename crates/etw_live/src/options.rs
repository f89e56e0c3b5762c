//! What is watched.

use std::path::PathBuf;

use anyhow::Result;
use etw_app::enabling::Wants;
use etw_app::input::{self, Filters};
use etw_app::profiles::Combined;
use etw_app::schemas::{SchemaOptions, Schemas};
use openetw::EventFilter;

/// The session to watch, and which of its events are kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// Kernel flags, joined by `+`. Without flags, providers and a profile, all supported flags except the most frequent
    /// ones are enabled.
    pub kernel: Option<String>,
    /// Provider strings to enable in a session that is started.
    pub provider: Vec<String>,
    /// Options for all enabled providers.
    pub wants: Wants,
    /// What recording profiles record, besides.
    pub profile: Option<Combined>,
    /// Name of a running session to watch instead of starting one.
    pub session: Option<String>,
    /// File to which all events are written.
    pub output: Option<PathBuf>,
    /// Number of newest events to keep.
    pub keep: usize,
    /// Buffer size of the session in bytes.
    pub buffer_size: u64,
    /// Maximum number of buffers of the session; `None` for the default.
    pub buffers: Option<u32>,
    /// Filters of the events to show.
    pub filters: Filters,
    /// Sources of schemas.
    pub schemas: SchemaOptions,
}

impl Options {
    /// Compiles the filters.
    ///
    /// # Errors
    ///
    /// Fails if a filter is not valid, or if it has a condition on stacks, which are not known while events arrive.
    pub fn filter(&self, schemas: &Schemas) -> Result<EventFilter> {
        let filter = input::compile(&self.filters, schemas)?;
        input::refuse_stacks(&filter)?;
        Ok(filter)
    }

    /// Whether events that are too frequent to read are hidden: those of flags that the user has not named.
    pub(crate) fn is_quiet(&self) -> bool {
        self.session.is_none() && self.kernel.is_none() && self.profile.is_none()
    }
}
