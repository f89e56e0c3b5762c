//! The definition of the command line: all commands, their arguments and examples.

pub(crate) mod compare;
pub(crate) mod export;
pub(crate) mod index;
pub(crate) mod provider;
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod record;
pub(crate) mod relog;
pub(crate) mod report;
pub(crate) mod schema;
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod session;
pub(crate) mod symbols;
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod watch;
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod write;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use etw_app::input::Filters;
use etw_app::schemas::SchemaOptions;
use etw_app::text::wide_number;
use openetw::export::Separator;

use self::index::IndexArgs;
use self::provider::ProviderCommand;
use self::schema::{McArgs, SchemaCommand};
use self::symbols::SymbolArgs;

/// Event Tracing for Windows on any OS: record, read, decode, filter and convert .etl traces.
#[derive(Debug, Parser)]
#[command(
    name = "etw",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = "Examples:
  etw info trace.etl                       what the trace contains, and whether it is complete
  etw dump trace.etl --format json         every event, decoded, one JSON object per line
  etw dump trace.etl --process notepad.exe --from 1.5 --to 3
  etw stats trace.etl --by process
  etw report trace.etl                     what the machine did, in one page
  etw schema add MyProvider.man

`etw COMMAND --help` shows the options and examples of a command.")]
pub(crate) struct Cli {
    /// Let commands that only read traces keep the rights that they do not need: to write elsewhere than to their outputs,
    /// to start programs and to connect.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of `etw`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what traces contain: header, machine, clock, losses, events, schema coverage, damage
    #[command(after_help = "Examples:
  etw info trace.etl
  etw info trace.etl --all                 every event id, not only the most frequent
  etw info *.etl --format json             one JSON object per file

The exit status is 0 if the file can be read, even if events were lost or parts are damaged:
check the verdict line (JSON: \"complete\").")]
    Info(InfoArgs),
    /// Show the decoded events of traces in time order
    #[command(after_help = "Examples:
  etw dump trace.etl
  etw dump trace.etl --provider Microsoft-Windows-Kernel-Process --event 1,2
  etw dump trace.etl --format json -o trace.jsonl
  etw dump kernel.etl user.etl --from 2026-01-02T03:04:05Z --to 2026-01-02T03:04:06Z
  etw dump trace.etl --process notepad.exe --from 1.5 --to 3 --format csv
  etw dump trace.etl --format csv --fields System.TimeCreated,System.Task,ImageName --separator tab
  etw dump trace.etl --where 'ImageName contains \"svchost\" and ProcessID > 100'
  etw dump trace.etl --stacks --where 'stack contains \"ntdll!Nt\"' --symbols 'srv*/var/symbols'
  ssh host cat trace.etl.zst | etw dump -   from a pipe, by way of a temporary file
  etw dump -s MySession                    live, until Ctrl-C or the session's end

Events of several files and sessions are merged in time order.")]
    #[command(mut_arg("files", |arg| arg.required(false).required_unless_present("session")))]
    Dump(DumpArgs),
    /// Convert traces to the formats of other tools: Perfetto, Chrome, Firefox Profiler, speedscope, pprof, Wireshark, Parquet, JSON
    #[command(after_help = export::EXAMPLES)]
    Export(Box<export::ExportArgs>),
    /// Record events of providers into a trace file
    #[cfg(any(target_os = "linux", windows))]
    #[command(after_help = record::EXAMPLES)]
    Record(Box<record::RecordArgs>),
    /// Show events, processes, files, network, disks and processors live
    #[cfg(any(target_os = "linux", windows))]
    #[command(after_help = watch::EXAMPLES)]
    Watch(Box<watch::WatchArgs>),
    /// Write one event
    #[cfg(any(target_os = "linux", windows))]
    #[command(after_help = write::EXAMPLES)]
    Write(Box<write::WriteArgs>),
    /// Count events, bytes and rates by provider, event, process or another key
    #[command(after_help = "Examples:
  etw stats trace.etl
  etw stats trace.etl --by process
  etw stats trace.etl --by provider,level --format json
  etw stats trace.etl --provider Microsoft-Windows-DxgKrnl --from 2 --to 5")]
    Stats(StatsArgs),
    /// Merge traces into one file, in time order, and embed their event schemas
    #[command(after_help = relog::MERGE_EXAMPLES)]
    Merge(relog::MergeWithNamesArgs),
    /// Split traces by time, size, process or provider into parts that decode on their own
    #[command(after_help = relog::SPLIT_EXAMPLES)]
    Split(Box<relog::SplitArgs>),
    /// Write the events that pass filters, and the events they depend on, to a new file
    #[command(after_help = relog::RELOG_EXAMPLES)]
    Relog(Box<relog::RelogArgs>),
    /// Report what the machine did: processes, CPU, functions, waits, disks, files, network, faults, interrupts
    #[command(after_help = report::EXAMPLES)]
    Report(Box<report::ReportArgs>),
    /// List the tables with rows for single events, requests and switches, or the columns of one
    #[command(after_help = "Examples:
  etw tables                               the tables, with what a row is
  etw tables disk                          its columns, with types, units and meanings
  etw report trace.etl --table disk --group-by process,path --sum size")]
    Tables(TablesArgs),
    /// Make the index of traces, with which reports, the viewer, ranges of time and counts need not read them again
    #[command(after_help = index::EXAMPLES)]
    Index(index::IndexCommandArgs),
    /// Show traces in a browser: timeline, tables, stacks and events (`etw view --help`)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    View(ToolArgs),
    /// Ask questions about traces in SQL (`etw sql --help`)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Sql(ToolArgs),
    /// Answer the queries of `etw sql --cluster` on several machines (`etw cluster --help`)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Cluster(ToolArgs),
    /// Compare two traces by process, function and stack, and fail if something grew too much
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::CompareArgs>),
    /// Show which symbols the samples of traces need, and where they are; or get them from symbol servers
    #[command(after_help = symbols::EXAMPLES)]
    Symbols(symbols::SymbolsArgs),
    /// Control sessions: start, stop, change and query them, and enable providers
    #[cfg(any(target_os = "linux", windows))]
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Host sessions until Ctrl-C or SIGTERM
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:
  etw daemon                               the user's instance (as root: the system's)
  sudo etw daemon --system --access /etc/openetw/access.toml --autologgers /etc/openetw/autologgers
  OPENETW_RUNTIME_DIR=/tmp/test etw daemon

On exit, the daemon stops all sessions and writes their remaining events.")]
    Daemon(session::DaemonArgs),
    /// Show known providers and their events
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// Manage the schema store, which describes event payloads
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Check an instrumentation manifest as Windows' message compiler does, and write C or Rust code for its events
    #[command(
        disable_help_flag = true,
        after_help = "Examples:
  etw mc MyProvider.man
  etw mc -um MyProvider.man -h include -z MyProviderEvents   include/MyProviderEvents.h, as Windows' mc names it
  etw mc MyProvider.man --rust src/my_provider.rs            functions that write its events with `openetw`

Every error is reported with line and column; the exit status is 1 if there is one, and no code is written.
Descriptions of events for those who read them are added with `etw schema add MyProvider.man`."
    )]
    Mc(McArgs),
    /// Run logman: create, start, stop and query trace sessions (`etw logman -?`)
    #[cfg(any(target_os = "linux", windows))]
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Logman(ToolArgs),
    /// Run tracelog: control sessions and their providers (`etw tracelog -?`)
    #[cfg(any(target_os = "linux", windows))]
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Tracelog(ToolArgs),
    /// Run wpr: record with recording profiles (.wprp) (`etw wpr -help`)
    #[cfg(any(target_os = "linux", windows))]
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Wpr(ToolArgs),
    /// Run xperf: record kernel events by flags and groups (`etw xperf -?`)
    #[cfg(any(target_os = "linux", windows))]
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Xperf(ToolArgs),
    /// Run tracefmt: format the messages of traces (`etw tracefmt -?`)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Tracefmt(ToolArgs),
    /// Run tracepdb: make files with the formats of WPP messages from PDB files (`etw tracepdb -?`)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Tracepdb(ToolArgs),
    /// Run tracerpt: convert traces to CSV, XML or an event log, with a summary and a report (`etw tracerpt -?`)
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Tracerpt(ToolArgs),
    /// Install what programs in C and C++ need: headers, libopenetw, pkg-config and CMake files
    #[cfg(target_os = "linux")]
    #[command(after_help = "Examples:
  etw install-dev ~/openetw
  sudo etw install-dev /usr/local
  gcc hello.c $(pkg-config --cflags --libs openetw) -o hello")]
    InstallDev {
        /// Directory that gets `include/openetw` and `lib`.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Directory of the built library [default: that of this program, or lib beside it].
        #[arg(long, value_name = "DIR")]
        libraries: Option<PathBuf>,
    },
    /// Set a Wine prefix up, so that Windows programs in it use OpenETW
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Wine(WineCommand),
    /// Install links so that the tools run under their own names: `logman`, …
    #[command(after_help = "Examples:
  etw install-links ~/.local/bin
  sudo etw install-links /usr/local/bin")]
    InstallLinks {
        /// Directory for the links; created if missing.
        dir: PathBuf,
        /// Replace existing files of these names.
        #[arg(long)]
        force: bool,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Examples:
  etw completions bash > ~/.local/share/bash-completion/completions/etw
  etw completions zsh > ~/.zfunc/_etw
  etw completions powershell >> $PROFILE")]
    Completions {
        /// Shell to complete for.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(after_help = "Examples:
  etw man ~/.local/share/man/man1")]
    Man {
        /// Directory for the pages; created if missing.
        dir: PathBuf,
    },
}

impl Command {
    /// Returns the traces that the command reads as a whole, which may be at URLs.
    pub(crate) fn inputs(&mut self) -> Option<&mut Vec<PathBuf>> {
        match self {
            Command::Info(args) => Some(&mut args.input.files),
            Command::Dump(args) => Some(&mut args.input.files),
            Command::Stats(args) => Some(&mut args.input.files),
            Command::Export(args) => Some(&mut args.input.files),
            Command::Report(args) => Some(&mut args.files),
            Command::Merge(args) => Some(&mut args.merge.files),
            Command::Relog(args) => Some(&mut args.merge.files),
            _ => None,
        }
    }

    /// Returns the places that the command writes to if it only reads traces, and needs no rights for anything else.
    pub(crate) fn outputs(&self) -> Option<Vec<PathBuf>> {
        let all = |paths: &[&[PathBuf]]| Some(paths.concat());
        match self {
            Command::Info(_) | Command::Tables(_) => Some(Vec::new()),
            Command::Dump(args) if args.session.is_empty() => Some(args.output.iter().cloned().collect()),
            Command::Stats(_) => Some(Vec::new()),
            Command::Export(args) => all(&[std::slice::from_ref(&args.output), &args.input.files]),
            Command::Report(args) => {
                all(&[args.output.as_slice(), &args.index.options().targets(&args.files)])
            }
            Command::Compare(args) => Some(args.output.iter().cloned().collect()),
            Command::Merge(args) => Some(vec![args.merge.output.clone()]),
            Command::Relog(args) => Some(vec![args.merge.output.clone()]),
            Command::Split(args) => {
                Some(vec![args.output.clone().unwrap_or_else(|| PathBuf::from("./part"))])
            }
            _ => None,
        }
    }
}

/// Arguments of a tool, passed on unparsed.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// Arguments of the tool (see its help, `-?`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "…")]
    pub(crate) words: Vec<OsString>,
}

/// The arguments of `etw tables`.
#[derive(Debug, Args)]
pub(crate) struct TablesArgs {
    /// Table whose columns to list, or traces whose events are tables to list.
    #[arg(value_name = "TABLE|FILE")]
    pub(crate) names: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The arguments of `etw info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Output format; JSON is one object per file.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Show all providers, event ids and damage instead of the most frequent ones.
    #[arg(long)]
    pub(crate) all: bool,
}

/// The arguments of `etw dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Show the events of a live session as they arrive.
    #[arg(long, short, value_name = "SESSION")]
    pub(crate) session: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t = DumpFormat::Text)]
    pub(crate) format: DumpFormat,
    /// Write to a file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Stop after this many events.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Show only these payload fields, in this order; struct members are `Struct.Member`. With `--format csv` also
    /// fields of the header, by their names in JSON: `System.TimeCreated,System.Task,…`; then there are no other
    /// columns.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    /// Separator of columns with `--format csv`: a comma, a semicolon, a bar, or `tab` [default: a comma].
    #[arg(long, value_name = "CHAR", value_parser = separator)]
    pub(crate) separator: Option<Separator>,
    /// Show times as raw readings of the session's clock.
    #[arg(long)]
    pub(crate) raw_time: bool,
    /// Tell where each event is from: the file, the byte offset in it, and the number in its buffer; not with --format xml.
    #[arg(long)]
    pub(crate) source: bool,
    /// Show events at once, decoded with the schemas and process names that precede them. By default, the whole trace
    /// is scanned first, because these are often stored at its end.
    #[arg(long)]
    pub(crate) no_look_ahead: bool,
    /// When to use colors in text output.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// Show the stack of each event that has one, with the names of its functions; not with --format xml.
    #[arg(long)]
    pub(crate) stacks: bool,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    #[command(flatten)]
    pub(crate) index: IndexArgs,
}

/// The arguments of `etw stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Keys to count by; several keys make one table of their combinations.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "event")]
    pub(crate) by: Vec<Key>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub(crate) format: TableFormat,
    /// Show at most this many rows, most frequent first.
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    #[command(flatten)]
    pub(crate) index: IndexArgs,
}

/// Arguments that name the traces to read.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// Traces: .etl, .nettrace or perf.data files, also inside .zst, .gz and .zip; `-` is standard input. URLs (`s3://`, `https://`)
    /// are fetched.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
    /// Number of decoding threads; 0 means one per processor. With 1, a single thread does everything.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
}

/// Arguments that name schemas besides the embedded and built-in ones.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Use a manifest, PE, MOF, TMF or PDB file, or a directory of them, without adding it to the store.
    #[arg(long, value_name = "PATH")]
    pub(crate) schema: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Arguments that name the schema store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Directory of the schema store [default: $OPENETW_SCHEMAS, or openetw/schemas in the user's data
    /// directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
}

/// Arguments that select events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Events of a provider: `(Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`; repeat for
    /// several providers.
    #[arg(long, short, value_name = "PROVIDER")]
    pub(crate) provider: Vec<String>,
    /// Events with these ids: `1,2,10-20`.
    #[arg(long, value_name = "IDS")]
    pub(crate) event: Vec<String>,
    /// Events of these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) pid: Vec<u32>,
    /// Events of these threads.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) tid: Vec<u32>,
    /// Events of processes with this image name, ignoring case.
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Vec<String>,
    /// Events of processes of this container of Linux: its name, the first digits of its id, or its pod (`POD`,
    /// `NAMESPACE/POD`).
    #[arg(long, value_name = "CONTAINER")]
    pub(crate) container: Vec<String>,
    /// Events of processes of this control group of Linux and those below it: `/system.slice/nginx.service`, or names at
    /// any place of its path, `nginx.service`.
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<String>,
    /// Events at this time or later: seconds from the start (`1.5`, `250ms`) or a time
    /// (`2026-01-02T03:04:05.1234567Z`; UTC if no offset is given).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Events before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Events for which an expression over header and payload fields, and the functions of their stacks, is true (see
    /// docs/filters.md).
    #[arg(long = "where", value_name = "EXPR")]
    pub(crate) condition: Vec<String>,
}

/// Parses a separator of columns.
fn separator(text: &str) -> Result<Separator, String> {
    match text {
        "," => Ok(Separator::Comma),
        ";" => Ok(Separator::Semicolon),
        "|" => Ok(Separator::Bar),
        "tab" | "\t" | "\\t" => Ok(Separator::Tab),
        _ => Err("write ',', ';', '|' or tab".to_owned()),
    }
}

impl SchemaArgs {
    /// Returns the sources of schemas.
    pub(crate) fn options(&self) -> SchemaOptions {
        SchemaOptions { files: self.schema.clone(), store: self.store.store.clone() }
    }
}

impl FilterArgs {
    /// Returns the filters.
    pub(crate) fn filters(&self) -> Filters {
        Filters {
            provider: self.provider.clone(),
            event: self.event.clone(),
            pid: self.pid.clone(),
            tid: self.tid.clone(),
            process: self.process.clone(),
            container: self.container.clone(),
            cgroup: self.cgroup.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            condition: self.condition.clone(),
        }
    }
}

/// Output formats: text or JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Output formats of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// For people.
    Text,
    /// One JSON object per row.
    Json,
    /// Comma-separated values.
    Csv,
}

/// Output formats of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// One line per event, for people.
    Text,
    /// One JSON object per line.
    Json,
    /// The columns of tracerpt.
    Csv,
    /// The Windows event schema.
    Xml,
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Only on a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Keys of `etw stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Key {
    /// Provider.
    Provider,
    /// Provider and event.
    Event,
    /// Process.
    Process,
    /// Thread.
    Thread,
    /// Processor.
    Processor,
    /// Level.
    Level,
    /// Opcode.
    Opcode,
    /// Keyword mask.
    Keyword,
    /// Input file.
    File,
    /// Second from the start of the trace.
    Second,
}

/// Parses a number in decimal or, after `0x`, hexadecimal digits.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    wide_number(text).and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        format!("'{text}' is not a number from 0 to {}", u64::MAX >> (64 - 8 * size_of::<T>()))
    })
}

/// What `etw wine` does.
#[cfg(target_os = "linux")]
#[derive(Debug, Subcommand)]
pub(crate) enum WineCommand {
    /// Make the Windows programs of a prefix use OpenETW
    #[command(after_help = "Example:
  export WINEPREFIX=~/.wine
  wineboot -i
  etw wine install ~/.wine
  wine program.exe")]
    Install {
        /// Directory of the prefix (`WINEPREFIX`).
        #[arg(value_name = "PREFIX")]
        prefix: PathBuf,
        /// The built library `libetw_win32.so` [default: that beside this program, or in lib beside it].
        #[arg(long, value_name = "FILE")]
        library: Option<PathBuf>,
    },
    /// Undo `etw wine install`
    #[command(after_help = "Example:
  etw wine remove ~/.wine")]
    Remove {
        /// Directory of the prefix (`WINEPREFIX`).
        #[arg(value_name = "PREFIX")]
        prefix: PathBuf,
    },
}
