//! Why something asked of a host was not done.

use std::io;
use std::path::PathBuf;

use etw_protocol::{ErrorKind, Failure, ProtocolError};

/// Why something asked of a host was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Nobody listens.
    #[error("no host runs in {}; start one with `etw daemon`", directory.display())]
    NoHost {
        /// The instance's directory.
        directory: PathBuf,
    },
    /// The host ended the connection without a word.
    #[error(
        "the host in {place} ended the connection: it admits its own user only, has too many connections, or has ended"
    )]
    Disconnected {
        /// Where the host is, in words.
        place: String,
    },
    /// The host refused.
    #[error("{0}")]
    Refused(Failure),
    /// The connection.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The host answered something else than what was asked.
    #[error("the host's answer is none to the request '{request}'")]
    Answer {
        /// The request.
        request: &'static str,
    },
    /// The file of a session could not be made by this program.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A keyword by name, which only the provider's schema can turn into bits.
    #[error(
        "keyword '{keyword}' of provider {provider} is a name; only the provider's schema knows its bits"
    )]
    KeywordName {
        /// The provider.
        provider: String,
        /// The name.
        keyword: String,
    },
}

impl ControllerError {
    /// The kind of a refusal; `None` for other failures.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            ControllerError::Refused(failure) => Some(failure.kind),
            _ => None,
        }
    }
}
