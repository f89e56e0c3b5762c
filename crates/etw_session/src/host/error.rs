//! Errors that prevent a host from starting.

use std::io;
use std::path::{Path, PathBuf};

use etw_protocol::ProtocolError;

/// The reason why a host cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Another host serves the instance.
    #[error("another host runs in {}; stop it first, or name another directory by OPENETW_RUNTIME_DIR", .0.display())]
    AlreadyRunning(PathBuf),
    /// A file or directory cannot be used.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A configuration file is invalid.
    #[error("{}: {what}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// The fault and its position.
        what: String,
    },
    /// The directory cannot be trusted.
    #[error(transparent)]
    Instance(#[from] ProtocolError),
    /// The system refuses a resource that the host needs.
    #[error("the system refuses a resource that the host needs: {0}")]
    System(#[from] io::Error),
}

impl HostError {
    pub(crate) fn file(path: &Path, error: io::Error) -> HostError {
        HostError::File { path: path.to_owned(), error }
    }
}

/// Returns the fault in a TOML file and its position, in one line.
pub(super) fn toml_text(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    format!("line {line}: {}", error.message().replace('\n', " "))
}
