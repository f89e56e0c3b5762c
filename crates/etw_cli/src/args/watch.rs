//! The arguments of `etw watch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use etw_app::enabling::Wants;
use etw_app::input::Filters;
use etw_app::text::bytes;
use etw_live::View;
use etw_watch::Options;

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
  etw watch trace.etl                            a file, read to its end
  etw watch trace.etl.zst --speed 1              a file, as fast as it was recorded (+ and - change the speed)
  etw watch --batch 1 --view processes           the table as text, once, after a second

Keys: 1 to 5 and Tab choose the view, Space freezes it, / searches, f filters (with an expression of
`etw dump --where`, or ~TEXT), Enter shows details, s saves, ? shows all keys, q quits.
Without -k and -p, all supported kernel flags are enabled except the most frequent ones.";

/// The arguments of `etw watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Show traces instead of a session: .etl, .nettrace or perf.data files, also inside .zst, .gz and .zip; `-` is standard input.
    /// All must be of one machine.
    #[arg(value_name = "FILE", conflicts_with_all = ["kernel", "session", "output", "stacks", "buffer_size", "buffers"])]
    pub(crate) files: Vec<PathBuf>,
    /// Replay files at N times the recorded speed instead of reading them as fast as possible.
    #[arg(long, value_name = "N", value_parser = speed, requires = "files", conflicts_with = "batch")]
    pub(crate) speed: Option<f64>,
    /// Watch kernel events by these flags, joined by +, named as in xperf, logman and wpr.
    #[arg(long, short, value_name = "FLAGS", conflicts_with = "session")]
    pub(crate) kernel: Option<String>,
    /// Watch the events of a provider; with -s or files, show only these events of them.
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
    /// Print the view as text every second, N times (0: until Ctrl-C), instead of using the terminal. The seconds of
    /// files are those of the trace.
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
    /// Threads, with their processor time.
    Threads,
    /// Programs and libraries of processes.
    Images,
}

impl WatchArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(self) -> Options {
        let is_own = self.session.is_none() && self.files.is_empty();
        let (to_enable, to_show) =
            if is_own { (self.provider, Vec::new()) } else { (Vec::new(), self.provider) };
        Options {
            live: etw_live::Options {
                kernel: self.kernel,
                provider: to_enable,
                wants: Wants { stacks: self.stacks, ..Wants::default() },
                profile: None,
                session: self.session,
                output: self.output,
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
            },
            files: self.files,
            speed: self.speed,
            view: self.view.view(),
            batch: self.batch,
            rows: self.rows,
        }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| format!("'{text}' is not a number above 0"))
}

impl ViewName {
    fn view(self) -> View {
        match self {
            ViewName::Events => View::Events,
            ViewName::Processes => View::Processes,
            ViewName::Files => View::Files,
            ViewName::Network => View::Network,
            ViewName::Machine => View::Machine,
            ViewName::Threads => View::Threads,
            ViewName::Images => View::Images,
        }
    }
}
