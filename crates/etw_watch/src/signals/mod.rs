//! Requests to end the view: signals on Linux, events of the console on Windows.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub(super) use system::Signals;
