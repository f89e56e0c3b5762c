//! All checks that a change must pass.

use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;

use crate::shell::{self, cargo};
use crate::{
    bench, bpf, coverage, dependencies, fuzz, layers, msrv, peers, python, sql, systems, tables, ui,
};

/// A check: its name and function.
type Check = (&'static str, fn() -> Result<()>);

/// Packages that are for development only.
const UNPUBLISHED: [&str; 2] = ["xtask", "etw_testkit"];

/// The checks, cheap ones first.
const CHECKS: &[Check] = &[
    ("format", || shell::run(&mut cargo(["fmt", "--all", "--check"]))),
    ("layers", layers::check),
    ("dependencies", dependencies::check),
    ("packages for crates.io", package),
    ("kernel programs", bpf::check),
    ("numbers of the schema pack", crate::schemas::check),
    ("coverage of real traces", coverage::check),
    ("tables in the documentation", tables::check),
    #[cfg(target_os = "linux")]
    ("tables of Windows Performance Analyzer", crate::wpa_tables::check),
    ("page of the viewer", ui::check),
    #[cfg(target_os = "linux")]
    ("published profiles", crate::profiles::check),
    ("clippy", || shell::run(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
    ("feature sets", systems::check_features),
    ("other systems", systems::check),
    ("minimum Rust version", msrv::check),
    ("documentation", || {
        // Clippy compiles what is imported, as in the check `clippy`, so that it is not compiled again.
        let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
        shell::run(shell::with_clippy(doc.env("RUSTDOCFLAGS", "-D warnings"))?)
    }),
    #[cfg(target_os = "linux")]
    ("public API", crate::api::check),
    ("examples in the documentation", || shell::run(&mut cargo(["test", "--workspace", "--doc", "--quiet"]))),
    // The tests of the viewer and of the Python package use what this builds.
    ("SQL", sql::check),
    ("tests", || shell::run(&mut cargo(["nextest", "run", "--workspace"]))),
    ("big-endian", systems::test_big_endian),
    #[cfg(target_os = "linux")]
    ("installed package", crate::dist::smoke),
    ("model checking", model_check),
    #[cfg(target_os = "linux")]
    ("killed writers, some rounds", crate::torture::short),
    ("independent readers", peers::compare),
    ("Python package", python::check),
    #[cfg(target_os = "linux")]
    ("Windows programs under Wine", crate::wine::check),
    ("fuzzing, a few seconds each", fuzz::smoke),
    ("benches, for a moment", bench::smoke),
];

/// Creates the packages that `cargo publish` would upload, without building them.
///
/// `cargo publish --dry-run` rebuilds every crate, which takes minutes; run it for a release.
fn package() -> Result<()> {
    let mut command = cargo(["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"]);
    for name in UNPUBLISHED {
        command.args(["--exclude", name]);
    }
    shell::run(&mut command)
}

/// Runs the lock-free code under loom, in a separate target directory, because the flag changes every crate.
fn model_check() -> Result<()> {
    let mut command = cargo(["test", "--quiet", "--release", "--package", "etw_buffer", "--lib", "model"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", shell::target_dir().join("loom"));
    shell::run(&mut command)
}

/// Options of `ci`.
#[derive(Args)]
pub(crate) struct Options {
    /// Skip the checks before this one, for instance after it failed.
    #[arg(long, value_name = "CHECK")]
    from: Option<String>,
}

/// Runs the checks in order, stops at the first failure, and prints the duration of each.
pub(crate) fn run(options: &Options) -> Result<()> {
    let first = match &options.from {
        None => 0,
        Some(from) => CHECKS.iter().position(|(name, _)| name == from).with_context(|| {
            let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
            format!("unknown check '{from}'; expected one of: {}", names.join(", "))
        })?,
    };
    let mut times = Vec::new();
    for (name, check) in CHECKS.iter().skip(first) {
        eprintln!("\n== {name}");
        let start = Instant::now();
        check().with_context(|| format!("the check `{name}` failed"))?;
        times.push((name, start.elapsed().as_secs_f64()));
    }
    eprintln!();
    for (name, seconds) in &times {
        eprintln!("{seconds:>8.1} s  {name}");
    }
    eprintln!("{:>8.1} s  all checks passed", times.iter().map(|(_, seconds)| seconds).sum::<f64>());
    Ok(())
}
