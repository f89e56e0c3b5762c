//! The files of a new-file session (`EVENT_TRACE_FILE_MODE_NEWFILE`).

use std::path::{Path, PathBuf};

/// Returns the existing files of the sequence that `path` names, in order.
///
/// Opening `x.etl` opens that one file; this function finds the whole sequence. It supports two forms:
/// - `trace%d.etl`, the pattern a session was started with: every existing number (`trace1.etl`, `trace2.etl`, …);
/// - `x.etl`: that file, then `x.etl.001`, `x.etl.002` and so on.
///
/// Returns only `path` if the directory cannot be read, so that opening it reports the error.
pub fn file_sequence(path: &Path) -> Vec<PathBuf> {
    let alone = || vec![path.to_owned()];
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return alone() };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (before, after) = name.split_once("%d").unwrap_or((name, ""));
    let before = if after.is_empty() && before == name { format!("{name}.") } else { before.to_owned() };
    let Ok(entries) = std::fs::read_dir(directory) else { return alone() };
    let mut found: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let file_name = entry.file_name();
            let digits = file_name.to_str()?.strip_prefix(before.as_str())?.strip_suffix(after)?;
            let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            Some((digits.parse().ok().filter(|_| all_digits)?, path.with_file_name(file_name)))
        })
        .collect();
    found.sort();
    let first = path.exists().then(|| path.to_owned());
    let files: Vec<PathBuf> = first.into_iter().chain(found.into_iter().map(|(_, path)| path)).collect();
    if files.is_empty() { alone() } else { files }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_ordered_by_number() {
        let directory = std::env::temp_dir().join(format!("openetw-sequence-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["x.etl", "x.etl.002", "x.etl.010", "x.etl.1a", "t10.etl", "t9.etl", "t.etl"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        let check = |path: &str, expected: &[&str]| {
            let found = file_sequence(&directory.join(path));
            let names: Vec<_> =
                found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
            assert_eq!(names, expected);
        };
        check("x.etl", &["x.etl", "x.etl.002", "x.etl.010"]);
        check("t%d.etl", &["t9.etl", "t10.etl"]);
        check("none.etl", &["none.etl"]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
