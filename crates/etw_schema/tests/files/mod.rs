//! Finding the published manifests and resources that the tests read.

use std::path::{Path, PathBuf};

/// A folder of the real data; says so when it is absent.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    Some(etw_testkit::data::data_dir()?.join(name))
}

/// All files in a folder and below whose names end in one of these, sorted.
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
