//! Errors of opening, and damage while reading.

/// Why a file cannot be read as a .NET trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file does not start like a trace.
    #[error("it does not start with a .NET trace header")]
    NotTrace,
    /// The format's version is not supported.
    #[error("its format has version {version}, of which only 3 to 6 are supported")]
    Version {
        /// The version.
        version: u32,
    },
    /// The header is damaged.
    #[error("its header at offset {offset:#x} is damaged: {what}")]
    Header {
        /// Offset of the header in the file.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// A damaged place in a file. Reading continues after it.
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
