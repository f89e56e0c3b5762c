//! The commands of `etw`.

pub(crate) mod beside;
pub(crate) mod compare;
#[cfg(target_os = "linux")]
pub(crate) mod daemon;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod index;
pub(crate) mod info;
#[cfg(target_os = "linux")]
pub(crate) mod install_dev;
pub(crate) mod mc;
pub(crate) mod provider;
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod record;
pub(crate) mod relog;
pub(crate) mod report;
pub(crate) mod schema;
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod session;
pub(crate) mod stats;
pub(crate) mod symbols;
pub(crate) mod tables;
#[cfg(target_os = "linux")]
pub(crate) mod wine;
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod write;
