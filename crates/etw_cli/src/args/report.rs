//! The arguments of `etw report`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use etw_app::UsageError;
use etw_report::{Format, Request};
use openetw::TimePoint;
use openetw::analysis::{ProcessFilter, TableKind};

use super::number;

/// What `--help` shows.
pub(crate) const EXAMPLES: &str = "Examples:
  etw record -k Latency+DISPATCHER --for 5s && etw report trace.etl
  etw report trace.etl
  etw report trace.etl --table functions --top 50
  etw report trace.etl --process make --table waits,files
  etw report trace.etl --from 1.5 --to 3 --format json | jq .tables.cpu.rows[0]
  etw report trace.etl --format folded > stacks.txt     for flame graphs
  etw report trace.etl --format html -o report.html     a page with charts

Tables are made from the kernel's events; which flags of `etw record -k` (on Windows: of xperf) give a table its
events is said where it has none. Times are from the start of the trace. docs/report.md tells what columns mean.

Functions get their names from the files of this machine, if they are those that were recorded: from symbol tables,
from DWARF in them or below /usr/lib/debug, and from /proc/kallsyms for the kernel that runs.";

/// `etw report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Traces of one machine: .etl files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Only these tables.
    #[arg(long, value_enum, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) table: Vec<TableName>,
    /// Show at most this many rows of each table, the heaviest first [default: 6, or 20 with --table; all in JSON].
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Rows about processes with this image name, whatever its case.
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Vec<String>,
    /// Rows about these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) pid: Vec<u32>,
    /// What happens from this time on: `2026-01-02T03:04:05.678Z` (UTC without a zone), or from the start of the trace
    /// `12.5`, `300ms`, `2m`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// What happens before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Look for separate debug files there too.
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_directory: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Write to a file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Formats of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people.
    Text,
    /// One JSON object with all rows.
    Json,
    /// Stacks of samples, one a line: process and functions parted by `;`, then the number of samples.
    Folded,
    /// A page with charts, in one file.
    Html,
    /// As JSON, with what the page shows.
    Xml,
}

/// Tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// Processes: when they began and ended, and how.
    Processes,
    /// Processor time by process.
    Cpu,
    /// Processor time by thread.
    Threads,
    /// Samples by function.
    Functions,
    /// What threads waited for, and who ended that.
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
    /// What the report is to be.
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
