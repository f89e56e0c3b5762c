//! Lookup of processes, users and functions on this machine or in a trace, for processes that existed before the events.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

use openetw::FileTime;

pub(crate) use system::Lookup;

/// Properties of a process.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) image: String,
    pub(crate) user: String,
    /// Id of the process that started it; 0 if it is unknown.
    pub(crate) parent_id: u32,
    pub(crate) started: Option<FileTime>,
}
