//! MOF text: the classes of classic events, as WMI's repository holds them.
//!
//! Three levels of classes: the provider (its `Guid` is what enables it), the event class (its `Guid` names the
//! events in traces, with `EventVersion`), and the event type class (`EventType` lists the opcodes). Qualifiers:
//! Microsoft Learn, "Event Tracing MOF Qualifiers".

mod classes;
mod syntax;

use crate::Provider;

/// What a MOF text describes.
#[derive(Debug, Default)]
pub struct Mof {
    /// One provider for each GUID of an event class, in the order of the text.
    pub providers: Vec<Provider>,
    /// What could not be read, in the order of the text; at most [`MAX_PROBLEMS`] of it.
    pub problems: Vec<MofProblem>,
}

/// How many problems are reported of one text.
pub const MAX_PROBLEMS: usize = 100;

/// Something in a MOF text that was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct MofProblem {
    /// The line, from 1.
    pub line: usize,
    /// What was expected or is wrong.
    pub what: String,
}

/// Reads MOF text. `origin` is the name under which the schemas are shown, usually the file's.
///
/// Never fails: what cannot be read is left out and reported.
pub fn parse(text: &str, origin: &str) -> Mof {
    let mut problems = Vec::new();
    let classes = syntax::classes(text, &mut problems);
    let providers = classes::providers(&classes, origin, &mut problems);
    Mof { providers, problems }
}

/// Reads a MOF file's bytes: UTF-16 with a byte order mark, UTF-8, or (bytes that are not UTF-8 become U+FFFD) a
/// code page.
pub fn parse_bytes(bytes: &[u8], origin: &str) -> Mof {
    parse(&crate::source_text::source_text(bytes), origin)
}

fn report(problems: &mut Vec<MofProblem>, line: usize, what: impl Into<String>) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(MofProblem { line, what: what.into() });
    }
}
