//! The threads suite: what a second processor saves the commands that read a whole trace.
//!
//! Two processors share memory, caches and often execution units. How much they do together at most is measured too:
//! two runs at once, each on a processor of its own, that have nothing to do with each other.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use etw_testkit::traces::{self, Kind, Recipe};

use super::packaged::packaged_etw;
use super::row::Row;
use super::{Effort, median};
use shell::process::{MINUTES_15, Process};

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
    let etw = packaged_etw(effort)?;
    let directory = tempfile::Builder::new().prefix("openetw-threads-").tempdir_in("/dev/shm")?;
    let file = directory.path().join("mixed.etl");
    fs::write(&file, traces::bytes(&Recipe::new(Kind::Mixed, effort.events * LARGER))?.0)?;
    let mut rows = Vec::new();
    for arguments in COMMANDS {
        let mut seconds = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..effort.rounds {
            for (runs, seconds) in [&["0"][..], &["0,1"], &["0", "1"]].into_iter().zip(&mut seconds) {
                seconds.push(time(&etw, arguments, runs, &file, directory.path())?);
            }
        }
        let [mut one, mut two, mut apart] = seconds;
        let what: Vec<&str> = arguments
            .iter()
            .copied()
            .filter(|part| !["FILE", "-o", "OUT", "/dev/null", "-y"].contains(part))
            .collect();
        let what = what.join(" ");
        let one = median(&mut one);
        let row = Row::new(format!("{what}: on two processors"), median(&mut two), "s");
        rows.push(Row { peer: Some(("on one", one)), ..row });
        // Per run, so that the ratio is the most that two processors can give.
        let row = Row::new(format!("{what}: two runs at once, each"), median(&mut apart) / 2.0, "s");
        rows.push(Row { peer: Some(("on one", one)), ..row });
    }
    Ok(rows)
}

/// Returns the seconds until all runs of a command have ended that start at once, each on its processors.
fn time(etw: &Path, arguments: &[&str], runs: &[&str], file: &Path, directory: &Path) -> Result<f64> {
    let start = Instant::now();
    let mut running = Vec::new();
    for (number, processors) in runs.iter().enumerate() {
        let out = directory.join(format!("out{number}"));
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", processors]).arg(etw).stdin(Stdio::null()).stdout(Stdio::null());
        for argument in arguments {
            match *argument {
                "FILE" => command.arg(file),
                "OUT" => command.arg(&out),
                other => command.arg(other),
            };
        }
        command.stderr(Stdio::null());
        let process = Process::spawn(&mut command, MINUTES_15).context("cannot start taskset")?;
        running.push((process, out));
    }
    let mut outputs = Vec::new();
    for (mut process, out) in running {
        let status = process.wait()?;
        anyhow::ensure!(status.success(), "etw {} failed: {status}", arguments.join(" "));
        outputs.push(out);
    }
    let seconds = start.elapsed().as_secs_f64();
    for out in outputs {
        let _ = fs::remove_dir_all(&out).or_else(|_| fs::remove_file(&out));
    }
    Ok(seconds)
}
