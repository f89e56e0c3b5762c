//! Handling of Ctrl-C and termination requests.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;
#[cfg(not(any(target_os = "linux", windows)))]
#[path = "elsewhere.rs"]
mod system;

pub(crate) use system::on_interrupt;
