//! The tables suite: making and opening an index, pivots over it, ranges of time, and the memory of reports.

use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use etw_testkit::traces::{self, Kind, Recipe};
use openetw::tables::{Aggregate, IndexHome, IndexPlace, Pivot, TraceIndex};

use super::memory::peak_mib;
use super::packaged::packaged_etw;
use super::row::Row;
use super::{Effort, median};
use peers::{Peer, python};
use shell::process::{HOUR, Process};
use shell::{output, root};

/// The trace has this many times the events of other suites: 50 million, or 11 GB.
const LARGER: u64 = 100;
/// The compressed trace has this part of the events.
const PART: u64 = 8;

/// Measures all on generated traces, which are removed afterwards.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let etw = packaged_etw(effort)?;
    // Too large for memory.
    let directory = tempfile::Builder::new().prefix("openetw-tables-").tempdir_in(shell::target_dir())?;
    let events = effort.events * if effort.is_smoke() { 1 } else { LARGER };
    let mut rows = vec![compressed(&etw, directory.path(), (events / PART).max(1))?];
    let file = directory.path().join("plain.etl");
    generate(&file, events)?;
    let gigabytes = fs::metadata(&file)?.len() as f64 / 1e9;
    let seconds = index(&etw, &file)?;
    rows.push(Row::new(format!("index of a trace of {gigabytes:.1} GB: made"), seconds / gigabytes, "s/GB"));
    let duckdb = duckdb(effort, &etw, &file)?;
    rows.extend(opened(effort, &file, duckdb)?);
    rows.extend(ranges(effort, &etw, &file)?);
    for (what, arguments) in [
        ("report", &["report"][..]),
        ("report of a table with an index", &["report", "--table", "events", "--group-by", "kind"][..]),
    ] {
        let mut command = Command::new(&etw);
        let peak = peak_mib(command.args(arguments).arg(&file))?;
        rows.push(Row::new(format!("{what}: peak memory without mapped files"), peak, "MiB"));
    }
    Ok(rows)
}

fn generate(file: &Path, events: u64) -> Result<()> {
    traces::write(BufWriter::new(File::create(file)?), &Recipe::new(Kind::Recording, events))?;
    Ok(())
}

/// Makes the index of a trace. Returns the seconds.
fn index(etw: &Path, file: &Path) -> Result<f64> {
    let start = Instant::now();
    run(etw, &["index", "--force"], file)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Measures the index of a compressed trace, by the size of what is in it.
fn compressed(etw: &Path, directory: &Path, events: u64) -> Result<Row> {
    let (plain, file) = (directory.join("plain.etl"), directory.join("compressed.etl"));
    generate(&plain, events)?;
    let output = file.to_str().context("the path is not text")?;
    run(etw, &["relog", "--compress", "--output", output], &plain)?;
    let size = |file: &Path| Ok::<_, std::io::Error>(fs::metadata(file)?.len() as f64);
    let (gigabytes, ratio) = (size(&plain)? / 1e9, size(&plain)? / size(&file)?);
    let seconds = index(etw, &file)?;
    fs::remove_file(&plain)?;
    fs::remove_file(&file)?;
    let name = format!("index of {gigabytes:.1} GB, compressed {ratio:.0} times: made");
    Ok(Row::new(name, seconds / gigabytes, "s/GB"))
}

/// Returns the seconds that DuckDB takes for the same pivot over the exported table, on one thread and on two, if it is
/// installed.
fn duckdb(effort: &Effort, etw: &Path, file: &Path) -> Result<Option<[f64; 2]>> {
    if let Some(missing) = Peer::missing() {
        eprintln!("without DuckDB: {missing}");
        return Ok(None);
    }
    let table = file.with_file_name("events.parquet");
    let path = table.to_str().context("the path is not text")?;
    run(etw, &["export", "--table", "events", "--output", path], file)?;
    let mut command = Command::new(python());
    command.arg(root().join("bench/peers/pivot_seconds.py")).arg(&table);
    let text = output(command.args(["kind", "size", &effort.rounds.to_string()]))?;
    fs::remove_file(&table)?;
    let answer: serde_json::Value = serde_json::from_str(&text)?;
    let second = |of: usize| answer["seconds"][of].as_f64().context("DuckDB has no time");
    Ok(Some([second(0)?, second(1)?]))
}

/// Measures opening, size, and the first level of a pivot on one thread and on two, beside DuckDB's seconds for it.
fn opened(effort: &Effort, file: &Path, duckdb: Option<[f64; 2]>) -> Result<Vec<Row>> {
    let mut seconds = Vec::new();
    let mut index: Option<TraceIndex> = None;
    for _ in 0..effort.rounds {
        drop(index.take());
        let start = Instant::now();
        let place = IndexPlace::new(&[file.to_owned()], &IndexHome::Beside, "")?;
        // Names of functions do not matter.
        index = place.open_for_times(&mut Vec::new());
        seconds.push(start.elapsed().as_secs_f64());
    }
    let index = index.context("the index does not serve")?;
    let events = index.index().table("events").context("no table of events")?;
    let column = |name: &str| events.schema().column(name).context("events have this column");
    let pivot = Pivot::new([column("kind")?], [Aggregate::Sum(column("size")?)]);
    // The first run verifies the chunks.
    pivot.run(events, 2)?;
    let time = |threads: usize| -> Result<f64> {
        let mut seconds = Vec::new();
        for _ in 0..effort.rounds {
            let start = Instant::now();
            ensure!(!pivot.run(events, threads)?.groups.is_empty(), "no groups");
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(median(&mut seconds))
    };
    let (one, two) = (time(1)?, time(2)?);
    let millions = events.rows() as f64 / 1e6;
    let bytes = index.index().len_bytes() as f64 / events.rows().max(1) as f64;
    let name = |threads: &str| format!("first level of a pivot over {millions:.1} M rows on {threads}");
    let beside = |row: Row, peer: usize| Row {
        peer: duckdb.map(|seconds| ("DuckDB over Parquet", seconds[peer])),
        ..row
    };
    Ok(vec![
        Row::new("index opened again", median(&mut seconds) * 1e3, "ms"),
        Row::new("index: bytes an event", bytes, "bytes"),
        beside(Row::new(name("one thread"), one, "s"), 0),
        beside(Row::new(name("two threads"), two, "s"), 1),
        Row::new("the same pivot: speed of two threads by that of one", one / two, "times"),
    ])
}

/// Measures the time to the first event of one hundredth of a trace, with and without the index.
fn ranges(effort: &Effort, etw: &Path, file: &Path) -> Result<Vec<Row>> {
    let trace = openetw::Trace::open_file(file)?;
    let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
    let length = end.0.saturating_sub(trace.start_time().0) as f64 / 1e7;
    drop(trace);
    let (from, to) = (format!("{:.6}", length * 0.5), format!("{:.6}", length * 0.51));
    let first = |more: &[&str]| -> Result<f64> {
        let start = Instant::now();
        let mut command = Command::new(etw);
        command.args(["dump", "--from", &from, "--to", &to]).args(more).arg(file);
        command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start etw")?;
        let mut byte = [0];
        let read = child.stdout.take().context("no output")?.read(&mut byte);
        let seconds = start.elapsed().as_secs_f64();
        // The pipe is closed, so it ends soon.
        child.wait()?;
        ensure!(read? == 1, "no event in the range");
        Ok(seconds)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        with.push(first(&[])? * 1e3);
        without.push(first(&["--no-index"])? * 1e3);
    }
    let row = Row::new("dump of 1 % of the time: first event", median(&mut with), "ms");
    Ok(vec![Row { peer: Some(("without an index", median(&mut without))), ..row }])
}

fn run(etw: &Path, arguments: &[&str], file: &Path) -> Result<()> {
    let mut command = Command::new(etw);
    command.args(arguments).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    let status = Process::spawn(&mut command, HOUR)?.wait()?;
    ensure!(status.success(), "etw {} failed: {status}", arguments.join(" "));
    Ok(())
}
