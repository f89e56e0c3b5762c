//! Benches, which compare with other tools in the same run, and generated traces.

#![forbid(unsafe_code)]

mod build;
mod capi;
mod decode;
mod effort;
mod generate;
mod kernel;
mod large_pdb;
mod memory;
mod packaged;
mod part;
mod reference;
mod relog;
mod row;
mod schemas;
mod session;
mod sql;
mod stacks;
mod symbols;
mod tables;
mod threads;
mod viewer;
mod write;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use effort::{Effort, median};
use packaged::PROFILE;
use part::Part;
use row::Row;
use shell::cargo;

/// Measure performance and compare it with other tools.
#[derive(Parser)]
#[command(name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct Options {
    /// Suite to run; without one, `decode`, or all with `--smoke`.
    suite: Option<Suite>,
    /// Print a JSON list instead of a table.
    #[arg(long)]
    json: bool,
    /// Seconds to keep a session busy.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Only check that everything runs; the numbers are meaningless.
    #[arg(long)]
    smoke: bool,
    #[command(subcommand)]
    other: Option<Other>,
}

/// What is no suite.
#[derive(Subcommand)]
enum Other {
    /// Write a generated trace.
    Generate(generate::Options),
    /// A process that a bench starts.
    #[command(hide = true, subcommand)]
    Part(Part),
}

impl Options {
    fn busy_seconds(&self) -> f64 {
        if self.smoke { SMOKE_SECONDS } else { self.seconds }
    }
}

/// Suites of measurements.
#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// Reading and decoding of files.
    Decode,
    /// Merging, filtering and compressing traces.
    Relog,
    /// Joining stacks to their events.
    Stacks,
    /// Joining and naming stacks, and what names cost a report; compared with llvm-symbolizer.
    Symbols,
    /// The built-in schemas of Windows' providers: opening, look-ups, search.
    Schemas,
    /// Indexes of traces: making and opening them, pivots, ranges of time, memory.
    Tables,
    /// Queries with `etw sql`, compared with DuckDB.
    Sql,
    /// Commands that read a whole trace, on one processor and on two.
    Threads,
    /// The viewer in a browser: the first picture of a large trace, tiles, pivots, frames, memory.
    Viewer,
    /// Writing events, compared with LTTng-UST.
    Write,
    /// Writing events from C, compared with the macro of Rust.
    Capi,
    /// Whole sessions: throughput and latency.
    Session,
    /// Tracing the kernel, compared with perf and ftrace.
    Kernel,
    /// Compiling programs that depend on `openetw`.
    Build,
}

fn main() -> ExitCode {
    let options = Options::parse();
    shell::finish(match &options.other {
        Some(Other::Generate(options)) => generate::run(options),
        Some(Other::Part(part)) => part.run(),
        None => run(&options),
    })
}

/// Runs what is asked for, in the profile of packages unless it only has to run.
fn run(options: &Options) -> Result<()> {
    let is_packaged = std::env::current_exe()?.parent().is_some_and(|directory| directory.ends_with(PROFILE));
    if !options.smoke && !is_packaged {
        let mut same = cargo(["run", "--quiet", "--profile", PROFILE, "--package", "bench", "--"]);
        return shell::run(same.args(std::env::args_os().skip(1)));
    }
    match options.suite {
        Some(suite) => run_suite(suite, options),
        None if options.smoke => {
            Suite::value_variants().iter().try_for_each(|suite| run_suite(*suite, options))
        }
        None => run_suite(Suite::Decode, options),
    }
}

/// Runs a suite and prints the results.
fn run_suite(suite: Suite, options: &Options) -> Result<()> {
    let rows = match suite {
        Suite::Decode => decode::rows(&Effort::new(options.smoke))?,
        Suite::Relog => relog::rows(&Effort::new(options.smoke))?,
        Suite::Stacks => stacks::rows(&Effort::new(options.smoke))?,
        Suite::Symbols => symbols::rows(&Effort::new(options.smoke))?,
        Suite::Schemas => schemas::rows(&Effort::new(options.smoke))?,
        Suite::Tables => tables::rows(&Effort::new(options.smoke))?,
        Suite::Sql => sql::rows(&Effort::new(options.smoke))?,
        Suite::Threads => threads::rows(&Effort::new(options.smoke))?,
        Suite::Viewer => viewer::rows(&Effort::new(options.smoke))?,
        Suite::Write => write::rows(&Effort::new(options.smoke))?,
        Suite::Capi => capi::rows(&Effort::new(options.smoke))?,
        Suite::Session => session::rows(options.busy_seconds())?,
        Suite::Kernel => kernel::rows(&Effort::new(options.smoke), options.busy_seconds())?,
        Suite::Build => build::rows(options.smoke)?,
    };
    if options.json {
        row::print_json(&rows)
    } else {
        row::print_table(&rows)
    }
    Ok(())
}

/// Seconds to keep a session busy in a smoke run.
const SMOKE_SECONDS: f64 = 0.3;
