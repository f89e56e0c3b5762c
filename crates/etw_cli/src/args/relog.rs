//! The arguments of `etw merge`, `etw split` and `etw relog`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use etw_app::text::{bytes, duration};

use super::symbols::SymbolArgs;
use super::{FilterArgs, SchemaArgs};

/// The examples at the end of `etw merge --help`.
pub(crate) const MERGE_EXAMPLES: &str = "Examples:
  etw merge kernel.etl user.etl -o merged.etl
  etw merge *.etl -o merged.etl --compress
  etw merge merged.etl -o plain.etl --plain --force
  etw merge trace.etl -o named.etl --embed-symbols --symbols 'bin;srv*'

The output contains all events in time order and decodes on any machine: schemas that are not in the files are
embedded. The files must use the same clock, as files of one boot of a machine do, or the system time.
See docs/relog.md.";

/// The examples at the end of `etw relog --help`.
pub(crate) const RELOG_EXAMPLES: &str = "Examples:
  etw relog trace.etl -o part.etl --from 10 --to 20
  etw relog trace.etl -o app.etl --process app
  etw relog trace.etl -o errors.etl --where 'level <= 2' --compress
  etw relog trace.etl -o dns.etl --provider Microsoft-Windows-DNS-Client --limit 1000
  etw relog trace.etl -o public.etl --redact 'Process/*.CommandLine' --redact 'MyProvider/Login.User'
  etw relog trace.etl -o renamed.etl --where 'event == Login' --set User=somebody --set Pin=0

Everything the selected events depend on is kept: processes, threads, images, file names, schemas and stacks;
--bare omits it. See docs/relog.md.";

/// The examples at the end of `etw split --help`.
pub(crate) const SPLIT_EXAMPLES: &str = "Examples:
  etw split trace.etl --every 10s                trace-001.etl, trace-002.etl, ...
  etw split trace.etl --size 100MB -o parts/part.etl --compress
  etw split trace.etl --by process               trace-app-4711.etl, trace-no-process.etl, ...
  etw split trace.etl --by provider --from 10 --to 20

Each part decodes on its own: it contains everything its events depend on. `etw merge` of all parts contains
every event once. See docs/relog.md.";

/// The arguments of `etw split`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct SplitArgs {
    /// Traces: .etl, .nettrace or perf.data files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// One part per this much time from the start of the trace: 10s, 500ms, 2m; at least 10ms.
    #[arg(long, value_name = "TIME", value_parser = duration, group = "what")]
    pub(crate) every: Option<Duration>,
    /// Parts of at most this size: 100MB.
    #[arg(long, value_name = "SIZE", value_parser = bytes, group = "what")]
    pub(crate) size: Option<u64>,
    /// One part per process or per provider.
    #[arg(long, value_enum, value_name = "WHAT", group = "what")]
    pub(crate) by: Option<SplitKey>,
    /// Directory and base name of the parts: part.etl gives part-001.etl or part-app-4711.etl
    /// [default: the name of the first FILE, in the current directory].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) redaction: RedactArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// Keys of `etw split --by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitKey {
    /// Process.
    Process,
    /// Provider.
    Provider,
}

/// The arguments of `etw merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Traces: .etl, .nettrace or perf.data files, also inside .zst, .gz and .zip.
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

/// The arguments of `etw merge` with those that `etw relog` does not have.
#[derive(Debug, Args)]
pub(crate) struct MergeWithNamesArgs {
    #[command(flatten)]
    pub(crate) merge: MergeArgs,
    /// Embed the names of functions, files and lines that samples and stacks need, for machines without symbol files.
    #[arg(long)]
    pub(crate) embed_symbols: bool,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// The arguments of `etw relog`: those of `etw merge`, and a selection of events.
#[derive(Debug, Args)]
pub(crate) struct RelogArgs {
    #[command(flatten)]
    pub(crate) merge: MergeArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// Keep at most this many of the selected events.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Keep only the selected events, without those they depend on.
    #[arg(long)]
    pub(crate) bare: bool,
    /// Set a field of the selected events that have it; VALUE is converted to the field's type. May be repeated.
    /// Nothing is written if no event has the field or if the value does not fit.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) redaction: RedactArgs,
}

/// Arguments that name fields to redact.
#[derive(Debug, Args)]
pub(crate) struct RedactArgs {
    /// Overwrite the values of a field: strings with stars, numbers with zeros. EVENT is a name, an id, or * for all
    /// events. Nothing is written if no event has the field.
    #[arg(long, value_name = "PROVIDER/EVENT.FIELD")]
    pub(crate) redact: Vec<String>,
    /// Only warn if no event has a field to redact, and write the file.
    #[arg(long, requires = "redact")]
    pub(crate) allow_absent: bool,
}

/// Arguments for the format of the output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct FormArgs {
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
    /// Compress buffers; without --compress and --plain, buffers are left unchanged.
    #[arg(long, conflicts_with = "plain")]
    pub(crate) compress: bool,
    /// Write buffers uncompressed.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Embed no event schemas.
    #[arg(long)]
    pub(crate) no_schemas: bool,
}
