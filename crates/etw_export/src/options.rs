//! The options of all writers.

use etw_schema::{HeaderOrigin, HeaderPath, Source};

use crate::fields::FieldSelection;

/// The options of a writer, and the properties of the events' sources.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The sources, by index (`Origin::source`). Missing properties are omitted from the output.
    pub sources: Vec<Source>,
    /// Writes readings of the session's raw clock: in addition to the time in JSON and XML, instead of it in CSV and
    /// text.
    pub raw_time: bool,
    /// Writes where the file has each event ([`RecordPlace`](etw_event::RecordPlace)), in JSON, CSV and text.
    pub source: bool,
    /// The fields to write. The default is all fields of the payload.
    pub fields: FieldSelection,
    /// The separator of columns in CSV.
    pub separator: Separator,
    /// Uses terminal colors in text.
    pub color: bool,
    /// Writes XML in tracerpt's layout: one element per line, indented by tabs.
    pub lines: bool,
    /// In XML, EVTX and tracerpt's CSV, omits all fields of an event whose payload does not match its schema. This is
    /// tracerpt's default.
    pub strict: bool,
}

impl Options {
    /// Returns whether something is written that [`Record::place`](etw_event::Record::place) tells.
    pub fn needs_places(&self) -> bool {
        let is_place =
            |path: Option<HeaderPath>| path.is_some_and(|path| path.field.origin() == HeaderOrigin::Place);
        self.source || self.fields.names().iter().any(|field| is_place(field.header()))
    }
}

/// A separator of columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Separator {
    /// `,`
    #[default]
    Comma,
    /// `;`
    Semicolon,
    /// A tab.
    Tab,
    /// `|`
    Bar,
}

impl Separator {
    /// Returns the character.
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Separator::Comma => b',',
            Separator::Semicolon => b';',
            Separator::Tab => b'\t',
            Separator::Bar => b'|',
        }
    }
}
