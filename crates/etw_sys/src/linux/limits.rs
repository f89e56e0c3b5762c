//! What this process may have: handles of files, what they can do, and processors.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

/// Whether a handle is of a regular file, and was opened for writing anywhere in it.
pub fn is_writable_file(file: impl AsFd) -> io::Result<bool> {
    let flags = fcntl_getfl(&file)?;
    let mode = flags & OFlags::RWMODE;
    let is_regular = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
    let writes = mode == OFlags::RDWR || mode == OFlags::WRONLY;
    Ok(is_regular && writes && !flags.intersects(OFlags::APPEND | OFlags::PATH))
}

/// Lets this process have as many handles as it is allowed to; answers how many.
pub fn raise_handle_limit() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return Ok(current.unwrap_or(u64::MAX));
    }
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Has the calling thread go before others when they want a processor, as far as this process may ask for that.
pub fn prefer_this_thread() {
    const MOST: i32 = -20;
    // Without the right it goes on as before.
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
