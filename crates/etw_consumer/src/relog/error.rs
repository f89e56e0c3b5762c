//! What keeps a trace from being written anew.

use std::io;
use std::path::PathBuf;

use etw_etl::WriteError;

use crate::TraceError;

/// Why a trace was not written anew. No file is left that was not there before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelogError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file could not be made or completed.
    #[error("{}: cannot be written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: WriteError,
    },
    /// There is such a file already.
    #[error("{}: exists already; with leave to overwrite it is replaced (--force)", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file to write is one of those to read.
    #[error("{}: is read and cannot be written at once; name another file", path.display())]
    IsInput {
        /// The file.
        path: PathBuf,
    },
    /// The files count different clocks, and a file has one.
    #[error(
        "{other} was recorded by another clock than {first} (another boot, machine or kind of clock), and a file has \
         one clock; they can be read together instead: etw dump {first} {other}"
    )]
    Clocks {
        /// The first file.
        first: String,
        /// A file with another clock.
        other: String,
    },
    /// Live sessions cannot be written anew.
    #[error("a live session cannot be written anew; record it into a file")]
    Live,
    /// It was asked for the end.
    #[error("ended before all was read; nothing was written")]
    Stopped,
}
