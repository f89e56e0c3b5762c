//! `tracelog -addautologger`: sessions that start with the daemon on Linux, and with the system on Windows.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub(super) use system::{add, remove};
