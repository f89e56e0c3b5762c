//! Builds programs for Windows and runs them under Wine, where they use OpenETW.

#![forbid(unsafe_code)]

mod archive;
mod c;
mod cases;
mod command;
mod dotnet;
mod examples;
mod ferrisetw;
mod fields;
mod kills;
mod mimalloc;
mod node;
mod place;
mod unit;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;

use place::Place;
use shell::lanes::each;

/// The target of the programs.
const TARGET: &str = "x86_64-pc-windows-gnu";

/// Rounds of killing writers; ten take a second.
const ROUNDS: u32 = 100;

/// Build programs for Windows and run them under Wine, where they use OpenETW.
#[derive(Parser)]
#[command(name = "cargo xtask wine")]
struct Options {
    /// Rounds of killing writers.
    #[arg(long, default_value_t = ROUNDS)]
    rounds: u32,
    /// Only these cases.
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
}

/// A case: its name and function.
type Case = (&'static str, fn(&Place, &Options) -> Result<String>);

/// Cases that measure, which run one after the other, with nothing beside them.
const MEASURED: &[Case] = &[
    ("disabled", |place, _| cases::disabled(place)),
    ("rate", |place, _| cases::rate(place)),
    ("hostile", |place, _| cases::hostile(place)),
];

/// Cases of which several run at a time, since they wait most of the time; the longest ones come first.
const OTHERS: &[Case] = &[
    ("ferrisetw", |place, _| ferrisetw::run(place)),
    ("kills", |place, options| kills::run(place, options.rounds)),
    ("examples", |place, _| examples::compare(place)),
    ("decoding", |place, _| command::decode(place)),
    ("windows-tests", |place, _| unit::run(place)),
    ("tools", |place, _| command::tools(place)),
    ("archive", |place, _| archive::run(place)),
    ("dotnet", |place, _| dotnet::run(place)),
    ("mimalloc", |place, _| mimalloc::run(place)),
    ("node", |place, _| node::run(place)),
    ("command", |place, _| command::control(place)),
    ("functions", |place, _| cases::functions(place)),
    ("api-sets", |place, _| cases::api_sets(place)),
    ("provider", |place, _| cases::provider(place)),
    ("shared-session", |place, _| cases::shared_session(place)),
    ("consumer", |place, _| cases::consumer(place)),
    ("controller", |place, _| cases::controller(place)),
    ("classic", |place, _| cases::classic(place)),
    ("relogger", |place, _| cases::relogger(place)),
    ("session-without-daemon", |place, _| cases::without_daemon(place)),
    ("fields", |place, _| fields::compare(place)),
    ("c", |place, _| c::run(place)),
];

/// The case that changes the prefix.
const LAST: &[Case] = &[("removal", |place, _| cases::removal(place))];

/// Cases with programs of this workspace.
const OF_WORKSPACE: [&str; 6] = ["examples", "decoding", "windows-tests", "tools", "archive", "command"];

/// Cases that run at a time.
const AT_A_TIME: usize = 2;

fn main() -> ExitCode {
    shell::finish(run(&Options::parse()))
}

/// Runs the cases; skipped, with the reason, if the tools are not installed.
fn run(options: &Options) -> Result<()> {
    let all = || [MEASURED, OTHERS, LAST].into_iter().flatten();
    if let Some(name) = options.cases.iter().find(|name| all().all(|(known, _)| known != name)) {
        let names: Vec<&str> = all().map(|(name, _)| *name).collect();
        bail!("unknown case '{name}'; expected one of: {}", names.join(", "));
    }
    if let Some(missing) = missing() {
        eprintln!("skipped: {missing}: ./test.sh installs it where the system has it");
        return Ok(());
    }
    let is_wanted = |name: &str| options.cases.is_empty() || options.cases.iter().any(|one| one == name);
    let place = Place::new(OF_WORKSPACE.into_iter().any(is_wanted), is_wanted("ferrisetw"))?;
    for (cases, at_a_time) in [(MEASURED, 1), (OTHERS, AT_A_TIME), (LAST, 1)] {
        each(cases.iter().filter(|(name, _)| is_wanted(name)), at_a_time, |(name, case)| {
            let start = Instant::now();
            let summary = case(&place, options).with_context(|| format!("the case `{name}` failed"))?;
            eprintln!("{:>7.1} s  {name}: {summary}", start.elapsed().as_secs_f64());
            Ok(())
        })?;
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
