//! The error for an invalid command line.

use std::fmt;

/// An invalid command line; `etw` exits with status 2.
#[derive(Debug)]
pub struct UsageError(
    /// The problem, in one line.
    pub String,
);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
