//! Fuzzing with cargo-fuzz, on whatever toolchain is the default one.
//!
//! The targets in `fuzz/` build with a stable compiler because no sanitizer is asked for: coverage is an option of
//! LLVM, and memory errors are what safe Rust rules out. What is hunted is panics, hangs and unbounded memory.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;
use etw_testkit::fuzz::{TARGETS, seeds_dir};

use crate::shell::{self, cargo, is_ci, root, succeeds, target_dir};

/// Seconds for each target in `ci`.
const SMOKE_SECONDS: u32 = 3;

/// Options of `fuzz`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Print only how much was tried, and what was found.
    #[arg(long)]
    quiet: bool,
    /// Only this target; all of them if left out.
    target: Option<String>,
}

/// Runs the targets, one after the other.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let wanted = |name: &str| options.target.as_deref().is_none_or(|target| target == name);
    let chosen: Vec<&str> = TARGETS.iter().map(|target| target.name).filter(|name| wanted(name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        bail!("no such target; there are: {}", names.join(", "));
    }
    for target in chosen {
        let corpus = root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&corpus)?;
        let mut command = fuzz("run");
        command.arg(target).arg(corpus).arg(seeds_dir().join(target)).arg("--");
        command.arg(format!("-max_total_time={}", options.seconds));
        // A second for one small input and 512 MiB are far above what any parser may take.
        command.args(["-max_len=65536", "-timeout=5", "-rss_limit_mb=512", "-print_final_stats=1"]);
        if options.quiet {
            eprintln!("{target}: {}", statistics(&shell::output_of_both(&mut command)?));
        } else {
            shell::run(&mut command)?;
        }
    }
    Ok(())
}

/// What libFuzzer's last lines say, in one line.
fn statistics(text: &str) -> String {
    let value = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        values.next().map_or("?", |rest| rest.trim_start_matches(':').trim())
    };
    let (runs, rate) = (value("number_of_executed_units"), value("average_exec_per_sec"));
    format!("{runs} runs, {rate} a second, peak {} MiB", value("peak_rss_mb"))
}

/// Writes the seeds of every target anew.
pub(crate) fn write_seeds() -> Result<()> {
    for target in TARGETS {
        let directory = seeds_dir().join(target.name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        for (name, bytes) in (target.seeds)() {
            fs::write(directory.join(name), bytes)?;
        }
    }
    Ok(())
}

/// A few seconds of every target; left out, with the reason, where cargo-fuzz cannot run.
pub(crate) fn smoke() -> Result<()> {
    match missing() {
        Some(missing) if is_ci() => bail!("{missing}"),
        Some(missing) => {
            eprintln!("skipped: {missing}");
            Ok(())
        }
        None => run(&Options { seconds: SMOKE_SECONDS, quiet: true, target: None }),
    }
}

/// What is missing to fuzz, in words that say how to get it.
fn missing() -> Option<&'static str> {
    if !succeeds(&mut cargo(["fuzz", "--version"])) {
        return Some("cargo-fuzz is missing: cargo install --locked cargo-fuzz");
    }
    if !succeeds(Command::new("c++").arg("--version")) {
        return Some("a C++ compiler is missing, which libFuzzer needs: apt-get install g++");
    }
    None
}

fn fuzz(verb: &str) -> Command {
    let mut command = cargo(["fuzz", verb, "--sanitizer", "none", "--fuzz-dir"]);
    command.arg(root().join("fuzz")).arg("--target-dir").arg(target_dir().join("fuzz"));
    command
}
