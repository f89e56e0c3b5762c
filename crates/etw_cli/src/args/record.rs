//! The arguments of `etw record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use etw_app::text::{bytes, duration};
#[cfg(target_os = "linux")]
use openetw::recording::dotnet::Target;

use super::SchemaArgs;
use super::session::{SystemArgs, WantArgs};

/// The examples at the end of `etw record --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw record -p MyProvider -o t.etl -- ./app     until the program ends
  etw record -p MyProvider --for 10s             all programs, for ten seconds
  etw record -p MyProvider:Warning -p '{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}'
  etw record -p 'MyProvider::!7 where size > 4096' -- ./app
                                                 no events with id 7, and only those whose
                                                 field size is greater
  etw record -k PROC_THREAD+CSWITCH+PROFILE -- make
                                                 the system (as root): which thread ran when,
                                                 and where
  etw record -k CSWITCH+DISPATCHER --stackwalk CSwitch+ReadyThread -- ./app
                                                 where threads wait, and what wakes them
  etw record -k DiagEasy --for 10s               a group of flags, as in xperf
  etw record --profile CPU --for 10s             the events of a recording profile (.wprp)
  etw record -p Microsoft-Windows-Kernel-Process:4::0x10 -- make
                                                 processes (as root), as events of the Windows
                                                 kernel's provider
  etw record -p SystemProcessProvider:::0x801 -- make
                                                 kernel flags as keywords of the system providers
  etw record -p 'tracepoint:sched:sched_process_*' -- make
                                                 tracepoints of the Linux kernel (as root)
  etw record -k PROC_THREAD+LOADER+PROFILE --dotnet all --for 10s
                                                 the system (as root) with the methods,
                                                 collections and exceptions of .NET programs
  etw record --dotnet 4711 --dotnet-provider System.Net.Http
                                                 an EventSource in the .NET program 4711
  etw record -p MyProvider --max-size 100MB --circular
                                                 the newest 100 MB, in the file
  etw record -p MyProvider --ring 64MB           the newest 64 MB, in memory, until Ctrl-C;
                                                 kill -USR1 saves them and keeps recording
  etw record -p MyProvider --ring 64MB --trigger 'level <= 2'
                                                 until an error event

PROVIDER is (Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]][ where CONDITION].
! leaves the event ids out; CONDITION compares fields: 'size > 4096 and name =~ Log'.
On Linux, tracepoint:SYSTEM:NAME[ where CONDITION] is a tracepoint of the kernel, with * and ? as wildcards.
Recording stops when COMMAND exits (its exit status is passed on), after --for, or on Ctrl-C.
If a daemon runs (etw daemon), it hosts the session; otherwise the command does.
The exit status is 1 if recording failed. The last line and the file report lost events.";

/// The options other than -p that say what to record.
#[cfg(target_os = "linux")]
const OTHER_SOURCES: [&str; 3] = ["kernel", "profile", "dotnet"];
#[cfg(windows)]
const OTHER_SOURCES: [&str; 2] = ["kernel", "profile"];

/// The arguments of `etw record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// File to write; an existing file is replaced.
    #[arg(long, short, value_name = "FILE", default_value = "trace.etl")]
    pub(crate) output: PathBuf,
    /// Record the events of a provider; repeat for several providers.
    #[arg(long, short, value_name = "PROVIDER", required_unless_present_any = OTHER_SOURCES)]
    pub(crate) provider: Vec<String>,
    /// Record kernel events by these flags, joined by +, named as in xperf, logman and wpr.
    #[arg(long, short, value_name = "FLAGS")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    /// Record the events of a recording profile: a built-in one (`etw wpr -profiles`) or `FILE.wprp!NAME`; repeat for
    /// several profiles. They are added to those of -k and -p; buffer sizes and modes of the profile are ignored.
    #[arg(long, value_name = "[FILE.wprp!]NAME[.Light|.Verbose]")]
    pub(crate) profile: Vec<String>,
    /// Record a running .NET program, by the diagnostics socket of its runtime (.NET Core 3.1 and later): a process id, or
    /// `all` for those of this user, also those that start meanwhile. Its events are merged into the file at the end.
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "PID|all")]
    pub(crate) dotnet: Vec<Target>,
    /// With --dotnet: record the events of this provider (hexadecimal KEYWORDS, LEVEL from 0 to 5) instead of the runtime's
    /// GC, methods, exceptions, locks and thread pool, and samples of its threads; repeat for several.
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "NAME[:KEYWORDS[:LEVEL[:ARGS]]]", requires = "dotnet")]
    pub(crate) dotnet_provider: Vec<String>,
    /// Stop after this time: 10s, 500ms, 2m. COMMAND keeps running.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Keep the newest events in memory, up to this size (64MB); write them at the end and on SIGUSR1.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) ring: Option<u64>,
    /// With --ring: stop when an event matches this expression (see --where of `etw dump`).
    #[arg(long, value_name = "EXPR", requires = "ring")]
    pub(crate) trigger: Option<String>,
    /// Maximum file size (100MB); recording stops when the file is full.
    #[arg(long, value_name = "SIZE", value_parser = bytes, conflicts_with = "ring")]
    pub(crate) max_size: Option<u64>,
    /// At --max-size, overwrite the oldest events instead of stopping.
    #[arg(long, requires = "max_size")]
    pub(crate) circular: bool,
    /// Also deliver the events in real time, for `etw dump -s NAME`.
    #[arg(long, conflicts_with = "ring")]
    pub(crate) real_time: bool,
    /// Size of a buffer, 4KB to 16MB.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "64KB")]
    pub(crate) buffer_size: u64,
    /// Maximum number of buffers in memory; more buffers avoid losses in bursts of events [default: 2048].
    #[arg(long, value_name = "N", conflicts_with = "ring")]
    pub(crate) buffers: Option<u32>,
    /// Name of the session [default: etw-record-PID].
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) want: WantArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
    /// Program to run, with its arguments; recording starts before it and stops when it exits.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
