//! What all writers may be told.

use crate::FieldSelection;

/// What is written, and what the events' sources say of themselves.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The sources by their index (`Origin::source`); what is not here is left out of the output.
    pub sources: Vec<Source>,
    /// Shows readings of the session's raw clock: beside the time in JSON and XML, in its place in CSV and text.
    pub raw_time: bool,
    /// The fields of the payload to write.
    pub fields: FieldSelection,
    /// Colours for a terminal, in text.
    pub color: bool,
    /// XML in the lines of tracerpt: each element on its own, indented by tabs.
    pub lines: bool,
    /// In XML, EVTX and tracerpt's CSV, shows no field of an event whose payload does not fit its schema, as tracerpt
    /// does unless it is told to be less restrictive.
    pub strict: bool,
}

/// What is known of a file or session that events come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Name of the computer.
    pub computer: Option<String>,
    /// Unit of the records' CPU times in 100 ns (`TimerResolution` of the log file header).
    pub timer_resolution: u32,
}
