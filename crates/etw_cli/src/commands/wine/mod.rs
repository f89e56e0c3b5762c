//! `etw wine`: prefixes of Wine in which Windows programs use OpenETW, by DLLs that forward functions, and settings.
//!
//! Programs in a prefix find ETW's functions in `etw_win32.dll` after the installation. Nothing of Wine is needed to build
//! this, and nothing of it is copied out of the prefix.
//!
//! | file in `drive_c/windows/system32` | after the installation |
//! |---|---|
//! | `etw_win32.dll` | the library of the crate `etw_win32` |
//! | `etw_win32.path` | the path of `etw`, which programs start as the host of their sessions |
//! | `wineadvapi32.dll`, `winekernelbase.dll`, `winesechost.dll`, `winetdh.dll` | Wine's DLLs, renamed |
//! | `advapi32.dll`, `kernelbase.dll`, `sechost.dll`, `tdh.dll` | exports of the same names: ETW's functions lead to `etw_win32.dll`, all others to the renamed DLLs |
//! | `bcryptprimitives.dll` | if Wine has none: its random numbers, which programs in Rust need |

mod forwarder;
mod functions;
mod prefix;
mod registry;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

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
            prefix::install(prefix, &library, &etw)
        }
        WineCommand::Remove { prefix } => prefix::remove(prefix),
    }
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
