//! The commands.

#[cfg(target_os = "linux")]
pub(crate) mod daemon;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod info;
#[cfg(target_os = "linux")]
mod kernel_flags;
pub(crate) mod provider;
#[cfg(target_os = "linux")]
pub(crate) mod record;
pub(crate) mod relog;
pub(crate) mod report;
pub(crate) mod schema;
#[cfg(target_os = "linux")]
pub(crate) mod session;
pub(crate) mod stats;
#[cfg(target_os = "linux")]
pub(crate) mod watch;
#[cfg(target_os = "linux")]
pub(crate) mod write;
