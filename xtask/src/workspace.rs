//! The build and the tests of the workspace.

use std::process::Command;

use anyhow::Result;
use clap::Args;
use shell::cargo;

use crate::{skips, snapshots, tools};

/// Has Clippy compile our crates, as `cargo clippy` has it check them. One pass gives both its findings and the programs, so that
/// nothing is compiled for it alone. The argument is written as `cargo clippy` writes it. As options and not in the environment, they reach no compiler that a test starts.
const WITH_CLIPPY: [&str; 4] = [
    "--config",
    "build.rustc-workspace-wrapper='clippy-driver'",
    "--config",
    "env.CLIPPY_ARGS='-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__'",
];

/// Returns a command of `cargo` that uses what [`build`] has made.
pub(crate) fn cargo_with_clippy<'a>(
    command: impl IntoIterator<Item = &'a str>,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Command {
    let mut cargo = cargo(command);
    cargo.args(WITH_CLIPPY).args(arguments);
    cargo
}

/// Builds everything that the checks run, with one resolution of features, and fails at what Clippy finds.
pub(crate) fn build() -> Result<()> {
    shell::run(&mut cargo_with_clippy(["build"], ["--workspace", "--all-targets"]))
}

/// Runs all tests. They change no snapshot.
pub(crate) fn test() -> Result<()> {
    let skips = skips::Expected::start("tests")?;
    let used = snapshots::start()?;
    let mut tests = cargo_with_clippy(["nextest", "run"], ["--workspace"]);
    tests.env("OPENETW_SKIPS", skips.file()).env("INSTA_UPDATE", "no");
    shell::run(tests.env("INSTA_SNAPSHOT_REFERENCES_FILE", &used))?;
    snapshots::check(&used)?;
    skips.check()
}

/// Options of `sql`.
#[derive(Args)]
pub(crate) struct SqlOptions {
    /// Compare the answers on all real traces, instead of those with many kinds of tables.
    #[arg(long)]
    all: bool,
}

/// Runs the tests of `etw-sql`, and compares its answers with those of DuckDB.
pub(crate) fn sql(options: &SqlOptions) -> Result<()> {
    build()?;
    let only = ["--workspace", "--filterset", "package(etw_sql)"];
    shell::run(&mut cargo_with_clippy(["nextest", "run"], only))?;
    let arguments = ["--only", "queries", "--all"];
    tools::run_built("peers", &arguments[..if options.all { 3 } else { 2 }])
}
