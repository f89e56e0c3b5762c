//! Errors of opening a session and of reading from it.

use std::io;

use etw_buffer::ring::RingError;

/// The reason why a session could not be opened, or why reading from it ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A system call failed.
    #[error("session '{session}': {what}: {source}")]
    Io {
        /// The session.
        session: String,
        /// The failed operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// No session host is running.
    #[error(
        "session '{session}': no session host is running at '{directory}'; start one with `etw daemon`, or record with `etw record`"
    )]
    NoHost {
        /// The session.
        session: String,
        /// The directory of the instance.
        directory: String,
    },
    /// The host refused the request.
    #[error("session '{session}': {reason}")]
    Refused {
        /// The session.
        session: String,
        /// The host's reason.
        reason: String,
    },
    /// The host sent an unexpected message.
    #[error("session '{session}': the host sent {what}")]
    Protocol {
        /// The session.
        session: String,
        /// The problem.
        what: String,
    },
    /// The event ring is broken; events before the damage have been delivered.
    #[error("session '{session}': the ring of events is broken: {source}")]
    Ring {
        /// The session.
        session: String,
        /// The problem.
        source: RingError,
    },
    /// Live sessions are supported on Linux only.
    #[error("session '{session}': live sessions are not supported on this system")]
    Unsupported {
        /// The session.
        session: String,
    },
}
