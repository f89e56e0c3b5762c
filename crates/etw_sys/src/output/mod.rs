//! Files for the contents of traces, which only their owner may read.
//!
//! ```
//! use std::io::Write;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("trace.txt");
//! etw_sys::output::create(&path)?.write_all(b"text")?;
//! assert_eq!(std::fs::read(&path)?, b"text");
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs::File;
use std::io;
use std::path::Path;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

/// Options for opening an output file.
///
/// A file that is created has mode 0600, whatever the umask. An existing file keeps its mode, except that one of root
/// loses the rights of all users.
///
/// A symbolic link of another user, except root, is followed only in a directory that no one else may write to; and a
/// file of another user, except root, is refused in a directory that all users may write to. Otherwise that user would
/// choose where the output goes, or read it (`fs.protected_symlinks` and `fs.protected_regular`, `proc_sys_fs(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputOptions {
    keeps: bool,
    is_new: bool,
    nonblocking: bool,
    is_public: bool,
    group: Option<u32>,
}

impl OutputOptions {
    /// Options that create a file or truncate an existing one, for writing.
    pub fn new() -> OutputOptions {
        OutputOptions::default()
    }

    /// Keeps the contents of an existing file, and opens it for reading too.
    #[must_use]
    pub fn keep(self, keeps: bool) -> OutputOptions {
        OutputOptions { keeps, ..self }
    }

    /// Fails if the file exists.
    #[must_use]
    pub fn create_new(self) -> OutputOptions {
        OutputOptions { is_new: true, ..self }
    }

    /// Fails with `WouldBlock` instead of waiting for the holder of a lease (`F_SETLEASE`, `fcntl(2)`), and fails at once
    /// for a FIFO without a reader.
    #[must_use]
    pub fn nonblocking(self) -> OutputOptions {
        OutputOptions { nonblocking: true, ..self }
    }

    /// Gives the file to this group with mode 0640, if it belongs to this process's user.
    #[must_use]
    pub fn group(self, group: Option<u32>) -> OutputOptions {
        OutputOptions { group, ..self }
    }

    /// Creates a file with the mode that the umask leaves, for what is of no trace.
    #[must_use]
    pub fn public(self) -> OutputOptions {
        OutputOptions { is_public: true, ..self }
    }

    /// Returns these options as bits and a group, for [`OutputOptions::from_parts`] in another process.
    pub fn to_parts(self) -> (u8, Option<u32>) {
        let OutputOptions { keeps, is_new, nonblocking, is_public, group } = self;
        let bits = [keeps, is_new, nonblocking, is_public];
        (bits.into_iter().rev().fold(0, |bits, bit| bits << 1 | u8::from(bit)), group)
    }

    /// Returns the options with these parts.
    pub fn from_parts(bits: u8, group: Option<u32>) -> OutputOptions {
        let [keeps, is_new, nonblocking, is_public] = [0, 1, 2, 3].map(|bit| bits >> bit & 1 != 0);
        OutputOptions { keeps, is_new, nonblocking, is_public, group }
    }

    /// Opens the file; in a process that gave up its rights, the keeper of the rights does.
    ///
    /// # Errors
    ///
    /// Returns the system's error, or `PermissionDenied` for a link or file of another user.
    pub fn open(self, path: &Path) -> io::Result<File> {
        system::open(self, path)
    }
}

/// Creates a file, or truncates an existing one ([`OutputOptions`]).
///
/// # Errors
///
/// Returns the system's error, or `PermissionDenied` for a link or file of another user.
pub fn create(path: &Path) -> io::Result<File> {
    OutputOptions::new().open(path)
}
