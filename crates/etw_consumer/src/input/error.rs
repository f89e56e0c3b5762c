//! Why a file could not be opened, in one line that says what to do.

use std::io;
use std::path::PathBuf;

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The system refused.
    #[error("cannot open '{}': {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory where a file is expected.
    #[error("'{}' is a directory; name the trace files in it", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A pipe or a device where a file is expected.
    #[error(
        "'{}' is a pipe or a device; a trace is read from several places at once, so it must be in a file",
        path.display()
    )]
    NoFile {
        /// What is no file.
        path: PathBuf,
    },
    /// The compressed data is broken, or of a kind that is not supported.
    #[error("cannot unpack '{name}' ({format}): {reason}")]
    Unpack {
        /// The file, and the member if it is an archive.
        name: String,
        /// `zstd`, `gzip` or `zip`.
        format: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// The temporary file could not be written.
    #[error("cannot unpack '{name}' into {}: {source}; set TMPDIR to a directory with more room", std::env::temp_dir().display())]
    Temporary {
        /// The file, and the member if it is an archive.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The compressed file unfolds to more than the limit.
    #[error(
        "'{name}' unpacks to more than {limit} bytes; unpack it by hand if that is right, or raise the limit"
    )]
    TooLarge {
        /// The file, and the member if it is an archive.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The archive holds no trace.
    #[error("'{}' holds no .etl file; name a member as '{}!MEMBER' (it has {members})", path.display(), path.display())]
    NoTrace {
        /// The archive.
        path: PathBuf,
        /// Some of the members' names.
        members: String,
    },
    /// The archive lacks the member.
    #[error("'{}' has no member '{member}' (it has {members})", path.display())]
    NoMember {
        /// The archive.
        path: PathBuf,
        /// The member that was asked for.
        member: String,
        /// Some of the members' names.
        members: String,
    },
    /// A member was named, but the file is no archive.
    #[error("'{}' is no zip archive, so it has no member '{member}'", path.display())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// The member that was asked for.
        member: String,
    },
    /// The file is no trace.
    #[error("'{name}' is no trace file: {source}")]
    NotATrace {
        /// The file, and the member if it is an archive.
        name: String,
        /// What is wrong with it.
        source: etw_etl::OpenError,
    },
    /// No file at all was given.
    #[error("no trace file was given")]
    Nothing,
}
