//! Requests for report pages: the tools provide the tables, another crate writes the page.

use anyhow::Result;
use etw_app::tally::Tally;
use openetw::Trace;
use openetw::analysis::Report;

/// The contents and format of a page.
#[derive(Debug)]
pub struct PageRequest<'p> {
    /// The trace, after reading.
    pub trace: &'p mut Trace,
    /// The tables and the timeline.
    pub report: Report,
    /// The event counts by kind.
    pub tally: &'p Tally,
    /// Number of processors of the recorded machine.
    pub processors: u32,
    /// The format of the page.
    pub format: PageFormat,
    /// Maximum rows per table.
    pub rows: usize,
}

/// The format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageFormat {
    /// XML, for programs.
    #[default]
    Xml,
    /// HTML, for people.
    Html,
}

/// Writes a page and returns its bytes. This crate does not depend on the report; the program passes its function.
pub type PageWriter = fn(PageRequest<'_>) -> Result<Vec<u8>>;
