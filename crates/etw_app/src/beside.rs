//! Programs beside the one that runs, with parts that most uses do not need.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// A program beside `etw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `etw-view`, with a server of web pages.
    View,
    /// `etw-sql`, with an engine of queries, and what fetches traces from URLs.
    Sql,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Program::View => "etw-view",
            Program::Sql => "etw-sql",
        }
    }

    /// Returns the arguments of `cargo` that build it.
    const fn build(self) -> &'static str {
        match self {
            Program::View => "build --release --package etw_viewer",
            Program::Sql => "build --release --package etw_sql",
        }
    }

    /// Returns its path.
    ///
    /// # Errors
    ///
    /// Fails with how to build it if it is not there.
    pub fn path(self) -> Result<PathBuf> {
        let own = std::env::current_exe().context("cannot find the directory of this program")?;
        let program = own.with_file_name(format!("{}{}", self.name(), std::env::consts::EXE_SUFFIX));
        if !program.is_file() {
            bail!("{} is missing; build it with: cargo {}", program.display(), self.build());
        }
        Ok(program)
    }
}
