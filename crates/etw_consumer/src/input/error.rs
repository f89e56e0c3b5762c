//! Errors of opening files, each one line that says what to do.

use std::io;
use std::path::PathBuf;

/// The reason why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The system call failed.
    #[error("cannot open '{}': {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The trace is on another machine, and was not fetched.
    #[error("{reason}")]
    Fetch {
        /// Its URL, and why.
        reason: String,
    },
    /// The path is a directory.
    #[error("'{}' is a directory; name the trace files in it", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The path is a pipe or a device.
    #[error(
        "'{}' is a pipe or a device; a trace is read from several places at once, so it must be in a file",
        path.display()
    )]
    NoFile {
        /// The pipe or device.
        path: PathBuf,
    },
    /// The compressed data is damaged or of an unsupported kind.
    #[error("cannot unpack '{name}' ({format}): {reason}")]
    Unpack {
        /// The file, with the member if the file is an archive.
        name: String,
        /// `zstd`, `gzip` or `zip`.
        format: &'static str,
        /// The decoder's error.
        reason: String,
    },
    /// The temporary file of an unpacked or converted trace could not be written.
    #[error("cannot unpack '{name}' into {}: {source}; set TMPDIR to a directory with more room", std::env::temp_dir().display())]
    Temporary {
        /// The file, with the member if the file is an archive.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The bytes of a pipe could not be copied to a temporary file.
    #[error("cannot copy '{name}' into {}: {source}; a trace from a pipe takes as much disk space as it has bytes: set TMPDIR to a directory with more room", std::env::temp_dir().display())]
    Spool {
        /// The name of the pipe.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The unpacked or converted file would be larger than the limit.
    #[error(
        "'{name}' unpacks to more than {limit} bytes; if this is expected, unpack it by hand or raise the limit (OPENETW_MAX_UNPACKED_MB)"
    )]
    TooLarge {
        /// The file, with the member if the file is an archive.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The archive contains no trace.
    #[error("'{}' holds no .etl, .nettrace, .netperf or perf.data file; name a member as '{}!MEMBER' (it has {members})", path.display(), path.display())]
    NoTrace {
        /// The archive.
        path: PathBuf,
        /// Some member names.
        members: String,
    },
    /// The archive has no such member.
    #[error("'{}' has no member '{member}' (it has {members})", path.display())]
    NoMember {
        /// The archive.
        path: PathBuf,
        /// The requested member.
        member: String,
        /// Some member names.
        members: String,
    },
    /// A member was requested, but the file is not an archive.
    #[error("'{}' is not a zip archive, so it has no member '{member}'", path.display())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// The requested member.
        member: String,
    },
    /// The file is not a trace.
    #[error("'{name}' is not a trace file: {source}")]
    NotATrace {
        /// The file, with the member if the file is an archive.
        name: String,
        /// The format error.
        source: etw_etl::OpenError,
    },
    /// The .NET trace cannot be read.
    #[error("'{name}' is a .NET trace that cannot be read: {reason}")]
    Convert {
        /// The file, with the member if the file is an archive.
        name: String,
        /// The format error.
        reason: String,
    },
    /// The file of perf cannot be read.
    #[error("'{name}' is a file of perf that cannot be read: {reason}")]
    Perf {
        /// The file, with the member if the file is an archive.
        name: String,
        /// The format error.
        reason: String,
    },
    /// No file was given.
    #[error("no trace file was given")]
    Nothing,
}

impl InputError {
    /// Returns the message without bytes of the file and without names in it, for those who may not read the file.
    pub fn without_contents(&self) -> String {
        match self {
            InputError::Unpack { name, .. }
            | InputError::NotATrace { name, .. }
            | InputError::Convert { name, .. }
            | InputError::Perf { name, .. } => format!("'{name}' is not a trace that can be read"),
            InputError::NoTrace { path, .. }
            | InputError::NoMember { path, .. }
            | InputError::NotAnArchive { path, .. } => {
                format!("'{}' is not a trace that can be read", path.display())
            }
            other => other.to_string(),
        }
    }
}
