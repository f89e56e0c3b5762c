//! Shared code of tests, benches and fuzz targets: real traces, fuzz bodies, generated inputs.
//!
//! For development only; no shipped crate depends on it.

#![forbid(unsafe_code)]

pub mod browser;
pub mod compiled_manifest;
pub mod data;
pub mod fuzz;
pub mod hive;
pub mod mutate;
pub mod nettrace;
pub mod pe;
pub mod portable_pdb;
pub mod problems;
pub mod reference;
pub mod seeds;
pub mod traces;
pub mod written;

/// Returns whether slow tests should run: `RUN_SLOW_TESTS` is set and not `0`. Prints the reason if not.
pub fn slow_tests() -> bool {
    let wanted = std::env::var_os("RUN_SLOW_TESTS").is_some_and(|value| value != "0");
    if !wanted {
        eprintln!("skipped: slow test; set RUN_SLOW_TESTS=1 to run it");
    }
    wanted
}
