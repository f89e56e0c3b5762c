//! Builds programs for Windows and runs them under Wine, where they use OpenETW.

mod c;
mod cases;
mod command;
mod examples;
mod ferrisetw;
mod fields;
mod kills;
mod place;
mod unit;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::shell;
use place::Place;

/// The target of the programs.
const TARGET: &str = "x86_64-pc-windows-gnu";

/// Options of `wine`.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds of killing writers.
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    /// Only these cases.
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
}

/// A case: its name and function.
type Case = (&'static str, fn(&Place, &Options) -> Result<String>);

/// The cases, in the order in which they run.
const CASES: &[Case] = &[
    ("functions", |place, _| cases::functions(place)),
    ("provider", |place, _| cases::provider(place)),
    ("shared-session", |place, _| cases::shared_session(place)),
    ("consumer", |place, _| cases::consumer(place)),
    ("controller", |place, _| cases::controller(place)),
    ("classic", |place, _| cases::classic(place)),
    ("relogger", |place, _| cases::relogger(place)),
    ("session-without-daemon", |place, _| cases::without_daemon(place)),
    ("hostile", |place, _| cases::hostile(place)),
    ("fields", |place, _| fields::compare(place)),
    ("rate", |place, _| cases::rate(place)),
    ("disabled", |place, _| cases::disabled(place)),
    ("c", |place, _| c::run(place)),
    ("command", |place, _| command::control(place)),
    ("tools", |place, _| command::tools(place)),
    ("decoding", |place, _| command::decode(place)),
    ("examples", |place, _| examples::compare(place)),
    ("windows-tests", |place, _| unit::run(place)),
    ("kills", |place, options| kills::run(place, options.rounds)),
    ("ferrisetw", |place, _| ferrisetw::run(place)),
    ("removal", |place, _| cases::removal(place)),
];

/// Runs all cases; skipped, with the reason, if the tools are not installed.
pub(crate) fn check() -> Result<()> {
    run(&Options { rounds: 30, cases: Vec::new() })
}

/// Runs the cases.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(name) = options.cases.iter().find(|name| CASES.iter().all(|(known, _)| known != name)) {
        let names: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
        bail!("unknown case '{name}'; expected one of: {}", names.join(", "));
    }
    if let Some(missing) = missing() {
        eprintln!("skipped: {missing}: ./test.sh installs it where the system has it");
        return Ok(());
    }
    let place = Place::new()?;
    for (name, case) in CASES {
        if !options.cases.is_empty() && !options.cases.iter().any(|wanted| wanted == name) {
            continue;
        }
        let start = Instant::now();
        let summary = case(&place, options).with_context(|| format!("the case `{name}` failed"))?;
        eprintln!("{:>7.1} s  {name}: {summary}", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Returns what is not installed of what the cases need.
fn missing() -> Option<&'static str> {
    if !cfg!(target_arch = "x86_64") {
        return Some("Wine with programs for x86-64 needs such a machine");
    }
    if !shell::succeeds(Command::new("wine").arg("--version").env("WINEDEBUG", "-all")) {
        return Some("wine is not installed");
    }
    if !shell::succeeds(Command::new("x86_64-w64-mingw32-gcc").arg("--version")) {
        return Some("x86_64-w64-mingw32-gcc is not installed");
    }
    let libraries =
        Command::new("rustc").args(["--target", TARGET, "--print", "target-libdir"]).output().ok()?;
    let directory = String::from_utf8_lossy(&libraries.stdout).trim().to_owned();
    (!std::path::Path::new(&directory).is_dir())
        .then_some("Rust's standard library for x86_64-pc-windows-gnu is not installed")
}
