//! What tests and benches share: real traces, builders of traces and other files, damage.
//!
//! For development only; no shipped crate depends on it. What needs crates above the formats is behind a feature, so that
//! the test of a format crate compiles little more than that crate.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;

#[cfg(feature = "browser")]
pub mod browser;
pub mod compiled_manifest;
pub mod data;
#[cfg(feature = "decoded")]
pub mod decoded;
#[cfg(feature = "decoded")]
pub mod events;
pub mod hive;
pub mod mutate;
pub mod nettrace;
pub mod pe;
pub mod perf_data;
pub mod portable_pdb;
#[cfg(feature = "problems")]
pub mod problems;
pub mod reference;
pub mod traces;
#[cfg(feature = "decoded")]
pub mod written;

/// Prints that the test is skipped, with the reason as for `println!`, and records it.
///
/// A skipped test must not count as passed: whoever runs the tests compares the number of skips with the one that is expected
/// where they run.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {
        $crate::record_skip(&::std::format!($($reason)*))
    };
}

/// Prints that the running test is skipped, and appends its name and the reason to the file that `OPENETW_SKIPS` names.
///
/// # Panics
///
/// Panics if that file cannot be written.
pub fn record_skip(reason: &str) {
    eprintln!("skipped: {reason}");
    let Some(file) = std::env::var_os("OPENETW_SKIPS") else { return };
    // Nextest says which test it runs; `cargo test` names threads by their tests.
    let binary = std::env::var("NEXTEST_BINARY_ID").unwrap_or_default();
    let thread = std::thread::current();
    let name = std::env::var("NEXTEST_TEST_NAME").ok();
    let name = name.as_deref().or(thread.name()).unwrap_or("?");
    // One write, so that tests that run at the same time do not mix their lines.
    let line = format!("{binary} {name}\t{}\n", reason.replace(['\t', '\n'], " "));
    let written = fs::File::options().append(true).create(true).open(&file);
    let written = written.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", file.display());
}

/// Returns whether slow tests should run: `RUN_SLOW_TESTS` is set and not `0`. Skips the test if not.
pub fn slow_tests() -> bool {
    let wanted = are_slow_tests_wanted();
    if !wanted {
        skip!("slow test; set RUN_SLOW_TESTS=1 to run it");
    }
    wanted
}

/// Returns whether tests may take minutes: `RUN_SLOW_TESTS` is set and not `0`.
pub fn are_slow_tests_wanted() -> bool {
    std::env::var_os("RUN_SLOW_TESTS").is_some_and(|value| value != "0")
}
