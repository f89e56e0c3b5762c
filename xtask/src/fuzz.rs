//! Fuzzing with cargo-fuzz on the default toolchain.
//!
//! The targets in `fuzz/` build with a stable compiler because they use no sanitizer: coverage is an option of LLVM,
//! and safe Rust rules out memory errors. Fuzzing looks for panics, hangs and unbounded memory.

use std::fs;
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use shell::lanes::each;
use shell::process::Process;
use shell::{cargo, is_ci, root, succeeds, target_dir};

/// Seconds per target in `ci`.
const SMOKE_SECONDS: u32 = 3;

/// Extra seconds for a target to start and to finish its last input.
const GRACE_SECONDS: u64 = 30;

/// Options of `fuzz`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds per target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Compile with few optimizations: builds in half the time, and fuzzes slower.
    #[arg(long)]
    dev: bool,
    /// Print only a summary and the findings, and run one target on each processor.
    #[arg(long)]
    quiet: bool,
    /// Target to run [default: all].
    target: Option<String>,
}

/// Runs the targets, with `--quiet` as many at once as there are processors.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let wanted = |name: &str| options.target.as_deref().is_none_or(|target| target == name);
    let targets = targets()?;
    let chosen: Vec<&str> = targets.iter().map(String::as_str).filter(|name| wanted(name)).collect();
    if chosen.is_empty() {
        bail!("unknown target; expected one of: {}", targets.join(", "));
    }
    let mut build = fuzz("build");
    if options.dev {
        build.arg("--dev");
    }
    shell::run(&mut build)?;
    let at_once = if options.quiet { available_parallelism().map_or(1, NonZero::get) } else { 1 };
    each(chosen, at_once, |target| run_one(target, options)).map(drop)
}

/// Runs the program of one target.
fn run_one(target: &str, options: &Options) -> Result<()> {
    let corpus = root().join("fuzz/corpus").join(target);
    let artifacts = root().join("fuzz/artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let profile = if options.dev { "debug" } else { "release" };
    let directory = target_dir().join("fuzz").join(host()?).join(profile);
    // Linux counts the peak memory of the process that starts a program as the program's own. A shell between the two
    // keeps what earlier checks needed out of the limit below.
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\"; exit $?", "sh"]).arg(directory.join(target));
    command.current_dir(root()).stdin(Stdio::null()).arg(corpus).arg(root().join("fuzz/seeds").join(target));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.arg(format!("-max_total_time={}", options.seconds));
    // No parser should need a few seconds for one small input, or 512 MiB.
    command.args(["-max_len=65536", "-timeout=5", "-rss_limit_mb=512", "-print_final_stats=1"]);
    let log = directory.join(format!("{target}.log"));
    if options.quiet {
        let file = fs::File::create(&log)?;
        command.stdout(file.try_clone()?).stderr(file);
    }
    let limit = Duration::from_secs(u64::from(options.seconds) + GRACE_SECONDS);
    // libFuzzer kills a hanging target, except if the hang is in the allocator, whose lock its report needs.
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

/// Returns the host target of the compiler, which names cargo-fuzz's build directory.
fn host() -> Result<String> {
    let text = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not print its host")?.to_owned())
}

/// Summarizes the last lines of libFuzzer in one line.
fn statistics(text: &str) -> String {
    let value = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        values.next().map_or("?", |rest| rest.trim_start_matches(':').trim())
    };
    let (runs, rate) = (value("number_of_executed_units"), value("average_exec_per_sec"));
    format!("{runs} runs, {rate} per second, peak {} MiB", value("peak_rss_mb"))
}

/// Returns the names of all targets, sorted.
fn targets() -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets"))? {
        targets.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    targets.sort();
    Ok(targets)
}

/// Rewrites the seeds of all targets.
pub(crate) fn write_seeds() -> Result<()> {
    shell::run(&mut cargo(["run", "--quiet", "--package", "etw_fuzz"]))
}

/// Runs every target for a few seconds; skipped, with the reason, if cargo-fuzz cannot run.
pub(crate) fn smoke() -> Result<()> {
    match missing() {
        Some(missing) if is_ci() => bail!("{missing}"),
        Some(missing) => {
            eprintln!("skipped: {missing}");
            Ok(())
        }
        None => run(&Options { seconds: SMOKE_SECONDS, dev: true, quiet: true, target: None }),
    }
}

/// Returns what is missing for fuzzing and how to install it.
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
