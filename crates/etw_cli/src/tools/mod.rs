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
#[cfg(target_os = "linux")]
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

#[cfg(target_os = "linux")]
use self::options::Options;
use self::status::{Failed, code};
use crate::output;

/// A tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    /// Its name, and that of the link to it.
    pub(crate) name: &'static str,
    run: fn(&[OsString]) -> Result<ExitCode>,
}

impl Tool {
    #[cfg(target_os = "linux")]
    pub(crate) const LOGMAN: Tool = Tool { name: "logman", run: logman::run };
    pub(crate) const TRACEFMT: Tool = Tool { name: "tracefmt", run: tracefmt::run };
    #[cfg(target_os = "linux")]
    pub(crate) const TRACELOG: Tool = Tool { name: "tracelog", run: tracelog::run };
    pub(crate) const TRACERPT: Tool = Tool { name: "tracerpt", run: tracerpt::run };
    #[cfg(target_os = "linux")]
    pub(crate) const WPR: Tool = Tool { name: "wpr", run: wpr::run };
    #[cfg(target_os = "linux")]
    pub(crate) const XPERF: Tool = Tool { name: "xperf", run: xperf::run };

    /// Every tool.
    #[cfg(target_os = "linux")]
    pub(crate) const ALL: &'static [Tool] =
        &[Tool::LOGMAN, Tool::TRACEFMT, Tool::TRACELOG, Tool::TRACERPT, Tool::WPR, Tool::XPERF];
    #[cfg(not(target_os = "linux"))]
    pub(crate) const ALL: &'static [Tool] = &[Tool::TRACEFMT, Tool::TRACERPT];

    /// The tool that the program was called as, by the name of the link.
    pub(crate) fn of_link(program: &OsStr) -> Option<Tool> {
        let name = Path::new(program).file_name()?.to_str()?.to_lowercase();
        let bare = name.strip_suffix(".exe").unwrap_or(&name);
        Tool::ALL.iter().copied().find(|tool| tool.name == bare)
    }

    /// Runs it with the words behind its name. What it cannot do is told in one line, with Windows's code.
    pub(crate) fn run(self, words: &[OsString]) -> ExitCode {
        match (self.run)(words) {
            Ok(code) => code,
            // Who reads the other end of a pipe (`| head`) has seen enough.
            Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                let code = status::code_of(&error);
                eprintln!("{}: {} ({code:#x})", self.name, output::one_line(&error));
                ExitCode::from(status::exit_status(code))
            }
        }
    }
}

/// Runs a tool whose command line is options: the help if that is asked for or nothing is, else what `act` does.
#[cfg(target_os = "linux")]
fn run_options(
    options: &Options,
    help: impl FnOnce() -> String,
    act: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<ExitCode> {
    let mut out = Vec::new();
    let result = if options.asks_for_help || options.is_empty() {
        out = help().into_bytes();
        Ok(())
    } else {
        act(&mut out)
    };
    // What was found before a failure is shown all the same.
    output::open(None)?.write_all(&out)?;
    result.map(|()| ExitCode::SUCCESS)
}

/// Fails for an option that makes no sense here, with what to do instead.
#[cfg(target_os = "linux")]
fn refuse(refusal: Option<(&str, &str)>) -> Result<()> {
    refusal.map_or(Ok(()), |(name, instead)| {
        Err(Failed::new(code::NOT_SUPPORTED, format!("-{name}: {instead}")).into())
    })
}

/// Fails if a trace is not there.
fn check_inputs(files: &[PathBuf]) -> Result<()> {
    for file in files {
        if let Err(error) = std::fs::metadata(file) {
            let code = match error.kind() {
                std::io::ErrorKind::PermissionDenied => code::ACCESS_DENIED,
                _ => code::FILE_NOT_FOUND,
            };
            return Err(Failed::new(code, format!("{}: {error}", file.display())).into());
        }
    }
    Ok(())
}

/// Where tools keep what a user has them keep: `openetw` in the directory for configuration (`XDG_CONFIG_HOME`, else
/// `~/.config`).
#[cfg(target_os = "linux")]
fn config_directory() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    let missing = || anyhow::anyhow!("neither XDG_CONFIG_HOME nor HOME says where configuration is kept");
    Ok(config.ok_or_else(missing)?.join("openetw"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_their_names() {
        let check = |program: &str, tool: Option<&str>| {
            assert_eq!(Tool::of_link(OsStr::new(program)).map(|tool| tool.name), tool);
        };
        check("tracerpt", Some("tracerpt"));
        check("/usr/local/bin/Tracerpt.exe", Some("tracerpt"));
        check("/usr/bin/etw", None);
        check("etw-tracerpt", None);
        check("", None);
    }
}
