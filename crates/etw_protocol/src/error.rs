//! Errors of connections, and of requests to a host.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// An error of a packet or a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The packet is not a message of the expected kind.
    #[error("a packet of {len_bytes} bytes is no {expected}")]
    Malformed {
        /// The kind of message.
        expected: &'static str,
        /// Bytes of the packet.
        len_bytes: usize,
    },
    /// A message exceeds a limit.
    #[error("{what}: {found}, where at most {limit} are allowed")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// Its value.
        found: usize,
        /// Its maximum.
        limit: usize,
    },
    /// A text contains a line break or another control character.
    #[error("{what} with control characters")]
    ControlCharacter {
        /// Name of the text.
        what: &'static str,
    },
    /// The peer uses another protocol version.
    #[error("the host speaks version {found} of the protocol, this program speaks {expected}")]
    Version {
        /// Our own version.
        expected: u16,
        /// The peer's version.
        found: u16,
    },
    /// Other users could have created the directory.
    #[error("{path} is not to be trusted: {why}")]
    Untrusted {
        /// The directory.
        path: String,
        /// The reason.
        why: String,
    },
}

/// The kind of a failure, in ETW's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A session with this name or file exists (`ERROR_ALREADY_EXISTS`).
    AlreadyExists,
    /// There is no such session (`ERROR_WMI_INSTANCE_NOT_FOUND`) or provider.
    NotFound,
    /// The caller lacks the right (`ERROR_ACCESS_DENIED`).
    AccessDenied,
    /// A limit of sessions, providers or memory is reached (`ERROR_NO_SYSTEM_RESOURCES`).
    NoSystemResources,
    /// A property has an invalid value (`ERROR_INVALID_PARAMETER`).
    InvalidParameter,
    /// The session's mode does not support this (`ERROR_NOT_SUPPORTED`).
    NotSupported,
    /// A file could not be created or written.
    File,
    /// The host is shutting down.
    Ending,
    /// The message is invalid.
    Malformed,
}

/// Why a host refused a request: the kind, and one line for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: ErrorKind,
    /// What failed, on what, and what to do, in one line.
    pub text: String,
}

impl Failure {
    /// Creates a failure with its message.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Failure {
        Failure { kind, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::NotFound => "not found",
            ErrorKind::AccessDenied => "access denied",
            ErrorKind::NoSystemResources => "no system resources",
            ErrorKind::InvalidParameter => "invalid parameter",
            ErrorKind::NotSupported => "not supported",
            ErrorKind::File => "file error",
            ErrorKind::Ending => "host is ending",
            ErrorKind::Malformed => "malformed message",
        })
    }
}
