//! `etw report`: what the machine did, in tables.

mod html;
pub(crate) mod json;
mod page;
pub(crate) mod text;
mod xml;

use std::io::Write;

use anyhow::Result;
use openetw::analysis::{Analysis, ProcessFilter, Report, ReportOptions, TableKind, Window};
use openetw::symbols::Symbolizer;
use openetw::{FileTime, Statistics, TimePoint, Trace};

use crate::args::report::{ReportArgs, ReportFormat, TableName};
use crate::input::{check_read, report_unreadable};
use crate::progress::Progress;
use crate::tally::Tally;
use crate::{UsageError, output};
pub(crate) use page::Page;

/// Rows of a table on the page with all of them.
const TOP_OF_ALL: usize = 6;
/// Rows of a table that was asked for.
const TOP_OF_ONE: usize = 20;
/// Rows of each table of a page with charts.
const TOP_OF_PAGE: usize = 20;
/// Events between two looks at the clock of the progress bar.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let (from, to) = (time(args.from.as_deref())?, time(args.to.as_deref())?);
    let builder = args.files.iter().fold(Trace::builder(), |builder, path| builder.file(path));
    // The kernel's classes are built in.
    let mut trace = builder.skip_unreadable(true).look_ahead(false).open()?;
    report_unreadable(&trace);
    let start = trace.start_time();
    let resolve = |time: Option<TimePoint>, default| time.map_or(default, |time| time.resolve(start));
    let window = Window { from: resolve(from, Window::ALL.from), to: resolve(to, Window::ALL.to) };
    if window.from >= window.to {
        return Err(UsageError("no time is between --from and --to".to_owned()).into());
    }
    let options = options(args, &trace);
    let mut analysis = Analysis::new(window);
    let is_page = matches!(args.format, ReportFormat::Html | ReportFormat::Xml);
    if is_page {
        analysis = analysis.over_time(start, options.end);
    }
    let mut tally = Tally::default();
    let end = options.end.unwrap_or_default();
    let progress = Progress::of_time(start, end, args.format == ReportFormat::Text);
    let mut events = 0_u64;
    trace.for_each_layout(|event| {
        analysis.add(event);
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
        let top = args.top.unwrap_or(TOP_OF_PAGE);
        match args.format {
            ReportFormat::Html => page.put_html(&mut out, top)?,
            _ => page.put_xml(&mut out, top)?,
        }
    } else {
        put_tables(&mut out, args, &trace, &report, &options)?;
    }
    let mut file = output::open(args.output.as_deref())?;
    file.write_all(&out)?;
    file.flush()?;
    check_read(&trace)
}

fn put_tables(
    out: &mut Vec<u8>,
    args: &ReportArgs,
    trace: &Trace,
    report: &Report,
    options: &ReportOptions,
) -> Result<()> {
    let start = trace.start_time();
    let summary = Summary { files: trace.source_names().collect(), start, statistics: trace.statistics() };
    match args.format {
        ReportFormat::Text => {
            let top = if args.table.is_empty() { TOP_OF_ALL } else { TOP_OF_ONE };
            let is_page = args.table.is_empty();
            // Who reads a file, or searches it, wants the whole of each text.
            let is_terminal = output::is_terminal(args.output.as_deref());
            let width = if is_terminal { text::WIDTH } else { usize::MAX };
            text::put(out, &summary, report, options, args.top.unwrap_or(top), is_page, width)
        }
        ReportFormat::Json => json::put(out, &summary, report, options, args.top),
        _ => put_folded(out, report),
    }
}

/// What is said of the traces.
struct Summary<'t> {
    files: Vec<&'t str>,
    start: FileTime,
    statistics: &'t Statistics,
}

impl Summary<'_> {
    /// What is missing in the traces, in words; `None` if they are complete.
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

fn options(args: &ReportArgs, trace: &Trace) -> ReportOptions {
    let mut options = ReportOptions::of(trace.headers());
    options.processes = ProcessFilter { ids: args.pid.clone(), names: args.process.clone() };
    let symbolizer = args.debug_directory.iter().fold(Symbolizer::new(), Symbolizer::debug_directory);
    options.symbolizer = symbolizer;
    if !args.table.is_empty() {
        options.tables = args.table.iter().copied().map(TableName::kind).collect();
    } else if matches!(args.format, ReportFormat::Text | ReportFormat::Html) {
        // The page has processes and functions.
        options.tables.retain(|kind| *kind != TableKind::Threads);
    }
    if args.format == ReportFormat::Folded {
        options.tables.clear();
        options.folded_stacks = true;
    }
    options
}

fn time(text: Option<&str>) -> Result<Option<TimePoint>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error: openetw::TimePointError| UsageError(error.to_string()).into())
}

fn put_folded(out: &mut Vec<u8>, report: &Report) -> Result<()> {
    for (stack, samples) in &report.folded_stacks {
        writeln!(out, "{stack} {samples}")?;
    }
    Ok(())
}
