//! `etw-sql`, which `etw sql` runs: SQL over event traces.
//!
//! - `inputs`, `opened`, `source`: the traces of the command line, and what is known of each; `remote` fetches those at URLs.
//! - `events`, `absent`, `rows`, `damage`, `catalog`: the tables, and how they are found by name. `condition` is what of a query they
//!   decide themselves; `scan` runs them in partitions; `reading` and `columns` read events for it.
//! - `bases`, `stacks`, `functions`, `stack_functions`, `views`: what queries have besides tables. `bounded` limits functions of
//!   the engine, `memory` and `pool` the process; `resources` and `temporary` are the memory and the files that all
//!   queries share.
//! - `fetch`: objects for other programs.
//! - `database`, `engine`, `error`, `output`, `shell`: statements, and their answers; `threads`, `once`: their number, and values
//!   that are made once.
//! - `cluster`: the same on several machines.

#![forbid(unsafe_code)]

mod absent;
mod bases;
mod bounded;
mod catalog;
mod cluster;
mod columns;
mod condition;
mod damage;
mod database;
mod engine;
mod error;
mod events;
mod fetch;
mod functions;
mod ignored;
mod inputs;
mod json;
mod memory;
mod once;
mod opened;
mod output;
mod pool;
mod reading;
mod remote;
mod resources;
mod rows;
mod scan;
mod shell;
mod source;
mod stack_functions;
mod stacks;
mod temporary;
mod threads;
mod views;

use std::io::{self, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use datafusion::arrow::error::ArrowError;
use etw_app::urls::is_url;
use etw_app::{UsageError, output as files};
use etw_export::PlainWriter;
use futures::StreamExt;

use cluster::{Client, Credentials, TraceArgs};
use database::{Allowed, Database, Omissions, Unreadable};
use engine::Engine;
use inputs::Words;
use output::{Answer, Format, Output};
use resources::Limits;
use threads::{STACK_BYTES, runtime, threads};
use tokio::runtime::Runtime;

const EXAMPLES: &str = "Examples:
  etw sql trace.etl 'select provider, count(*) from events group by provider order by 2 desc'
  etw sql trace.etl 'select sum(TransferSize) from \"DiskIo/Read\" where process_id = 4'
  etw sql trace.etl 'select * from slow_io order by duration_ns desc limit 20'
  etw sql old.etl AS before new.etl AS after 'select …'
  etw sql 'traces/*.etl' -f script.sql --format csv -o answer.csv
  etw sql trace.etl                              a shell; \\d lists the tables
  etw sql --cluster 127.0.0.1:7411 --token-file token '/traces/*.etl' 'select …'";

/// Ask questions about traces in SQL. Without a query, starts a shell, or reads statements from standard input.
///
/// Tables are `events`, one for each kind of events (`"Provider/Event"`), those that `etw tables` lists (its `events` is
/// `generic_events` here), and `damage`.
#[derive(Debug, Parser)]
#[command(name = "etw sql", bin_name = "etw sql", version, after_help = EXAMPLES)]
struct Args {
    /// Traces, directories, patterns and URLs, each with `AS name` if it is to be a schema of its own; and the query.
    #[arg(required = true, value_name = "FILE… [QUERY]")]
    words: Vec<String>,
    /// Run the statements of a file (`-` for standard input).
    #[arg(short = 'f', long = "file", value_name = "SCRIPT")]
    script: Option<PathBuf>,
    /// Format of answers; by default, that of the output's name, or a table.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write the answer to a file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Add the views of a file of CREATE VIEW statements; may be repeated.
    #[arg(long, value_name = "FILE")]
    views: Vec<PathBuf>,
    /// Allow statements that create tables, and COPY, which writes files.
    #[arg(long, conflicts_with = "cluster")]
    allow_write: bool,
    /// Keep the rights that reading traces of this machine does not need: to write elsewhere than to the output, beside the
    /// traces and to temporary files, to start programs and to connect.
    #[arg(long)]
    no_sandbox: bool,
    /// Fail if one trace cannot be read. Otherwise the others are read; the table `traces` and messages name those that
    /// cannot be, and the exit status is 3.
    #[arg(long)]
    strict: bool,
    /// Refuse statements other than queries, DESCRIBE, SHOW and EXPLAIN, as a cluster does; for those of others.
    #[arg(long, conflicts_with = "allow_write")]
    read_only: bool,
    #[command(flatten)]
    limits: Limits,
    /// Number of threads; one for each processor by default.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    traces: TraceArgs,
    /// Have a cluster answer (`etw cluster --help`); paths of traces are those that its machines see.
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
    /// Fetch the objects at these URLs for another program, tell it where they are, and keep them until it closes the standard
    /// input.
    #[arg(long = etw_app::urls::FETCH, hide = true)]
    fetch: bool,
}

fn main() -> ExitCode {
    etw_sys::keep_little_heap();
    etw_sys::exit_on_page_error(
        "etw sql: a trace was truncated while it was read, or the disk failed; copy the file and read the copy\n",
    );
    // `etw cluster` runs this program with its name as the first word.
    let is_cluster = std::env::args_os().nth(1).is_some_and(|word| word == "cluster");
    let (name, done, is_binary) = match is_cluster {
        true => {
            let run = || cluster::run(std::env::args_os().skip(1)).map(|()| 0);
            ("etw cluster", on_large_stack(run), false)
        }
        false => {
            let args = Args::parse();
            ("etw sql", run(&args), args.format.is_some_and(Format::is_binary))
        }
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let text = files::with_causes(&error);
            // Programs read one line.
            let text = if is_binary { text.lines().next().unwrap_or_default() } else { &text };
            // A closed standard error is ignored.
            let _ = writeln!(PlainWriter::new(io::stderr()), "{name}: {text}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

/// Exit status if some traces cannot be read, so that the answers are without their rows.
const TRACES_MISSING: u8 = 3;

/// Runs the command, and returns its exit status.
fn run(args: &Args) -> Result<u8> {
    if args.fetch {
        return fetch::run(&args.words, args.limits.temp_dir()).map(|()| 0);
    }
    let (traces, query) = inputs::split(&args.words, args.script.is_some())?;
    if traces.is_empty() {
        return Err(UsageError("no trace; name one before the query".to_owned()).into());
    }
    let path = args.output.as_deref();
    let format = match (args.format, path) {
        (Some(format), _) => format,
        (None, Some(path)) => Format::of_path(path)?.unwrap_or(Format::Table),
        (None, None) => Format::Table,
    };
    if format.is_binary() && files::is_terminal(path) {
        return Err(UsageError("this format is no text; name a file with -o".to_owned()).into());
    }
    let reads_only = query.is_some() || args.script.is_some() || !io::stdin().is_terminal();
    let is_local = args.cluster.is_none() && !traces.iter().any(|(word, _)| is_url(Path::new(word)));
    if is_local && reads_only && !args.allow_write && !args.no_sandbox {
        let files: Vec<PathBuf> = traces.iter().map(|(word, _)| PathBuf::from(word)).collect();
        let mut places = args.traces.index().targets(&files);
        places.extend(path.into_iter().chain(args.limits.temp_dir()).map(Path::to_owned));
        etw_app::sandbox::enter(&places);
    }
    let runtime = runtime(args.threads)?;
    on_large_stack(move || {
        let done = answer(args, traces, query, format, &runtime);
        // Threads that read traces are not waited for.
        runtime.shutdown_background();
        done
    })
}

fn answer(
    args: &Args,
    traces: Words,
    query: Option<String>,
    format: Format,
    runtime: &Runtime,
) -> Result<u8> {
    let engine = match &args.cluster {
        Some(address) => Engine::Cluster(runtime.block_on(connect(args, address, traces))?),
        None => Engine::Here(runtime.block_on(open(args, &traces))?),
    };
    let sql = match (query, &args.script) {
        (Some(query), _) => query,
        (None, Some(path)) if path.as_os_str() != "-" => {
            std::fs::read_to_string(path).with_context(|| path.display().to_string())?
        }
        (None, None) if io::stdin().is_terminal() => {
            report(&engine);
            return shell::run(&engine, runtime).map(|()| 0);
        }
        _ => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("standard input")?;
            text
        }
    };
    let mut out = Output::open(args.output.as_deref(), format)?;
    // Streams follow each other in a pipe, but who opens a file reads the first one.
    let has_one = format == Format::Parquet || format == Format::Arrow && matches!(out, Output::File(..));
    runtime.block_on(run_script(&engine, &sql, format, has_one, &mut out))?;
    out.finish()?;
    Ok(report(&engine))
}

/// Opens traces in this process.
async fn open(args: &Args, traces: &Words) -> Result<Database> {
    let options = database::Options {
        resources: args.limits.resources()?,
        threads: threads(args.threads),
        allowed: match (args.read_only, args.allow_write) {
            (true, _) => Allowed::Reading,
            (_, true) => Allowed::All,
            _ => Allowed::Settings,
        },
        strict: args.strict,
        cluster: None,
    };
    let files = Arc::new(args.limits.files(args.traces.options()?));
    let inputs = inputs::expand(traces, &files)?;
    let mut database = Database::open(inputs, &files, &options).await?;
    for path in &args.views {
        database.add_views(&path.display().to_string(), &read_views(path)?).await;
    }
    Ok(database)
}

/// Connects with a cluster, which opens the traces itself.
async fn connect(args: &Args, address: &str, traces: Words) -> Result<Client> {
    if !args.traces.is_default() {
        let text = "options about symbols, schemas and the index belong to the scheduler and the executors";
        return Err(UsageError(text.to_owned()).into());
    }
    let absolute = |(word, name): (String, Option<String>)| {
        if is_url(Path::new(&word)) {
            return Ok((word, name));
        }
        let path = std::path::absolute(&word).with_context(|| word.clone())?;
        Ok((path.to_str().with_context(|| format!("{} is not text", path.display()))?.to_owned(), name))
    };
    let traces = traces.into_iter().map(absolute).collect::<Result<_>>()?;
    let views = args.views.iter().map(|path| Ok((path.display().to_string(), read_views(path)?)));
    let views = views.collect::<Result<_>>()?;
    Client::connect(&args.credentials.read()?, address, traces, views, args.strict).await
}

fn read_views(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Runs work on a thread with a large stack.
fn on_large_stack(work: impl FnOnce() -> Result<u8> + Send) -> Result<u8> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sql".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work).context("cannot start a thread")?;
        // A thread that panicked has printed why.
        thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the query failed")))
    })
}

/// Runs statements in order and writes their answers; with `has_one`, a second answer is an error.
///
/// # Errors
///
/// Fails with the first statement that fails, or if the output cannot be written.
async fn run_script(
    engine: &Engine,
    sql: &str,
    format: Format,
    has_one: bool,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let mut answers = 0;
    for (number, statement) in database::parsed(sql)?.into_iter().enumerate() {
        let (schema, mut rows) = engine.answer(statement, number, sql).await?;
        // Statements such as SET have no answer.
        if schema.fields().is_empty() {
            while let Some(batch) = rows.next().await {
                batch?;
            }
            continue;
        }
        answers += 1;
        if answers > 1 && has_one {
            let text = "a file of this format has one answer; write those of other statements to other files";
            return Err(UsageError(text.to_owned()).into());
        }
        let mut answer = Answer::new(format, &schema, &mut *out)?;
        while let Some(batch) = rows.next().await {
            answer.put(&batch?)?;
        }
        answer.finish()?;
    }
    Ok(())
}

/// Says on standard error what is missing, and returns the exit status.
fn report(engine: &Engine) -> u8 {
    let Omissions { damage, unreadable, notes } = engine.omissions();
    for (name, count) in damage {
        files::warn(&format_args!(
            "{name}: {count} damaged places; the rows are those of the intact events (select * from damage)"
        ));
    }
    notes.iter().for_each(|note| files::warn(note));
    for Unreadable { name, error } in &unreadable {
        files::warn(&format_args!("{name} cannot be read, so its rows are missing: {error}"));
    }
    if unreadable.is_empty() { 0 } else { TRACES_MISSING }
}

/// Whether an error is that the reader of the output has gone, which is no error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_of = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(is_of)
            || matches!(cause.downcast_ref::<ArrowError>(), Some(ArrowError::IoError(_, error)) if is_of(error))
    })
}
