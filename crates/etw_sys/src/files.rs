//! Files that others name or fill: opening without waiting, and the space left for them.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a regular file for reading. Never waits, as opening a pipe without a writer would.
///
/// The kind is that of the opened file, so that nobody can replace it between a check and the use.
///
/// # Errors
///
/// Returns the system's error, or [`io::ErrorKind::InvalidInput`] if it is a pipe, a device or a directory.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Returns the number of bytes that this user can still write to the file system of an open file. `None` if the system
/// does not say.
pub fn free_bytes(file: &File) -> Option<u64> {
    #[cfg(target_os = "linux")]
    return rustix::fs::fstatvfs(file).ok().map(|space| space.f_bavail.saturating_mul(space.f_frsize));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let file = open_regular(&path).unwrap();
        assert!(free_bytes(&file).is_none_or(|bytes| bytes > 0));
        assert!(open_regular(directory.path()).is_err());
        assert_eq!(open_regular(&directory.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        #[cfg(target_os = "linux")]
        {
            // Without a writer, opening it otherwise waits forever.
            let pipe = directory.path().join("pipe");
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, rustix::fs::Mode::RWXU, 0).unwrap();
            for path in [&*pipe, Path::new("/dev/zero")] {
                assert_eq!(open_regular(path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
        }
    }
}
