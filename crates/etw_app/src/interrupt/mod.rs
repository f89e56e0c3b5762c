//! Handling of Ctrl-C and termination requests.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod system;

pub(crate) use system::on_interrupt;
