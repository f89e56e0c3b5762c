//! `etw view`: the viewer is a program of its own, since it brings a server that nothing else needs.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::ToolArgs;

/// Runs the viewer, and returns its exit status; on Unix it replaces this process.
pub(crate) fn run(args: &ToolArgs) -> Result<u8> {
    let own = std::env::current_exe().context("cannot find the directory of etw")?;
    let name = format!("etw-view{}", std::env::consts::EXE_SUFFIX);
    let program = own.with_file_name(&name);
    if !program.is_file() {
        bail!("{} is missing; build it with: cargo build --release --package etw_viewer", program.display());
    }
    let mut command = Command::new(&program);
    command.args(&args.words);
    start(&mut command).with_context(|| format!("cannot run {}", program.display()))
}

#[cfg(unix)]
fn start(command: &mut Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn start(command: &mut Command) -> std::io::Result<u8> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
