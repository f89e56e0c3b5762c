//! Where sessions run: a host on Linux, the system itself on Windows.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

#[cfg(feature = "read")]
pub(super) use system::reading;
pub use system::{Runtime, RuntimeError};
