//! Snapshots that no test uses.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use shell::target_dir;

/// Prepares the file to which the tests of a run add the snapshots that they use, and returns its path.
pub(crate) fn start() -> Result<PathBuf> {
    let file = std::path::absolute(target_dir().join("snapshots"))?;
    fs::write(&file, "").with_context(|| file.display().to_string())?;
    Ok(file)
}

/// Fails if beside the snapshots that the tests used there are others.
pub(crate) fn check(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let used: BTreeSet<&Path> = text.lines().map(Path::new).collect();
    let directories: BTreeSet<&Path> = used.iter().filter_map(|path| path.parent()).collect();
    let mut unused = Vec::new();
    for directory in directories {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "snap") && !used.contains(&*path) {
                unused.push(path.display().to_string());
            }
        }
    }
    ensure!(unused.is_empty(), "no test uses these snapshots: remove them\n{}", unused.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_no_test_used_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let [used, other, list] = ["used.snap", "other.snap", "list"].map(|name| folder.path().join(name));
        fs::write(&used, "").unwrap();
        fs::write(&list, format!("{0}\n{0}\n", used.display())).unwrap();
        check(&list).unwrap();
        fs::write(&other, "").unwrap();
        assert!(check(&list).unwrap_err().to_string().contains("other.snap"));
    }
}
