//! The directory of what a process fetches. It goes with the process or, if that was killed, when the next one starts.

use std::fs::{self, File};
use std::io::Result;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "etw-sql-";
/// The file that is locked as long as the process is there.
const LOCK: &str = "lock";

/// A directory that no other process takes for abandoned.
#[derive(Debug)]
pub(super) struct Downloads {
    directory: TempDir,
    _lock: File,
}

impl Downloads {
    /// Makes a directory in another one, and removes those of processes that are gone.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be made.
    pub(super) fn new(parent: &Path) -> Result<Downloads> {
        remove_abandoned(parent);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // It gets its name after it is locked, so that there is no moment in which it looks abandoned.
        let unnamed = directory.path().join("lock.new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        fs::rename(unnamed, directory.path().join(LOCK))?;
        Ok(Downloads { directory, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of processes that were killed, as far as this user may.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(lock) = File::options().write(true).open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            // What cannot be removed is tried again by the next process.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_processes_that_are_gone_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let used = Downloads::new(parent.path()).unwrap();
        // As a process leaves it that is killed: the lock is gone, the files are there.
        let Downloads { directory, _lock } = Downloads::new(parent.path()).unwrap();
        let killed = directory.keep();
        fs::write(killed.join("t.etl"), "x").unwrap();
        drop(_lock);
        let foreign = parent.path().join("etw-sql-mine");
        fs::create_dir(&foreign).unwrap();
        let next = Downloads::new(parent.path()).unwrap();
        assert!(!killed.exists());
        for there in [used.path(), next.path(), &foreign] {
            assert!(there.is_dir(), "{there:?}");
        }
    }
}
