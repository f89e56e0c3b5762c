//! What carries out a controller's requests: a host, or Windows itself.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;

#[cfg(windows)]
pub use system::Autologger;
pub(crate) use system::Link;
#[cfg(windows)]
pub(crate) use system::is_orphan;
