//! Parts of a trace, and their combination.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use openetw::relog::{Relogged, Relogger, SplitBy};
use openetw::{EventFilter, Trace};

use super::{assert_within, builder, counted, files, lines};

/// Returns the ways to split a trace of a length in which every part is worth checking.
fn ways(path: &Path) -> Vec<SplitBy> {
    let mut trace = Trace::open_file(path).unwrap();
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    trace
        .for_each_record(|record| {
            (first, last) = (first.min(record.time().0), last.max(record.time().0));
        })
        .unwrap();
    let length = u64::try_from(last.saturating_sub(first)).unwrap_or(0) * 100;
    let size = fs::metadata(path).unwrap().len();
    vec![
        SplitBy::Time(Duration::from_nanos(length / 7 + 10_000_000)),
        SplitBy::Size((size / 3).max(1 << 16)),
        SplitBy::Process,
        SplitBy::Provider,
    ]
}

#[test]
fn parts_are_together_what_was_split() {
    let directory = tempfile::tempdir().unwrap();
    for path in files(directory.path()) {
        let source = counted(all(&[&path]));
        for by in ways(&path) {
            let what = format!("{} {by:?}", path.display());
            let parts = tempfile::tempdir().unwrap();
            let mut trace = builder(&[&path]).open().unwrap();
            let split = Relogger::new().split(&mut trace, by, parts.path().join("part.etl"));
            let split: Vec<Relogged> = match split {
                Ok(split) => split,
                // Some files consist almost entirely of what parts share.
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.contains("nothing to split") || text.contains("are too small"),
                        "{what}: {text}"
                    );
                    assert_eq!(fs::read_dir(parts.path()).unwrap().count(), 0, "{what}");
                    continue;
                }
            };
            let paths: Vec<PathBuf> = split.iter().map(|part| part.path.clone()).collect();
            assert_eq!(fs::read_dir(parts.path()).unwrap().count(), paths.len(), "{what}");
            for part in &split {
                assert!(part.events > 0, "{what}");
                let found = counted(all(&[&part.path]));
                assert_within(&found, &source, &what);
                assert_eq!(fs::metadata(&part.path).unwrap().len(), part.len_bytes, "{what}");
                if let SplitBy::Size(size) = by {
                    assert!(part.len_bytes <= size, "{what}: {} bytes", part.len_bytes);
                }
            }
            let merged = parts.path().join("merged.etl");
            let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
            let mut trace = builder(&paths).open().unwrap();
            Relogger::new().write(&mut trace, &merged).unwrap();
            let found = counted(all(&[&merged]));
            assert_within(&found, &source, &what);
            assert_within(&source, &found, &what);
            let mut trace = Trace::open_file(&merged).unwrap();
            trace.for_each_record(|_| ()).unwrap();
            assert_eq!((trace.statistics().damage_count, trace.statistics().inversions), (0, 0), "{what}");
        }
    }
}

fn all(files: &[&Path]) -> Vec<String> {
    lines(files, &EventFilter::default(), |_| ()).into_iter().map(|(line, ())| line).collect()
}
