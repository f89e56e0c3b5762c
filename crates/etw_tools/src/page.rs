//! Pages of reports, which tools make the tables for and others write.

use anyhow::Result;
use etw_app::tally::Tally;
use openetw::Trace;
use openetw::analysis::Report;

/// What a page shows, and how.
#[derive(Debug)]
pub struct PageRequest<'p> {
    /// The trace, which has been read.
    pub trace: &'p mut Trace,
    /// The tables, and what went on over time.
    pub report: Report,
    /// The kinds of events.
    pub tally: &'p Tally,
    /// Processors of the machine.
    pub processors: u32,
    /// The format.
    pub format: PageFormat,
    /// Most rows of each table.
    pub rows: usize,
}

/// Formats of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageFormat {
    /// XML, for programs.
    #[default]
    Xml,
    /// HTML, for people.
    Html,
}

/// Writes a page and returns its bytes. The crate of the report is not known here; the program passes its function.
pub type PageWriter = fn(PageRequest<'_>) -> Result<Vec<u8>>;
