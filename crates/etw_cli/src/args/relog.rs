//! The arguments of `etw merge`, `etw split` and `etw relog`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use etw_app::text::{bytes, duration};

use super::{FilterArgs, SchemaArgs};

/// What `etw merge --help` shows.
pub(crate) const MERGE_EXAMPLES: &str = "Examples:
  etw merge kernel.etl user.etl -o merged.etl
  etw merge *.etl -o merged.etl --compress
  etw merge merged.etl -o plain.etl --plain --force

All events, in the order of time, in one file that decodes anywhere: descriptions of events that are not in the files
are embedded. The files must count one clock, as those of one boot of a machine do, or the system time.
docs/relog.md tells more.";

/// What `etw relog --help` shows.
pub(crate) const RELOG_EXAMPLES: &str = "Examples:
  etw relog trace.etl -o part.etl --from 10 --to 20
  etw relog trace.etl -o app.etl --process app
  etw relog trace.etl -o errors.etl --where 'level <= 2' --compress
  etw relog trace.etl -o dns.etl --provider Microsoft-Windows-DNS-Client --limit 1000
  etw relog trace.etl -o public.etl --redact 'Process/*.CommandLine' --redact 'MyProvider/Login.User'

What the events that meet the filters need stays: processes, threads, images, names of files, schemas, and their
stacks; --bare leaves it out. docs/relog.md tells more.";

/// What `etw split --help` shows.
pub(crate) const SPLIT_EXAMPLES: &str = "Examples:
  etw split trace.etl --every 10s                trace-001.etl, trace-002.etl, ...
  etw split trace.etl --size 100MB -o parts/part.etl --compress
  etw split trace.etl --by process               trace-app-4711.etl, trace-no-process.etl, ...
  etw split trace.etl --by provider --from 10 --to 20

Each part decodes by itself: it has what its events need, wherever in the trace that stands; `etw merge` of all parts
has every event once. docs/relog.md tells more.";

/// `etw split`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct SplitArgs {
    /// Traces: .etl files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A part for each such time from the start of the trace: 10s, 500ms, 2m; 10ms at least.
    #[arg(long, value_name = "TIME", value_parser = duration, group = "what")]
    pub(crate) every: Option<Duration>,
    /// Parts of at most this size: 100MB.
    #[arg(long, value_name = "SIZE", value_parser = bytes, group = "what")]
    pub(crate) size: Option<u64>,
    /// A part for each process, or for each provider.
    #[arg(long, value_enum, value_name = "WHAT", group = "what")]
    pub(crate) by: Option<SplitKey>,
    /// Directory and name of the parts, to which is added what each is: part.etl makes part-001.etl,
    /// part-app-4711.etl [default: the name of the first FILE, in the current directory].
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
}

/// What `etw split --by` splits by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitKey {
    /// The process.
    Process,
    /// The provider.
    Provider,
}

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

/// `etw relog`: what `etw merge` does, with a part of the events.
#[derive(Debug, Args)]
pub(crate) struct RelogArgs {
    #[command(flatten)]
    pub(crate) merge: MergeArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Keep only the first of the events that meet the filters.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Keep only events that meet the filters, not those that they need.
    #[arg(long)]
    pub(crate) bare: bool,
    #[command(flatten)]
    pub(crate) redaction: RedactArgs,
}

/// Fields whose values are replaced.
#[derive(Debug, Args)]
pub(crate) struct RedactArgs {
    /// Replace the values of a field: texts by stars, numbers by zeros. The event is a name, an id, or * for all.
    /// If no event has the field, nothing is written.
    #[arg(long, value_name = "PROVIDER/EVENT.FIELD")]
    pub(crate) redact: Vec<String>,
    /// Write the file also if no event has a field to redact, with a warning.
    #[arg(long, requires = "redact")]
    pub(crate) allow_absent: bool,
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
