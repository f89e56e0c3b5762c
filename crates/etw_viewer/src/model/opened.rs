//! Whether traces are still what they were when they were opened.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, bail};

/// The size and the time of change of each trace when it was opened.
///
/// Traces are read again for single events and for new symbols. Files are mapped, so a trace that another program shortens
/// while it is read ends the process; one that was shortened before is not read.
#[derive(Debug, Default)]
pub(crate) struct Opened(Vec<(PathBuf, Option<Identity>)>);

/// What identifies the contents of a file.
pub(crate) type Identity = (u64, SystemTime);

/// Returns what identifies the contents of a file; `None` if there is no file.
fn identity(path: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

impl Opened {
    pub(super) fn new(files: &[PathBuf]) -> Opened {
        Opened(files.iter().map(|path| (path.clone(), identity(path))).collect())
    }

    /// Returns what happened to a trace since, if something did.
    pub(super) fn changed(&self) -> Option<String> {
        self.0.iter().find_map(|(path, before)| {
            let what = match (before, identity(path)) {
                (None, _) => return None,
                (Some(_), None) => "is gone; single events cannot be read any more",
                (Some(before), Some(now)) if *before != now => {
                    "has changed; what is shown is from when it was opened, so open it again"
                }
                _ => return None,
            };
            Some(format!("{} {what}", path.display()))
        })
    }

    /// Returns what identifies the contents of the traces as they are now.
    pub(crate) fn now(&self) -> Vec<Option<Identity>> {
        self.0.iter().map(|(path, _)| identity(path)).collect()
    }

    /// Rejects traces that cannot be read again. One that has grown can.
    ///
    /// # Errors
    ///
    /// Fails if one is gone, or shorter than it was.
    pub(crate) fn check(&self) -> Result<()> {
        for (path, before) in &self.0 {
            let Some((before, _)) = before else { continue };
            match identity(path) {
                None => bail!("{} is gone", path.display()),
                Some((now, _)) if now < *before => {
                    bail!("{} is shorter than when it was opened; open it again", path.display())
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
