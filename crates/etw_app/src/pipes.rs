//! Traces from standard input and pipes, which can be read only once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use openetw::Spooled;

use crate::UsageError;
use crate::urls::is_url;

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// The pipes read and the URLs fetched so far, or why they were not. A command may open its inputs several times.
static SPOOLED: Mutex<BTreeMap<PathBuf, Result<Spooled, String>>> = Mutex::new(BTreeMap::new());

/// Has a path mean these bytes from now on; or, if there are none, an input that cannot be opened.
pub(crate) fn keep(path: &Path, bytes: Result<Spooled, String>) {
    SPOOLED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), bytes);
}

/// Returns whether a path means standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
}

/// Returns the bytes of standard input (`-`) or a pipe, which is read to its end when it is opened first, or of a URL that was
/// fetched; the inner error is why it was not. Returns `None` for any other path.
///
/// # Errors
///
/// Fails if standard input is a terminal ([`UsageError`]), or if the pipe cannot be read or copied.
pub(crate) fn spooled(path: &Path) -> Result<Option<Result<Spooled, String>>> {
    if !is_read_once(path) {
        return Ok(None);
    }
    let mut known = SPOOLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(spooled) = known.get(path) {
        return Ok(Some(spooled.clone()));
    }
    if is_url(path) {
        return Ok(None);
    }
    let (name, pipe) = match is_standard_input(path) {
        true if io::stdin().is_terminal() => {
            let text = "standard input is a terminal; name a file, or connect a pipe";
            return Err(UsageError(text.to_owned()).into());
        }
        true => ("standard input".to_owned(), standard_input()),
        false => (path.display().to_string(), File::open(path)),
    };
    let pipe = pipe.with_context(|| format!("cannot open '{name}'"))?;
    let spooled = Spooled::read(&name, pipe)?;
    known.insert(path.to_owned(), Ok(spooled.clone()));
    Ok(Some(Ok(spooled)))
}

/// Returns whether a path names something that cannot be opened a second time, such as a pipe.
pub(crate) fn is_read_once(path: &Path) -> bool {
    is_standard_input(path) || is_url(path) || is_pipe(path)
}

/// Returns whether a path is a FIFO or a socket, such as `/dev/fd/63` of a process substitution.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(path).is_ok_and(|metadata| {
            let kind = metadata.file_type();
            kind.is_fifo() || kind.is_socket()
        })
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

fn standard_input() -> io::Result<File> {
    let stdin = io::stdin();
    #[cfg(unix)]
    let file = std::os::fd::AsFd::as_fd(&stdin).try_clone_to_owned()?;
    #[cfg(windows)]
    let file = std::os::windows::io::AsHandle::as_handle(&stdin).try_clone_to_owned()?;
    Ok(File::from(file))
}
