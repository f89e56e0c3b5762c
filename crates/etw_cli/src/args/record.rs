//! The arguments of `etw record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use etw_app::text::{bytes, duration};

use super::SchemaArgs;
use super::session::{SystemArgs, WantArgs};

/// What `--help` ends with.
pub(crate) const EXAMPLES: &str = "Examples:
  etw record -p MyProvider -o t.etl -- ./app     until the program ends
  etw record -p MyProvider --for 10s             of all programs, for ten seconds
  etw record -p MyProvider:Warning -p '{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}'
  etw record -k PROC_THREAD+CSWITCH+PROFILE -- make
                                                 of the system (as root): who ran when, and what
  etw record -k CSWITCH+DISPATCHER --stackwalk CSwitch+ReadyThread -- ./app
                                                 where threads wait, and who wakes them
  etw record -k DiagEasy --for 10s               the same by xperf's groups of flags
  etw record --profile CPU --for 10s             what a recording profile (.wprp) says
  etw record -p Microsoft-Windows-Kernel-Process:4::0x10 -- make
                                                 processes (as root), as the Windows kernel's provider
                                                 tells of them
  etw record -p MyProvider --max-size 100MB --circular
                                                 the newest 100 MB, in the file
  etw record -p MyProvider --ring 64MB           the newest 64 MB, in memory, until Ctrl-C;
                                                 kill -USR1 writes what there is and goes on
  etw record -p MyProvider --ring 64MB --trigger 'level <= 2'
                                                 until an event is an error

A provider is named by (Name|{GUID})[:Level[:EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]].
Recording ends when COMMAND does (its exit status is passed on), after --for, or by Ctrl-C.
The daemon is used if one runs (etw daemon); otherwise the command hosts its session itself.
It exits with 1 if it could not record; losses are in its last line and in the file.";

/// `etw record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// File to write; one that exists is replaced.
    #[arg(long, short, value_name = "FILE", default_value = "trace.etl")]
    pub(crate) output: PathBuf,
    /// Record the events of a provider; several options record several.
    #[arg(long, short, value_name = "PROVIDER", required_unless_present_any = ["kernel", "profile"])]
    pub(crate) provider: Vec<String>,
    /// Record the system's events of these flags, joined by +; their names are those of xperf, logman and wpr.
    #[arg(long, short, value_name = "FLAGS")]
    pub(crate) kernel: Option<String>,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    /// Record what a recording profile says: one that is built in (`etw wpr -profiles`), or `FILE.wprp!NAME`; several
    /// options record several. What a profile has of the system is recorded beside -k, its providers beside -p; sizes and
    /// modes are those of this command.
    #[arg(long, value_name = "[FILE.wprp!]NAME[.Light|.Verbose]")]
    pub(crate) profile: Vec<String>,
    /// End after this time: 10s, 500ms, 2m. The program goes on if it still runs.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Keep the newest events in memory of this size (64MB); write them at the end, and on SIGUSR1.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) ring: Option<u64>,
    /// With --ring: end when an event meets this expression (see --where of `etw dump`).
    #[arg(long, value_name = "EXPR", requires = "ring")]
    pub(crate) trigger: Option<String>,
    /// Most bytes of the file (100MB); the recording ends when it has them.
    #[arg(long, value_name = "SIZE", value_parser = bytes, conflicts_with = "ring")]
    pub(crate) max_size: Option<u64>,
    /// At --max-size, replace the oldest events rather than ending.
    #[arg(long, requires = "max_size")]
    pub(crate) circular: bool,
    /// Deliver the events in real time too: `etw dump -s NAME` shows them meanwhile.
    #[arg(long, conflicts_with = "ring")]
    pub(crate) real_time: bool,
    /// Size of a buffer, 4KB to 16MB.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "64KB")]
    pub(crate) buffer_size: u64,
    /// Most buffers in memory; more of them help against losses when events come in bursts [default: 2048].
    #[arg(long, value_name = "N", conflicts_with = "ring")]
    pub(crate) buffers: Option<u32>,
    /// Name of the session [default: etw-record-PID].
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) want: WantArgs,
    #[command(flatten)]
    pub(crate) schemas: SchemaArgs,
    /// Program to run, with its arguments; recording begins before it and ends with it.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
