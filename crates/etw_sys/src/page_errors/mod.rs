//! What happens when a page of a mapped file cannot be read.

#[cfg(not(windows))]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

pub use system::exit_on_page_error;
