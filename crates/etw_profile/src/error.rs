//! Errors of files of recording profiles.

use std::fmt;

/// An error in a file of recording profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// The line, from 1.
    pub line: u32,
    /// The error.
    pub kind: ErrorKind,
}

/// The kinds of [`ProfileError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not well-formed XML.
    #[error("XML syntax: {0}")]
    Syntax(String),
    /// The root element is missing or has another name.
    #[error("not a recording profile: the root element must be <WindowsPerformanceRecorder>")]
    NoProfile,
    /// A limit on the size of files or profiles is exceeded.
    #[error("{0}")]
    TooLarge(&'static str),
    /// A required attribute is missing.
    #[error("<{element}> has no attribute {attribute}")]
    Missing {
        /// Name of the element.
        element: &'static str,
        /// Name of the attribute.
        attribute: &'static str,
    },
    /// The value of an attribute is out of range.
    #[error("<{element} {attribute}=\"{found}\">: {expected} is expected")]
    Invalid {
        /// Name of the element.
        element: &'static str,
        /// Name of the attribute.
        attribute: &'static str,
        /// The value, cut to 128 characters.
        found: String,
        /// Description of the values that are allowed.
        expected: &'static str,
    },
    /// The file does not define this id.
    #[error("no <{element}> has the id '{id}'")]
    Unknown {
        /// Name of the element.
        element: &'static str,
        /// The id.
        id: String,
    },
    /// A definition is based on itself, or its chain of bases is too long.
    #[error("<{element}> '{id}' is based on itself, or on more than {max} others")]
    Circular {
        /// Name of the element.
        element: &'static str,
        /// The id.
        id: String,
        /// Maximum length of the chain.
        max: usize,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

impl std::error::Error for ProfileError {}
