//! The kernel's list of processes.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use etw_sys::credentials::is_in_first_pid_namespace;

/// The directory in which the kernel describes processes.
pub(crate) const PROC: &str = "/proc";

/// The directory in which the kernel describes processes by the ids that its events have. It does not exist in another PID
/// namespace than the first, where `/proc` has other ids.
pub(crate) fn directory_of_processes() -> &'static Path {
    static IS_FIRST: OnceLock<bool> = OnceLock::new();
    let is_first = *IS_FIRST.get_or_init(is_in_first_pid_namespace);
    Path::new(if is_first { PROC } else { "/proc/none" })
}

/// Returns the ids that have a directory in `proc`: all processes, or all threads of a process in its `task`.
///
/// # Errors
///
/// Returns the system's error if the directory cannot be listed.
pub(crate) fn ids(proc: &Path) -> io::Result<impl Iterator<Item = u32> + use<>> {
    Ok(std::fs::read_dir(proc)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}
