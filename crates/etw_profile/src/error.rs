//! Why a text is no file of recording profiles.

use std::fmt;

/// What is wrong in a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// The line, from 1.
    pub line: u32,
    /// What it is.
    pub kind: ErrorKind,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No XML.
    #[error("XML syntax: {0}")]
    Syntax(String),
    /// The root element is another one, or there is none.
    #[error("no recording profile: the root element is to be <WindowsPerformanceRecorder>")]
    NoProfile,
    /// More bytes or deeper nesting than a profile can have.
    #[error("{0}")]
    TooLarge(&'static str),
    /// An attribute without which the element says nothing.
    #[error("<{element}> has no attribute {attribute}")]
    Missing {
        /// Name of the element.
        element: &'static str,
        /// Name of the attribute.
        attribute: &'static str,
    },
    /// An attribute with a value that it cannot have.
    #[error("<{element} {attribute}=\"{found}\">: {expected} is expected")]
    Invalid {
        /// Name of the element.
        element: &'static str,
        /// Name of the attribute.
        attribute: &'static str,
        /// What it says.
        found: String,
        /// What it may say.
        expected: &'static str,
    },
    /// An id that nothing in the file defines.
    #[error("there is no <{element}> of id '{id}'")]
    Unknown {
        /// Name of the element.
        element: &'static str,
        /// The id.
        id: String,
    },
    /// Definitions that are based on each other, or one on too many.
    #[error("<{element}> '{id}' is based on itself, or on more than {max} others")]
    Circular {
        /// Name of the element.
        element: &'static str,
        /// The id.
        id: String,
        /// How many there may be.
        max: usize,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

impl std::error::Error for ProfileError {}
