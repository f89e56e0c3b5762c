//! The arguments of `etw index`, and those of commands that use an index.

use std::path::PathBuf;

use clap::Args;
use etw_app::index::IndexOptions;

use super::Format;
use super::symbols::SymbolArgs;

/// The examples at the end of `etw index --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw index trace.etl                      makes trace.etl.etwindex, unless it is there and up to date
  etw index trace.etl --check              reads all of it; the exit status is 1 if it does not serve
  etw index trace.etl --force --symbols 'srv*/var/symbols'    again, with the names that were fetched meanwhile
  etw index kernel.etl user.etl            one index for both, which are read together
  etw index *.etl --each                   one index for each
  etw index trace.etl --remove

`etw report` (with --columns, --group-by, --sum or --values) and `etw view` open the index instead of reading the
trace, `etw dump` and `etw stats` read only the parts of the trace that the index points to. Results are the same.
docs/index.md says when an index is made, where it lies and when it is made again.";

/// The arguments of `etw index`.
#[derive(Debug, Args)]
pub(crate) struct IndexCommandArgs {
    /// Traces that are read together: .etl or .nettrace files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Treat every file as a trace of its own, with an index of its own.
    #[arg(long)]
    pub(crate) each: bool,
    /// Verify every part of the index instead of making it; the exit status is 1 if it is missing, damaged or out of date.
    #[arg(long, conflicts_with_all = ["remove", "force"])]
    pub(crate) check: bool,
    /// Remove the index.
    #[arg(long, conflicts_with = "force")]
    pub(crate) remove: bool,
    /// Make the index even if it is up to date.
    #[arg(long)]
    pub(crate) force: bool,
    /// Directory of the index, instead of that of the trace; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// Output format; JSON is one object per index.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Arguments about the index of traces.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Neither use nor make an index of the trace (`etw index`).
    #[arg(long, conflicts_with = "index_dir")]
    pub(crate) no_index: bool,
    /// Directory of the index, instead of that of the trace.
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
}

impl IndexArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(&self) -> IndexOptions {
        IndexOptions { disabled: self.no_index, directory: self.index_dir.clone(), of_copy: None }
    }
}

impl IndexCommandArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(&self) -> IndexOptions {
        IndexOptions { directory: self.index_dir.clone(), ..IndexOptions::default() }
    }
}
