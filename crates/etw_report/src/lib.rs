//! Reports of what a machine did, as text, JSON, XML or a page with charts.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`run`] is the command `etw report`, and [`compare::run`] is `etw compare`. [`Page`] writes only the page, for
//! programs that also read the trace for other purposes.

#![forbid(unsafe_code)]

pub mod compare;
mod flame;
mod html;
mod json;
mod page;
mod reading;
pub mod rows;
mod sha256;
mod summary;
mod text;
mod tree;
mod viewer;
mod words;
mod xml;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use etw_app::input::check_read;
use etw_app::symbols::SymbolOptions;
use etw_app::{UsageError, output, stack_tags, table};
use openetw::analysis::{
    Machines, NamedStacks, ProcessFilter, Report, ReportOptions, StackWeight, TableKind, TreeShape,
};
use openetw::{TimePoint, Trace};

use reading::{Plan, Reading};
use summary::Summary;
use tree::Tree;

pub use page::Page;
pub use tree::TreeKind;

/// Default number of rows per table in a text report of all tables.
const TOP_OF_ALL: usize = 6;
/// Default number of rows per table in a text report of requested tables.
const TOP_OF_ONE: usize = 20;
/// Default number of rows per table on a page with charts.
const TOP_OF_PAGE: usize = 20;

/// Contents and format of a report.
#[derive(Debug, Clone)]
pub struct Request {
    /// Traces; those of several machines share the tables.
    pub files: Vec<PathBuf>,
    /// Tables to show; empty for the default tables of the format.
    pub tables: Vec<TableKind>,
    /// Maximum number of rows per table; `None` for the default of the format.
    pub top: Option<usize>,
    /// Tables by function to show besides: of samples, or of what else to count by stack. Folded stacks are those of the
    /// one that is given; call trees are of these tables instead of that of samples.
    pub stacks: Vec<TableKind>,
    /// Call trees to show instead of tables.
    pub tree: Option<TreeRequest>,
    /// What is done with stacks before trees and flame graphs show them.
    pub shape: TreeShape,
    /// Files of stack tags, for `shape`.
    pub stack_tags: Vec<PathBuf>,
    /// Processes and threads to show rows about.
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

/// Call trees to show.
#[derive(Debug, Clone)]
pub struct TreeRequest {
    /// What to show.
    pub kind: TreeKind,
    /// Minimum part of the nodes in percent; `None` for the default of the format.
    pub min_percent: Option<f64>,
    /// Maximum number of nodes in a node.
    pub top: Option<usize>,
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
/// Fails if a trace cannot be read, if the options contradict each other ([`UsageError`]), or if the output cannot be
/// written.
pub fn run(request: &Request) -> Result<()> {
    check(request)?;
    let mut shape = request.shape.clone();
    shape.tags = stack_tags::read(&request.stack_tags)?;
    let is_page = matches!(request.format, Format::Html | Format::Xml);
    let plan = Plan {
        files: &request.files,
        from: request.from,
        to: request.to,
        stacks: weights(request.stacks.iter().chain(&request.tables)),
        is_page,
        has_progress: request.format == Format::Text,
    };
    let Reading { mut trace, mut report, options, tally } =
        reading::read(&plan, |trace| options(request, trace))?;
    if has_shape(request) && request.tree.is_none() {
        report.shape(&shape);
    }
    let mut out = Vec::new();
    if is_page {
        let page = Page::new(&mut trace, report, &tally, options.processors);
        let top = request.top.unwrap_or(TOP_OF_PAGE);
        match request.format {
            Format::Html => page.put_html(&mut out, top)?,
            _ => page.put_xml(&mut out, top)?,
        }
    } else {
        put_tables(&mut out, request, &shape, &trace, &report, &options)?;
    }
    let mut file = output::open(request.output.as_deref())?;
    file.write_all(&out)?;
    file.flush()?;
    check_read(&trace)
}

/// Returns the page of traces for the viewer to serve, with links to the viewer's page, and its content security policy.
///
/// # Errors
///
/// Fails if a trace cannot be read.
pub fn page_of_viewer(files: &[PathBuf], symbols: &SymbolOptions) -> Result<(Vec<u8>, String)> {
    let plan = Plan { files, from: None, to: None, stacks: Vec::new(), is_page: true, has_progress: false };
    let Reading { mut trace, report, options, tally } = reading::read(&plan, |trace| {
        let mut options = ReportOptions::from_headers(trace.headers());
        options.processors = Machines::from_trace(trace).processors();
        options.symbolizer = symbols.symbolizer()?;
        options.tables.retain(|kind| kind.is_default());
        options.named_stacks.push(TableKind::Functions);
        Ok(options)
    })?;
    let page = Page::new(&mut trace, report, &tally, options.processors).in_viewer();
    let mut out = Vec::new();
    page.put_html(&mut out, TOP_OF_PAGE)?;
    Ok((out, page.content_security_policy()))
}

/// Returns what events of traces weigh by their stacks, with the names of functions, for the viewer: as `etw report
/// --stacks` counts it.
///
/// # Errors
///
/// Fails if a trace cannot be read, or if the start is not before the end.
pub fn stacks_of_viewer(
    files: &[PathBuf],
    symbols: &SymbolOptions,
    weight: StackWeight,
    [from, to]: [Option<TimePoint>; 2],
) -> Result<NamedStacks> {
    let stacks = vec![weight];
    let plan = Plan { files, from, to, stacks, is_page: false, has_progress: false };
    let kind = TableKind::ByFunction(weight);
    let Reading { report, .. } = reading::read(&plan, |trace| {
        let mut options = ReportOptions::from_headers(trace.headers());
        options.symbolizer = symbols.symbolizer()?;
        options.tables.clear();
        options.named_stacks.push(kind);
        Ok(options)
    })?;
    let found = report.stacks.into_iter().find(|(known, _)| *known == kind);
    found.map(|(_, stacks)| stacks).context("the stacks were not counted")
}

/// Rejects options that contradict each other.
fn check(request: &Request) -> Result<()> {
    let usage = |text: &str| Err(UsageError(text.to_owned()).into());
    if request.tree.is_some() && !matches!(request.format, Format::Text | Format::Json) {
        return usage("--tree writes text and JSON; --format html has flame graphs");
    }
    if request.tree.is_some() && !request.tables.is_empty() {
        return usage("--table is not shown with --tree; --stacks selects what the tree is of");
    }
    let has_stacks = request.tree.is_some()
        || !request.stacks.is_empty()
        || request.tables.contains(&TableKind::Functions)
        || matches!(request.format, Format::Html | Format::Folded);
    if has_shape(request) && !has_stacks {
        return usage(
            "options for stacks need --stacks, --tree, --table functions or --format html or folded",
        );
    }
    let is_of_tags = request.tree.as_ref().is_some_and(|tree| matches!(tree.kind, TreeKind::Tags));
    if is_of_tags && request.stack_tags.is_empty() {
        return usage("--tree tags needs --stack-tags FILE");
    }
    if request.format == Format::Folded && request.stacks.len() > 1 {
        return usage("folded stacks are of one of --stacks only");
    }
    if !request.processes.threads.is_empty()
        && let Some(table) = request.tables.iter().find(|table| !table.has_threads())
    {
        return usage(&format!("the table {} has no threads, which --tid selects", table.name()));
    }
    Ok(())
}

/// Returns whether stacks are changed before they are shown.
fn has_shape(request: &Request) -> bool {
    let shape = &request.shape;
    let patterns = [&shape.include, &shape.exclude, &shape.fold, &shape.group_modules];
    patterns.iter().any(|patterns| !patterns.is_empty())
        || shape.just_my_code
        || shape.fold_percent > 0.0
        || !request.stack_tags.is_empty()
}

/// Returns what to count by stack besides samples.
fn weights<'k>(tables: impl IntoIterator<Item = &'k TableKind>) -> Vec<StackWeight> {
    let mut weights = Vec::new();
    for table in tables {
        let weight = match table {
            TableKind::ByFunction(weight) => *weight,
            TableKind::WaitChains => StackWeight::WaitChains,
            _ => continue,
        };
        if !weights.contains(&weight) {
            weights.push(weight);
        }
    }
    weights
}

fn put_tables(
    out: &mut Vec<u8>,
    request: &Request,
    shape: &TreeShape,
    trace: &Trace,
    report: &Report,
    options: &ReportOptions,
) -> Result<()> {
    let summary = Summary::new(trace);
    // Cells are cut only on a terminal; files are searched for whole texts.
    let is_terminal = output::is_terminal(request.output.as_deref());
    let width = if is_terminal { table::WIDTH } else { usize::MAX };
    let is_text = request.format == Format::Text;
    if let Some(tree) = &request.tree {
        let notes = |kind: TableKind| {
            report.tables.iter().find(|table| table.kind == kind).map_or(&[][..], |table| &table.notes)
        };
        let trees: Vec<Tree<'_>> = report
            .stacks
            .iter()
            .map(|(kind, stacks)| Tree::new(*kind, stacks, tree, shape, notes(*kind), is_text))
            .collect();
        return match is_text {
            true => text::put_trees(out, &summary, report, options, &trees, width),
            false => json::put_trees(out, &summary, report, options, &trees),
        };
    }
    match request.format {
        Format::Text => {
            let is_page = request.tables.is_empty() && request.stacks.is_empty();
            let top = if is_page { TOP_OF_ALL } else { TOP_OF_ONE };
            text::put(out, &summary, report, options, request.top.unwrap_or(top), is_page, width)
        }
        Format::Json => json::put(out, &summary, report, options, request.top),
        _ => put_folded(out, report),
    }
}

fn options(request: &Request, trace: &Trace) -> Result<ReportOptions> {
    let mut options = ReportOptions::from_headers(trace.headers());
    options.processors = Machines::from_trace(trace).processors();
    options.processes = request.processes.clone();
    options.symbolizer = request.symbols.symbolizer()?;
    options.tiers = request.tiers;
    let has_default = matches!(request.format, Format::Text | Format::Html);
    if request.tree.is_some() {
        options.tables =
            if request.stacks.is_empty() { vec![TableKind::Functions] } else { request.stacks.clone() };
        options.named_stacks = options.tables.clone();
    } else if !request.tables.is_empty() || !request.stacks.is_empty() {
        options.tables.clone_from(&request.tables);
        let others = request.stacks.iter().filter(|kind| !request.tables.contains(kind));
        options.tables.extend(others);
    } else if has_default {
        options.tables.retain(|kind| kind.is_default());
    }
    if !options.processes.threads.is_empty() {
        options.tables.retain(|kind| kind.has_threads());
    }
    if has_shape(request) && request.tree.is_none() {
        let by_function = |kind: &&TableKind| matches!(kind, TableKind::Functions | TableKind::ByFunction(_));
        options.named_stacks.extend(options.tables.iter().filter(by_function));
    }
    if request.format == Format::Folded {
        if has_shape(request) {
            options.named_stacks = vec![request.stacks.first().copied().unwrap_or(TableKind::Functions)];
        }
        options.tables.clear();
        options.folded_stacks = true;
    }
    if request.format == Format::Html {
        // The page shows samples too, if it shows everything.
        let is_all = request.tables.is_empty() && request.stacks.is_empty();
        let has_samples = is_all || options.tables.contains(&TableKind::Functions);
        options.named_stacks.extend(has_samples.then_some(TableKind::Functions));
        let others = request.stacks.iter().filter(|kind| **kind != TableKind::Functions);
        options.named_stacks.extend(others);
    }
    Ok(options)
}

fn put_folded(out: &mut Vec<u8>, report: &Report) -> Result<()> {
    for (stack, samples) in &report.folded_stacks {
        writeln!(out, "{stack} {samples}")?;
    }
    Ok(())
}
