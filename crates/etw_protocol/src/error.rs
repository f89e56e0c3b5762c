//! What can go wrong: in a connection, and in what a host was asked to do.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// A packet or a connection that is not as it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// A packet that is no message of the kind that is due.
    #[error("a packet of {len_bytes} bytes is no {expected}")]
    Malformed {
        /// The kind of message.
        expected: &'static str,
        /// Bytes of the packet.
        len_bytes: usize,
    },
    /// A message with more of something than the limits allow.
    #[error("{what}: {found}, where at most {limit} are allowed")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A text with a line break or another control character.
    #[error("{what} with control characters")]
    ControlCharacter {
        /// What the text is.
        what: &'static str,
    },
    /// The peer speaks another version.
    #[error("the host speaks version {found} of the protocol, this program speaks {expected}")]
    Version {
        /// Our own version.
        expected: u16,
        /// The peer's version.
        found: u16,
    },
    /// A directory that others could have put there.
    #[error("{path} is not to be trusted: {why}")]
    Untrusted {
        /// The directory.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The kind of a failure, as ETW's users know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is a session of this name or with this file (`ERROR_ALREADY_EXISTS`).
    AlreadyExists,
    /// There is no such session (`ERROR_WMI_INSTANCE_NOT_FOUND`) or provider.
    NotFound,
    /// The caller may not do this (`ERROR_ACCESS_DENIED`).
    AccessDenied,
    /// A limit of sessions, providers or memory is reached (`ERROR_NO_SYSTEM_RESOURCES`).
    NoSystemResources,
    /// A property has a value that makes no sense (`ERROR_INVALID_PARAMETER`).
    InvalidParameter,
    /// The session cannot do this in its mode (`ERROR_NOT_SUPPORTED`).
    NotSupported,
    /// A file could not be made or written.
    File,
    /// The host is ending.
    Ending,
    /// The message was not understood.
    Malformed,
}

/// Why a host did not do what it was asked to: the kind, and one line for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: ErrorKind,
    /// What, where, and what to do, on one line.
    pub text: String,
}

impl Failure {
    /// A failure with its line.
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
