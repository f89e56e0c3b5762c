//! Errors of rewriting traces.

use std::io;
use std::path::PathBuf;

use etw_consumer::TraceError;
use etw_etl::WriteError;

/// The reason why a trace was not rewritten. No new file is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelogError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file could not be created or completed.
    #[error("{}: cannot be written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: WriteError,
    },
    /// The output file already exists.
    #[error("{}: already exists; --force replaces it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The output file is also an input file.
    #[error("{}: is also an input file; name another output file", path.display())]
    IsInput {
        /// The file.
        path: PathBuf,
    },
    /// The files have clocks that cannot be converted, and a file has only one clock.
    #[error(
        "the clock of {other} cannot be converted to that of {first} (another boot, machine or clock type), \
         and a file has only one clock; to read the files together: etw dump {first} {other}"
    )]
    Clocks {
        /// The first file.
        first: String,
        /// A file with another clock.
        other: String,
    },
    /// The field is needed to decode the event, so it cannot be redacted.
    #[error(
        "{redaction}: this field is the length or count of '{other}' and needed to decode it; redact '{other}' instead"
    )]
    Redaction {
        /// The redaction.
        redaction: String,
        /// The field that depends on it.
        other: String,
    },
    /// No event to be written has a field to redact. A misspelt name would leave sensitive data in the file, so this
    /// is an error unless [`Relogger::allow_absent`](super::Relogger::allow_absent) is set.
    #[error(
        "nothing was written: no event has the field {}; check the spelling, or use --allow-absent",
        redactions.join(" or ")
    )]
    NothingToRedact {
        /// The redactions.
        redactions: Vec<String>,
    },
    /// No event to be written has a field to set.
    #[error("nothing was written: no event has the field {}; check the spelling", fields.join(" or "))]
    NothingToSet {
        /// The fields.
        fields: Vec<String>,
    },
    /// The callback of [`Relogger::rewrite`](super::Relogger::rewrite) failed, or a field could not be set.
    #[error("nothing was written: {0}")]
    Rewrite(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The requested size of parts is too small for the data that each part needs.
    #[error(
        "parts of {size} bytes are too small: the context events and buffers of each part need {needed} bytes"
    )]
    PartSize {
        /// The requested size in bytes.
        size: u64,
        /// The minimum size in bytes.
        needed: u64,
    },
    /// The split would make too many parts.
    #[error("the split makes more than {most} parts; choose larger ones")]
    Parts {
        /// The maximum number.
        most: usize,
    },
    /// No event meets the filter.
    #[error("no event meets the filters, so there is nothing to split")]
    NoParts,
    /// Live sessions cannot be rewritten.
    #[error("a live session cannot be rewritten; record it to a file first")]
    Live,
    /// Reading was stopped.
    #[error("stopped before the end of the trace; nothing was written")]
    Stopped,
}
