//! Queries that several machines answer: `etw cluster scheduler`, `etw cluster executor`, `etw sql --cluster`.
//!
//! - `scheduler` plans queries and divides their scans among the executors that have joined it; `executor` runs the parts;
//!   `client` asks.
//! - `messages` is what they tell each other, `codec` how parts of plans travel.
//! - `security`: the token that all of them have, TLS, and where they may listen.
//!
//! The engine is `datafusion-distributed`: executors send each other rows directly, and what they still owe is lost with
//! them, so a query whose executor dies fails, or starts again if it has no answer yet.

mod client;
mod codec;
mod executor;
mod messages;
mod scheduler;
mod security;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use etw_app::index::IndexOptions;
use etw_app::schemas::{SchemaOptions, Schemas};
use etw_app::symbols::SymbolOptions;

use crate::resources::Limits;
use crate::source::OpenOptions;

pub(crate) use client::Client;
pub(crate) use security::Credentials;

const EXAMPLES: &str = "Examples:
  head -c 24 /dev/urandom | base64 > token
  etw cluster scheduler --token-file token --root /traces
  etw cluster executor --token-file token --root /traces --scheduler 127.0.0.1:7411 --memory 4096
  etw sql --cluster 127.0.0.1:7411 --token-file token '/traces/*.etl' 'select …'";

/// Answer the queries of `etw sql --cluster` on several machines, which see the traces under the same paths.
#[derive(Debug, Parser)]
#[command(name = "etw cluster", bin_name = "etw cluster", version, after_help = EXAMPLES)]
struct ClusterArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plan queries, and divide them among the executors
    Scheduler(SchedulerArgs),
    /// Run parts of queries for a scheduler
    Executor(ExecutorArgs),
}

#[derive(Debug, Args)]
struct SchedulerArgs {
    /// Address and port; beyond this machine only with TLS.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7411")]
    listen: String,
    #[command(flatten)]
    process: ProcessArgs,
}

#[derive(Debug, Args)]
struct ExecutorArgs {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7411")]
    scheduler: String,
    /// Address and port for the other executors; beyond this machine only with TLS. Port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Name or address under which the others find this machine [default: that of --listen].
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    #[command(flatten)]
    process: ProcessArgs,
}

/// Options of schedulers and executors.
#[derive(Debug, Args)]
struct ProcessArgs {
    /// Let clients name traces below this directory; may be repeated. Without it, only URLs can be read.
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    #[command(flatten)]
    credentials: Credentials,
    #[command(flatten)]
    limits: Limits,
    /// Number of threads; one for each processor by default.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    traces: TraceArgs,
}

impl ProcessArgs {
    /// Has this process open traces only where its options allow it.
    ///
    /// # Errors
    ///
    /// Fails if there is no such directory.
    fn confine(&self) -> Result<()> {
        let open = |path: &PathBuf| etw_sys::Root::open(path).with_context(|| path.display().to_string());
        etw_app::input::confine(self.root.iter().map(open).collect::<Result<_>>()?);
        Ok(())
    }
}

/// Options about traces. They are the same everywhere in a cluster.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
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
    /// Directory of the index, instead of what $OPENETW_INDEX says (off, beside or a directory) or the user's cache.
    #[arg(long, value_name = "DIR", conflicts_with = "no_index")]
    index_dir: Option<PathBuf>,
}

impl TraceArgs {
    /// Returns where indexes are.
    pub(crate) fn index(&self) -> IndexOptions {
        IndexOptions::in_directory(self.no_index, self.index_dir.clone())
    }

    /// Returns how traces are opened.
    ///
    /// # Errors
    ///
    /// Fails if a file with schemas cannot be read.
    pub(crate) fn options(&self) -> Result<OpenOptions> {
        let schemas = SchemaOptions { files: self.schema.clone(), ..SchemaOptions::default() };
        Ok(OpenOptions {
            schemas: Schemas::load(&schemas)?.sources(),
            symbols: SymbolOptions {
                paths: self.symbols.clone(),
                debug_directories: self.debug_directory.clone(),
            },
            index: self.index(),
        })
    }

    /// Whether no option is given.
    pub(crate) fn is_default(&self) -> bool {
        let TraceArgs { symbols, debug_directory, schema, no_index, index_dir } = self;
        symbols.is_empty()
            && debug_directory.is_empty()
            && schema.is_empty()
            && !no_index
            && index_dir.is_none()
    }
}

/// Runs a scheduler or an executor until it is ended.
///
/// # Errors
///
/// Fails if it cannot start, or if it is refused.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<()> {
    let args = ClusterArgs::parse_from(words);
    let process = match &args.command {
        Command::Scheduler(args) => &args.process,
        Command::Executor(args) => &args.process,
    };
    process.confine()?;
    let runtime = crate::threads::runtime(process.threads)?;
    runtime.block_on(async {
        let work = async {
            match &args.command {
                Command::Scheduler(args) => scheduler::run(args).await,
                Command::Executor(args) => executor::run(args).await,
            }
        };
        tokio::select! {
            done = work => done,
            () = security::ended() => Ok(()),
        }
    })?;
    // Threads that read traces are not waited for.
    runtime.shutdown_background();
    Ok(())
}
