//! Reports of what a machine did, as text, JSON, XML or a page with charts.
//!
//! [`run`] is the command `etw report`. [`Page`] writes only the page, for programs that also read the trace for other
//! purposes.

#![forbid(unsafe_code)]

mod html;
mod json;
mod page;
mod text;
mod xml;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use etw_app::input::{self, check_read, report_unreadable};
use etw_app::progress::Progress;
use etw_app::symbols::SymbolOptions;
use etw_app::tally::Tally;
use etw_app::{UsageError, output, table};
use openetw::analysis::{
    Analysis, Machines, ProcessFilter, Report, ReportOptions, StackWeight, TableKind, Window,
};
use openetw::{FileTime, StackCounts, Statistics, TimePoint, Trace};

pub use page::Page;

/// Default number of rows per table in a text report of all tables.
const TOP_OF_ALL: usize = 6;
/// Default number of rows per table in a text report of requested tables.
const TOP_OF_ONE: usize = 20;
/// Default number of rows per table on a page with charts.
const TOP_OF_PAGE: usize = 20;
/// Number of events between updates of the progress bar.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Contents and format of a report.
#[derive(Debug, Clone)]
pub struct Request {
    /// Traces; those of several machines share the tables.
    pub files: Vec<PathBuf>,
    /// Tables to show; empty for the default tables of the format.
    pub tables: Vec<TableKind>,
    /// Maximum number of rows per table; `None` for the default of the format.
    pub top: Option<usize>,
    /// What to count by stack; folded stacks then show it instead of samples.
    pub stacks: Option<StackWeight>,
    /// Processes to show rows about.
    pub processes: ProcessFilter,
    /// Start of the period to report on; `None` for the start of the trace.
    pub from: Option<TimePoint>,
    /// End of the period to report on; `None` for the end of the trace.
    pub to: Option<TimePoint>,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
    /// Whether names of .NET methods have their optimization tiers.
    pub tiers: bool,
    /// Output format.
    pub format: Format,
    /// File to write; `None` for standard output.
    pub output: Option<PathBuf>,
}

/// Output formats of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object with all rows.
    Json,
    /// Stacks, one per line: process and functions separated by `;`, then the number of samples or another weight.
    Folded,
    /// A page with charts, in one file.
    Html,
    /// The contents of JSON and of the HTML page.
    Xml,
}

/// Reads the traces and writes the report.
///
/// # Errors
///
/// Fails if a trace cannot be read, if the start is not before the end or a symbol path cannot be used ([`UsageError`]),
/// or if the output cannot be written.
pub fn run(request: &Request) -> Result<()> {
    let builder = input::builder(&request.files)?;
    // The kernel's classes are built in.
    let mut trace = builder.skip_unreadable(true).look_ahead(false).open()?;
    report_unreadable(&trace);
    let start = trace.start_time();
    let resolve = |time: Option<TimePoint>, default| time.map_or(default, |time| time.resolve(start));
    let window =
        Window { from: resolve(request.from, Window::ALL.from), to: resolve(request.to, Window::ALL.to) };
    if window.from >= window.to {
        return Err(UsageError("--from is not before --to".to_owned()).into());
    }
    let options = options(request, &trace)?;
    let mut analysis = Analysis::new(window).of_machines(Machines::of(&trace));
    let is_page = matches!(request.format, Format::Html | Format::Xml);
    if is_page {
        analysis = analysis.over_time(start, options.end);
    }
    let mut stacks = None;
    if let Some(weight) = request.stacks {
        analysis = analysis.by_stack(weight);
        let found = trace.stacks()?;
        report_lost_stacks(found.counts());
        stacks = Some(found);
    }
    let mut tally = Tally::default();
    let end = options.end.unwrap_or_default();
    let progress = Progress::of_time(start, end, request.format == Format::Text);
    let mut events = 0_u64;
    trace.for_each_layout(|event| {
        match &mut stacks {
            Some(stacks) => analysis.add_with_stack(event, &stacks.of(event.record)),
            None => analysis.add(event),
        }
        if is_page && window.from <= event.record.time() && event.record.time() < window.to {
            tally.add(event);
        }
        events += 1;
        if events.is_multiple_of(PROGRESS_EVERY) {
            progress.reach(event.record.time());
        }
    })?;
    progress.finish();
    let report = analysis.report(&options);
    let mut out = Vec::new();
    if is_page {
        let page = Page::new(&mut trace, report, &tally, options.processors);
        let top = request.top.unwrap_or(TOP_OF_PAGE);
        match request.format {
            Format::Html => page.put_html(&mut out, top)?,
            _ => page.put_xml(&mut out, top)?,
        }
    } else {
        put_tables(&mut out, request, &trace, &report, &options)?;
    }
    let mut file = output::open(request.output.as_deref())?;
    file.write_all(&out)?;
    file.flush()?;
    check_read(&trace)
}

fn put_tables(
    out: &mut Vec<u8>,
    request: &Request,
    trace: &Trace,
    report: &Report,
    options: &ReportOptions,
) -> Result<()> {
    let start = trace.start_time();
    let summary = Summary { files: trace.source_names().collect(), start, statistics: trace.statistics() };
    match request.format {
        Format::Text => {
            let is_page = request.tables.is_empty() && request.stacks.is_none();
            let top = if is_page { TOP_OF_ALL } else { TOP_OF_ONE };
            // Cells are cut only on a terminal; files are searched for whole texts.
            let is_terminal = output::is_terminal(request.output.as_deref());
            let width = if is_terminal { table::WIDTH } else { usize::MAX };
            text::put(out, &summary, report, options, request.top.unwrap_or(top), is_page, width)
        }
        Format::Json => json::put(out, &summary, report, options, request.top),
        _ => put_folded(out, report),
    }
}

/// Summary of the traces.
struct Summary<'t> {
    files: Vec<&'t str>,
    start: FileTime,
    statistics: &'t Statistics,
}

impl Summary<'_> {
    /// Describes the losses in the traces; `None` if the traces are complete.
    fn losses(&self) -> Option<String> {
        let statistics = self.statistics;
        if statistics.is_complete() {
            return None;
        }
        let mut said = Vec::new();
        let [events, buffers, _] = statistics.loss_records;
        let mut say = |count: u64, one: &str, more: &str| match count {
            0 => {}
            1 => said.push(format!("1 {one}")),
            _ => said.push(format!("{count} {more}")),
        };
        say(statistics.events_lost(), "event lost", "events lost");
        say(statistics.buffers_lost(), "buffer lost", "buffers lost");
        say(statistics.damage_count, "damaged place", "damaged places");
        let unclosed = statistics.sources.iter().filter(|source| source.unclosed).count() as u64;
        say(unclosed, "file never closed", "files never closed");
        if said.is_empty() {
            let marks = |source: &openetw::SourceStatistics| {
                source.buffers_after_lost_events
                    + source.buffers_after_lost_buffers
                    + source.corrupt_backup_buffers
            };
            let marked: u64 = statistics.sources.iter().map(marks).sum();
            said.push(format!("losses at {} places", marked.max(events + buffers).max(1)));
        }
        Some(said.join(", "))
    }
}

fn options(request: &Request, trace: &Trace) -> Result<ReportOptions> {
    let mut options = ReportOptions::of(trace.headers());
    options.processors = Machines::of(trace).processors();
    options.processes = request.processes.clone();
    options.symbolizer = request.symbols.symbolizer()?;
    options.tiers = request.tiers;
    let of_stacks = request.stacks.map(TableKind::ByFunction);
    if !request.tables.is_empty() || of_stacks.is_some() {
        options.tables = request.tables.iter().copied().chain(of_stacks).collect();
    } else if matches!(request.format, Format::Text | Format::Html) {
        options.tables.retain(|kind| kind.is_default());
    }
    if request.format == Format::Folded {
        options.tables.clear();
        options.folded_stacks = true;
    }
    Ok(options)
}

/// Warns of stacks that the report lacks.
fn report_lost_stacks(StackCounts { damaged, undefined_keys, .. }: StackCounts) {
    if damaged > 0 {
        output::warn(&format_args!("{damaged} stacks cannot be read"));
    }
    if undefined_keys > 0 {
        output::warn(&format_args!("{undefined_keys} keys of stacks are not defined in the trace"));
    }
}

fn put_folded(out: &mut Vec<u8>, report: &Report) -> Result<()> {
    for (stack, samples) in &report.folded_stacks {
        writeln!(out, "{stack} {samples}")?;
    }
    Ok(())
}
