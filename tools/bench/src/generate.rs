//! Writes generated traces.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use etw_testkit::problems::Problem;
use etw_testkit::traces::{self, Kind, Recipe};

/// Options of `generate`.
#[derive(Args)]
pub(crate) struct Options {
    /// Kind of trace: mixed, compressed, switches, headers, errors, messages, system-time, cpu-cycles, circular, losses
    /// or unclosed; or one with a problem to find, which has no options: cpu-problem, disk-problem, lock-convoy or
    /// gc-problem.
    #[arg(long, default_value = "mixed")]
    kind: String,
    /// Number of events.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Number of processors that log events.
    #[arg(long, default_value_t = 8)]
    cpus: u16,
    /// Number of consecutive events per processor.
    #[arg(long, default_value_t = 1)]
    turn: u64,
    /// Buffer size in KiB.
    #[arg(long, default_value_t = 64)]
    buffer: u32,
    /// File to write.
    #[arg(long)]
    out: PathBuf,
}

/// Writes the trace.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(problem) = Problem::of_name(&options.kind) {
        return write_problem(problem, options);
    }
    let Some(kind) = Kind::of_name(&options.kind) else {
        let kinds = Kind::ALL.iter().map(|(name, _)| *name);
        let names: Vec<&str> = kinds.chain(Problem::ALL.iter().map(|(name, _)| *name)).collect();
        bail!("unknown kind; expected one of: {}", names.join(", "));
    };
    let buffer_size = options.buffer.saturating_mul(1024);
    let (processors, turn) = (options.cpus.max(1), options.turn);
    let recipe = Recipe { kind, events: options.events, processors, turn, buffer_size };
    let out = create(options)?;
    let summary = traces::write(BufWriter::with_capacity(1 << 20, out), &recipe)?;
    eprintln!(
        "{}: {} events from {} to {}, {} lost",
        options.out.display(),
        summary.events,
        summary.first,
        summary.last,
        summary.events_lost
    );
    Ok(())
}

/// Writes a trace with a problem to find.
fn write_problem(problem: Problem, options: &Options) -> Result<()> {
    let bytes = problem.bytes()?;
    create(options)?.write_all(&bytes)?;
    eprintln!("{}: {} bytes", options.out.display(), bytes.len());
    Ok(())
}

fn create(options: &Options) -> Result<File> {
    if let Some(directory) = options.out.parent() {
        fs::create_dir_all(directory)?;
    }
    File::create(&options.out).with_context(|| format!("cannot write {}", options.out.display()))
}
