//! Why a session could not be opened, or ended early.

use std::io;

use etw_buffer::ring::RingError;

/// Why a session could not be opened, or reading from it ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The system refused.
    #[error("session '{session}': {what}: {source}")]
    Io {
        /// The session.
        session: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No host runs, so there are no sessions.
    #[error(
        "session '{session}': no host of sessions runs at '{directory}'; start one with `etw daemon`, or record with `etw record`"
    )]
    NoHost {
        /// The session.
        session: String,
        /// The directory of the instance.
        directory: String,
    },
    /// The host refused.
    #[error("session '{session}': {reason}")]
    Refused {
        /// The session.
        session: String,
        /// What the host said.
        reason: String,
    },
    /// What the host sent is not what it should be.
    #[error("session '{session}': the host sent {what}")]
    Protocol {
        /// The session.
        session: String,
        /// What is wrong.
        what: String,
    },
    /// The ring through which events come is broken; what came before has been delivered.
    #[error("session '{session}': the ring of events is broken: {source}")]
    Ring {
        /// The session.
        session: String,
        /// What is wrong with it.
        source: RingError,
    },
    /// Sessions run on Linux only so far.
    #[error("session '{session}': live sessions are not supported on this system")]
    Unsupported {
        /// The session.
        session: String,
    },
}
