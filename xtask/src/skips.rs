//! Tests that were skipped: each run must skip exactly those that its place makes it skip.
//!
//! A test that finds what it needs missing calls `skip!` (in Rust) or is skipped by pytest, and both add its name and the reason
//! to the file that `OPENETW_SKIPS` names. `skips.toml` says how many that are for each place; in CI, another number fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use shell::{is_ci, root, target_dir};

/// The file with the expected numbers.
const FILE: &str = "xtask/skips.toml";

/// A run of tests, with the number of skips that it must have.
pub(crate) struct Expected {
    suite: &'static str,
    file: PathBuf,
}

/// The numbers of all suites, by place.
#[derive(Deserialize)]
struct Numbers {
    place: Vec<Place>,
}

/// What a place has, and the number of tests that are skipped for what it lacks.
#[derive(Debug, Deserialize)]
struct Place {
    /// Whether the real traces are there.
    traces: bool,
    /// Whether the tests run as root.
    root: bool,
    /// Whether `RUN_SLOW_TESTS` is set.
    slow: bool,
    #[serde(flatten)]
    suites: BTreeMap<String, usize>,
}

impl Expected {
    /// Prepares the file for the skips of a run.
    pub(crate) fn start(suite: &'static str) -> Result<Expected> {
        let directory = std::path::absolute(target_dir().join("skips"))?;
        fs::create_dir_all(&directory)?;
        let file = directory.join(suite);
        fs::write(&file, "").with_context(|| file.display().to_string())?;
        Ok(Expected { suite, file })
    }

    /// Returns the file that the run writes to.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Fails if not as many tests were skipped as the place makes them; prints those that were.
    pub(crate) fn check(&self) -> Result<()> {
        let text = fs::read_to_string(&self.file)?;
        let skipped = by_test(&text);
        for (test, reason) in &skipped {
            eprintln!("skipped: {test}: {reason}");
        }
        let place = (has_traces(), is_root(), is_slow());
        let numbers: Numbers = toml::from_str(&fs::read_to_string(root().join(FILE))?).context(FILE)?;
        let found = numbers.place.iter().find(|one| (one.traces, one.root, one.slow) == place);
        let (traces, root, slow) = place;
        let here = format!("traces = {traces}, root = {root}, slow = {slow}");
        let Some(expected) = found.and_then(|place| place.suites.get(self.suite)) else {
            eprintln!("{} tests of `{}` skipped; {FILE} has no number for {here}", skipped.len(), self.suite);
            return Ok(());
        };
        if skipped.len() != *expected {
            if !is_ci() {
                eprintln!("{} tests of `{}` skipped, in CI {expected}", skipped.len(), self.suite);
                return Ok(());
            }
            bail!(
                "{} tests of `{}` were skipped; {FILE} says {expected} for {here}: what they need is missing, or the number is not current",
                skipped.len(),
                self.suite
            );
        }
        eprintln!("{expected} tests of `{}` skipped, as expected ({here})", self.suite);
        Ok(())
    }
}

/// Returns the reasons by test; a test that ran again is in the file twice.
fn by_test(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('\t')).collect()
}

fn has_traces() -> bool {
    let directory = std::env::var_os("OPENETW_DATA").map_or_else(|| root().join("../shared"), PathBuf::from);
    directory.join("etl/README.md").is_file()
}

fn is_root() -> bool {
    shell::succeeds(Command::new("sh").args(["-c", "test $(id -u) = 0"]))
}

fn is_slow() -> bool {
    std::env::var_os("RUN_SLOW_TESTS").is_some_and(|value| value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_numbers_for_the_place_of_ci() {
        let text = fs::read_to_string(root().join(FILE)).unwrap();
        let numbers: Numbers = toml::from_str(&text).unwrap();
        let place = numbers.place.iter().find(|place| place.traces && place.root && !place.slow).unwrap();
        assert!(place.suites.contains_key("tests"), "{place:?}");
    }

    #[test]
    fn a_test_that_ran_again_counts_once() {
        let skipped = by_test("a::b\tno root\nc\tno traces\na::b\tno root\nno tab\n");
        assert_eq!(skipped.into_iter().collect::<Vec<_>>(), [("a::b", "no root"), ("c", "no traces")]);
    }
}
