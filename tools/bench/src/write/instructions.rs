//! How many instructions an event takes, counted by running its writer step by step.

use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use super::lttng::{Kind, Mode};
use super::ours::{self, BENCH, Form, Session};
use super::{Effort, Row};
use shell::{output, root, succeeds};

/// Events that are counted together.
const EVENTS: u64 = 200;
/// The same if the bench only has to run: a step takes as long as thousands of instructions.
const EVENTS_OF_SMOKE: u64 = 5;

/// The writer, a separate process.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Events that are counted together.
    #[arg(long, default_value_t = EVENTS)]
    events: u64,
    /// No session has enabled the events.
    #[arg(long)]
    disabled: bool,
    /// The events describe themselves.
    #[arg(long)]
    described: bool,
    /// An integer and a text in place of three integers.
    #[arg(long)]
    text: bool,
    /// The events come by `tracing` and our layer.
    #[arg(long)]
    tracing: bool,
}

/// Writes events between two calls that the counter recognizes.
pub(crate) fn run(options: &Options) -> Result<()> {
    let session = (!options.disabled).then(|| Session::start(Mode::Overwrite)).transpose()?;
    BENCH.register();
    let count = |write: &dyn Fn(u64)| {
        // What is done once is done.
        (0..options.events).for_each(write);
        std::thread::yield_now();
        (0..options.events).for_each(write);
        std::thread::yield_now();
    };
    if options.tracing {
        super::tracing::in_layer(|| count(&super::tracing::one));
        session.map_or(Ok(0), Session::stop)?;
        return Ok(());
    }
    match (options.described, options.text) {
        (false, false) => count(&|value| ours::one(Form::Id, Kind::Integers, value)),
        (false, true) => count(&|value| ours::one(Form::Id, Kind::Text, value)),
        (true, false) => count(&|value| ours::one(Form::Described, Kind::Integers, value)),
        (true, true) => count(&|value| ours::one(Form::Described, Kind::Text, value)),
    }
    session.map_or(Ok(0), Session::stop)?;
    Ok(())
}

/// Counts; no rows where it cannot be done.
pub(super) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    if !succeeds(Command::new("python3").arg("--version")) || !cfg!(target_arch = "x86_64") {
        eprintln!("without counts of instructions: python3 on x86-64 is needed");
        return Ok(Vec::new());
    }
    let events = if effort.is_smoke() { EVENTS_OF_SMOKE } else { EVENTS };
    let mut rows = Vec::new();
    for (name, arguments) in [
        ("disabled: three integers", &["--disabled"][..]),
        ("flight recorder: three integers", &[]),
        ("flight recorder: three integers, self-describing", &["--described"]),
        ("flight recorder: integer and 32 bytes", &["--text"]),
        ("flight recorder: integer and 32 bytes, self-describing", &["--text", "--described"]),
        ("flight recorder: three integers by the tracing crate and our layer", &["--tracing"]),
    ] {
        let mut command = Command::new("python3");
        command.arg(root().join("bench/instructions.py")).arg(std::env::current_exe()?);
        command.args(["part", "count", "--events", &events.to_string()]);
        let text = output(command.args(arguments))?;
        let count: f64 =
            text.lines().next().unwrap_or_default().parse().context("no count of instructions")?;
        rows.push(Row::new(name, (count / events as f64).round(), "instructions"));
    }
    Ok(rows)
}
