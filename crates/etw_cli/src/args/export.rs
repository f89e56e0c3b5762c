//! `etw export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{FilterArgs, InputArgs};

pub(crate) const EXAMPLES: &str = "Examples:
  etw export trace.etl -o trace.pftrace        for https://ui.perfetto.dev
  etw export trace.etl -o trace.chrome.json    for chrome://tracing
  etw export trace.etl -o trace.firefox.json   for https://profiler.firefox.com
  etw export trace.etl -o trace.speedscope.json --process make
  etw export trace.etl -o packets.pcapng       packets of `netsh trace` and `pktmon`, for Wireshark
  etw export trace.etl -o tables.parquet       a directory of Parquet files, one for each kind of event
  etw export trace.etl -o events.ndjson        one JSON object a line, as `etw dump --format json`

The format follows from the name of the output, or is said by --format (see docs/export.md).
What a format has no place for is counted and said at the end.";

/// `etw export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The format; without it, the name of the output tells.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ExportFormat>,
    /// File to write; for Parquet and Arrow a directory.
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Stop after this many events.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Look for separate debug files there too, and there first; for timelines and profiles.
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_directory: Vec<PathBuf>,
}

/// Formats of other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A timeline with processors, threads, samples and events, for Perfetto.
    Perfetto,
    /// The same as JSON, for Chrome and other viewers.
    Chrome,
    /// Samples and events of each thread, for the Firefox Profiler.
    Firefox,
    /// Samples of each thread, for speedscope.
    Speedscope,
    /// Packets in events, for Wireshark.
    Pcapng,
    /// Events, one JSON object a line.
    Ndjson,
    /// Every event as a row, a Parquet file for each kind of event.
    #[cfg(feature = "columns")]
    Parquet,
    /// The same as Arrow files.
    #[cfg(feature = "columns")]
    Arrow,
}

impl ExportFormat {
    /// The format that a file's name tells.
    pub(crate) fn of_name(name: &str) -> Option<ExportFormat> {
        const ENDINGS: &[(&str, ExportFormat)] = &[
            (".pftrace", ExportFormat::Perfetto),
            (".perfetto-trace", ExportFormat::Perfetto),
            (".chrome.json", ExportFormat::Chrome),
            (".trace.json", ExportFormat::Chrome),
            (".firefox.json", ExportFormat::Firefox),
            (".speedscope.json", ExportFormat::Speedscope),
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
