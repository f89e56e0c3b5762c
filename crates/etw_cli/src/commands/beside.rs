//! `etw view`, `etw sql` and `etw cluster`: programs of their own, since they bring a server and a query engine that nothing
//! else needs.

use std::process::Command;

use anyhow::{Context, Result};
use etw_app::beside::Program;

use crate::args::ToolArgs;

/// A program beside `etw`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Beside {
    /// Shows traces in a browser.
    View,
    /// Asks questions in SQL.
    Sql,
    /// Answers them on several machines.
    Cluster,
}

impl Beside {
    const fn program(self) -> Program {
        match self {
            Beside::View => Program::View,
            Beside::Sql | Beside::Cluster => Program::Sql,
        }
    }

    /// Runs the program, and returns its exit status; on Unix it replaces this process.
    ///
    /// # Errors
    ///
    /// Fails if the program is not there, or cannot be started.
    pub(crate) fn run(self, args: &ToolArgs) -> Result<u8> {
        let program = self.program().path()?;
        let mut command = Command::new(&program);
        if matches!(self, Beside::Cluster) {
            command.arg("cluster");
        }
        command.args(&args.words);
        start(&mut command).with_context(|| format!("cannot run {}", program.display()))
    }
}

#[cfg(unix)]
fn start(command: &mut Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn start(command: &mut Command) -> std::io::Result<u8> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
