//! Files that others name or fill: opening without waiting, and the space left for them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

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

/// A directory below which others may name files.
///
/// What is opened is found from the open directory, so that neither `..` nor a symbolic link leads out of it, whoever
/// changes them meanwhile. Needs Linux 5.6; other systems compare paths before they open.
#[derive(Debug)]
pub struct Root {
    /// As it was named, and without symbolic links.
    names: [PathBuf; 2],
    #[cfg(target_os = "linux")]
    directory: File,
}

impl Root {
    /// Opens a directory.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it is not a directory that can be read.
    pub fn open(path: &Path) -> io::Result<Root> {
        let names = [std::path::absolute(path)?, path.canonicalize()?];
        if !names[1].is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Root {
            #[cfg(target_os = "linux")]
            directory: File::open(&names[1])?,
            names,
        })
    }

    /// Opens a regular file or a directory for reading, and never waits. Returns `None` if the path is not below this
    /// directory by its text.
    ///
    /// # Errors
    ///
    /// Returns the system's error; if the path leads out of the directory, on Linux [`io::ErrorKind::CrossesDevices`].
    pub fn open_below(&self, path: &Path) -> Option<io::Result<File>> {
        let rest = self.names.iter().find_map(|name| path.strip_prefix(name).ok())?;
        Some(self.open_rest(rest).and_then(|file| {
            let kind = file.metadata()?.file_type();
            match kind.is_file() || kind.is_dir() {
                true => Ok(file),
                false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
            }
        }))
    }

    #[cfg(target_os = "linux")]
    fn open_rest(&self, rest: &Path) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        Ok(openat2(&self.directory, rest, flags, Mode::empty(), resolve)?.into())
    }

    #[cfg(not(target_os = "linux"))]
    fn open_rest(&self, rest: &Path) -> io::Result<File> {
        let path = self.names[1].join(rest).canonicalize()?;
        match path.starts_with(&self.names[1]) {
            true => File::open(path),
            false => Err(io::ErrorKind::CrossesDevices.into()),
        }
    }
}

/// Returns the names in an open directory, without `.` and `..`. Systems other than Linux read the one at the path.
///
/// # Errors
///
/// Returns the system's error if it cannot be read.
pub fn names_in(directory: &File, path: &Path) -> io::Result<Vec<OsString>> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStringExt;
        let _ = path;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(directory)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }
}

/// The room of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that this user can still write.
    pub free_bytes: u64,
    /// Size in bytes.
    pub total_bytes: u64,
}

impl DiskRoom {
    /// Returns the room of the file system of an open file. `None` if the system does not say, as other ones than Linux.
    pub fn from_file(file: &File) -> Option<DiskRoom> {
        #[cfg(target_os = "linux")]
        return rustix::fs::fstatvfs(file).ok().map(|room| DiskRoom {
            free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
            total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
        });
        #[cfg(not(target_os = "linux"))]
        {
            let _ = file;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_leads_out_of_a_root() {
        use std::os::unix::fs::symlink;
        let [inside, outside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (inside, outside) = (inside.path(), outside.path());
        std::fs::write(outside.join("secret"), "x").unwrap();
        std::fs::create_dir(inside.join("sub")).unwrap();
        std::fs::write(inside.join("sub/file"), "x").unwrap();
        symlink("sub/file", inside.join("near")).unwrap();
        symlink(outside.join("secret"), inside.join("far")).unwrap();
        symlink(outside, inside.join("away")).unwrap();
        symlink("/proc/self/root", inside.join("all")).unwrap();
        let root = Root::open(inside).unwrap();
        let open = |path: &str| root.open_below(&inside.join(path)).unwrap();
        for path in ["sub/file", "near", "sub/../near"] {
            assert!(open(path).unwrap().metadata().unwrap().is_file(), "{path}");
        }
        let mut names = names_in(&open("").unwrap(), inside).unwrap();
        names.sort();
        assert_eq!(names, ["all", "away", "far", "near", "sub"]);
        // Whether it is there or not, the error is the same.
        for path in ["far", "away/secret", "away/none", "../x", "sub/../../x", "all/etc/passwd", "all/none"] {
            assert_eq!(open(path).unwrap_err().kind(), io::ErrorKind::CrossesDevices, "{path}");
        }
        assert!(root.open_below(Path::new("/etc/passwd")).is_none());
        assert!(root.open_below(&outside.join("secret")).is_none());
        assert!(Root::open(&inside.join("near")).is_err());
    }

    #[test]
    fn only_regular_files_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let file = open_regular(&path).unwrap();
        assert!(DiskRoom::from_file(&file).is_none_or(|room| room.free_bytes < room.total_bytes));
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
