//! Calls of libraries that may panic at damaged files.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a library that reads a file.
///
/// The libraries for PDB and CAB files, DWARF and decorated names check most of what they read, but they also have
/// assertions, and do arithmetic with numbers of the file. Nothing outlives a failed call but what DWARF's index had before.
///
/// # Errors
///
/// Returns the library's error as text; for a panic, that the file is damaged.
pub(crate) fn guarded<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the file is damaged".to_owned()),
    }
}
