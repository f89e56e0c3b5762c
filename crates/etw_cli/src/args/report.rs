//! The arguments of `etw report`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use etw_app::UsageError;
use etw_report::{Format, Request};
use openetw::TimePoint;
use openetw::analysis::{ProcessFilter, TableKind};

use super::number;

/// The examples at the end of `etw report --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw record -k Latency+DISPATCHER --for 5s && etw report trace.etl
  etw report trace.etl
  etw report trace.etl --table functions --top 50
  etw report trace.etl --process make --table waits,files
  etw report trace.etl --from 1.5 --to 3 --format json | jq .tables.cpu.rows[0]
  etw report trace.etl --format folded > stacks.txt     for flame graphs
  etw report trace.etl --format html -o report.html     a page with charts

Tables are made from kernel events; an empty table names the flags of `etw record -k` (on Windows: of xperf) that
record its events. Times are relative to the start of the trace. docs/report.md describes the columns.

Function names come from the files of this machine, if they are the recorded ones: from symbol tables, from DWARF
in the files or in /usr/lib/debug, and from /proc/kallsyms for the running kernel.";

/// The arguments of `etw report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Traces of one machine: .etl or .nettrace files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show only these tables.
    #[arg(long, value_enum, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) table: Vec<TableName>,
    /// Show at most this many rows per table, largest first [default: 6, or 20 with --table; all in JSON].
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Show only rows about processes with this image name, ignoring case.
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Vec<String>,
    /// Show only rows about these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) pid: Vec<u32>,
    /// Report on events at this time or later: `2026-01-02T03:04:05.678Z` (UTC if no offset is given), or from the
    /// start of the trace `12.5`, `300ms`, `2m`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Report on events before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Also search this directory for separate debug files.
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_directory: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Write to a file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Output formats of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people.
    Text,
    /// One JSON object with all rows.
    Json,
    /// Sample stacks, one per line: process and functions separated by `;`, then the number of samples.
    Folded,
    /// A page with charts, in one file.
    Html,
    /// The contents of JSON and of the HTML page.
    Xml,
}

/// Tables of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// Start, end and exit status of processes.
    Processes,
    /// Processor time by process.
    Cpu,
    /// Processor time by thread.
    Threads,
    /// Samples by function.
    Functions,
    /// What threads waited for, and what woke them.
    Waits,
    /// Disk I/O by disk, process and file.
    Disk,
    /// File I/O by file and process.
    Files,
    /// Network by process and endpoint.
    Network,
    /// Hard faults by process and file.
    Faults,
    /// Interrupts and deferred calls by routine.
    Dpcisr,
    /// System calls by process and name.
    Syscalls,
}

impl ReportArgs {
    /// Converts the arguments to a request.
    pub(crate) fn request(self) -> Result<Request> {
        Ok(Request {
            files: self.files,
            tables: self.table.into_iter().map(TableName::kind).collect(),
            top: self.top,
            processes: ProcessFilter { ids: self.pid, names: self.process },
            from: time(self.from.as_deref())?,
            to: time(self.to.as_deref())?,
            debug_directories: self.debug_directory,
            format: match self.format {
                ReportFormat::Text => Format::Text,
                ReportFormat::Json => Format::Json,
                ReportFormat::Folded => Format::Folded,
                ReportFormat::Html => Format::Html,
                ReportFormat::Xml => Format::Xml,
            },
            output: self.output,
        })
    }
}

impl TableName {
    fn kind(self) -> TableKind {
        match self {
            TableName::Processes => TableKind::Processes,
            TableName::Cpu => TableKind::Cpu,
            TableName::Threads => TableKind::Threads,
            TableName::Functions => TableKind::Functions,
            TableName::Waits => TableKind::Waits,
            TableName::Disk => TableKind::Disk,
            TableName::Files => TableKind::Files,
            TableName::Network => TableKind::Network,
            TableName::Faults => TableKind::Faults,
            TableName::Dpcisr => TableKind::DpcIsr,
            TableName::Syscalls => TableKind::Syscalls,
        }
    }
}

fn time(text: Option<&str>) -> Result<Option<TimePoint>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error: openetw::TimePointError| UsageError(error.to_string()).into())
}
