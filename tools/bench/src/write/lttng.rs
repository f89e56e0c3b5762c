//! LTTng-UST's side of the write bench, run by `bench/peers/lttng/run.sh`.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use shell::{output, root, run, succeeds, target_dir};

/// What LTTng-UST is called in rows.
pub(crate) const NAME: &str = "LTTng-UST";

/// Destination of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They stay in memory, the oldest overwritten.
    Overwrite,
    /// They are written to files.
    File,
    /// No session has enabled them.
    Disabled,
}

/// Contents of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A `u32`, a `u64` and a `u32`.
    Integers,
    /// A `u32` and a string of 32 bytes.
    Text,
}

/// Output of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// Nanoseconds an event, one value a round.
    pub(crate) nanos: Vec<f64>,
    /// Events that LTTng-UST discarded.
    pub(crate) lost: u64,
}

impl Measured {
    /// Adds what another run measured.
    pub(crate) fn add(&mut self, other: Measured) {
        self.nanos.extend(other.nanos);
        self.lost += other.lost;
    }
}

/// What is missing to run LTTng-UST, once installing it was tried; `None` if it runs.
pub(crate) fn missing() -> Option<&'static str> {
    let is_there = || succeeds(Command::new("lttng").arg("--version"));
    if !is_there() {
        let script = ". scripts/install.sh; need_lttng";
        let _ = run(Command::new("sh").args(["-c", script, "./test.sh"]).current_dir(root()));
    }
    if is_there() { None } else { Some("LTTng-UST is missing: apt-get install lttng-tools liblttng-ust-dev") }
}

/// Writes events with LTTng-UST.
pub(crate) fn write(mode: Mode, kind: Kind, threads: usize, events: u64, rounds: usize) -> Result<Measured> {
    let mode = match mode {
        Mode::Overwrite => "overwrite",
        Mode::File => "file",
        Mode::Disabled => "disabled",
    };
    let kind = if kind == Kind::Integers { "integers" } else { "text" };
    let directory = target_dir().join("peers/lttng");
    std::fs::create_dir_all(&directory)?;
    let mut command = Command::new(root().join("bench/peers/lttng/run.sh"));
    command.arg(std::path::absolute(directory)?).args([mode, kind]);
    command.args([threads.to_string(), events.to_string(), rounds.to_string()]);
    let text = output(&mut command)?;
    let mut measured = Measured::default();
    for line in text.lines() {
        match line.strip_prefix("lost ") {
            Some(lost) => measured.lost = lost.parse().with_context(|| format!("LTTng-UST lost {lost}?"))?,
            None => measured.nanos.push(line.parse().with_context(|| format!("no number: {line}"))?),
        }
    }
    // Its own count overflows at times.
    if measured.lost > events * threads as u64 * (rounds as u64 + 1) {
        eprintln!("LTTng-UST counts {} events lost, more than were written", measured.lost);
        measured.lost = 0;
    }
    ensure!(measured.nanos.len() == rounds, "LTTng-UST measured {} rounds of {rounds}", measured.nanos.len());
    Ok(measured)
}
