//! Reporting pages of mapped files that cannot be read.

#[cfg(not(windows))]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub use system::exit_on_page_error;
