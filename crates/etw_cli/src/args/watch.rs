//! The arguments of `etw watch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use etw_app::enabling::Wants;
use etw_app::input::Filters;
use etw_app::text::bytes;
use etw_watch::{Options, View};

use super::{SchemaArgs, number};

/// The examples at the end of `etw watch --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw watch                                      (as root) files, network, processes, disks of this machine
  etw watch -k PROC_THREAD+CSWITCH --view processes
                                                 processes, as in top
  etw watch --process make --where 'event == FileIo'
                                                 only the file accesses of a program
  etw watch -p MyProvider -o t.etl               a program's own events, also written to a file
  etw watch -s MySession                         a running session
  etw watch --batch 1 --view processes           the table as text, once, after a second

Keys: 1 to 5 and Tab choose the view, Space freezes it, / searches, f filters (with an expression of
`etw dump --where`, or ~TEXT), Enter shows details, s saves, ? shows all keys, q quits.
Without -k and -p, all supported kernel flags are enabled except the most frequent ones.";

/// The arguments of `etw watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Watch kernel events by these flags, joined by +, named as in xperf, logman and wpr.
    #[arg(long, short, value_name = "FLAGS", conflicts_with = "session")]
    pub(crate) kernel: Option<String>,
    /// Watch the events of a provider; with -s, show only these events of the session.
    #[arg(long, short, value_name = "PROVIDER")]
    pub(crate) provider: Vec<String>,
    /// Watch a running session instead of starting one.
    #[arg(long, short, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Write all events to a file, whether shown or not.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// First view; with --batch, the view to print.
    #[arg(long, value_enum, default_value_t = ViewName::Events)]
    pub(crate) view: ViewName,
    /// Print the view as text every second, N times (0: until Ctrl-C), instead of using the terminal.
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// With --batch: maximum number of rows per table.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "batch")]
    pub(crate) rows: usize,
    /// Number of newest events to keep, at most 256 MiB.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) keep: usize,
    /// Add the call stack to each event of providers.
    #[arg(long, conflicts_with = "session")]
    pub(crate) stacks: bool,
    /// Buffer size of the session, 4KB to 16MB.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "64KB", conflicts_with = "session")]
    pub(crate) buffer_size: u64,
    /// Maximum number of buffers of the session [default: 2048].
    #[arg(long, value_name = "N", conflicts_with = "session")]
    pub(crate) buffers: Option<u32>,
    /// Show events with these ids: `1,2,10-20`.
    #[arg(long, value_name = "IDS", help_heading = "Filters")]
    pub(crate) event: Vec<String>,
    /// Show events and rows of these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = number::<u32>, help_heading = "Filters")]
    pub(crate) pid: Vec<u32>,
    /// Show events of these threads.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = number::<u32>, help_heading = "Filters")]
    pub(crate) tid: Vec<u32>,
    /// Show events and rows of processes with this image name, ignoring case.
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    pub(crate) process: Vec<String>,
    /// Show events for which an expression over header and payload fields is true (see docs/filters.md).
    #[arg(long = "where", value_name = "EXPR", help_heading = "Filters")]
    pub(crate) condition: Vec<String>,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
}

/// Views of `etw watch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewName {
    /// Events as they arrive.
    Events,
    /// Processes, as in top.
    Processes,
    /// File reads and writes.
    Files,
    /// Connections and datagrams.
    Network,
    /// Disks and processors.
    Machine,
}

impl WatchArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(self) -> Options {
        let (to_enable, to_show) = match self.session {
            Some(_) => (Vec::new(), self.provider),
            None => (self.provider, Vec::new()),
        };
        Options {
            kernel: self.kernel,
            provider: to_enable,
            wants: Wants { stacks: self.stacks, ..Wants::default() },
            session: self.session,
            output: self.output,
            view: self.view.view(),
            batch: self.batch,
            rows: self.rows,
            keep: self.keep,
            buffer_size: self.buffer_size,
            buffers: self.buffers,
            filters: Filters {
                provider: to_show,
                event: self.event,
                pid: self.pid,
                tid: self.tid,
                process: self.process,
                condition: self.condition,
                ..Filters::default()
            },
            schemas: self.schemas.options(),
        }
    }
}

impl ViewName {
    fn view(self) -> View {
        match self {
            ViewName::Events => View::Events,
            ViewName::Processes => View::Processes,
            ViewName::Files => View::Files,
            ViewName::Network => View::Network,
            ViewName::Machine => View::Machine,
        }
    }
}
