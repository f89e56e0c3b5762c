//! The files below directories.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

/// Limit of nested directories. A damaged file system may have a directory within itself.
const MAX_DEPTH: usize = 64;

/// A file to be read, or a place that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: PathBuf,
    /// Whether the file itself was requested, and not a directory around it.
    pub(super) asked_for: bool,
    /// The reason why it is not read.
    pub(super) problem: Option<String>,
}

impl Item {
    /// Returns an item for a file in a requested directory.
    pub(super) fn found(path: PathBuf) -> Item {
        Item { path, asked_for: false, problem: None }
    }
}

/// Lists a file, or the files below a directory: those of each directory by name, then its subdirectories by name.
/// Files of the component store of Windows come first, since it has superseded versions of the others.
pub(super) fn list(path: &Path) -> Vec<Item> {
    if !path.is_dir() {
        return vec![Item { path: path.to_owned(), asked_for: true, problem: None }];
    }
    let mut items = below(path);
    items.sort_by_key(|item| !item.path.iter().any(|part| part.eq_ignore_ascii_case("WinSxS")));
    items
}

fn below(top: &Path) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |path, problem: Option<String>| items.push(Item { path, asked_for: false, problem });
    let mut open = vec![(top.to_owned(), 0)];
    let mut seen = HashSet::new();
    while let Some((path, depth)) = open.pop() {
        if depth > MAX_DEPTH || identity(&path).is_some_and(|identity| !seen.insert(identity)) {
            add(path, Some("a directory within itself, or nested too deeply".to_owned()));
            continue;
        }
        let entries = match entries(&path) {
            Ok(entries) => entries,
            Err(error) => {
                add(path, Some(format!("cannot be listed: {error}")));
                continue;
            }
        };
        let mut directories = Vec::new();
        for (path, kind) in entries {
            if kind.is_dir() {
                directories.push((path, depth + 1));
            } else if kind.is_file() {
                add(path, None);
            } else if kind.is_symlink() {
                match path.metadata() {
                    Ok(target) if target.is_file() => add(path, None),
                    Ok(target) if target.is_dir() => {
                        add(path, Some("a link to a directory; not followed".to_owned()));
                    }
                    Ok(_) => {}
                    Err(error) => add(path, Some(format!("a link that leads nowhere: {error}"))),
                }
            }
        }
        open.extend(directories.into_iter().rev());
    }
    items
}

/// Returns the entries of a directory, sorted by name.
pub(super) fn entries(directory: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let entry = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry?;
        Ok((directory.join(entry.file_name()), entry.file_type()?))
    };
    // A relative path of one name has the empty path as its directory.
    let listed = if directory == Path::new("") { Path::new(".") } else { directory };
    let mut entries = std::fs::read_dir(listed)?.map(entry).collect::<io::Result<Vec<_>>>()?;
    entries.sort_by(|(a, _), (b, _)| a.file_name().cmp(&b.file_name()));
    Ok(entries)
}

/// Returns the last part of a path in lower case, as names of Windows files are compared.
pub(super) fn folded_name(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().to_lowercase()
}

/// Returns what identifies a directory whatever its path is, where the system has such numbers.
#[cfg(unix)]
fn identity(directory: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(directory).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns what identifies a directory whatever its path is, where the system has such numbers.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}
