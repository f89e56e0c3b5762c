//! Errors of requests to a host.

use std::io;
use std::path::PathBuf;

use etw_protocol::{ErrorKind, Failure, ProtocolError, Response};

/// Why a request to a host failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// No host is running.
    #[error("no host runs in {}; start one with `etw daemon`", directory.display())]
    NoHost {
        /// The instance's directory.
        directory: PathBuf,
    },
    /// The host closed the connection without a reply.
    #[error(
        "the host in {place} ended the connection: it admits its own user only, has too many connections, or has ended"
    )]
    Disconnected {
        /// Where the host is, in words.
        place: String,
    },
    /// The host refused the request.
    #[error("{0}")]
    Refused(Failure),
    /// Windows refused the request.
    #[cfg(windows)]
    #[error("{failure} (Windows error {code})")]
    Windows {
        /// The kind of the error, and what failed.
        failure: Failure,
        /// The error code of Windows (`winerror.h`); 0 if the request was not passed to Windows.
        code: u32,
    },
    /// The connection failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The host's reply does not match the request.
    #[error("unexpected reply to '{request}'")]
    Answer {
        /// The request.
        request: &'static str,
    },
    /// This program could not open the session's file.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A keyword given by name, which only the provider's schema can resolve.
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
    /// Returns the kind of a refusal; `None` for other failures.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            ControllerError::Refused(failure) => Some(failure.kind),
            #[cfg(windows)]
            ControllerError::Windows { failure, .. } => Some(failure.kind),
            _ => None,
        }
    }
}

/// Returns the error for a reply of another kind than the request has.
pub(crate) fn unexpected<T>(request: &'static str, response: Response) -> Result<T, ControllerError> {
    match response {
        Response::Failed(failure) => Err(ControllerError::Refused(failure)),
        _ => Err(ControllerError::Answer { request }),
    }
}
