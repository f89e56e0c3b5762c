//! `etw-sql`, which `etw sql` runs: SQL over event traces.
//!
//! - `inputs`, `source`: the traces of the command line, and what is known of each.
//! - `events`, `rows`, `damage`, `catalog`: the tables, and how they are found by name. `condition` is what of a query they
//!   decide themselves; `scan` and `columns` read events for it.
//! - `bases`, `stacks`, `functions`, `views`: what queries have besides tables.
//! - `database`, `error`, `output`, `shell`: statements, and their answers.

#![forbid(unsafe_code)]

mod bases;
mod catalog;
mod columns;
mod condition;
mod damage;
mod database;
mod error;
mod events;
mod functions;
mod inputs;
mod output;
mod rows;
mod scan;
mod shell;
mod source;
mod stacks;
mod views;

use std::io::{self, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use datafusion::arrow::error::ArrowError;
use etw_app::index::IndexOptions;
use etw_app::schemas::{SchemaOptions, Schemas};
use etw_app::symbols::SymbolOptions;
use etw_app::{UsageError, output as files};
use futures::StreamExt;

use database::Database;
use output::{Answer, Format};
use source::OpenOptions;

const EXAMPLES: &str = "Examples:
  etw sql trace.etl 'select provider, count(*) from events group by provider order by 2 desc'
  etw sql trace.etl 'select sum(TransferSize) from \"DiskIo/Read\" where process_id = 4'
  etw sql trace.etl 'select * from slow_io order by duration_ns desc limit 20'
  etw sql old.etl AS before new.etl AS after 'select …'
  etw sql 'traces/*.etl' -f script.sql --format csv -o answer.csv
  etw sql trace.etl                              a shell; \\d lists the tables";

/// Ask questions about traces in SQL. Without a query, starts a shell, or reads statements from standard input.
///
/// Tables are `events`, one for each kind of events (`\"Provider/Event\"`), those that `etw tables` lists (its `events` is
/// `generic_events` here), and `damage`.
#[derive(Debug, Parser)]
#[command(name = "etw sql", bin_name = "etw sql", version, after_help = EXAMPLES)]
struct Args {
    /// Traces, directories and patterns, each with `AS name` if it is to be a schema of its own; and the query.
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
    #[arg(long)]
    allow_write: bool,
    /// Memory for sorting, grouping and joining, in MiB; beyond it, temporary files are used.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..))]
    memory: u32,
    /// Number of threads; one for each processor by default.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Look for symbols here first (`srv*DIR*URL`); may be repeated.
    #[arg(long, value_name = "PATH")]
    symbols: Vec<String>,
    /// Look for separate debug files of ELF files here; may be repeated.
    #[arg(long, value_name = "DIR")]
    debug_directory: Vec<PathBuf>,
    /// Files with schemas of events; may be repeated.
    #[arg(long, value_name = "FILE")]
    schema: Vec<PathBuf>,
    /// Neither use nor make an index.
    #[arg(long)]
    no_index: bool,
    /// Directory of the index, instead of that of the trace.
    #[arg(long, value_name = "DIR", conflicts_with = "no_index")]
    index_dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    etw_sys::exit_on_page_error(
        "etw sql: a trace was truncated while it was read, or the disk failed; copy the file and read the copy\n",
    );
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            // Programs read one line.
            let text = match args.format.is_some_and(Format::is_binary) {
                true => text.lines().next().unwrap_or_default(),
                false => &text,
            };
            // A closed standard error is ignored.
            let _ = writeln!(io::stderr(), "etw sql: {text}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let (inputs, query) = inputs::split(&args.words, args.script.is_some())?;
    if inputs.is_empty() {
        return Err(UsageError("no trace; name one before the query".to_owned()).into());
    }
    let path = args.output.as_deref();
    let of_name = path.and_then(|path| Format::of_name(path.to_str()?));
    let format = args.format.or(of_name).unwrap_or(Format::Table);
    if format.is_binary() && files::is_terminal(path) {
        return Err(UsageError("this format is no text; name a file with -o".to_owned()).into());
    }
    let schemas = SchemaOptions { files: args.schema.clone(), ..SchemaOptions::default() };
    let open = OpenOptions {
        schemas: Schemas::load(&schemas)?.sources(),
        symbols: SymbolOptions {
            paths: args.symbols.clone(),
            debug_directories: args.debug_directory.clone(),
        },
        index: IndexOptions { disabled: args.no_index, directory: args.index_dir.clone() },
    };
    let threads =
        args.threads.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let options = database::Options {
        memory_bytes: args.memory as usize * (1 << 20),
        threads,
        allow_write: args.allow_write,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        // Plans of long expressions are deep.
        .thread_stack_size(STACK_BYTES)
        .build()
        .context("cannot start threads")?;
    on_large_stack(move || {
        let database = runtime.block_on(Database::open(inputs, open, &options))?;
        for path in &args.views {
            runtime.block_on(database.add_views_of(path))?;
        }
        let sql = match (&query, &args.script) {
            (Some(query), _) => query.clone(),
            (None, Some(path)) if path.as_os_str() != "-" => {
                std::fs::read_to_string(path).with_context(|| path.display().to_string())?
            }
            (None, None) if io::stdin().is_terminal() => return shell::run(&database, &runtime),
            _ => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).context("standard input")?;
                text
            }
        };
        let mut out = files::open(path)?;
        runtime.block_on(run_script(&database, &sql, format, &mut *out))?;
        out.flush()?;
        report_damage(&database);
        Ok(())
    })
}

/// Size of the stacks of threads that plan statements.
const STACK_BYTES: usize = 64 << 20;

/// Runs work on a thread with a large stack.
fn on_large_stack(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sql".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work).context("cannot start a thread")?;
        // A thread that panicked has printed why.
        thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the query failed")))
    })
}

/// Runs statements one after the other, and writes their answers.
///
/// # Errors
///
/// Fails with the first statement that fails, or if the output cannot be written.
async fn run_script(
    database: &Database,
    sql: &str,
    format: Format,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    for statement in database.statements(sql)? {
        let statement = database.plan(statement, sql).await?;
        let mut batches = database.run(statement, sql).await?;
        let schema = batches.schema();
        // Statements such as SET have no answer.
        if schema.fields().is_empty() {
            while let Some(batch) = batches.next().await {
                batch.map_err(|error| database.explained(&error, sql))?;
            }
            continue;
        }
        let mut answer = Answer::new(format, &schema, &mut *out)?;
        while let Some(batch) = batches.next().await {
            answer.put(&batch.map_err(|error| database.explained(&error, sql))?)?;
        }
        answer.finish()?;
    }
    Ok(())
}

/// Says on standard error that rows are missing.
fn report_damage(database: &Database) {
    for (name, count) in database.damage() {
        files::warn(&format_args!(
            "{name}: {count} damaged places; the rows are those of the intact events (select * from damage)"
        ));
    }
}

/// Whether an error is that the reader of the output has gone, which is no error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_of = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(is_of)
            || matches!(cause.downcast_ref::<ArrowError>(), Some(ArrowError::IoError(_, error)) if is_of(error))
    })
}
