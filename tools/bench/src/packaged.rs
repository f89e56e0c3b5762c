//! Programs as packages have them.

use std::path::PathBuf;

use anyhow::Result;

use super::Effort;
use shell::cargo;

/// The profile that packages are built in.
pub(super) const PROFILE: &str = "packaged";

/// Returns a build of `etw` as packages have it, or the one beside this program if the bench only has to run.
pub(super) fn packaged_etw(effort: &Effort) -> Result<PathBuf> {
    packaged(effort, "etw_cli", "etw")
}

/// Returns a build of a program as packages have it, or the one beside this program if the bench only has to run.
pub(super) fn packaged(effort: &Effort, package: &str, program: &str) -> Result<PathBuf> {
    if effort.is_smoke() {
        return Ok(std::env::current_exe()?.with_file_name(program));
    }
    shell::run(&mut cargo(["build", "--profile", PROFILE, "--package", package, "--bin", program]))?;
    Ok(shell::target_dir().join(PROFILE).join(program))
}
