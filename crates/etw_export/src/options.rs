//! The options of all writers.

use crate::FieldSelection;

/// The options of a writer, and the properties of the events' sources.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The sources, by index (`Origin::source`). Missing properties are omitted from the output.
    pub sources: Vec<Source>,
    /// Writes readings of the session's raw clock: in addition to the time in JSON and XML, instead of it in CSV and
    /// text.
    pub raw_time: bool,
    /// The fields of the payload to write. The default is all fields.
    pub fields: FieldSelection,
    /// Uses terminal colors in text.
    pub color: bool,
    /// Writes XML in tracerpt's layout: one element per line, indented by tabs.
    pub lines: bool,
    /// In XML, EVTX and tracerpt's CSV, omits all fields of an event whose payload does not match its schema. This is
    /// tracerpt's default.
    pub strict: bool,
}

/// The properties of a file or session that events come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Name of the computer.
    pub computer: Option<String>,
    /// Unit of the records' CPU times, in 100 ns (`TimerResolution` of the log file header).
    pub timer_resolution: u32,
}
