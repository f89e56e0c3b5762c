//! `etw wine`: prefixes of Wine in which Windows programs use OpenETW.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use etw_wine::Installation;

use crate::args::WineCommand;

/// The library's name as cargo builds it.
const LIBRARY: &str = "libetw_win32.so";

/// Runs the command.
pub(crate) fn run(command: &WineCommand) -> Result<()> {
    match command {
        WineCommand::Install { prefix, library } => {
            let etw = std::env::current_exe().context("cannot find the path of this program")?;
            let library = match library {
                Some(library) => library.clone(),
                None => find(&etw)?,
            };
            etw_wine::install(prefix, &Installation { library, etw })?;
        }
        WineCommand::Remove { prefix } => etw_wine::remove(prefix)?,
    }
    Ok(())
}

/// Returns the library beside the program, or in `lib` beside it.
fn find(program: &Path) -> Result<PathBuf> {
    let beside = program.parent().unwrap_or(Path::new("/"));
    // The second one is of the build directory, where it is the one built with this program.
    let places = [beside.join("../lib"), beside.join("deps"), beside.to_owned()];
    match places.iter().map(|place| place.join(LIBRARY)).find(|path| path.is_file()) {
        Some(found) => Ok(found),
        None => bail!(
            "no {LIBRARY} in {}; build it with `cargo build --release --package etw_win32`, or name it with --library",
            places.map(|place| place.display().to_string()).join(", ")
        ),
    }
}
