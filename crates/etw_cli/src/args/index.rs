//! The arguments of `etw index`, and those of commands that use an index.

use std::path::PathBuf;

use clap::Args;
use etw_app::index::IndexOptions;
use openetw::tables::IndexHome;

use super::Format;
use super::symbols::SymbolArgs;

/// The examples at the end of `etw index --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw index trace.etl                      makes it in the user's cache directory, unless it is up to date
  etw index trace.etl --beside             makes trace.etl.etwindex
  etw index trace.etl --check              reads all of it; the exit status is 1 if it does not serve
  etw index trace.etl --force --symbols 'srv*/var/symbols'    again, with the names that were fetched meanwhile
  etw index *.etl                          one index for each
  etw index kernel.etl user.etl --together    one index for both, which are read together
  etw index trace.etl --remove

`etw report` (with --columns, --group-by, --sum or --values) and `etw view` open the index instead of reading the
trace, `etw dump` and `etw stats` read only the parts of the trace that the index points to. Results are the same.
docs/index.md says when an index is made, where it lies and when it is made again.";

/// The arguments of `etw index`.
#[derive(Debug, Args)]
pub(crate) struct IndexCommandArgs {
    /// Traces: .etl, .nettrace or perf.data files, also inside .zst, .gz and .zip; each gets an index.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Make one index for all files, for commands that read them together.
    #[arg(long)]
    pub(crate) together: bool,
    /// Verify every part of the index instead of making it; the exit status is 1 if it is missing, damaged or out of date.
    #[arg(long, conflicts_with_all = ["remove", "force"])]
    pub(crate) check: bool,
    /// Remove the index.
    #[arg(long, conflicts_with = "force")]
    pub(crate) remove: bool,
    /// Make the index even if it is up to date.
    #[arg(long)]
    pub(crate) force: bool,
    /// Directory of the index, instead of the user's cache directory; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
    /// Make the index beside the trace.
    #[arg(long, conflicts_with = "index_dir")]
    pub(crate) beside: bool,
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
    /// Directory of the index, instead of what $OPENETW_INDEX says (off, beside or a directory) or the user's cache.
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
}

impl IndexArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(&self) -> IndexOptions {
        IndexOptions::in_directory(self.no_index, self.index_dir.clone())
    }
}

impl IndexCommandArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(&self) -> IndexOptions {
        let options = IndexOptions::in_directory(false, self.index_dir.clone());
        match self.beside {
            true => IndexOptions { home: Some(IndexHome::Beside), ..options },
            false => options,
        }
    }
}
