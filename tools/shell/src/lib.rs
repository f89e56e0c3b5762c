//! How the tools run other programs: with limits, from the root of the workspace.

#![forbid(unsafe_code)]

pub mod cost;
pub mod lanes;
pub mod process;
pub mod random;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{HOUR, MINUTES_2, MINUTES_15, Process};

/// Returns the workspace's root directory.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Ends a tool: prints what failed, and returns the status for `main`.
pub fn finish(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the target directory.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns whether this runs in CI, where a missing tool is an error instead of a reason to skip a check.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Returns a `cargo` command with `args`, in the workspace's root.
///
/// It does not inherit what `cargo run` tells of this program's package: build scripts that look at these variables, as that of
/// `ring`, would run again, and everything above them be compiled again.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    for (name, _) in std::env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if of_package.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

/// Makes a build use Clippy in place of the compiler for the packages of its workspace, which saves a pass over everything
/// that they depend on.
///
/// # Errors
///
/// Fails if Clippy is not installed.
pub fn with_clippy(command: &mut Command) -> Result<&mut Command> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    if !driver.exists() {
        bail!("clippy is not installed (`rustup component add clippy`)");
    }
    // As `cargo clippy` passes its arguments.
    let deny = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
    Ok(command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", deny))
}

/// Runs a command with its output on the terminal.
///
/// # Errors
///
/// Fails if the command cannot be started, runs for more than an hour, or exits with a status other than 0.
pub fn run(command: &mut Command) -> Result<()> {
    let text = text(command);
    eprintln!("$ {text}");
    let status = Process::spawn(command.stdin(Stdio::null()), HOUR)?.wait()?;
    if !status.success() {
        bail!("{text} failed: {status}");
    }
    Ok(())
}

/// Runs a command and returns what it printed.
///
/// # Errors
///
/// Fails if the command cannot be started, runs for more than 15 minutes, or exits with a status other than 0; the
/// error then contains what it printed to standard error.
pub fn output(command: &mut Command) -> Result<String> {
    output_within(command, MINUTES_15)
}

/// Like [`output`], with another time limit.
///
/// # Errors
///
/// Fails like [`output`].
pub fn output_within(command: &mut Command, limit: Duration) -> Result<String> {
    let text = text(command);
    // Use files: a pipe stays open while a daemon that the command started holds it.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let status = Process::spawn(command, limit)?.wait();
    let printed = read(&mut stderr)?;
    let status = status.with_context(|| printed.clone())?;
    if !status.success() {
        bail!("{text} failed: {status}\n{printed}");
    }
    read(&mut stdout)
}

/// Returns everything that was written to a file.
fn read(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns whether a command exits with status 0 within two minutes.
pub fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = Process::spawn(command, MINUTES_2).and_then(|mut process| process.wait());
    status.is_ok_and(|status| status.success())
}

/// Returns a program in the directory of this one.
///
/// # Errors
///
/// Fails if it is not built.
pub fn built(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !program.is_file() {
        bail!("{} is not built", program.display());
    }
    Ok(program)
}

/// Returns the text of a command line.
pub fn text(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
