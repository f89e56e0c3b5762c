//! Fuzzing with cargo-fuzz, on whatever toolchain is the default one.
//!
//! The targets in `fuzz/` build with a stable compiler because no sanitizer is asked for: coverage is an option of
//! LLVM, and memory errors are what safe Rust rules out. What is hunted is panics, hangs and unbounded memory.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use etw_testkit::fuzz::{TARGETS, seeds_dir};

use crate::process::Process;
use crate::shell::{self, cargo, is_ci, root, succeeds, target_dir};

/// Seconds for each target in `ci`.
const SMOKE_SECONDS: u32 = 3;

/// Seconds that a target may take beyond its time, to start and for its last input.
const GRACE_SECONDS: u64 = 30;

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
    shell::run(&mut fuzz("build"))?;
    for target in chosen {
        run_one(target, options)?;
    }
    Ok(())
}

/// Runs the program of one target.
fn run_one(target: &str, options: &Options) -> Result<()> {
    let corpus = root().join("fuzz/corpus").join(target);
    let artifacts = root().join("fuzz/artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let directory = target_dir().join("fuzz").join(host()?).join("release");
    let mut command = Command::new(directory.join(target));
    command.current_dir(root()).stdin(Stdio::null()).arg(corpus).arg(seeds_dir().join(target));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.arg(format!("-max_total_time={}", options.seconds));
    // A few seconds for one small input and 512 MiB are far above what any parser may take.
    command.args(["-max_len=65536", "-timeout=5", "-rss_limit_mb=512", "-print_final_stats=1"]);
    let log = directory.join(format!("{target}.log"));
    if options.quiet {
        let file = fs::File::create(&log)?;
        command.stdout(file.try_clone()?).stderr(file);
    }
    let limit = Duration::from_secs(u64::from(options.seconds) + GRACE_SECONDS);
    // libFuzzer ends a target that hangs by itself, but not if the hang is in the allocator, whose lock its report needs.
    let status = Process::spawn(&mut command, limit)?.wait().with_context(|| format!("{target} hangs"))?;
    let text = if options.quiet { fs::read_to_string(&log)? } else { String::new() };
    if status.success() {
        eprintln!("{target}: {}", statistics(&text));
        return Ok(());
    }
    let tail: Vec<&str> = text.lines().rev().take(40).collect();
    tail.iter().rev().for_each(|line| eprintln!("{line}"));
    bail!("{target} failed ({status}); the input is in {}", artifacts.display())
}

/// The compiler's own target, below which cargo-fuzz builds.
fn host() -> Result<String> {
    let text = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not tell its host")?.to_owned())
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
