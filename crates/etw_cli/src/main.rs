//! The `etw` command.

mod args;
mod batch;
mod commands;
mod input;
mod interrupt;
mod machine;
mod output;
mod progress;
mod schemas;
mod survey;
mod tally;
mod text;
mod tools;

use std::process::ExitCode;

use clap::Parser;
use openetw::relog::RelogError;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    etw_sys::exit_on_page_error(
        "etw: a trace became shorter while it was read, or the disk failed; copy the file and read the copy\n",
    );
    let mut words = std::env::args_os();
    if let Some(tool) = words.next().and_then(|program| tools::Tool::of_link(&program)) {
        return tool.run(&words.collect::<Vec<_>>());
    }
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Info(args) => commands::info::run(&args),
        Command::Dump(args) => commands::dump::run(&args),
        Command::Export(args) => commands::export::run(*args),
        #[cfg(target_os = "linux")]
        Command::Record(args) => match commands::record::run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        #[cfg(target_os = "linux")]
        Command::Watch(args) => commands::watch::run(&args),
        #[cfg(target_os = "linux")]
        Command::Write(args) => commands::write::run(&args),
        Command::Stats(args) => commands::stats::run(&args),
        Command::Merge(args) => commands::relog::merge(&args),
        Command::Split(args) => commands::relog::split(&args),
        Command::Relog(args) => commands::relog::relog(&args),
        Command::Report(args) => commands::report::run(&args),
        #[cfg(target_os = "linux")]
        Command::Session(command) => commands::session::run(&command),
        #[cfg(target_os = "linux")]
        Command::Daemon(args) => commands::daemon::run(&args),
        Command::Provider(command) => commands::provider::run(&command),
        Command::Schema(command) => commands::schema::run(&command),
        #[cfg(target_os = "linux")]
        Command::Logman(args) => return tools::Tool::LOGMAN.run(&args.words),
        Command::Tracefmt(args) => return tools::Tool::TRACEFMT.run(&args.words),
        Command::Tracerpt(args) => return tools::Tool::TRACERPT.run(&args.words),
        #[cfg(target_os = "linux")]
        Command::Tracelog(args) => return tools::Tool::TRACELOG.run(&args.words),
        #[cfg(target_os = "linux")]
        Command::Wpr(args) => return tools::Tool::WPR.run(&args.words),
        #[cfg(target_os = "linux")]
        Command::Xperf(args) => return tools::Tool::XPERF.run(&args.words),
        Command::InstallLinks { dir, force } => tools::links::install(&dir, force),
        Command::Completions { shell } => commands::generate::completions(shell),
        Command::Man { dir } => commands::generate::man(&dir),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads the other end of a pipe (`| head`) has seen enough.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error);
            ExitCode::from(status_of(&error))
        }
    }
}

/// The exit status for an error; docs/cli.md lists them.
fn status_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        _ if error.is::<UsageError>() => 2,
        Some(RelogError::NothingToRedact { .. }) => 3,
        _ => 1,
    }
}

/// What the user typed makes no sense; the exit status is 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
