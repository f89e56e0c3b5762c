//! Why a session cannot be, or cannot do something.

use std::io;
use std::path::PathBuf;

use etw_buffer::RegionError;
use etw_buffer::ring::RingError;
use etw_etl::WriteError;

/// Why a session was not started, or a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggerError {
    /// Buffers of this size are not possible.
    #[error("buffers of {size} bytes are not possible; a multiple of 1024 from 4096 to 16777216 is")]
    BufferSize {
        /// Bytes.
        size: u32,
    },
    /// Too few buffers.
    #[error("a session needs at least 2 buffers, and may have {buffers}")]
    MaximumBuffers {
        /// Most buffers.
        buffers: u32,
    },
    /// Files that follow each other need a pattern and a size.
    #[error("the new-file mode needs a file name with %d in it and a maximum file size")]
    NewFile,
    /// The session has one file, or none, and was asked for the next one.
    #[error("there is no next file: the session's mode has no NEW_FILE")]
    NotNewFile,
    /// The session keeps nothing in memory that could be dumped.
    #[error("the session keeps no buffers in memory: its mode has no BUFFERING")]
    NotBuffering,
    /// A file cannot be written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: WriteError,
    },
    /// Shared memory for a region.
    #[error("no region: {0}")]
    Region(#[from] RegionError),
    /// Shared memory for a consumer.
    #[error("no ring: {0}")]
    Ring(#[from] RingError),
    /// A call of the system failed.
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
    /// A failure of the system at something.
    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> LoggerError {
        move |error| LoggerError::System { what, error }
    }
}
