//! The tools that ETW's users know, under their own names: `etw logman …`, or a link `logman` to the program.
//!
//! A tool has its own options, output and exit codes, as its documentation has them.

#![cfg_attr(
    not(target_os = "linux"),
    allow(
        dead_code,
        reason = "the tools that control sessions, which only Linux has, use more of what all share"
    )
)]

#[cfg(target_os = "linux")]
pub(crate) mod host;
pub(crate) mod links;
#[cfg(target_os = "linux")]
mod logger;
#[cfg(target_os = "linux")]
mod logman;
#[cfg(target_os = "linux")]
mod marks;
pub(crate) mod options;
#[cfg(target_os = "linux")]
pub(crate) mod profiles;
#[cfg(target_os = "linux")]
pub(crate) mod providers;
#[cfg(target_os = "linux")]
pub(crate) mod session;
pub(crate) mod status;
mod tracefmt;
#[cfg(target_os = "linux")]
mod tracelog;
mod tracerpt;
pub(crate) mod words;
#[cfg(target_os = "linux")]
mod wpr;
#[cfg(target_os = "linux")]
mod xperf;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::output;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    #[cfg(target_os = "linux")]
    Logman,
    Tracefmt,
    #[cfg(target_os = "linux")]
    Tracelog,
    Tracerpt,
    #[cfg(target_os = "linux")]
    Wpr,
    #[cfg(target_os = "linux")]
    Xperf,
}

impl Tool {
    /// Every tool.
    pub(crate) const ALL: &'static [Tool] = &[
        #[cfg(target_os = "linux")]
        Tool::Logman,
        Tool::Tracefmt,
        #[cfg(target_os = "linux")]
        Tool::Tracelog,
        Tool::Tracerpt,
        #[cfg(target_os = "linux")]
        Tool::Wpr,
        #[cfg(target_os = "linux")]
        Tool::Xperf,
    ];

    /// The name of the tool, and of the link to it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Tool::Logman => "logman",
            Tool::Tracefmt => "tracefmt",
            #[cfg(target_os = "linux")]
            Tool::Tracelog => "tracelog",
            Tool::Tracerpt => "tracerpt",
            #[cfg(target_os = "linux")]
            Tool::Wpr => "wpr",
            #[cfg(target_os = "linux")]
            Tool::Xperf => "xperf",
        }
    }

    /// The tool that the program was called as, by the name of the link.
    pub(crate) fn of_link(program: &OsStr) -> Option<Tool> {
        let name = Path::new(program).file_name()?.to_str()?.to_lowercase();
        let bare = name.strip_suffix(".exe").unwrap_or(&name);
        Tool::ALL.iter().copied().find(|tool| tool.name() == bare)
    }

    /// Runs it with the words behind its name. What it cannot do is told in one line, with Windows's code.
    pub(crate) fn run(self, words: &[OsString]) -> ExitCode {
        let run: fn(&[OsString]) -> Result<ExitCode> = match self {
            #[cfg(target_os = "linux")]
            Tool::Logman => logman::run,
            Tool::Tracefmt => tracefmt::run,
            #[cfg(target_os = "linux")]
            Tool::Tracelog => tracelog::run,
            Tool::Tracerpt => tracerpt::run,
            #[cfg(target_os = "linux")]
            Tool::Wpr => wpr::run,
            #[cfg(target_os = "linux")]
            Tool::Xperf => xperf::run,
        };
        match run(words) {
            Ok(code) => code,
            // Who reads the other end of a pipe (`| head`) has seen enough.
            Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                let code = status::code_of(&error);
                eprintln!("{}: {} ({code:#x})", self.name(), output::one_line(&error));
                ExitCode::from(status::exit_status(code))
            }
        }
    }
}

/// Where tools keep what a user has them keep: `openetw` in the directory for configuration (`XDG_CONFIG_HOME`, else
/// `~/.config`).
#[cfg(target_os = "linux")]
fn config_directory() -> Result<std::path::PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).map(std::path::PathBuf::from).filter(|path| path.is_absolute());
    let config = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    let missing = || anyhow::anyhow!("neither XDG_CONFIG_HOME nor HOME says where configuration is kept");
    Ok(config.ok_or_else(missing)?.join("openetw"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_their_names() {
        let check = |program: &str, tool: Option<Tool>| assert_eq!(Tool::of_link(OsStr::new(program)), tool);
        check("logman", Some(Tool::Logman));
        check("/usr/local/bin/Logman.exe", Some(Tool::Logman));
        check("/usr/bin/etw", None);
        check("etw-logman", None);
        check("", None);
    }
}
