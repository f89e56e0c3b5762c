//! The arguments of `etw merge` and `etw relog`.

use std::path::PathBuf;

use clap::Args;

use super::{FilterArgs, SchemaArgs};

/// What `etw merge --help` shows.
pub(crate) const MERGE_EXAMPLES: &str = "Examples:
  etw merge kernel.etl user.etl -o merged.etl
  etw merge *.etl -o merged.etl --compress
  etw merge merged.etl -o plain.etl --plain --force

All events, in the order of time, in one file that decodes anywhere: descriptions of events that are not in the files
are embedded. The files must count one clock, as those of one boot of a machine do. docs/relog.md tells more.";

/// What `etw relog --help` shows.
pub(crate) const RELOG_EXAMPLES: &str = "Examples:
  etw relog trace.etl -o part.etl --from 10 --to 20
  etw relog trace.etl -o app.etl --process app
  etw relog trace.etl -o errors.etl --where 'level <= 2' --compress
  etw relog trace.etl -o dns.etl --provider Microsoft-Windows-DNS-Client --limit 1000

What the events that meet the filters need stays: processes, threads, images, names of files, schemas, and their
stacks; --bare leaves it out. docs/relog.md tells more.";

/// `etw merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Traces: .etl files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// File to write.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
}

/// `etw relog`.
#[derive(Debug, Args)]
pub(crate) struct RelogArgs {
    /// Traces: .etl files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// File to write.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Keep only the first of the events that meet the filters.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Keep only events that meet the filters, not those that they need.
    #[arg(long)]
    pub(crate) bare: bool,
}

/// The form of what is written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct FormArgs {
    /// Replace a file that exists.
    #[arg(long)]
    pub(crate) force: bool,
    /// Compress buffers; without this and --plain they stay as they are.
    #[arg(long, conflicts_with = "plain")]
    pub(crate) compress: bool,
    /// Do not compress buffers.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Embed no descriptions of events.
    #[arg(long)]
    pub(crate) no_schemas: bool,
}
