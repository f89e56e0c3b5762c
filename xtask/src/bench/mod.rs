//! Benches, which compare with other tools in the same run.

#[cfg(target_os = "linux")]
mod build;
#[cfg(target_os = "linux")]
mod capi;
mod decode;
mod effort;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod large_pdb;
#[cfg(target_os = "linux")]
mod memory;
mod packaged;
#[cfg(target_os = "linux")]
mod part;
mod peer;
mod relog;
mod row;
#[cfg(target_os = "linux")]
mod schemas;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod sql;
mod stacks;
#[cfg(target_os = "linux")]
mod symbols;
#[cfg(target_os = "linux")]
mod tables;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(target_os = "linux")]
mod viewer;
#[cfg(target_os = "linux")]
mod write;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::shell::{self, cargo};
use effort::{Effort, median};
use packaged::PROFILE;
#[cfg(target_os = "linux")]
pub(crate) use part::Part;
pub(crate) use peer::{Peer, python};
use row::Row;

/// Options of `bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// Suite to run.
    #[arg(default_value = "decode")]
    suite: Suite,
    /// Print a JSON list instead of a table.
    #[arg(long)]
    json: bool,
    /// Seconds to keep a session busy.
    #[cfg(target_os = "linux")]
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Only check that everything runs; the numbers are meaningless.
    #[arg(long)]
    smoke: bool,
}

#[cfg(target_os = "linux")]
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
    #[cfg(target_os = "linux")]
    Symbols,
    /// The built-in schemas of Windows' providers: opening, look-ups, search.
    #[cfg(target_os = "linux")]
    Schemas,
    /// Indexes of traces: making and opening them, pivots, ranges of time, memory.
    #[cfg(target_os = "linux")]
    Tables,
    /// Queries with `etw sql`, compared with DuckDB.
    #[cfg(target_os = "linux")]
    Sql,
    /// Commands that read a whole trace, on one processor and on two.
    #[cfg(target_os = "linux")]
    Threads,
    /// The viewer in a browser: the first picture of a large trace, tiles, pivots, frames, memory.
    #[cfg(target_os = "linux")]
    Viewer,
    /// Writing events, compared with LTTng-UST.
    #[cfg(target_os = "linux")]
    Write,
    /// Writing events from C, compared with the macro of Rust.
    #[cfg(target_os = "linux")]
    Capi,
    /// Whole sessions: throughput and latency.
    #[cfg(target_os = "linux")]
    Session,
    /// Tracing the kernel, compared with perf and ftrace.
    #[cfg(target_os = "linux")]
    Kernel,
    /// Compiling programs that depend on `openetw`.
    #[cfg(target_os = "linux")]
    Build,
}

/// Runs a suite and prints the results, in the profile of packages unless it only has to run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let is_packaged = std::env::current_exe()?.parent().is_some_and(|directory| directory.ends_with(PROFILE));
    if !options.smoke && !is_packaged {
        let mut same = cargo(["run", "--quiet", "--profile", PROFILE, "--package", "xtask", "--"]);
        return shell::run(same.args(std::env::args_os().skip(1)));
    }
    let rows = match options.suite {
        Suite::Decode => decode::rows(&Effort::new(options.smoke))?,
        Suite::Relog => relog::rows(&Effort::new(options.smoke))?,
        Suite::Stacks => stacks::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Symbols => symbols::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Schemas => schemas::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Tables => tables::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Sql => sql::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Threads => threads::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Viewer => viewer::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Write => write::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Capi => capi::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Session => session::rows(options.busy_seconds())?,
        #[cfg(target_os = "linux")]
        Suite::Kernel => kernel::rows(&Effort::new(options.smoke), options.busy_seconds())?,
        #[cfg(target_os = "linux")]
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
#[cfg(target_os = "linux")]
const SMOKE_SECONDS: f64 = 0.3;

/// Checks that the benches run.
pub(crate) fn smoke() -> Result<()> {
    for suite in Suite::value_variants() {
        run(&Options {
            suite: *suite,
            json: false,
            smoke: true,
            #[cfg(target_os = "linux")]
            seconds: SMOKE_SECONDS,
        })?;
    }
    Ok(())
}
