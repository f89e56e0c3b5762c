//! MOF text: the classes of classic events, as in WMI's repository.
//!
//! Classes have three levels: the provider (its `Guid` enables it), the event class (its `Guid`, with `EventVersion`,
//! identifies the events in traces), and the event type class (`EventType` lists the opcodes). For the qualifiers see
//! Microsoft Learn, "Event Tracing MOF Qualifiers".
//!
//! ```
//! use etw_schema::mof;
//!
//! let mof = mof::parse(
//!     r#"
//!     [Dynamic, Guid("{11223344-5566-7788-99aa-bbccddeeff00}")]
//!     class MyProvider : EventTrace {};
//!     [Dynamic, Guid("{11223344-5566-7788-99aa-bbccddeeff01}"), EventVersion(2)]
//!     class MyClass : MyProvider {};
//!     [Dynamic, EventType(1), EventTypeName("Start")]
//!     class MyStart : MyClass { [WmiDataId(1), read] uint32 Count; };
//!     "#,
//!     "my.mof",
//! );
//! assert_eq!(mof.problems, []);
//! assert_eq!(&*mof.providers[0].events[0].properties[0].name, "Count");
//! ```

mod classes;
mod syntax;

use crate::Provider;

/// The contents of a MOF text.
#[derive(Debug, Default)]
pub struct Mof {
    /// One provider per GUID of an event class, in the order of the text.
    pub providers: Vec<Provider>,
    /// The parts that were skipped, in the order of the text; at most [`MAX_PROBLEMS`].
    pub problems: Vec<MofProblem>,
}

/// Limit of the problems reported for one text.
pub const MAX_PROBLEMS: usize = 100;

/// A part of a MOF text that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct MofProblem {
    /// Line number, starting at 1.
    pub line: usize,
    /// The problem.
    pub what: String,
}

/// Parses MOF text. `origin` is the name shown for the schemas, usually the file name.
///
/// Never fails: invalid parts are skipped and reported.
pub fn parse(text: &str, origin: &str) -> Mof {
    let mut problems = Vec::new();
    let classes = syntax::classes(text, &mut problems);
    let providers = classes::providers(&classes, origin, &mut problems);
    Mof { providers, problems }
}

/// Parses the bytes of a MOF file: UTF-16 with a byte order mark, UTF-8, or a code page (with bytes that are not UTF-8
/// replaced by U+FFFD).
pub fn parse_bytes(bytes: &[u8], origin: &str) -> Mof {
    parse(&crate::source_text::source_text(bytes), origin)
}

fn report(problems: &mut Vec<MofProblem>, line: usize, what: impl Into<String>) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(MofProblem { line, what: what.into() });
    }
}
