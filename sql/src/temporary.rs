//! The directory of what a process fetches and of what does not fit in its memory. It goes with the process or, if that
//! was killed, when the next one starts.

use std::fs::{self, File, Metadata};
use std::io::Result;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "etw-sql-";
/// The file that is locked as long as the process is there.
const LOCK: &str = "lock";

/// A directory that no other process takes for abandoned.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory {
    directory: TempDir,
    _lock: File,
}

impl TemporaryDirectory {
    /// Makes a directory in another one, and removes those of processes that are gone.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be made.
    pub(crate) fn new(parent: &Path) -> Result<TemporaryDirectory> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // It gets its name after it is locked, so that there is no moment in which it looks abandoned.
        let unnamed = directory.path().join("lock.new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        fs::rename(unnamed, directory.path().join(LOCK))?;
        remove_abandoned(parent, &fs::metadata(directory.path())?);
        Ok(TemporaryDirectory { directory, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of processes that were killed. Those of other users than the owner of `own` stay: what they put
/// there is not to be trusted.
fn remove_abandoned(parent: &Path, own: &Metadata) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && has_owner(&found, own));
        if !is_ours || !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(lock) = File::options().write(true).open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            // What cannot be removed is tried again by the next process.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(unix)]
fn has_owner(found: &Metadata, own: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == own.uid()
}

/// The temporary directory is the user's own.
#[cfg(not(unix))]
fn has_owner(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_processes_that_are_gone_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let used = TemporaryDirectory::new(parent.path()).unwrap();
        // As a process leaves it that is killed: the lock is gone, the files are there.
        let TemporaryDirectory { directory, _lock } = TemporaryDirectory::new(parent.path()).unwrap();
        let killed = directory.keep();
        fs::write(killed.join("t.etl"), "x").unwrap();
        drop(_lock);
        let foreign = parent.path().join("etw-sql-mine");
        fs::create_dir(&foreign).unwrap();
        let next = TemporaryDirectory::new(parent.path()).unwrap();
        assert!(!killed.exists());
        for there in [used.path(), next.path(), &foreign] {
            assert!(there.is_dir(), "{there:?}");
        }
    }
}
