//! Errors of writing timelines.

use etw_consumer::TraceError;

/// The reason why a timeline could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The output could not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
