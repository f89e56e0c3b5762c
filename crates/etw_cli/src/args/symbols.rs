//! The arguments of `etw symbols`, and those that name symbols.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use etw_app::input::StackOptions;
use etw_app::symbols::SymbolOptions;
use etw_app::text::{bytes, duration};
use openetw::symbols::FetchLimits;

use super::Format;

/// The examples at the end of `etw symbols --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw symbols trace.etl
  etw symbols trace.etl --symbols 'bin;srv*/var/symbols*https://msdl.microsoft.com/download/symbols'
  _NT_SYMBOL_PATH='srv*' etw symbols fetch trace.etl
  etw symbols trace.etl --format json | jq '.modules[] | select(.found == null) | .name'

Only `fetch` uses the network, and only the servers that --symbols, _NT_SYMBOL_PATH or DEBUGINFOD_URLS name.
docs/symbols.md describes the syntax of symbol paths, and where each kind of file is looked for.";

/// The examples at the end of `etw symbols fetch --help`.
pub(crate) const FETCH_EXAMPLES: &str = "Examples:
  etw symbols fetch trace.etl --symbols 'srv*'
  etw symbols fetch *.etl --symbols 'srv*/var/symbols*https://symbols.example.org'
  DEBUGINFOD_URLS=https://debuginfod.debian.net etw symbols fetch linux.etl

`srv*` alone is the server of Microsoft, with files kept in the user's cache. Downloads need the program curl.
The exit status is 1 if the symbols of an image are still missing.";

/// The arguments of `etw symbols`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SymbolsArgs {
    /// What to do instead of listing.
    #[command(subcommand)]
    pub(crate) command: Option<SymbolsCommand>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// What to do with symbols.
#[derive(Debug, Subcommand)]
pub(crate) enum SymbolsCommand {
    /// Get missing symbol files from servers
    #[command(after_help = FETCH_EXAMPLES)]
    Fetch(FetchArgs),
}

/// The traces, and where their symbols are.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Traces: .etl files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The traces, where their symbols are, and how much may be fetched.
#[derive(Debug, Args)]
pub(crate) struct FetchArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Maximum size of one file, compressed or not.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "4GB")]
    pub(crate) max_file: u64,
    /// Maximum sum of what is received and unpacked.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "16GB")]
    pub(crate) max_total: u64,
    /// Maximum time for all files.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2h")]
    pub(crate) max_time: Duration,
}

impl FetchArgs {
    /// Converts the arguments to limits.
    pub(crate) fn limits(&self) -> FetchLimits {
        FetchLimits {
            file_bytes: self.max_file,
            total_bytes: self.max_total,
            total: self.max_time,
            ..FetchLimits::default()
        }
    }
}

/// Arguments that name symbols.
#[derive(Debug, Args)]
pub(crate) struct SymbolArgs {
    /// Look for symbols there first: directories, symbol stores and servers, in the syntax of `_NT_SYMBOL_PATH`.
    #[arg(long, value_name = "PATH")]
    pub(crate) symbols: Vec<String>,
    /// Also search this directory for separate debug files.
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_directory: Vec<PathBuf>,
}

impl SymbolArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(&self) -> SymbolOptions {
        SymbolOptions { paths: self.symbols.clone(), debug_directories: self.debug_directory.clone() }
    }

    /// Returns what is wanted of stacks; if they are not `shown`, only filters need them.
    pub(crate) fn stacks(&self, shown: bool) -> StackOptions {
        StackOptions { shown, symbols: self.options() }
    }
}
