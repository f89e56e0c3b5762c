//! Notification of new names in directories (`inotify`), and file locks.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock, inotify};

use super::credentials::effective_uid;

/// Watches directories for names that appear or vanish.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Creates a watch without directories.
    ///
    /// # Errors
    ///
    /// Returns the system's error if no file can be created.
    pub fn new() -> io::Result<Watch> {
        Ok(Watch(inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?))
    }

    /// Adds a directory, which is watched until it is removed. Adding it again does nothing.
    ///
    /// # Errors
    ///
    /// Returns the system's error, such as `NotFound`, if the directory cannot be watched.
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let flags = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF
            | inotify::WatchFlags::ATTRIB
            | inotify::WatchFlags::ONLYDIR;
        inotify::add_watch(&self.0, directory, flags)?;
        Ok(())
    }

    /// Returns whether anything happened since the last call. The handle can be polled for it.
    ///
    /// What happened is not reported, since many changes may arrive as one; the caller lists the directory.
    pub fn drain(&self) -> bool {
        let mut buffer = [0u8; 4096];
        let mut any = false;
        while rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut buffer[..])).is_ok_and(|n| n > 0) {
            any = true;
        }
        any
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A lock that one process of the machine holds, until it drops this value or ends (`flock`).
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

impl FileLock {
    /// Takes the lock, a file that is created if needed and never removed. Returns `None` if another process holds it.
    ///
    /// Only its owner can open the file, since a file that is open for reading can be locked too.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file cannot be opened, created or locked.
    pub fn try_new(path: &Path) -> io::Result<Option<FileLock>> {
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(path)?;
        let found = file.metadata()?;
        if found.mode() & 0o077 != 0 && found.uid() == effective_uid() {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FileLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("etw_sys-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn names_that_appear_are_told() {
        let path = directory("watch");
        let watch = Watch::new().unwrap();
        watch.add(&path).unwrap();
        watch.add(&path).unwrap();
        assert!(!watch.drain());
        std::fs::write(path.join("file"), b"").unwrap();
        assert!(watch.drain());
        assert!(!watch.drain());
        assert!(watch.add(&path.join("none")).is_err());
        std::fs::remove_dir_all(&path).unwrap();
        assert!(watch.drain(), "the directory's end is told");
    }

    #[test]
    fn one_holds_a_lock() {
        let path = directory("lock");
        let lock = FileLock::try_new(&path.join("lock")).unwrap().unwrap();
        assert!(FileLock::try_new(&path.join("lock")).unwrap().is_none());
        drop(lock);
        assert!(FileLock::try_new(&path.join("lock")).unwrap().is_some());
        let mode = || std::fs::metadata(path.join("lock")).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(path.join("lock"), Permissions::from_mode(0o644)).unwrap();
        FileLock::try_new(&path.join("lock")).unwrap().unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
