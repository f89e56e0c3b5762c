//! The arguments of `etw session` and `etw daemon`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use etw_app::UsageError;
use etw_app::enabling::Wants;
use etw_app::text::sample_interval;

use super::{Format, SchemaArgs};

/// Arguments that name the instance of the daemon; Windows has one.
#[derive(Debug, Args, Clone)]
pub(crate) struct InstanceArgs {
    /// Use the system's instance (/run/openetw); the default for root.
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with = "user")]
    pub(crate) system: bool,
    /// Use the user's instance, even as root.
    #[cfg(target_os = "linux")]
    #[arg(long)]
    pub(crate) user: bool,
}

/// The arguments of `etw daemon`.
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
    /// Let other users connect with the rights in this list (TOML) [default of the system's instance:
    /// /etc/openetw/access.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub(crate) access: Option<PathBuf>,
    /// Start the sessions that the *.toml files in this directory describe
    /// [default of the system's instance: /etc/openetw/autologgers].
    #[arg(long, value_name = "DIR")]
    pub(crate) autologgers: Option<PathBuf>,
    /// Let this group (a name or number) read the trace files, which get mode 0640; otherwise only their owner can
    /// [default: file-group of the access list].
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub(crate) group: Option<u32>,
    /// Maximum number of sessions.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) max_sessions: u8,
    /// Exit when no session is left and no client starts another; `logman`, `tracelog` and `xperf` start such
    /// daemons.
    #[arg(long)]
    pub(crate) while_used: bool,
}

#[cfg(target_os = "linux")]
fn group(name: &str) -> Result<u32, String> {
    etw_sys::credentials::group_id(name).ok_or_else(|| "there is no such group".to_owned())
}

/// Commands of `etw session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Start a session that runs until it is stopped
    #[command(after_help = "Examples:
  etw session start MySession -o trace.etl -p MyCompany-MyProvider
  etw session start MySession -o trace.etl --mode circular --max-file-size 100 -p 'MyProvider:Warning::0x10'
  etw session start Live --real-time       no file; see it with `etw dump -s Live`
  etw session start Flight --ring 64       the newest 64 MiB, until `etw session dump Flight trace.etl`")]
    Start(Box<StartArgs>),
    /// Stop sessions, and show their final statistics
    #[command(after_help = "Examples:
  etw session stop MySession")]
    Stop(NamesArgs),
    /// Show all properties, statistics and enabled providers of a session
    #[command(after_help = "Examples:
  etw session query MySession
  etw session query MySession --format json | jq .EventsLost")]
    Query(NamesArgs),
    /// List the running sessions
    #[command(after_help = "Examples:
  etw session list
  etw session list --format json | jq -r .Name")]
    List(ListSessionsArgs),
    /// Change a running session
    #[command(after_help = "Examples:
  etw session update MySession --max-buffers 256 --flush-timer 0.1
  etw session update MySession -o next.etl")]
    Update(UpdateArgs),
    /// Deliver all events written so far
    #[command(after_help = "Examples:
  etw session flush MySession")]
    Flush(NamesArgs),
    /// Enable providers in a session, even if they do not run yet, or change how they are enabled
    #[command(after_help = "Examples:
  etw session enable MySession MyCompany-MyProvider
  etw session enable MySession 'MyProvider:Verbose::0x10' --stacks --exe shop
  etw session enable MySession 'MyProvider::!7 where size > 4096'
  etw session enable MySession '{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}' --pid 4711")]
    Enable(EnableArgs),
    /// Disable providers in a session
    #[command(after_help = "Examples:
  etw session disable MySession MyCompany-MyProvider")]
    Disable(ProvidersArgs),
    /// Ask providers to write their state to a session
    #[command(after_help = "Examples:
  etw session capture-state MySession MyCompany-MyProvider")]
    CaptureState(ProvidersArgs),
    /// Switch to the next file (mode new-file)
    #[command(after_help = "Examples:
  etw session increment-file MySession")]
    IncrementFile(NamesArgs),
    /// Close the file and continue in real time
    #[command(after_help = "Examples:
  etw session convert-to-real-time MySession")]
    ConvertToRealTime(NamesArgs),
    /// Save the events in memory to a file without stopping the session (mode buffering)
    #[command(after_help = "Examples:
  etw session dump Flight trace.etl")]
    Dump(DumpSessionArgs),
}

/// Arguments that name sessions.
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    /// Names of sessions, ignoring case.
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) common: ListArgs,
}

/// The arguments of `etw session list`.
#[derive(Debug, Args)]
pub(crate) struct ListSessionsArgs {
    /// List only the sessions that a program of OpenETW left running when it was ended.
    #[cfg(windows)]
    #[arg(long)]
    pub(crate) orphans: bool,
    /// With --orphans: stop them.
    #[cfg(windows)]
    #[arg(long, requires = "orphans")]
    pub(crate) stop: bool,
    #[command(flatten)]
    pub(crate) common: ListArgs,
}

/// Arguments of all commands.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Output format; JSON is one object per session.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
}

/// The arguments of `etw session start`.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Name of the session, at most 1024 bytes; unique, ignoring case.
    #[arg(value_name = "SESSION")]
    pub(crate) name: String,
    /// File to write to.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Log file modes: sequential, circular, append, new-file, preallocate, real-time, buffering, secure, …
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    pub(crate) mode: Vec<String>,
    /// Deliver events in real time (mode real-time).
    #[arg(long)]
    pub(crate) real_time: bool,
    /// Keep only the newest events, in memory, at most this many MiB (mode buffering).
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(crate) ring: Option<u32>,
    /// Buffer size in KiB, 4 to 16384.
    #[arg(long, value_name = "KIB", default_value_t = 64)]
    pub(crate) buffer_size: u32,
    /// Minimum number of buffers [default: twice the number of processors].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) min_buffers: u32,
    /// Maximum number of buffers [default: 128 MiB of buffers].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) max_buffers: u32,
    /// Maximum file size in MiB; --mode decides what happens then [default: unlimited].
    #[arg(long, value_name = "MIB", default_value_t = 0, hide_default_value = true)]
    pub(crate) max_file_size: u32,
    /// Seconds after which partly filled buffers are written [default: 1].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) flush_timer: Option<f64>,
    /// Number of full buffers that are written together.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) flush_threshold: u32,
    /// Clock of the timestamps.
    #[arg(long, value_enum, default_value_t = ClockArg::Qpc)]
    pub(crate) clock: ClockArg,
    /// Enable a provider: `(Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]][ where CONDITION]`;
    /// docs/recording.md describes the parts.
    #[arg(long, short, value_name = "PROVIDER")]
    pub(crate) provider: Vec<String>,
    /// Enable kernel events by these flags, joined by +, named as in xperf, logman and wpr.
    #[arg(long, short, value_name = "FLAGS")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    #[command(flatten)]
    pub(crate) want: WantArgs,
    #[command(flatten)]
    pub(crate) common: ListArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
}

/// Arguments that apply to all enabled providers.
#[derive(Debug, Args)]
pub(crate) struct WantArgs {
    /// Add the call stack to each event.
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Add the user's SID to each event.
    #[arg(long)]
    pub(crate) sid: bool,
    /// Add the process start key, which is unique until the machine restarts, to each event.
    #[arg(long)]
    pub(crate) process_start_key: bool,
    /// Exclude events without keywords.
    #[arg(long)]
    pub(crate) ignore_keyword_0: bool,
    /// Treat the GUID as that of a provider group.
    #[arg(long)]
    pub(crate) group: bool,
    /// Enable the providers only in these processes.
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Enable the providers only in processes whose executable has this file name.
    #[arg(long, value_name = "NAME")]
    pub(crate) exe: Vec<String>,
    /// Enable only TraceLogging events with this name; repeat for several names.
    #[arg(long, value_name = "NAME")]
    pub(crate) event_name: Vec<String>,
}

impl WantArgs {
    /// Checks that there are providers if one of the options is given, which apply to nothing else.
    pub(crate) fn check(&self, has_providers: bool) -> Result<(), UsageError> {
        let given = [
            (self.stacks, "--stacks"),
            (self.sid, "--sid"),
            (self.process_start_key, "--process-start-key"),
            (self.ignore_keyword_0, "--ignore-keyword-0"),
            (self.group, "--group"),
            (!self.pid.is_empty(), "--pid"),
            (!self.exe.is_empty(), "--exe"),
            (!self.event_name.is_empty(), "--event-name"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given && !has_providers) {
            None => Ok(()),
            Some((_, option)) => Err(UsageError(format!(
                "{option} applies to the events of providers (-p), and none is given"
            ))),
        }
    }

    /// Returns the options for all enabled providers.
    pub(crate) fn wants(&self) -> Wants {
        Wants {
            stacks: self.stacks,
            sid: self.sid,
            process_start_key: self.process_start_key,
            ignore_keyword_0: self.ignore_keyword_0,
            group: self.group,
            pid: self.pid.clone(),
            exe: self.exe.clone(),
            event_name: self.event_name.clone(),
        }
    }
}

/// Arguments for kernel events.
#[derive(Debug, Args)]
pub(crate) struct SystemArgs {
    /// Kernel events to record with their call stacks, joined by +: names of `xperf -stackwalk`, or hook ids with 0x
    /// [default: Profile].
    #[arg(long, value_name = "EVENTS")]
    pub(crate) stackwalk: Option<String>,
    /// Sampling interval of the flag PROFILE, 100us to 1s: 125us, 1ms; without a unit in 100 ns, as in
    /// `xperf -setprofint` [default: 1ms].
    #[arg(long, value_name = "TIME", value_parser = sample_interval)]
    pub(crate) sample_interval: Option<u32>,
}

/// The arguments of `etw session enable`.
#[derive(Debug, Args)]
pub(crate) struct EnableArgs {
    #[command(flatten)]
    pub(crate) providers: ProvidersArgs,
    #[command(flatten)]
    pub(crate) want: WantArgs,
}

/// Arguments that name a session and providers.
#[derive(Debug, Args)]
pub(crate) struct ProvidersArgs {
    /// Name of the session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Providers: `(Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`; to enable also
    /// `[ where CONDITION]`, see docs/recording.md.
    #[arg(required = true, value_name = "PROVIDER")]
    pub(crate) providers: Vec<String>,
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
}

/// The arguments of `etw session update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Name of the session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Continue in this file.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Maximum number of buffers.
    #[arg(long, value_name = "N")]
    pub(crate) max_buffers: Option<u32>,
    /// Seconds after which partly filled buffers are written.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) flush_timer: Option<f64>,
    /// Whether events are delivered in real time.
    #[arg(long, value_name = "BOOL")]
    pub(crate) real_time: Option<bool>,
    /// Change the kernel flags of a session that was started with some.
    #[arg(long, short, value_name = "FLAGS")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    #[command(flatten)]
    pub(crate) common: ListArgs,
}

/// The arguments of `etw session dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpSessionArgs {
    /// Name of the session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// File to write to.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: ListArgs,
}

/// Clocks of a session.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ClockArg {
    /// Performance counter.
    Qpc,
    /// System time.
    System,
    /// Cycle counter of the processor.
    Cycle,
}
