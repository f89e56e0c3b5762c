//! The memory of programs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::process::{HOUR, Process};
use crate::shell::text;

/// Runs a program without its output, and returns its greatest memory besides mapped files, by looking every few
/// milliseconds.
pub(super) fn peak_mib(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::spawn(command, HOUR)?;
    let file = PathBuf::from(format!("/proc/{}/status", process.id()));
    let mut peak = 0.0_f64;
    // A process that has ended has no memory, until it is waited for.
    while let Some(mib) = anonymous_mib(&fs::read_to_string(&file)?) {
        peak = peak.max(mib);
        thread::sleep(Duration::from_millis(2));
    }
    let status = process.wait()?;
    ensure!(status.success(), "{} failed: {status}", text(command));
    Ok(peak)
}

fn anonymous_mib(status: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    value.trim().split(' ').next()?.parse().ok().map(|kib: f64| kib / 1024.0)
}
