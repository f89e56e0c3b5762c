//! Errors of sessions and their commands.

use std::io;
use std::path::PathBuf;

use etw_buffer::RegionError;
use etw_buffer::ring::RingError;
use etw_etl::WriteError;

/// The reason why a session was not started, or a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggerError {
    /// The buffer size is invalid.
    #[error("invalid buffer size of {size} bytes: must be a multiple of 1024 from 4096 to 16777216")]
    BufferSize {
        /// Size in bytes.
        size: u32,
    },
    /// The maximum number of buffers is too low.
    #[error("a session needs at least 2 buffers, but its maximum is {buffers}")]
    MaximumBuffers {
        /// The requested maximum.
        buffers: u32,
    },
    /// Numbered files need a pattern and a maximum size.
    #[error("the new-file mode needs a file name with %d in it and a maximum file size")]
    NewFile,
    /// A next file was requested, but the session has no numbered files.
    #[error("there is no next file: the session's mode has no NEW_FILE")]
    NotNewFile,
    /// A dump was requested, but the session keeps no buffers in memory.
    #[error("the session keeps no buffers in memory: its mode has no BUFFERING")]
    NotBuffering,
    /// A file cannot be written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: WriteError,
    },
    /// Creating the shared memory of a region failed.
    #[error("cannot create a region: {0}")]
    Region(#[from] RegionError),
    /// The user has as many regions in the session as one may have.
    #[error("the processes of user {uid} have as many regions as one user may have")]
    Regions {
        /// The user.
        uid: u32,
    },
    /// Creating the ring of a consumer failed.
    #[error("cannot create a ring: {0}")]
    Ring(#[from] RingError),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

impl LoggerError {
    /// Returns an error constructor for a failed system operation.
    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> LoggerError {
        move |error| LoggerError::System { what, error }
    }
}
