//! Instrumentation manifests: the XML in which providers are described (`.man`, `.xml`).
//!
//! Read are manifests as they are written by hand (namespace `http://schemas.microsoft.com/win/2004/08/events`),
//! those that tools export from Windows, and those that EventSource generates.
//! Source: the schema `eventman.xsd` of the Windows SDK, and the manifests of many projects.
//!
//! Names of levels and opcodes that `winmeta.xml` defines appear in events as Windows shows them: `Information`,
//! not `win:Informational`. All other names are those of the manifest; its localised texts are in the lists of
//! [`ProviderInfo`](crate::ProviderInfo).

mod document;
mod export;
mod provider;
mod strings;
mod template;
pub(crate) mod winmeta;

use std::fmt;

use memchr::memchr_iter;

use crate::{Decoding, Provider};
use document::Document;
use provider::{Context, Problems};
use strings::Strings;

pub use export::{write, write_all};
pub(crate) use template::default_out_type;

/// What a manifest says, and what in it could not be understood.
#[derive(Debug)]
pub struct Manifest {
    /// Its providers of events. A manifest may have none, if it is one of performance counters.
    pub providers: Vec<Provider>,
    /// What was left out, in the order of the text; at most about a thousand problems.
    pub problems: Vec<Problem>,
}

/// Something in a manifest that could not be understood. Everything around it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes of UTF-8, from 1.
    pub column: usize,
    /// What it is.
    pub kind: ProblemKind,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.kind)
    }
}

/// What was wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Bytes that are no text in the encoding of the file.
    #[error("bytes that are no text in the encoding of the file; they were replaced")]
    Encoding,
    /// No XML.
    #[error("XML syntax: {0}")]
    Syntax(String),
    /// Elements nested deeper than in any manifest; the rest was not read.
    #[error("elements nested too deep; the rest was not read")]
    TooDeep,
    /// More of something than any manifest has, or than its size justifies; it was left out.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// An attribute without which the element says nothing.
    #[error("<{element}> has no attribute '{attribute}'")]
    Missing {
        /// Name of the element.
        element: &'static str,
        /// Name of the attribute.
        attribute: &'static str,
    },
    /// An attribute that is no number in range or no GUID.
    #[error("<{element} {attribute}='{found}'>: not a valid value")]
    Invalid {
        /// Name of the element.
        element: &'static str,
        /// Name of the attribute.
        attribute: &'static str,
        /// What it says.
        found: String,
    },
    /// A name that nothing defines.
    #[error("no {what} named '{name}'")]
    Unknown {
        /// What is named: `task`, `string`, …
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A length or count that names no item before. The template ends before the item.
    #[error(
        "<{element} {attribute}='{name}'>: no item of this name lies before it; the template was cut here"
    )]
    NotBefore {
        /// Name of the element.
        element: &'static str,
        /// Name of the attribute.
        attribute: &'static str,
        /// The name that it refers to.
        name: String,
    },
    /// A second definition of the same thing.
    #[error("{what} {name} is defined twice")]
    Duplicate {
        /// What it is.
        what: &'static str,
        /// Which one.
        name: String,
    },
}

/// Reads a manifest. `origin` says where it is from: a file's name.
pub fn read(bytes: &[u8], origin: &str) -> Manifest {
    read_as(bytes, origin, Decoding::Manifest)
}

/// Reads a manifest that came by another way, as EventSource's do.
pub(crate) fn read_as(bytes: &[u8], origin: &str, decoding: Decoding) -> Manifest {
    let (text, replaced) = document::decode(bytes);
    let mut document = Document::read(&text);
    let mut problems = Problems { found: std::mem::take(&mut document.problems) };
    if replaced {
        problems.add(0, ProblemKind::Encoding);
    }
    let mut strings = Strings::read(&document, text.len());
    let mut budget = 65_536 + text.len();
    let mut context = Context {
        document: &document,
        strings: &mut strings,
        problems: &mut problems,
        decoding,
        origin,
        budget: &mut budget,
    };
    let mut providers = Vec::new();
    for (at, element) in document.elements.iter().enumerate() {
        let around = document.elements.get(element.parent).map_or("", |parent| parent.name);
        // Performance counters have providers too.
        if element.name == "provider" && around != "counters" {
            providers.extend(provider::read(&mut context, at, element));
        }
    }
    Manifest { providers, problems: located(&text, problems.found) }
}

/// Turns byte offsets into lines and columns.
fn located(text: &str, mut found: Vec<(usize, ProblemKind)>) -> Vec<Problem> {
    found.sort_by_key(|(at, _)| *at);
    let mut line = 1;
    let mut line_start = 0;
    let mut ends = memchr_iter(b'\n', text.as_bytes()).peekable();
    let mut problems = Vec::with_capacity(found.len());
    for (at, kind) in found {
        while let Some(end) = ends.next_if(|end| *end < at) {
            line += 1;
            line_start = end + 1;
        }
        problems.push(Problem { line, column: at.saturating_sub(line_start) + 1, kind });
    }
    problems
}

/// As much of a name as an error message needs.
fn cut(name: &str) -> String {
    name.chars().take(80).collect()
}

#[cfg(test)]
mod tests;
