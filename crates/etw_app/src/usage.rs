//! Wrong usage of a command line.

use std::fmt;

/// What the user typed makes no sense; `etw` exits with status 2.
#[derive(Debug)]
pub struct UsageError(
    /// What is wrong, in one line.
    pub String,
);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
