//! The arguments of `etw watch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use etw_app::enabling::Wants;
use etw_app::input::Filters;
use etw_app::text::bytes;
use etw_watch::{Options, View};

use super::{SchemaArgs, number};

/// What `--help` ends with.
pub(crate) const EXAMPLES: &str = "Examples:
  etw watch                                      (as root) files, network, processes, disks of this machine
  etw watch -k PROC_THREAD+CSWITCH --view processes
                                                 processes, as top shows them
  etw watch --process make --where 'event == FileIo'
                                                 only what a program does with files
  etw watch -p MyProvider -o t.etl               a program's own events, into a file as well
  etw watch -s MySession                         a session that runs already
  etw watch --batch 1 --view processes           the table as text, once, after a second

Keys: 1 to 5 and Tab choose the view, Space lets it stand still, / searches, f filters (the language of
`etw dump --where`, or ~TEXT), Enter shows details, s saves, ? shows all keys, q ends.
Without -k and -p the system's flags that this build captures are watched, but for the most frequent ones.";

/// `etw watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Watch the system's events of these flags, joined by +; their names are those of xperf, logman and wpr.
    #[arg(long, short, value_name = "FLAGS", conflicts_with = "session")]
    pub(crate) kernel: Option<String>,
    /// Watch the events of a provider; of a session (-s) show only these.
    #[arg(long, short, value_name = "PROVIDER")]
    pub(crate) provider: Vec<String>,
    /// Watch a session that runs already, rather than one of this command's own.
    #[arg(long, short, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Write all events to a file from the start, shown or not.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The view to begin with; with --batch the one to print.
    #[arg(long, value_enum, default_value_t = ViewName::Events)]
    pub(crate) view: ViewName,
    /// Print the tables as text every second, so many times (0: until Ctrl-C), in place of using the terminal.
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// With --batch: most rows of each table.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "batch")]
    pub(crate) rows: usize,
    /// Newest events to keep; at most 256 MiB of them.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) keep: usize,
    /// Add the call stack to each event of the providers.
    #[arg(long, conflicts_with = "session")]
    pub(crate) stacks: bool,
    /// Size of a buffer of the session, 4KB to 16MB.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "64KB", conflicts_with = "session")]
    pub(crate) buffer_size: u64,
    /// Most buffers of the session [default: 2048].
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
    /// Show events and rows of processes with this image name, whatever its case.
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    pub(crate) process: Vec<String>,
    /// Show events for which an expression over header and payload fields holds (see docs/filters.md).
    #[arg(long = "where", value_name = "EXPR", help_heading = "Filters")]
    pub(crate) condition: Vec<String>,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
}

/// The views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewName {
    /// Events as they come.
    Events,
    /// Processes, as top shows them.
    Processes,
    /// Files that are read and written.
    Files,
    /// Connections and datagrams.
    Network,
    /// Disks and processors.
    Machine,
}

impl WatchArgs {
    /// What is to be watched.
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
