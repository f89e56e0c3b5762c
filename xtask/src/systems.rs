//! Whether everything compiles for other systems than this one, and with fewer features.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::shell::{self, cargo};

/// Systems that nobody here runs. The C libraries of dependencies are not needed to check them.
const TARGETS: &[&str] = &["x86_64-pc-windows-gnu", "aarch64-apple-darwin", "aarch64-unknown-linux-gnu"];
/// Tools for development, which run on Linux.
const DEVELOPMENT: &[&str] = &["xtask", "etw_testkit"];

/// Features of `openetw`, each of which must compile alone. `columns` is left out: the workspace's own crates use it.
const FEATURES: &[&str] = &["read", "provider", "session", "kernel", "export", "analysis"];

/// Checks `openetw` without features, and with each one alone.
pub(crate) fn check_features() -> Result<()> {
    for feature in std::iter::once("").chain(FEATURES.iter().copied()) {
        let check = ["check", "--quiet", "--package", "openetw", "--lib", "--no-default-features"];
        shell::run(cargo(check).args(["--features", feature]))?;
    }
    Ok(())
}

/// Checks each target whose standard library is installed, and says so of the others.
pub(crate) fn check() -> Result<()> {
    for target in TARGETS {
        if !is_installed(target)? {
            eprintln!("{target}: left out, since it is not installed (`rustup target add {target}`)");
            continue;
        }
        let mut clippy = cargo(["clippy", "--quiet", "--workspace", "--target", target]);
        for package in DEVELOPMENT {
            clippy.args(["--exclude", package]);
        }
        shell::run(clippy.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

fn is_installed(target: &str) -> Result<bool> {
    let directory =
        shell::output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(directory.trim()).is_dir())
}
