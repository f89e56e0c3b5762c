//! Access to the published manifests and resources used by the tests.

use std::path::{Path, PathBuf};

/// Returns a folder of the real data, or prints that it is absent.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    Some(etw_testkit::data::data_dir()?.join(name))
}

/// Returns all files in a folder, at any depth, whose names have one of these endings, sorted.
pub(crate) fn list(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
