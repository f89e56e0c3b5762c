//! Two traces compared: which processes, functions and stacks weigh more or less than before.
//!
//! ```no_run
//! use etw_report::compare::{self, Request};
//!
//! let mut request = Request::new("before.etl".into(), "after.etl".into());
//! request.conditions = vec!["cpu > 10%".parse()?];
//! if compare::run(&request)? {
//!     eprintln!("it takes more than 10 % more processor time");
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```

mod condition;
mod html;
mod json;
mod rows;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::input::check_read;
use etw_app::symbols::SymbolOptions;
use etw_app::{output, stack_tags, table};
use openetw::analysis::{
    Comparison, Machines, NamedStacks, ProcessFilter, ReportOptions, TableKind, TreeShape, WeightUnit,
};
use openetw::{FileTime, TimePoint, Trace};

use crate::reading::{self, Plan, Reading};
use crate::summary::Summary;
use crate::weights;

use condition::Verdict;
pub use condition::{Condition, ConditionError};

/// Default number of rows of each kind that grew, and that shrank.
const TOP: usize = 20;

/// What to compare, and how to show it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The trace from before, and the one from after.
    pub files: [PathBuf; 2],
    /// What to compare: samples, or what else is counted by stack.
    pub tables: Vec<TableKind>,
    /// Maximum number of rows that grew, and of rows that shrank, of each kind; `None` for 20, and for all in JSON.
    pub top: Option<usize>,
    /// Processes and threads to compare.
    pub processes: ProcessFilter,
    /// Start of the period in each trace; `None` for the start of the trace.
    pub from: Option<TimePoint>,
    /// End of the period in each trace; `None` for the end of the trace.
    pub to: Option<TimePoint>,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
    /// What is done with stacks first.
    pub shape: TreeShape,
    /// Files of stack tags, for `shape`.
    pub stack_tags: Vec<PathBuf>,
    /// What must not be so.
    pub conditions: Vec<Condition>,
    /// Output format.
    pub format: Format,
    /// File to write; `None` for standard output.
    pub output: Option<PathBuf>,
}

impl Request {
    /// Returns a request that compares the samples of two traces, as text.
    pub fn new(before: PathBuf, after: PathBuf) -> Request {
        Request {
            files: [before, after],
            tables: vec![TableKind::Functions],
            top: None,
            processes: ProcessFilter::default(),
            from: None,
            to: None,
            symbols: SymbolOptions::default(),
            shape: TreeShape::default(),
            stack_tags: Vec::new(),
            conditions: Vec::new(),
            format: Format::Text,
            output: None,
        }
    }
}

/// Output formats of comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// A page with differential flame graphs, in one file.
    Html,
}

/// A trace of a comparison.
struct Side {
    file: String,
    start: FileTime,
    seconds: f64,
    events: u64,
    losses: Option<String>,
    stacks: Vec<(TableKind, NamedStacks)>,
}

/// What was compared of two traces.
struct Compared {
    kind: TableKind,
    unit: WeightUnit,
    /// Seconds of each trace.
    seconds: [f64; 2],
    comparison: Comparison,
}

/// Reads both traces and writes what differs. Returns whether a condition holds.
///
/// # Errors
///
/// Fails if a trace cannot be read, if a condition is about what neither trace has, or if the output cannot be written.
pub fn run(request: &Request) -> Result<bool> {
    let mut shape = request.shape.clone();
    shape.tags = stack_tags::read(&request.stack_tags)?;
    let mut tables = request.tables.clone();
    for table in request.conditions.iter().map(Condition::table) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    let [before, after] = &request.files;
    let (before, is_read) = read(before, request, &tables, &shape)?;
    let (after, is_after_read) = read(after, request, &tables, &shape)?;
    let sides = [before, after];
    let compared: Vec<Compared> = tables.iter().map(|kind| compare(*kind, &sides)).collect();
    let verdicts = request.conditions.iter().map(|condition| condition.check(&compared));
    let verdicts = verdicts.collect::<Result<Vec<Verdict>>>()?;
    let mut out = Vec::new();
    let top = request.top.unwrap_or(TOP);
    match request.format {
        Format::Text => {
            let is_terminal = output::is_terminal(request.output.as_deref());
            let width = if is_terminal { table::WIDTH } else { usize::MAX };
            text::put(&mut out, &sides, &compared, &verdicts, top, width)?;
        }
        Format::Json => json::put(&mut out, &sides, &compared, &verdicts, request.top)?,
        Format::Html => out = html::page(&sides, &compared, &verdicts, top).into_string().into_bytes(),
    }
    let mut file = output::open(request.output.as_deref())?;
    file.write_all(&out)?;
    file.flush()?;
    is_read?;
    is_after_read?;
    let held = verdicts.iter().filter(|verdict| verdict.holds);
    held.clone().for_each(|verdict| etw_app::say!("etw: --fail-if {verdict}"));
    Ok(held.count() > 0)
}

/// Reads a trace; also returns whether all of it was read.
fn read(
    file: &Path,
    request: &Request,
    tables: &[TableKind],
    shape: &TreeShape,
) -> Result<(Side, Result<()>)> {
    let files = [file.to_owned()];
    let plan = Plan {
        files: &files,
        from: request.from,
        to: request.to,
        stacks: weights(tables),
        is_page: false,
        has_progress: request.format == Format::Text,
    };
    let Reading { trace, report, .. } = reading::read(&plan, |trace| options(request, tables, trace))?;
    let summary = Summary::new(&trace);
    let stacks = report.stacks.iter().map(|(kind, stacks)| (*kind, shape.apply(stacks)));
    let side = Side {
        file: summary.files.join(", "),
        start: summary.start,
        seconds: report.duration.seconds(),
        events: report.events,
        losses: summary.losses(),
        stacks: stacks.collect(),
    };
    Ok((side, check_read(&trace)))
}

fn options(request: &Request, tables: &[TableKind], trace: &Trace) -> Result<ReportOptions> {
    let mut options = ReportOptions::from_headers(trace.headers());
    options.processors = Machines::from_trace(trace).processors();
    options.processes = request.processes.clone();
    options.symbolizer = request.symbols.symbolizer()?;
    options.tables.clear();
    options.named_stacks = tables.to_vec();
    Ok(options)
}

fn compare(kind: TableKind, sides: &[Side; 2]) -> Compared {
    let none = NamedStacks::new(WeightUnit::Count);
    let [before, after] = [0, 1].map(|side: usize| {
        let stacks = &sides[side].stacks;
        stacks.iter().find(|(other, _)| *other == kind).map_or(&none, |(_, stacks)| stacks)
    });
    Compared {
        kind,
        unit: before.unit(),
        // A trace without events has no length.
        seconds: [0, 1].map(|side: usize| sides[side].seconds.max(1e-7)),
        comparison: Comparison::new(before, after),
    }
}
