//! The kernel's list of processes.

use std::io;
use std::path::Path;

/// The directory in which the kernel describes processes.
pub(crate) const PROC: &str = "/proc";

/// Returns the ids that have a directory in `proc`: all processes, or all threads of a process in its `task`.
///
/// # Errors
///
/// Returns the system's error if the directory cannot be listed.
pub(crate) fn ids(proc: &Path) -> io::Result<impl Iterator<Item = u32> + use<>> {
    Ok(std::fs::read_dir(proc)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}
