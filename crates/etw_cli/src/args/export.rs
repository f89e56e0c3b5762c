//! `etw export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::symbols::SymbolArgs;
use super::{FilterArgs, InputArgs};

pub(crate) const EXAMPLES: &str = "Examples:
  etw export trace.etl -o trace.pftrace        for https://ui.perfetto.dev
  etw export trace.etl -o trace.chrome.json    for chrome://tracing
  etw export trace.etl -o trace.firefox.json   for https://profiler.firefox.com
  etw export trace.etl -o trace.speedscope.json --process make
  etw export trace.etl -o trace.pb.gz          for `go tool pprof`
  etw export trace.etl -o packets.pcapng       packets of `netsh trace` and `pktmon`, for Wireshark
  etw export trace.etl -o tables.parquet       a directory of Parquet files, one for each kind of event
  etw export trace.etl -o rows.parquet --table all    the tables that `etw tables` lists, a file for each
  etw export trace.etl -o disk.arrow --table disk
  etw export trace.etl -o events.ndjson        one JSON object per line, as from `etw dump --format json`

The format follows from the extension of the output, unless --format names it (see docs/export.md).
Events that the format cannot represent are counted, and the count is printed at the end.";

/// The arguments of `etw export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Output format [default: by the extension of the output].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ExportFormat>,
    /// File to write; a directory for Parquet and Arrow, but a file for one --table.
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: PathBuf,
    /// Write these tables instead of the events, as Parquet or Arrow: names that `etw tables` lists, `PROVIDER/EVENT`, or
    /// `all` for all that it lists.
    #[cfg(feature = "columns")]
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) table: Vec<String>,
    /// Find the regions that these files define, for `--table regions_of_interest`.
    #[cfg(feature = "columns")]
    #[arg(long, value_name = "FILE", requires = "table")]
    pub(crate) regions: Vec<PathBuf>,
    /// Replace the output if it exists.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Tell where each event is from: the file, the byte offset in it, and the number in its buffer; only as NDJSON, Parquet
    /// or Arrow.
    #[arg(long)]
    pub(crate) source: bool,
    /// Stop after this many events.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// Output formats of `etw export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Timeline of processors, threads, samples and events, for Perfetto.
    Perfetto,
    /// The same timeline as JSON, for Chrome and other viewers.
    Chrome,
    /// Samples and events of each thread, for the Firefox Profiler.
    Firefox,
    /// Samples of each thread, for speedscope.
    Speedscope,
    /// Samples by stack with labels of their process and thread, for pprof.
    Pprof,
    /// Captured network packets, for Wireshark.
    Pcapng,
    /// Events, one JSON object per line.
    Ndjson,
    /// One row per event, one Parquet file per kind of event.
    #[cfg(feature = "columns")]
    Parquet,
    /// The same tables as Arrow files.
    #[cfg(feature = "columns")]
    Arrow,
}

impl ExportFormat {
    /// Whether the output has a row for each event.
    pub(crate) fn has_rows_of_events(self) -> bool {
        match self {
            ExportFormat::Ndjson => true,
            #[cfg(feature = "columns")]
            ExportFormat::Parquet | ExportFormat::Arrow => true,
            _ => false,
        }
    }

    /// Returns the format for a file name's extension, or `None` if the extension is unknown.
    pub(crate) fn of_name(name: &str) -> Option<ExportFormat> {
        const ENDINGS: &[(&str, ExportFormat)] = &[
            (".pftrace", ExportFormat::Perfetto),
            (".perfetto-trace", ExportFormat::Perfetto),
            (".chrome.json", ExportFormat::Chrome),
            (".trace.json", ExportFormat::Chrome),
            (".firefox.json", ExportFormat::Firefox),
            (".speedscope.json", ExportFormat::Speedscope),
            (".pprof", ExportFormat::Pprof),
            (".pb.gz", ExportFormat::Pprof),
            (".pcapng", ExportFormat::Pcapng),
            (".ndjson", ExportFormat::Ndjson),
            (".jsonl", ExportFormat::Ndjson),
            #[cfg(feature = "columns")]
            (".parquet", ExportFormat::Parquet),
            #[cfg(feature = "columns")]
            (".arrow", ExportFormat::Arrow),
            #[cfg(feature = "columns")]
            (".feather", ExportFormat::Arrow),
        ];
        let name = name.to_ascii_lowercase();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
    }
}
