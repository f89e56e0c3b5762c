//! Finding PDB files: by names with wildcards, and in subdirectories.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etw_app::status::{Failed, code};

/// Depth to which `-s` searches; deeper directories are left out, as are links, which could form circles.
const MAX_DEPTH: usize = 64;

/// Returns the files of a pattern, sorted. The last part may have the wildcards `*` and `?`; a directory stands for
/// the PDB files in it. With `is_deep`, subdirectories are searched too.
///
/// Fails if there is no such file, or if the directory cannot be read.
pub(super) fn files(pattern: &Path, is_deep: bool) -> Result<Vec<PathBuf>> {
    if pattern.is_file() && !is_deep {
        return Ok(vec![pattern.to_owned()]);
    }
    let (directory, name) = match pattern.is_dir() {
        true => (pattern, "*.pdb".to_owned()),
        false => {
            let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (pattern.parent().unwrap_or(Path::new("")), name)
        }
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut found = Vec::new();
    search(directory, &name, if is_deep { MAX_DEPTH } else { 0 }, &mut found)?;
    if found.is_empty() {
        let text = format!("{}: no such file", pattern.display());
        return Err(Failed::new(code::FILE_NOT_FOUND, text).into());
    }
    found.sort();
    Ok(found)
}

fn search(directory: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("{}: cannot be read", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = match directory == Path::new(".") {
            true => PathBuf::from(entry.file_name()),
            false => entry.path(),
        };
        if entry.file_type()?.is_dir() {
            if depth > 0 {
                search(&path, name, depth - 1, found)?;
            }
        } else if matches(name, &entry.file_name().to_string_lossy()) {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns whether a name matches a pattern with `*` and `?`, ignoring the case of ASCII letters.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_ascii_lowercase().chars().collect();
    let name: Vec<char> = name.to_ascii_lowercase().chars().collect();
    // The last star, and where its match ends: only that one has to be tried again.
    let (mut p, mut n, mut star) = (0, 0, None);
    while let Some(letter) = name.get(n) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, n) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, name, expected) in [
            ("*.pdb", "Driver.PDB", true),
            ("*.pdb", "driver.pdb.bak", false),
            ("d?iver.*", "driver.pdb", true),
            ("d?iver", "diver", false),
            ("*a*b*", "xxaxxabx", true),
            ("*", "", true),
            ("a", "", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
