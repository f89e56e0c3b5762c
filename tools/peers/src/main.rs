//! Comparison with independent readers: dissect.etl and etl-parser must read our traces with the same counts, times,
//! header fields and events, python-evtx our event logs, other programs our exports, and DuckDB must count the rows of
//! our tables as our pivots do, and answer queries as `etw-sql` does.

#![forbid(unsafe_code)]

mod event_logs;
mod exports;
mod kernel;
mod pivots;
mod queries;
mod sessions;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use etw_testkit::traces::{self as generated, Kind, Recipe};
use openetw::Ticks;
use openetw::etl::{EtlFile, LogFileHeader, Records};
use serde_json::Value;

use peers::Peer;
use shell::lanes::each;
use shell::{is_ci, target_dir};

/// Number of events per trace; enough for several buffers per processor.
const EVENTS: u64 = 3000;

/// Skipped comparisons, with the limits of the peers.
const LIMITS: &[(Peer, Kind, &str)] = &[
    (Peer::EtlParser, Kind::Compressed, "it knows no compressed buffers"),
    (Peer::EtlParser, Kind::Headers, "it knows no INSTANCE records"),
    (Peer::EtlParser, Kind::Errors, "it knows no ERROR records"),
    (Peer::Dissect, Kind::Errors, "it counts ERROR records, but does not read their headers"),
    (Peer::EtlParser, Kind::Messages, "it knows one form of messages only, without time and sequence number"),
    (Peer::Dissect, Kind::Unclosed, "it trusts the number of buffers, which an unclosed file does not have"),
];

/// Compare our output with the results of independent readers.
#[derive(Parser)]
#[command(name = "cargo xtask peers")]
struct Options {
    /// Run only this comparison.
    #[arg(long)]
    only: Option<Part>,
    /// Compare the answers to queries on all real traces, instead of those with many kinds of tables.
    #[arg(long)]
    all: bool,
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Readers of trace files.
    Traces,
    /// Readers of Windows event logs.
    EventLogs,
    /// Readers of exported files.
    Exports,
    /// DuckDB over exported tables.
    Pivots,
    /// Traces of sessions of every mode.
    Sessions,
    /// Traces of the kernel.
    Kernel,
    /// DuckDB's answers to the queries of `etw-sql`.
    Queries,
}

fn main() -> ExitCode {
    shell::finish(run(&Options::parse()))
}

/// Runs the comparisons that are asked for; skipped, with the reason, if the peers are not installed.
fn run(options: &Options) -> Result<()> {
    match Peer::missing() {
        Some(missing) if is_ci() => bail!("{missing}"),
        Some(missing) => {
            eprintln!("skipped: {missing}");
            return Ok(());
        }
        None => {}
    }
    let directory = target_dir().join("peers");
    fs::create_dir_all(&directory)?;
    let parts = Part::value_variants().iter().filter(|part| options.only.is_none_or(|only| only == **part));
    // The peers use one processor each.
    let threads = available_parallelism().map_or(1, NonZero::get);
    let differences = each(parts, threads, |part| match part {
        Part::Traces => traces(&directory),
        Part::EventLogs => event_logs::compare(&directory.join("event_logs")),
        Part::Exports => exports::compare(&directory.join("exports")),
        Part::Pivots => pivots::compare(&directory.join("pivots")),
        Part::Sessions => sessions::compare(&directory.join("sessions")),
        Part::Kernel => kernel::compare(&directory.join("kernel")),
        Part::Queries => queries::compare(&directory.join("queries"), options.all),
    })?;
    let differences: usize = differences.into_iter().sum();
    if differences > 0 {
        bail!("{differences} differences from independent readers");
    }
    Ok(())
}

/// Compares readers of trace files; returns the number of differences.
fn traces(directory: &Path) -> Result<usize> {
    let mut differences = 0;
    for (name, kind) in Kind::ALL {
        let recipe = Recipe { processors: 3, buffer_size: 16_384, ..Recipe::new(*kind, EVENTS) };
        let (bytes, _) = generated::bytes(&recipe)?;
        let path = directory.join(format!("{name}.etl"));
        fs::write(&path, &bytes)?;
        let ours = Reading::parse(&bytes)?;
        for peer in Peer::ALL {
            let limit = LIMITS.iter().find(|(limited, of, _)| *limited == peer && of == kind);
            if let Some((_, _, reason)) = limit {
                eprintln!("{name}: {} is left out: {reason}", peer.name());
                continue;
            }
            let found =
                compare_one(&ours, peer, &path).with_context(|| format!("{name}: {}", peer.name()))?;
            for difference in &found {
                eprintln!("{name}: {} {difference}", peer.name());
            }
            if found.is_empty() {
                eprintln!("{name}: {} agrees", peer.name());
            }
            differences += found.len();
        }
    }
    Ok(differences)
}

/// Our results for a file.
struct Reading {
    header: LogFileHeader,
    /// Records of the first buffer, and of the others.
    counts: [u64; 2],
    /// First and last raw time of all records, and of those outside the first buffer.
    ticks: [(i64, i64); 2],
    /// First and last time of all records, as FILETIME.
    times: (i64, i64),
}

impl Reading {
    fn parse(bytes: &[u8]) -> Result<Reading> {
        let file = EtlFile::open(bytes)?;
        let mut reading = Reading {
            header: file.header().clone(),
            counts: [0; 2],
            ticks: [(i64::MAX, i64::MIN); 2],
            times: (0, 0),
        };
        let mut scratch = Vec::new();
        for (index, buffer) in file.buffers().enumerate() {
            let buffer = buffer?;
            let data = buffer.data(&mut scratch);
            let origin = buffer.origin(file.clock(), 0);
            for record in Records::new(data.bytes, &origin, buffer.place()) {
                let ticks = record?.raw_time().0;
                reading.counts[usize::from(index > 0)] += 1;
                let spans = &mut reading.ticks[..=usize::from(index > 0)];
                spans.iter_mut().for_each(|span| *span = (span.0.min(ticks), span.1.max(ticks)));
            }
        }
        let clock = file.clock();
        let (first, last) = reading.ticks[0];
        let time = |ticks| clock.to_filetime(Ticks(ticks)).0;
        reading.times = (time(first), time(last));
        Ok(reading)
    }
}

/// Returns the differences of a peer's results.
fn compare_one(ours: &Reading, peer: Peer, path: &Path) -> Result<Vec<String>> {
    let report = peer.read(path, &["--times"], None)?;
    let mut differences = Vec::new();
    let mut same = |what: &str, ours: i64, theirs: &Value| {
        if theirs.as_i64() != Some(ours) {
            differences.push(format!("has {what} {theirs}, we have {ours}"));
        }
    };
    // Only dissect.etl counts the records of the first buffer.
    let ([first_buffer, others], ticks) = (ours.counts, ours.ticks);
    let (count, (first, last)) = match peer {
        Peer::Dissect => (first_buffer + others, ticks[0]),
        Peer::EtlParser => (others, ticks[1]),
    };
    same("events", count as i64, &report["iterate"]["events"]);
    same("first raw time", first, &report["first_ticks"]);
    same("last raw time", last, &report["last_ticks"]);
    let header = &ours.header;
    let fields: [(&str, i64); 14] = [
        ("buffer_size", header.buffer_size.into()),
        ("number_of_processors", header.number_of_processors.into()),
        ("end_time", header.end_time.0),
        ("timer_resolution", header.timer_resolution.into()),
        ("log_file_mode", header.log_file_mode.0.into()),
        ("buffers_written", header.buffers_written.into()),
        ("pointer_size", header.pointer_size.into()),
        ("events_lost", header.events_lost.into()),
        ("cpu_speed_in_mhz", header.cpu_speed_in_mhz.into()),
        ("boot_time", header.boot_time.0),
        ("perf_freq", header.perf_freq),
        ("start_time", header.start_time.0),
        ("clock_type", header.reserved_flags.into()),
        ("buffers_lost", header.buffers_lost.into()),
    ];
    // A script leaves out what its reader does not read.
    for (name, value) in fields {
        match &report["header"][name] {
            Value::Null => {}
            theirs => same(name, value, theirs),
        }
    }
    if !report["first_time"].is_null() {
        // dissect.etl computes FILETIMEs in floating point, whose numbers of this size lie 16 apart.
        let close =
            |ours: i64, theirs: &Value| theirs.as_i64().is_some_and(|theirs| (theirs - ours).abs() <= 16);
        let (first, last) = ours.times;
        if !close(first, &report["first_time"]) || !close(last, &report["last_time"]) {
            let (their_first, their_last) = (&report["first_time"], &report["last_time"]);
            differences.push(format!("has times {their_first} to {their_last}, we have {first} to {last}"));
        }
    }
    if let Some(failures) = report["iterate"]["failures"].as_object().filter(|failures| !failures.is_empty())
    {
        differences.push(format!("fails: {failures:?}"));
    }
    Ok(differences)
}
