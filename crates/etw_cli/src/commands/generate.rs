//! `etw completions` and `etw man`: completion scripts and manual pages, generated from the command line's definition.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::Cli;

/// Writes a completion script to standard output.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "etw", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}

/// Writes `etw.1` and one page per command.
pub(crate) fn man(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("{}: cannot be made", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("{}: cannot be written", dir.display()))?;
    Ok(())
}
