//! What tests, benches and fuzz targets share: real traces, fuzz bodies, inputs that are made by rule.
//!
//! Only for development; no crate that is shipped depends on it.

#![forbid(unsafe_code)]

pub mod compiled_manifest;
pub mod data;
pub mod fuzz;
pub mod mutate;
pub mod reference;
pub mod seeds;
pub mod traces;
pub mod written;

/// Whether tests that take long are to run: `RUN_SLOW_TESTS` is set and not `0`. Prints the reason if they are not.
pub fn slow_tests() -> bool {
    let wanted = std::env::var_os("RUN_SLOW_TESTS").is_some_and(|value| value != "0");
    if !wanted {
        eprintln!("skipped: a slow test, which runs with RUN_SLOW_TESTS=1");
    }
    wanted
}
