//! The indexes in the user's cache directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::place::{CACHE_BYTES, EXTENSION};

/// Returns the directory; `None` if the environment does not say where it is.
pub(super) fn cache_directory() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = match cfg!(windows) {
        true => of("LOCALAPPDATA"),
        false => of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache"))),
    };
    Some(base?.join("openetw"))
}

fn is_cached(path: &Path) -> bool {
    cache_directory().is_some_and(|directory| path.parent() == Some(&directory))
}

/// Remembers that an index was used, if it is in the cache directory.
pub(super) fn touch(path: &Path) {
    if is_cached(path) {
        // An index that cannot be changed is just removed earlier.
        drop(File::open(path).and_then(|file| file.set_modified(SystemTime::now())));
    }
}

/// Removes the indexes that were not used for longest, if all in the directory of a new one have more bytes than they may.
pub(super) fn make_room(new: &Path) {
    let limit = std::env::var("OPENETW_INDEX_LIMIT").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let limit = limit.map_or(CACHE_BYTES, |mib| mib.saturating_mul(1 << 20));
    if is_cached(new) {
        make_room_in(new.parent().unwrap_or(Path::new(".")), new, limit);
    }
}

fn make_room_in(directory: &Path, new: &Path, limit: u64) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let index = |entry: fs::DirEntry| {
        let path = entry.path();
        let metadata =
            entry.metadata().ok().filter(|_| path.extension().is_some_and(|it| it == EXTENSION))?;
        Some((metadata.modified().ok()?, metadata.len(), path))
    };
    let mut indexes: Vec<_> = entries.flatten().filter_map(index).collect();
    indexes.sort();
    let mut bytes: u64 = indexes.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, len_bytes, path) in indexes.iter().filter(|(.., path)| path != new) {
        if bytes <= limit {
            return;
        }
        if fs::remove_file(path).is_ok() {
            bytes -= len_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_was_not_used_for_longest_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (age, name) in
            ["new.etwindex", "b.etwindex", "c.etwindex", "old.etwindex", "notes.txt"].iter().enumerate()
        {
            fs::write(path(name), [0; 100]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(60 * age as u64);
            File::options().write(true).open(path(name)).unwrap().set_modified(time).unwrap();
        }
        let left = || {
            let mut names: Vec<_> = fs::read_dir(folder.path())
                .unwrap()
                .map(|it| it.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names.join(" ")
        };
        make_room_in(folder.path(), &path("new.etwindex"), 400);
        assert_eq!(left(), "b.etwindex c.etwindex new.etwindex notes.txt old.etwindex");
        make_room_in(folder.path(), &path("new.etwindex"), 250);
        assert_eq!(left(), "b.etwindex new.etwindex notes.txt");
        make_room_in(folder.path(), &path("new.etwindex"), 10);
        assert_eq!(left(), "new.etwindex notes.txt");
    }
}
