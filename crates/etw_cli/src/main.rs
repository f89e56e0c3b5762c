//! The `etw` command.

#![forbid(unsafe_code)]

mod args;
mod commands;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use etw_app::{UsageError, output, urls};
use etw_tools::{Tool, links};
use openetw::export::PlainWriter;
use openetw::relog::RelogError;

use crate::args::{Cli, Command};
use crate::commands::beside::Beside;

fn main() -> ExitCode {
    etw_sys::exit_on_page_error(
        "etw: a trace was truncated while it was read, or the disk failed; copy the file and read the copy\n",
    );
    #[cfg(windows)]
    etw_sys::console::enable_escape_sequences();
    let mut words = std::env::args_os();
    if let Some(tool) = words.next().and_then(|program| Tool::of_link(&program)) {
        return tool.run(&words.collect::<Vec<_>>(), commands::report::page);
    }
    let mut cli = match Cli::try_parse_from(args::schema::words()) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            // It quotes the words as they are.
            let _ = write!(PlainWriter::new(std::io::stderr()), "{}", error.render());
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    // The rights for that are given up then.
    if let Some(Err(error)) = cli.command.inputs().map(urls::fetch) {
        output::report(&error);
        return ExitCode::from(status_of(&error));
    }
    if let (false, Some(outputs)) = (cli.no_sandbox, cli.command.outputs()) {
        etw_app::sandbox::enter(&outputs);
    }
    let result = match cli.command {
        Command::Info(args) => commands::info::run(&args),
        Command::Dump(args) => commands::dump::run(&args),
        Command::Export(args) => commands::export::run(*args),
        #[cfg(any(target_os = "linux", windows))]
        Command::Record(args) => match commands::record::run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        #[cfg(any(target_os = "linux", windows))]
        Command::Watch(args) => etw_watch::run(&args.options()),
        #[cfg(any(target_os = "linux", windows))]
        Command::Write(args) => commands::write::run(&args),
        Command::Stats(args) => commands::stats::run(&args),
        Command::Merge(args) => commands::relog::merge(&args),
        Command::Split(args) => commands::relog::split(&args),
        Command::Relog(args) => commands::relog::relog(&args),
        Command::Report(args) => commands::report::run(*args),
        Command::Tables(args) => commands::tables::run(&args),
        Command::Index(args) => match commands::index::run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        Command::View(args) => match Beside::View.run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        Command::Sql(args) => match Beside::Sql.run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        Command::Cluster(args) => match Beside::Cluster.run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        Command::Compare(args) => match commands::compare::run(*args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        Command::Symbols(args) => match commands::symbols::run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(error) => Err(error),
        },
        #[cfg(any(target_os = "linux", windows))]
        Command::Session(command) => commands::session::run(&command),
        #[cfg(target_os = "linux")]
        Command::Daemon(args) => commands::daemon::run(&args),
        Command::Provider(command) => commands::provider::run(&command),
        Command::Schema(command) => commands::schema::run(&command),
        Command::Mc(args) => commands::mc::run(&args),
        #[cfg(any(target_os = "linux", windows))]
        Command::Logman(args) => return Tool::Logman.run(&args.words, commands::report::page),
        Command::Tracefmt(args) => return Tool::Tracefmt.run(&args.words, commands::report::page),
        Command::Tracepdb(args) => return Tool::Tracepdb.run(&args.words, commands::report::page),
        Command::Tracerpt(args) => return Tool::Tracerpt.run(&args.words, commands::report::page),
        #[cfg(any(target_os = "linux", windows))]
        Command::Tracelog(args) => return Tool::Tracelog.run(&args.words, commands::report::page),
        #[cfg(any(target_os = "linux", windows))]
        Command::Wpr(args) => return Tool::Wpr.run(&args.words, commands::report::page),
        #[cfg(any(target_os = "linux", windows))]
        Command::Xperf(args) => return Tool::Xperf.run(&args.words, commands::report::page),
        #[cfg(target_os = "linux")]
        Command::InstallDev { dir, libraries } => commands::install_dev::run(&dir, libraries.as_deref()),
        #[cfg(target_os = "linux")]
        Command::Wine(command) => commands::wine::run(&command),
        Command::InstallLinks { dir, force } => links::install(&dir, force),
        Command::Completions { shell } => commands::generate::completions(shell),
        Command::Man { dir } => commands::generate::man(&dir),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe (`| head`) may close it early.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error);
            ExitCode::from(status_of(&error))
        }
    }
}

/// Returns the exit status for an error; docs/cli.md lists them.
fn status_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        _ if error.is::<UsageError>() => 2,
        Some(RelogError::NothingToRedact { .. } | RelogError::NothingToSet { .. }) => 3,
        _ => 1,
    }
}
