//! What a command gives up before it reads a trace that somebody else made.

#[cfg(any(test, target_os = "linux"))]
use std::path::Path;
use std::path::PathBuf;

/// Gives up everything that a command needs for no trace: files may be read anywhere, but written only where `outputs` and
/// temporary files are; no program can be started, and no other machine be connected to.
///
/// This holds for this thread and those it starts. Without Landlock (Linux before 5.13) writing is not limited, and on other
/// systems than Linux nothing is.
pub fn enter(outputs: &[PathBuf]) {
    confine(outputs, false);
}

/// As [`enter`], for a server that starts programs of its own and may fetch files: it gives up only the other rights.
pub fn enter_serving(outputs: &[PathBuf]) {
    confine(outputs, true);
}

/// Returns the directories in which a command writes if it writes to `path`, which may be a symbolic link, a directory, or
/// not exist yet.
#[cfg(any(test, target_os = "linux"))]
fn folders_of(path: &Path) -> Vec<PathBuf> {
    let existing = |path: &Path| {
        let path = std::path::absolute(path).ok()?;
        let folder = path.ancestors().skip(1).find(|folder| folder.is_dir())?;
        Some(folder.to_owned())
    };
    let target = path.canonicalize().ok();
    let is_folder = target.clone().filter(|target| target.is_dir());
    let folders = [existing(path), target.and_then(|target| existing(&target)), is_folder];
    folders.into_iter().flatten().collect()
}

#[cfg(target_os = "linux")]
fn confine(outputs: &[PathBuf], serves: bool) {
    use etw_confine::{Confinement, confine};

    use crate::urls::is_url;
    let files = outputs.iter().filter(|path| !is_url(path));
    let mut folders: Vec<PathBuf> = files.flat_map(|path| folders_of(path)).collect();
    folders.extend([std::env::temp_dir(), PathBuf::from("/dev/null")]);
    let writable: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    let readable = &[Path::new("/")];
    let limits = Confinement { readable, writable: &writable, starts_programs: serves, connects: serves };
    if let Err(error) = confine(&limits) {
        crate::output::warn(&format_args!("the command keeps all its rights: {error}"));
    }
}

#[cfg(not(target_os = "linux"))]
fn confine(_outputs: &[PathBuf], _serves: bool) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_written_in_folders() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let check = |name: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(|name| folder.join(name)).collect();
            let mut found = folders_of(&folder.join(name));
            found.dedup();
            assert_eq!(found, expected, "{name}");
        };
        check("new.json", &[""]);
        check("none/below/new.json", &[""]);
        std::fs::create_dir(folder.join("tables")).unwrap();
        check("tables", &["", "tables"]);
        #[cfg(unix)]
        {
            std::fs::write(folder.join("tables/target"), b"").unwrap();
            std::os::unix::fs::symlink("tables/target", folder.join("link")).unwrap();
            check("link", &["", "tables"]);
        }
    }
}
