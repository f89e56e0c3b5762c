//! The memory of programs.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, ensure};

use shell::process::{HOUR, Process};
use shell::text;

/// Runs a program without its output, and returns its greatest memory in MiB, besides mapped files.
pub(super) fn peak_mib(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = Process::spawn(command, HOUR)?;
    let watch = watch(process.id());
    let status = process.wait()?;
    ensure!(status.success(), "{} failed: {status}", text(command));
    Ok(peak_of(watch))
}

/// Looks at the memory of a process every few milliseconds until it ends.
pub(super) fn watch(process: u32) -> JoinHandle<f64> {
    thread::spawn(move || {
        let file = format!("/proc/{process}/status");
        let mut peak = 0.0_f64;
        // A process that has ended has no memory, until it is waited for.
        while let Some(mib) = fs::read_to_string(&file).ok().and_then(|status| anonymous_mib(&status)) {
            peak = peak.max(mib);
            thread::sleep(Duration::from_millis(2));
        }
        peak
    })
}

/// Returns the greatest memory of a process that has ended, in MiB.
pub(super) fn peak_of(watch: JoinHandle<f64>) -> f64 {
    watch.join().unwrap_or_default()
}

fn anonymous_mib(status: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    value.trim().split(' ').next()?.parse().ok().map(|kib: f64| kib / 1024.0)
}
