//! Why a trace could not be written.

use etw_consumer::TraceError;

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The output cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
