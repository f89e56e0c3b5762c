//! The controller of the tools: a session host on Linux, the system on Windows.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub(crate) use system::{connect, running};
