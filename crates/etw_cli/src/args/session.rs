//! The arguments of `etw session` and `etw daemon`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use etw_app::enabling::Wants;

use super::{Format, SchemaArgs};

/// Which instance.
#[derive(Debug, Args, Clone)]
pub(crate) struct InstanceArgs {
    /// Use the system's instance (/run/openetw); root's default.
    #[arg(long, conflicts_with = "user")]
    pub(crate) system: bool,
    /// Use the user's own instance, also as root.
    #[arg(long)]
    pub(crate) user: bool,
}

/// `etw daemon`.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
    /// Let other users connect, with the rights that this list (TOML) gives them; none if it does not exist
    /// [the system's instance: /etc/openetw/access.toml].
    #[arg(long, value_name = "FILE")]
    pub(crate) access: Option<PathBuf>,
    /// Start the sessions that the files *.toml of this directory describe
    /// [the system's instance: /etc/openetw/autologgers].
    #[arg(long, value_name = "DIR")]
    pub(crate) autologgers: Option<PathBuf>,
    /// Most sessions.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) max_sessions: u8,
    /// End when the last session has ended and nobody asks for another; so do those that `logman`, `tracelog` and
    /// `xperf` start.
    #[arg(long)]
    pub(crate) while_used: bool,
}

/// `etw session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Start a session; it runs until it is stopped, whatever becomes of this command
    #[command(after_help = "Examples:
  etw session start MySession -o trace.etl -p MyCompany-MyProvider
  etw session start MySession -o trace.etl --mode circular --max-file-size 100 -p 'MyProvider:Warning::0x10'
  etw session start Live --real-time       no file: for `etw dump -s Live`
  etw session start Flight --ring 64       the newest 64 MiB, until `etw session dump Flight trace.etl`")]
    Start(Box<StartArgs>),
    /// Stop sessions, and show their last numbers when everything is written
    #[command(after_help = "Examples:
  etw session stop MySession")]
    Stop(NamesArgs),
    /// Show all properties and statistics of a session, and what it has enabled
    #[command(after_help = "Examples:
  etw session query MySession
  etw session query MySession --format json | jq .EventsLost")]
    Query(NamesArgs),
    /// List the sessions that run
    #[command(after_help = "Examples:
  etw session list
  etw session list --format json | jq -r .Name")]
    List(ListArgs),
    /// Change a session that runs
    #[command(after_help = "Examples:
  etw session update MySession --max-buffers 256 --flush-timer 0.1
  etw session update MySession -o next.etl")]
    Update(UpdateArgs),
    /// Have everything that was written so far delivered
    #[command(after_help = "Examples:
  etw session flush MySession")]
    Flush(NamesArgs),
    /// Enable providers in a session, also ones that are not running yet, or change what is wanted of them
    #[command(after_help = "Examples:
  etw session enable MySession MyCompany-MyProvider
  etw session enable MySession 'MyProvider:Verbose::0x10' --stacks --exe shop
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
    /// Go on in the next file (mode new-file)
    #[command(after_help = "Examples:
  etw session increment-file MySession")]
    IncrementFile(NamesArgs),
    /// End the file and go on in real time
    #[command(after_help = "Examples:
  etw session convert-to-real-time MySession")]
    ConvertToRealTime(NamesArgs),
    /// Write what a session has in memory to a file (mode buffering); the session goes on
    #[command(after_help = "Examples:
  etw session dump Flight trace.etl")]
    Dump(DumpSessionArgs),
}

/// Sessions by name.
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    /// Names of sessions, whatever the case.
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
    #[command(flatten)]
    pub(crate) common: ListArgs,
}

/// What all commands have.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Output for people or one JSON object a session.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
}

/// `etw session start`.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Name of the session, up to 1024 bytes; unique whatever the case.
    #[arg(value_name = "SESSION")]
    pub(crate) name: String,
    /// File to write to.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Modes: sequential, circular, append, new-file, preallocate, real-time, buffering, secure, …
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    pub(crate) mode: Vec<String>,
    /// Deliver in real time (mode real-time).
    #[arg(long)]
    pub(crate) real_time: bool,
    /// Keep the newest events in memory only, at most this many MiB (mode buffering).
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(crate) ring: Option<u32>,
    /// KiB of a buffer, from 4 to 16384.
    #[arg(long, value_name = "KIB", default_value_t = 64)]
    pub(crate) buffer_size: u32,
    /// Fewest buffers [default: twice the number of processors].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) min_buffers: u32,
    /// Most buffers [default: 128 MiB of them].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) max_buffers: u32,
    /// MiB of the file at which the mode does what it does [default: unlimited].
    #[arg(long, value_name = "MIB", default_value_t = 0, hide_default_value = true)]
    pub(crate) max_file_size: u32,
    /// Seconds after which buffers that are not full are written all the same [default: 1].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) flush_timer: Option<f64>,
    /// Full buffers that are written at once.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) flush_threshold: u32,
    /// What times are read from.
    #[arg(long, value_enum, default_value_t = ClockArg::Qpc)]
    pub(crate) clock: ClockArg,
    /// Enable a provider: `(Name|{GUID})[:Level[:EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`.
    #[arg(long, short, value_name = "PROVIDER")]
    pub(crate) provider: Vec<String>,
    /// The system's events of these flags, joined by +; their names are those of xperf, logman and wpr.
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

/// What is wanted of providers beside what their strings say.
#[derive(Debug, Args)]
pub(crate) struct WantArgs {
    /// Add the call stack to each event.
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Add the user's SID to each event.
    #[arg(long)]
    pub(crate) sid: bool,
    /// Add the key of the process, which is unique while the machine runs.
    #[arg(long)]
    pub(crate) process_start_key: bool,
    /// Leave out events without keywords.
    #[arg(long)]
    pub(crate) ignore_keyword_0: bool,
    /// The GUID names a group of providers.
    #[arg(long)]
    pub(crate) group: bool,
    /// Only in these processes.
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Only in processes that run a program of this file name.
    #[arg(long, value_name = "NAME")]
    pub(crate) exe: Vec<String>,
    /// Only TraceLogging events of these names.
    #[arg(long, value_name = "NAME")]
    pub(crate) event_name: Vec<String>,
}

impl WantArgs {
    /// What is wanted of providers.
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

/// What else is wanted of the system's events.
#[derive(Debug, Args)]
pub(crate) struct SystemArgs {
    /// The system's events whose stack is told, joined by +, by the names of `xperf -stackwalk` or as 0x and the hook id
    /// [default: Profile].
    #[arg(long, value_name = "EVENTS")]
    pub(crate) stackwalk: Option<String>,
    /// Time between two samples of the flag PROFILE: 125us, 1ms; a number alone is in units of 100 ns, as for
    /// `xperf -setprofint`. From 100us to 1s [default: 1ms].
    #[arg(long, value_name = "TIME", value_parser = sample_interval)]
    pub(crate) sample_interval: Option<u32>,
}

/// A sampling interval in units of 100 ns.
fn sample_interval(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is no sampling interval; write 125us or 1ms");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" => 1.0,
        "us" => 10.0,
        "ms" => 10_000.0,
        "s" => 10_000_000.0,
        _ => return Err(wrong()),
    };
    let units = digits.parse::<f64>().map_err(|_| wrong())? * unit;
    if !(1_000.0..=10_000_000.0).contains(&units) {
        return Err(format!("'{text}' is out of range: samples are taken every 100us to 1s"));
    }
    Ok(units.round() as u32)
}

/// `etw session enable`.
#[derive(Debug, Args)]
pub(crate) struct EnableArgs {
    #[command(flatten)]
    pub(crate) providers: ProvidersArgs,
    #[command(flatten)]
    pub(crate) want: WantArgs,
}

/// A session and providers.
#[derive(Debug, Args)]
pub(crate) struct ProvidersArgs {
    /// Name of the session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Providers: `(Name|{GUID})[:Level[:EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`.
    #[arg(required = true, value_name = "PROVIDER")]
    pub(crate) providers: Vec<String>,
    #[command(flatten)]
    pub(crate) instance: InstanceArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
}

/// `etw session update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Name of the session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Go on in another file.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Most buffers.
    #[arg(long, value_name = "N")]
    pub(crate) max_buffers: Option<u32>,
    /// Seconds after which buffers that are not full are written all the same.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) flush_timer: Option<f64>,
    /// Whether events are delivered in real time.
    #[arg(long, value_name = "BOOL")]
    pub(crate) real_time: Option<bool>,
    /// The system's events of these flags from now on, of a session that has had some.
    #[arg(long, short, value_name = "FLAGS")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    #[command(flatten)]
    pub(crate) common: ListArgs,
}

/// `etw session dump`.
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

/// What times are read from.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ClockArg {
    /// The performance counter.
    Qpc,
    /// The system time.
    System,
    /// The processor's cycle counter.
    Cycle,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_intervals() {
        let check =
            |text: &str, expected: Option<u32>| assert_eq!(sample_interval(text).ok(), expected, "{text}");
        check("125us", Some(1_250));
        check("122.1us", Some(1_221));
        check("1ms", Some(10_000));
        check("1s", Some(10_000_000));
        check("1221", Some(1_221));
        check("99us", None);
        check("2s", None);
        check("fast", None);
        check("5m", None);
    }
}
