//! Checks that the workspace builds with its minimum Rust version.

use std::process::Command;

use anyhow::Result;

use shell::{succeeds, target_dir};

/// Builds all published crates with the minimum Rust version, if rustup has it.
///
/// Otherwise two other checks replace it: clippy reports newer functions of the standard library
/// (`incompatible_msrv`), and `dependencies` reports packages that need a newer Rust.
pub(crate) fn check() -> Result<()> {
    let version = env!("CARGO_PKG_RUST_VERSION");
    let toolchain = format!("+{version}");
    if !succeeds(Command::new("cargo").args([&toolchain, "--version"])) {
        eprintln!(
            "skipped: Rust {version} is not installed (`rustup toolchain install {version} --profile minimal`)"
        );
        return Ok(());
    }
    let mut check = Command::new("cargo");
    check.current_dir(shell::root()).arg(&toolchain).args([
        "check",
        "--quiet",
        "--workspace",
        "--exclude",
        "etw_sql",
        "--locked",
    ]);
    // Use a separate target directory, because the compiler differs.
    check
        .env("CARGO_TARGET_DIR", target_dir().join("msrv"))
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN");
    shell::run(&mut check)
}
