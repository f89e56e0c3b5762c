//! Arguments of `etw provider`.

use clap::Subcommand;
use etw_app::description::EventSelector;

use super::{Format, SchemaArgs};

/// Commands of `etw provider`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// List the built-in providers and those in the schema store
    #[command(after_help = "Examples:
  etw provider list
  etw provider list --registered           providers that running processes have registered
  etw provider list 'tracepoint:sched:*'   tracepoints of the running kernel (Linux)
  etw provider list --format json | jq .Name")]
    List {
        /// List the providers registered with the running host, with their processes and sessions.
        #[cfg(any(target_os = "linux", windows))]
        #[arg(long)]
        registered: bool,
        #[cfg(any(target_os = "linux", windows))]
        #[command(flatten)]
        instance: super::session::InstanceArgs,
        /// List only providers whose name or GUID contains this text.
        pattern: Option<String>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        #[command(flatten)]
        schemas: SchemaArgs,
    },
    /// Search the names of all providers, events, fields, keywords and maps
    #[command(after_help = "Examples:
  etw provider search QueryName
  etw provider search --field dns query        fields that have both words in their own or their event's names
  etw provider search --event --keyword handle --format json
  etw provider search tracepoint:sched --field pid   tracepoints of the running kernel (Linux)

Every word must be found, ignoring case: at least one in the name itself, the others there or in the names of
the event, provider or map that it belongs to.")]
    Search {
        /// Words to search for.
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
        /// Search names of providers.
        #[arg(long)]
        provider: bool,
        /// Search names of events.
        #[arg(long)]
        event: bool,
        /// Search names of fields.
        #[arg(long)]
        field: bool,
        /// Search names of keywords.
        #[arg(long)]
        keyword: bool,
        /// Search names and texts of maps.
        #[arg(long)]
        map: bool,
        /// Output format; JSON is one object per line.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        #[command(flatten)]
        schemas: SchemaArgs,
    },
    /// Show how the events of a provider differ between two releases of Windows
    #[command(after_help = "Examples:
  etw provider diff Microsoft-Windows-DNS-Client 10-22H2 11-24H2
  etw provider diff Microsoft-Windows-Kernel-Process 7600 26100 --format json

A release without schemas of its own is compared by those of the release before it.")]
    Diff {
        /// Name or GUID.
        name: String,
        /// Earlier release: a build number or a name (`10-22H2`, `Server-2022`).
        #[arg(value_name = "BUILD")]
        from: String,
        /// Later release.
        #[arg(value_name = "BUILD")]
        to: String,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        #[command(flatten)]
        schemas: SchemaArgs,
    },
    /// Show the events of a provider: ids, levels, keywords, tasks, opcodes, fields with their types, maps
    #[command(after_help = "Examples:
  etw provider show Microsoft-Windows-Kernel-Process
  etw provider show '{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}' --event 1
  etw provider show Microsoft-Windows-DNS-Client --event 3006.0 --release 11-24H2
  etw provider show 'Windows Kernel Trace'     the flags of -k, and which ones this system supports
  etw provider show tracepoint:sched:sched_switch
                                               a tracepoint of the running kernel (Linux)
  etw provider show MyProvider --schema MyProvider.man --format json")]
    Show {
        /// Name or GUID; for classic kernel events a class (`Process`) or `Windows Kernel Trace`.
        name: String,
        /// Show only events with these ids (opcodes of a classic class), or only one version: `7,8.2`.
        #[arg(long, value_name = "ID[.VERSION]", value_delimiter = ',')]
        event: Vec<EventSelector>,
        /// Show the events of Windows as this release has them: a build number or a name (`11-24H2`).
        #[arg(long, value_name = "BUILD")]
        release: Option<String>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        #[command(flatten)]
        schemas: SchemaArgs,
    },
}
