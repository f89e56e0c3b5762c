//! Limits of this process: file handles and their access modes, and scheduling priority.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

/// Returns whether a handle refers to a regular file that was opened for writing, not only for appending.
///
/// # Errors
///
/// Returns the system's error if the file's attributes cannot be read.
pub fn is_writable_file(file: impl AsFd) -> io::Result<bool> {
    let flags = fcntl_getfl(&file)?;
    let mode = flags & OFlags::RWMODE;
    let is_regular = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
    let writes = mode == OFlags::RDWR || mode == OFlags::WRONLY;
    Ok(is_regular && writes && !flags.intersects(OFlags::APPEND | OFlags::PATH))
}

/// Raises the limit of open files to the maximum for this process, and returns it.
///
/// # Errors
///
/// Returns the system's error if the limit cannot be raised.
pub fn raise_handle_limit() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return Ok(current.unwrap_or(u64::MAX));
    }
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Raises the calling thread's scheduling priority as far as this process is allowed to.
pub fn prefer_this_thread() {
    const MOST: i32 = -20;
    // Without the right to do so, nothing changes.
    let _ = setpriority_process(None, MOST);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn only_files_that_can_be_written_to() {
        let path = std::env::temp_dir().join(format!("etw_sys-writable-{}", std::process::id()));
        let check = |file: File, expected: bool| assert_eq!(is_writable_file(&file).unwrap(), expected);
        check(File::create(&path).unwrap(), true);
        check(File::open(&path).unwrap(), false);
        check(File::options().append(true).open(&path).unwrap(), false);
        check(File::options().write(true).open("/dev/null").unwrap(), false);
        std::fs::remove_file(&path).unwrap();
        assert!(raise_handle_limit().unwrap() >= 64);
    }
}
