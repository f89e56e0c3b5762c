//! The SQL suite: scans, ranges of time and groups by stack with `etw-sql`, beside DuckDB over our Parquet and JSON, and
//! clusters of different sizes.

mod cluster;

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use etw_testkit::reference;
use etw_testkit::traces::{self, Kind, Recipe, START};
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, Ticks};

use super::memory::peak_mib;
use super::packaged::packaged_etw;
use super::row::Row;
use super::{Effort, median, stacks};
use peers::{Peer, python};
use shell::process::{HOUR, Process};
use shell::{cargo, output, root, target_dir};

/// The traces have this many times the events of other suites.
const SCANNED: u64 = 20;
const SAMPLED: u64 = 10;
/// About 9 GB, so that a query takes seconds.
const CLUSTERED: u64 = 80;
/// About 8 GB.
const LARGE: u64 = 75;
/// DuckDB reads this part of the events as JSON.
const JSON_PART: u64 = 20;
/// Processes in the trace; a filter keeps one of them.
const PROCESSES: u64 = 100;
const KIND: &str = "Microsoft-Windows-Kernel-File/Create";
/// The tables of a trace.
const TABLES: &str = "select table_name from information_schema.tables";

/// Measures all on generated traces, which are removed afterwards.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let bench = Bench { effort, etw: packaged_etw(effort)?, sql: program(effort)? };
    let directory = tempfile::Builder::new().prefix("openetw-sql-").tempdir_in(target_dir())?;
    let times = if effort.is_smoke() { [1; 4] } else { [SCANNED, SAMPLED, CLUSTERED, LARGE] };
    let mut rows = bench.scans(directory.path(), effort.events * times[0])?;
    rows.extend(bench.samples(directory.path(), effort.events * times[1])?);
    rows.extend(bench.clusters(directory.path(), effort.events * times[2])?);
    rows.extend(bench.sorts(directory.path(), effort.events * times[1])?);
    rows.push(bench.memory(directory.path(), effort.events * times[3])?);
    Ok(rows)
}

/// Returns `etw-sql` in its release profile, or the one beside this program if the bench only has to run.
fn program(effort: &Effort) -> Result<PathBuf> {
    if effort.is_smoke() {
        let program = std::env::current_exe()?.with_file_name("etw-sql");
        ensure!(program.is_file(), "{} is not built: cargo xtask sql", program.display());
        return Ok(program);
    }
    let mut build = cargo(["build", "--release", "--locked", "--bin", "etw-sql"]);
    build.current_dir(root().join("sql")).env("CARGO_TARGET_DIR", std::path::absolute(target_dir())?);
    shell::run(&mut build)?;
    Ok(target_dir().join("release/etw-sql"))
}

struct Bench<'e> {
    effort: &'e Effort,
    etw: PathBuf,
    sql: PathBuf,
}

impl Bench<'_> {
    /// Measures scans of one kind of events, and a range of time.
    fn scans(&self, directory: &Path, events: u64) -> Result<Vec<Row>> {
        let file = directory.join("files.etl");
        write_files(&file, events)?;
        run(&self.etw, &["index", "--force", text(&file)?])?;
        let millions = events as f64 / 1e6;
        let gigabytes = fs::metadata(&file)?.len() as f64 / 1e9;
        let field = "CreateOptions";
        let all = self.seconds(&file, &format!("select sum({field}) from \"{KIND}\""))?;
        let one =
            self.seconds(&file, &format!("select sum({field}) from \"{KIND}\" where process_id = 4"))?;
        let peers = self.duckdb(directory, &file, events, field)?;
        let from = START.0 + events as i64 / 2;
        let range = format!(
            "select count(*), min(provider) from events where time >= '{}' and time < '{}'",
            openetw::FileTime(from),
            openetw::FileTime(from + events as i64 / 100)
        );
        let range = self.seconds(&file, &range)?;
        let name =
            |what: &str| format!("sum of a field of {millions:.0} M events ({gigabytes:.1} GB), {what}");
        let rows = vec![
            Row {
                peer: peers.map(|[parquet, _]| ("DuckDB over Parquet", millions / parquet)),
                ..Row::new(name("all"), millions / all, "M events/s")
            },
            Row {
                peer: peers.map(|[_, json]| ("DuckDB over our JSON", millions / JSON_PART as f64 / json)),
                ..Row::new(name("of one process of a hundred"), millions / one, "M events/s")
            },
            Row::new("1 % of the time of the same trace, with its index", range * 1e3, "ms"),
        ];
        fs::remove_file(&file)?;
        Ok(rows)
    }

    /// Measures groups by stack.
    fn samples(&self, directory: &Path, events: u64) -> Result<Vec<Row>> {
        let file = directory.join("samples.etl");
        fs::write(&file, stacks::trace(events)?)?;
        run(&self.etw, &["index", "--force", text(&file)?])?;
        let query =
            "select stack, count(*), sum(weight) from cpu_sampled group by stack order by 2 desc limit 10";
        let seconds = self.seconds(&file, query)?;
        let name = format!("group by stack over {:.1} M samples, with an index", events as f64 / 1e6);
        Ok(vec![Row::new(name, seconds, "s")])
    }

    /// Measures the memory of all queries that are compared with DuckDB, on one large trace, and returns the greatest.
    fn memory(&self, directory: &Path, events: u64) -> Result<Row> {
        let file = directory.join("large.etl");
        traces::write(BufWriter::new(File::create(&file)?), &Recipe::new(Kind::Recording, events))?;
        run(&self.etw, &["index", "--force", text(&file)?])?;
        let gigabytes = fs::metadata(&file)?.len() as f64 / 1e9;
        let queries = fs::read_to_string(root().join("sql/tests/queries.sql"))?;
        let known = output(Command::new(&self.sql).args([text(&file)?, TABLES, "--format", "csv"]))?;
        let (mut peak, mut count) = ((0.0, String::new()), 0);
        // The comment at the start has no number.
        for query in queries.split("\n-- ").filter(|part| part.starts_with(|one: char| one.is_ascii_digit()))
        {
            let (title, query) = query.split_once('\n').context("a query without a text")?;
            // Kinds of events of other traces.
            if query
                .split('"')
                .any(|name| name.contains('/') && !known.lines().any(|line| line.contains(name)))
            {
                continue;
            }
            let start = Instant::now();
            let mib = peak_mib(Command::new(&self.sql).args([text(&file)?, query]))?;
            eprintln!("query {title}: {mib:.0} MiB, {:.1} s", start.elapsed().as_secs_f64());
            count += 1;
            if mib > peak.0 {
                peak = (mib, title.to_owned());
            }
        }
        fs::remove_file(&file)?;
        let name = format!(
            "{count} queries on a trace of {gigabytes:.1} GB: greatest memory without mapped files, of query {}",
            peak.1
        );
        Ok(Row::new(name, peak.0, "MiB"))
    }

    /// Measures the memory of a sort of far more than it may have.
    fn sorts(&self, directory: &Path, events: u64) -> Result<Vec<Row>> {
        let file = directory.join("sorted.etl");
        traces::write(BufWriter::new(File::create(&file)?), &Recipe::new(Kind::Mixed, events))?;
        let millions = events as f64 / 1e6;
        let mut rows = Vec::new();
        for memory in ["512", "64"] {
            let query = "select payload, time from events order by payload, time";
            let mut command = Command::new(&self.sql);
            command.args([text(&file)?, query, "--no-index", "--format", "csv", "--memory", memory]);
            let name = format!(
                "sort of {millions} M events by their payload with --memory {memory}: greatest memory without mapped files"
            );
            rows.push(Row::new(name, peak_mib(&mut command)?, "MiB"));
        }
        fs::remove_file(&file)?;
        Ok(rows)
    }

    /// Returns the seconds of a query, with the start of the program.
    fn seconds(&self, file: &Path, query: &str) -> Result<f64> {
        let mut seconds = Vec::new();
        for _ in 0..self.effort.rounds {
            let start = Instant::now();
            run(&self.sql, &[text(file)?, query])?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(median(&mut seconds))
    }

    /// Returns the seconds of DuckDB for the same sum over Parquet, and over JSON of a part of the events.
    fn duckdb(&self, directory: &Path, file: &Path, events: u64, field: &str) -> Result<Option<[f64; 2]>> {
        if let Some(missing) = Peer::missing() {
            eprintln!("without DuckDB: {missing}");
            return Ok(None);
        }
        let (parquet, json) = (directory.join("kind.parquet"), directory.join("events.ndjson"));
        run(&self.etw, &["export", "--table", KIND, "--output", text(&parquet)?, text(file)?])?;
        let limit = (events / JSON_PART).max(1).to_string();
        run(&self.etw, &["export", "--limit", &limit, "--output", text(&json)?, text(file)?])?;
        let seconds = |sql: String| -> Result<f64> {
            let mut command = Command::new(python());
            command.arg(root().join("bench/peers/query_seconds.py")).arg(sql);
            let text = output(command.arg(self.effort.rounds.to_string()))?;
            text.trim().parse().with_context(|| format!("no number: {text}"))
        };
        let answer = [
            seconds(format!("select sum({field}) from '{}'", parquet.display()))?,
            seconds(format!("select sum(EventData.{field}::bigint) from read_json('{}')", json.display()))?,
        ];
        fs::remove_file(&parquet)?;
        fs::remove_file(&json)?;
        Ok(Some(answer))
    }
}

/// Writes a trace of opened files, 10 million a second, by a hundred processes on eight processors.
fn write_files(file: &Path, events: u64) -> Result<()> {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 10_000_000);
    let out = BufWriter::new(File::create(file)?);
    let mut writer = EtlWriter::new(out, WriterOptions::new(clock, 64 << 10, 8))?;
    let create = reference::events().into_iter().find(|event| event.provider == reference::KERNEL_FILE);
    let mut record = create.context("there is a reference event of files")?.record;
    for number in 0..events {
        // The process and the time in the header.
        record[0x0C..0x10].copy_from_slice(&(number as u32 % PROCESSES as u32).to_le_bytes());
        record[0x10..0x18].copy_from_slice(&number.to_le_bytes());
        writer.write((number % 8) as u16, &record)?;
    }
    writer.finish(openetw::FileTime(START.0 + events as i64))?;
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not text")
}

fn run(program: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let status = Process::spawn(&mut command, HOUR)?.wait()?;
    ensure!(status.success(), "{} failed: {status}", shell::text(&command));
    Ok(())
}
