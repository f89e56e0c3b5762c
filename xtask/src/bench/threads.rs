//! The threads suite: what a second processor saves the commands that read a whole trace.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use etw_testkit::traces::{self, Kind, Recipe};

use super::row::Row;
use super::{Effort, median};
use crate::process::{MINUTES_15, Process};
use crate::shell::{self, cargo, target_dir};

/// Inputs have this many times the events of other suites, so that starting up does not count.
const LARGER: u64 = 12;

/// Arguments of `etw`; `FILE` and `OUT` stand for the input and the output.
const COMMANDS: [&[&str]; 6] = [
    &["stats", "FILE"],
    &["dump", "FILE", "--format", "json"],
    &["dump", "FILE", "--format", "csv"],
    &["dump", "FILE"],
    &["tracerpt", "FILE", "-o", "/dev/null", "-of", "CSV", "-y"],
    &["export", "FILE", "--format", "parquet", "-o", "OUT"],
];

/// Measures each command on one processor and on two, in turns. Output is discarded or in memory.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let etw = match effort.is_smoke() {
        true => std::env::current_exe()?.with_file_name("etw"),
        false => {
            shell::run(&mut cargo(["build", "--release", "--package", "etw_cli", "--bin", "etw"]))?;
            target_dir().join("release/etw")
        }
    };
    let directory = tempfile::Builder::new().prefix("openetw-threads-").tempdir_in("/dev/shm")?;
    let file = directory.path().join("mixed.etl");
    fs::write(&file, traces::bytes(&Recipe::new(Kind::Mixed, effort.events * LARGER))?.0)?;
    let mut rows = Vec::new();
    for arguments in COMMANDS {
        let mut seconds = [Vec::new(), Vec::new()];
        for _ in 0..effort.rounds {
            for (processors, seconds) in ["0", "0,1"].into_iter().zip(&mut seconds) {
                let out = directory.path().join("out");
                seconds.push(time(&etw, arguments, processors, &file, &out)?);
                let _ = fs::remove_dir_all(&out).or_else(|_| fs::remove_file(&out));
            }
        }
        let [mut one, mut two] = seconds;
        let what: Vec<&str> = arguments
            .iter()
            .copied()
            .filter(|part| !["FILE", "-o", "OUT", "/dev/null", "-y"].contains(part))
            .collect();
        let row = Row::new(format!("{}: on two processors", what.join(" ")), median(&mut two), "s");
        rows.push(Row { peer: Some(("on one", median(&mut one))), ..row });
    }
    Ok(rows)
}

/// Returns the seconds that a command takes on some processors.
fn time(etw: &Path, arguments: &[&str], processors: &str, file: &Path, out: &Path) -> Result<f64> {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", processors]).arg(etw).stdin(Stdio::null()).stdout(Stdio::null());
    for argument in arguments {
        match *argument {
            "FILE" => command.arg(file),
            "OUT" => command.arg(out),
            other => command.arg(other),
        };
    }
    command.stderr(Stdio::null());
    let start = Instant::now();
    let status = Process::spawn(&mut command, MINUTES_15).context("cannot start taskset")?.wait()?;
    anyhow::ensure!(status.success(), "etw {} failed: {status}", arguments.join(" "));
    Ok(start.elapsed().as_secs_f64())
}
