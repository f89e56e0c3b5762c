//! The Windows tracing tools under their own names: `etw logman …`, or a link `logman` to the program.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Each tool has the options, output and exit codes of its Windows documentation. The tools that control sessions are
//! available on Linux and Windows.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(target_os = "linux", windows)),
    allow(
        dead_code,
        reason = "the tools that control sessions, which not all systems have, use more of what all share"
    )
)]

mod files;
#[cfg(any(target_os = "linux", windows))]
mod host;
pub mod links;
#[cfg(any(target_os = "linux", windows))]
mod logger;
#[cfg(any(target_os = "linux", windows))]
mod logman;
#[cfg(any(target_os = "linux", windows))]
mod marks;
mod options;
mod page;
#[cfg(any(target_os = "linux", windows))]
mod run;
#[cfg(any(target_os = "linux", windows))]
mod session;
mod tracefmt;
#[cfg(any(target_os = "linux", windows))]
mod tracelog;
mod tracepdb;
mod tracerpt;
mod words;
#[cfg(any(target_os = "linux", windows))]
mod wpr;
#[cfg(any(target_os = "linux", windows))]
mod xperf;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use etw_app::{output, status};

pub use page::{PageFormat, PageRequest, PageWriter};

/// A Windows tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Controls sessions and data collector sets.
    #[cfg(any(target_os = "linux", windows))]
    Logman,
    /// Formats messages of traces as text.
    Tracefmt,
    /// Controls sessions and the providers enabled in them.
    #[cfg(any(target_os = "linux", windows))]
    Tracelog,
    /// Makes files with the formats of WPP messages from PDB files.
    Tracepdb,
    /// Converts traces to CSV, XML or event logs, with a summary and a report.
    Tracerpt,
    /// Records by recording profiles.
    #[cfg(any(target_os = "linux", windows))]
    Wpr,
    /// Records kernel events by flags and groups, and analyses traces.
    #[cfg(any(target_os = "linux", windows))]
    Xperf,
}

impl Tool {
    /// All tools available on this system.
    #[cfg(any(target_os = "linux", windows))]
    pub const ALL: &'static [Tool] = &[
        Tool::Logman,
        Tool::Tracefmt,
        Tool::Tracelog,
        Tool::Tracepdb,
        Tool::Tracerpt,
        Tool::Wpr,
        Tool::Xperf,
    ];
    /// All tools available on this system.
    #[cfg(not(any(target_os = "linux", windows)))]
    pub const ALL: &'static [Tool] = &[Tool::Tracefmt, Tool::Tracepdb, Tool::Tracerpt];

    /// Returns the tool's name, which is also the name of its link.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(any(target_os = "linux", windows))]
            Tool::Logman => "logman",
            Tool::Tracefmt => "tracefmt",
            #[cfg(any(target_os = "linux", windows))]
            Tool::Tracelog => "tracelog",
            Tool::Tracepdb => "tracepdb",
            Tool::Tracerpt => "tracerpt",
            #[cfg(any(target_os = "linux", windows))]
            Tool::Wpr => "wpr",
            #[cfg(any(target_os = "linux", windows))]
            Tool::Xperf => "xperf",
        }
    }

    /// Returns the tool that the program was started as, according to the name of the link.
    #[must_use]
    pub fn of_link(program: &OsStr) -> Option<Tool> {
        let name = Path::new(program).file_name()?.to_str()?.to_lowercase();
        let bare = name.strip_suffix(".exe").unwrap_or(&name);
        Tool::ALL.iter().copied().find(|tool| tool.name() == bare)
    }

    /// Runs the tool with the words after its name and returns the exit code. `page` writes report pages.
    ///
    /// A failure is printed to standard error in one line, with the Windows error code.
    #[must_use]
    pub fn run(self, words: &[OsString], page: PageWriter) -> ExitCode {
        let result = match self {
            #[cfg(any(target_os = "linux", windows))]
            Tool::Logman => logman::run(words),
            Tool::Tracefmt => tracefmt::run(words),
            #[cfg(any(target_os = "linux", windows))]
            Tool::Tracelog => tracelog::run(words),
            Tool::Tracepdb => tracepdb::run(words),
            Tool::Tracerpt => tracerpt::run(words, page),
            #[cfg(any(target_os = "linux", windows))]
            Tool::Wpr => wpr::run(words),
            #[cfg(any(target_os = "linux", windows))]
            Tool::Xperf => xperf::run(words),
        };
        match result {
            Ok(code) => code,
            // The reader of the pipe (`| head`) has closed it, which is not a failure.
            Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                let code = status::code_of(&error);
                etw_app::say!("{}: {} ({code:#x})", self.name(), output::one_line(&error));
                ExitCode::from(status::exit_status(code))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_their_names() {
        let check = |program: &str, tool: Option<&str>| {
            assert_eq!(Tool::of_link(OsStr::new(program)).map(Tool::name), tool);
        };
        check("tracerpt", Some("tracerpt"));
        check("/usr/local/bin/Tracerpt.exe", Some("tracerpt"));
        check("/usr/bin/etw", None);
        check("etw-tracerpt", None);
        check("", None);
    }
}
