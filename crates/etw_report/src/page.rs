//! The report as a page: tables, charts over time, and the origin of the trace.

use anyhow::Result;
use etw_app::machine;
use etw_app::tally::{Counted, Tally};
use openetw::analysis::{NamedStacks, Report, TableKind};
use openetw::{FileTime, Statistics, Trace};

use super::summary::Summary;
use super::viewer::Links;
use super::{html, xml};

/// A report page: the report, and information about its traces.
pub struct Page {
    pub(super) files: Vec<String>,
    pub(super) sources: Vec<Origin>,
    pub(super) start: FileTime,
    pub(super) processors: u32,
    pub(super) statistics: Statistics,
    pub(super) report: Report,
    /// Kinds of events, most frequent first.
    pub(super) kinds: Vec<Counted>,
    /// Number of events without a schema.
    pub(super) undecoded: u64,
    /// The stacks of flame graphs.
    pub(super) stacks: Vec<(TableKind, NamedStacks)>,
    pub(super) links: Links,
}

/// Origin of one trace; texts are empty if the trace does not contain them.
pub(super) struct Origin {
    pub(super) session: String,
    pub(super) written_to: String,
    pub(super) system: String,
}

impl Page {
    /// Creates the page of a trace that has been read.
    pub fn new(trace: &mut Trace, mut report: Report, tally: &Tally, processors: u32) -> Page {
        let mut resolver = trace.resolver().clone();
        let machines = machine::machines(trace.inputs(), None, &mut resolver);
        let sources = trace.headers().iter().zip(machines).map(|(header, machine)| {
            let system = machine.system_text(header);
            let system = match machine.computer {
                Some(computer) => format!("{computer}, {system}"),
                None => system,
            };
            Origin { session: header.logger_name.clone(), written_to: header.log_file_name.clone(), system }
        });
        let files: Vec<String> = trace.source_names().map(str::to_owned).collect();
        let links = match files.len() == trace.inputs().len() {
            true => Links::of_files(files.iter().map(String::as_str)),
            false => Links::None,
        };
        Page {
            links,
            files,
            sources: sources.collect(),
            start: trace.start_time(),
            processors,
            statistics: trace.statistics().clone(),
            stacks: std::mem::take(&mut report.stacks),
            report,
            kinds: tally.counted(),
            undecoded: tally.undecoded,
        }
    }

    /// Returns a page for the viewer to serve, with links to the viewer's page.
    #[must_use]
    pub fn in_viewer(mut self) -> Page {
        self.links = Links::Pages;
        self
    }

    /// Returns the content security policy of the page, which allows its own styles and scripts only.
    pub fn content_security_policy(&self) -> String {
        html::policy(self)
    }

    /// Appends the page as HTML, with at most `rows` rows per table.
    ///
    /// # Errors
    ///
    /// Fails if the page cannot be rendered.
    pub fn put_html(&self, out: &mut Vec<u8>, rows: usize) -> Result<()> {
        html::put(out, self, rows)
    }

    /// Appends the page as XML, with at most `rows` rows per table.
    ///
    /// # Errors
    ///
    /// Fails if the page cannot be rendered.
    pub fn put_xml(&self, out: &mut Vec<u8>, rows: usize) -> Result<()> {
        xml::put(out, self, rows)
    }

    pub(super) fn summary(&self) -> Summary<'_> {
        let files = self.files.iter().map(String::as_str).collect();
        Summary { files, start: self.start, statistics: &self.statistics }
    }
}
