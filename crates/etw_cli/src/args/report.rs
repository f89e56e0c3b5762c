//! The arguments of `etw report`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use etw_app::UsageError;
use etw_report::{Format, Request};
use openetw::TimePoint;
use openetw::analysis::{ProcessFilter, StackWeight, TableKind};

use super::number;
use super::symbols::SymbolArgs;

/// The examples at the end of `etw report --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw record -k Latency+DISPATCHER --for 5s && etw report trace.etl
  etw report trace.etl
  etw report trace.etl --table functions --top 50
  etw report trace.etl --process make --table waits,files
  etw report trace.etl --from 1.5 --to 3 --format json | jq .tables.cpu.rows[0]
  etw report trace.etl --table gc,jit,allocations       what .NET programs did
  etw report trace.etl --format folded > stacks.txt     for flame graphs
  etw report trace.etl --stacks waits                   where threads waited (off-CPU time by function)
  etw report trace.etl --format html -o report.html     a page with charts
  etw report trace.etl --symbols 'srv*/var/symbols;bin'  function names of Windows programs

Tables are made from kernel events; an empty table names the flags of `etw record -k` (on Windows: of xperf) that
record its events. Those of .NET are made from the events of its runtime. Times are relative to the start of the trace. docs/report.md describes the columns.

Function names come from the files of this machine, if they are the recorded ones: from symbol tables, from DWARF
in the files or in /usr/lib/debug, and from /proc/kallsyms for the running kernel. Those of .NET are in the trace.
For traces of Windows they come from PDB files in --symbols and _NT_SYMBOL_PATH; `etw symbols fetch` gets those
from servers.";

/// The arguments of `etw report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Traces of one machine: .etl or .nettrace files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show only these tables.
    #[arg(long, value_enum, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) table: Vec<TableName>,
    /// Count something by the stacks of its events, and show it by function; folded stacks show it instead of samples.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) stacks: Option<StackName>,
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
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    /// Show how far methods of .NET are optimized: `module![Tier]Namespace.Type.Method(args)`.
    #[arg(long)]
    pub(crate) tiers: bool,
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
    /// .NET garbage collections, by process and one by one.
    Gc,
    /// Methods that the JIT compiler of .NET compiled.
    Jit,
    /// Allocations of .NET by type and stack.
    Allocations,
    /// Exceptions of .NET by type and stack.
    Exceptions,
    /// Waits for locks of .NET by stack.
    Contention,
    /// Thread pools of .NET by process.
    Threadpool,
}

/// What is counted by stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackName {
    /// Time that threads waited.
    Waits,
    /// Threads that were made ready.
    Ready,
    /// Bytes of disk requests.
    Disk,
    /// Bytes of reads and writes of files, and other operations.
    Files,
    /// Bytes sent and received.
    Network,
    /// Time of hard faults.
    Faults,
    /// Bytes of allocated address space.
    Memory,
    /// System calls.
    Syscalls,
    /// Samples of .NET's threads in EventPipe traces, running or not.
    Dotnet,
    /// All events with a stack.
    Events,
}

impl StackName {
    fn weight(self) -> StackWeight {
        match self {
            StackName::Waits => StackWeight::Waits,
            StackName::Ready => StackWeight::Ready,
            StackName::Disk => StackWeight::Disk,
            StackName::Files => StackWeight::Files,
            StackName::Network => StackWeight::Network,
            StackName::Faults => StackWeight::Faults,
            StackName::Memory => StackWeight::Memory,
            StackName::Syscalls => StackWeight::Syscalls,
            StackName::Dotnet => StackWeight::DotNet,
            StackName::Events => StackWeight::Events,
        }
    }
}

impl ReportArgs {
    /// Converts the arguments to a request.
    pub(crate) fn request(self) -> Result<Request> {
        Ok(Request {
            files: self.files,
            tables: self.table.into_iter().flat_map(TableName::kinds).copied().collect(),
            stacks: self.stacks.map(StackName::weight),
            top: self.top,
            processes: ProcessFilter { ids: self.pid, names: self.process },
            from: time(self.from.as_deref())?,
            to: time(self.to.as_deref())?,
            symbols: self.symbols.options(),
            tiers: self.tiers,
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
    fn kinds(self) -> &'static [TableKind] {
        match self {
            TableName::Processes => &[TableKind::Processes],
            TableName::Cpu => &[TableKind::Cpu],
            TableName::Threads => &[TableKind::Threads],
            TableName::Functions => &[TableKind::Functions],
            TableName::Waits => &[TableKind::Waits],
            TableName::Disk => &[TableKind::Disk],
            TableName::Files => &[TableKind::Files],
            TableName::Network => &[TableKind::Network],
            TableName::Faults => &[TableKind::Faults],
            TableName::Dpcisr => &[TableKind::DpcIsr],
            TableName::Syscalls => &[TableKind::Syscalls],
            TableName::Gc => &[TableKind::GcProcesses, TableKind::Gc],
            TableName::Jit => &[TableKind::Jit],
            TableName::Allocations => &[TableKind::Allocations],
            TableName::Exceptions => &[TableKind::Exceptions],
            TableName::Contention => &[TableKind::Contention],
            TableName::Threadpool => &[TableKind::ThreadPool],
        }
    }
}

fn time(text: Option<&str>) -> Result<Option<TimePoint>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error: openetw::TimePointError| UsageError(error.to_string()).into())
}
