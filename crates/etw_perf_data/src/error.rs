//! Errors of opening, and damage while reading.

/// Why a file cannot be read as one of perf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file does not start like one of perf.
    #[error("it does not start with a header of perf.data")]
    NotPerfData,
    /// The header is cut short, or its sections lie outside of the file.
    #[error("its header is damaged: {what}")]
    Header {
        /// What is wrong.
        what: &'static str,
    },
    /// There is no event, so records cannot be read.
    #[error("it describes no event, without which its records cannot be read")]
    NoAttribute,
}

/// A damaged place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x}: {what}; {skipped} bytes skipped")]
pub struct Damage {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub what: &'static str,
    /// Bytes that could not be read.
    pub skipped: u64,
}
