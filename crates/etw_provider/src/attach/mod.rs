//! How registered providers reach the sessions of this system.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

#[cfg(target_os = "linux")]
pub use system::join_private_host;
pub(crate) use system::{register, unregister};
