//! Running other programs, and where things lie.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// The workspace's root directory.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The directory for everything that is built.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Whether this runs where a missing tool is an error and not a reason to leave a check out.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// `cargo` with `args`, in the workspace's root.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs a command with its output on the terminal; an exit status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let text = text(command);
    eprintln!("$ {text}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {text}"))?;
    if !status.success() {
        bail!("{text} failed: {status}");
    }
    Ok(())
}

/// Runs a command and answers what it printed; an exit status other than 0 is an error with what it said.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&finished(command)?.stdout).into_owned())
}

fn finished(command: &mut Command) -> Result<Output> {
    let text = text(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {text}"))?;
    if !output.status.success() {
        bail!("{text} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}

/// Whether a command runs and ends with exit status 0.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A command as one would type it.
fn text(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
