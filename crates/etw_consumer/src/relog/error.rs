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
    #[error("{}: exists already; --force replaces it", path.display())]
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
        "{other} has another clock than {first} (of another boot or machine, or another kind) that cannot be brought \
         to it, and a file has one clock; they can be read together instead: etw dump {first} {other}"
    )]
    Clocks {
        /// The first file.
        first: String,
        /// A file with another clock.
        other: String,
    },
    /// A field cannot be redacted without making the event unreadable.
    #[error(
        "{redaction}: other bytes are found by this field, since it is the length or count of '{other}'; redact that"
    )]
    Redaction {
        /// The redaction.
        redaction: String,
        /// What the field describes.
        other: String,
    },
    /// No event that would be written has a field that is to be redacted: a name that is misspelt would leave in the
    /// file what was to be taken away ([`Relogger::allow_absent`](super::Relogger::allow_absent)).
    #[error(
        "nothing is written, since no event has the field {}; is it spelt right? --allow-absent writes all the same",
        redactions.join(" or ")
    )]
    NothingToRedact {
        /// The redactions.
        redactions: Vec<String>,
    },
    /// Parts are smaller than what each of them has.
    #[error(
        "parts of {size} bytes are too small: what any part's events may need takes {needed} bytes with buffers"
    )]
    PartSize {
        /// The size.
        size: u64,
        /// The least that is possible.
        needed: u64,
    },
    /// There would be more parts than anybody wants.
    #[error("that makes more than {most} parts; choose larger ones")]
    Parts {
        /// How many there may be.
        most: usize,
    },
    /// The filter wants no event that a part could be made of.
    #[error("no event meets the filters, so there are no parts")]
    NoParts,
    /// Live sessions cannot be written anew.
    #[error("a live session cannot be written anew; record it into a file")]
    Live,
    /// It was asked for the end.
    #[error("ended before all was read; nothing was written")]
    Stopped,
}
