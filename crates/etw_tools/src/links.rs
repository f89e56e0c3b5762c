//! `etw install-links`: links that make the tools available under their own names.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use openetw::export::plain_line;

use crate::Tool;

/// Creates a link to this program for each tool in a directory, and prints the links.
///
/// # Errors
///
/// Fails if a link cannot be created, or if another file has its name and `replaces` is not set; then no link is created.
pub fn install(directory: &Path, replaces: bool) -> Result<()> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    fs::create_dir_all(directory).with_context(|| format!("{}: cannot be created", directory.display()))?;
    let taken: Vec<_> = Tool::ALL
        .iter()
        .filter(|_| !replaces)
        .map(|tool| directory.join(file_name(*tool)))
        .filter(|path| path.symlink_metadata().is_ok() && !is_link_to(path, &program))
        .collect();
    // Check all links before creating any.
    if let Some(path) = taken.first() {
        bail!("{}: another file has this name; --force replaces it", path.display());
    }
    for tool in Tool::ALL {
        let path = directory.join(file_name(*tool));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(anyhow!(error).context(format!("{}: cannot be replaced", path.display())));
            }
            _ => {}
        }
        link(&program, &path).with_context(|| format!("{}: cannot be created", path.display()))?;
        println!("{}", plain_line(&format!("{} -> {}", path.display(), program.display())));
    }
    Ok(())
}

/// Returns the name of a tool's link, as the system's programs are named.
fn file_name(tool: Tool) -> String {
    format!("{}{}", tool.name(), std::env::consts::EXE_SUFFIX)
}

fn is_link_to(path: &Path, program: &Path) -> bool {
    matches!((path.canonicalize(), program.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(unix)]
fn link(program: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(program, path)
}

#[cfg(not(unix))]
fn link(program: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(program, path)
}
