//! The arguments of `etw report`.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use etw_app::UsageError;
use etw_report::rows::{RowsFormat, RowsRequest};
use etw_report::{Format, Request, TreeKind, TreeRequest};
use openetw::TimePoint;
use openetw::analysis::{FramePattern, ProcessFilter, StackWeight, TableKind, TreeShape, TreeView};
use openetw::tables::{row_summary, row_tables};

use super::index::IndexArgs;
use super::number;
use super::symbols::SymbolArgs;

/// The examples at the end of `etw report --help`.
pub(crate) const EXAMPLES: &str = "Examples:
  etw record -k Latency+DISPATCHER --for 5s && etw report trace.etl
  etw report trace.etl
  etw report trace.etl --table functions --top 50
  etw report trace.etl --process make --table waits,files
  etw report trace.etl --from 1.5 --to 3 --format json | jq .tables.cpu.rows[0]
  etw report trace.etl --table gc,jit,allocations       what .NET programs did
  etw report trace.etl --format folded > stacks.txt     for flame graphs
  etw report trace.etl --stacks waits                   where threads waited (off-CPU time by function)
  etw report trace.etl --tree top-down --just-my-code   the call tree of samples, without the system's functions
  etw report trace.etl --stacks waits --tree 'callers=ntdll.dll!*Wait*'
  etw report trace.etl --tree tags --stack-tags default.stacktags
  etw report trace.etl --format html -o report.html     a page with charts and flame graphs
  etw report trace.etl --symbols 'srv*/var/symbols;bin'  function names of Windows programs
  etw report trace.etl --table disk --group-by process,path --sum size --values 'p95(duration)'
  etw report trace.etl --table cpu_precise --columns time,new_thread,waits,readying_thread --from 1.5 --to 1.6
  etw report trace.etl --table Microsoft-Windows-Kernel-Process/ProcessStart --columns time,ImageName
  etw report trace.etl --regions app.regions.xml --table regions_of_interest --group-by region --sum duration
  etw report trace.etl --table file_io --where 'duration > 10ms' --group-by process,path --sum duration

Tables are made from kernel events; an empty table names the flags of `etw record -k` (on Windows: of xperf) that
record its events. Those of .NET are made from the events of its runtime. Times are relative to the start of the trace. docs/report.md describes the columns.

Function names come from the files of this machine, if they are the recorded ones: from symbol tables, from DWARF
in the files or in /usr/lib/debug, and from /proc/kallsyms for the running kernel. Those of .NET are in the trace.
For traces of Windows they come from PDB files in --symbols and _NT_SYMBOL_PATH; `etw symbols fetch` gets those
from servers.";

/// The arguments of `etw report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Traces of one machine: .etl, .nettrace or perf.data files, also inside .zst, .gz and .zip.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show only these tables, or one of those that `etw tables` lists.
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = table_names())]
    pub(crate) table: Vec<String>,
    #[command(flatten)]
    pub(crate) rows: RowsArgs,
    /// Count something by the stacks of its events, and show it by function; folded stacks, call trees and flame graphs
    /// show it instead of samples.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = stacks())]
    pub(crate) stacks: Vec<TableKind>,
    /// Show the call tree of the stacks instead of tables: `top-down`, `bottom-up`, `by-name`, `callers=NAME`,
    /// `callees=NAME`, or `tags` (with --stack-tags). NAME is `function` or `module!function`, where `*` is any text.
    #[arg(long, value_name = "VIEW", value_parser = tree_kind)]
    pub(crate) tree: Option<TreeKind>,
    /// Leave out nodes of call trees with less than this percentage of the total [default: 1, in JSON 0.1].
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "tree")]
    pub(crate) min_percent: Option<f64>,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// Show at most this many rows per table, largest first [default: 6, or 20 with --table; all in JSON]; with --tree
    /// this many callers or callees of a function [default: all].
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Show only rows about processes with this image name, ignoring case.
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Vec<String>,
    /// Show only rows about these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) pid: Vec<u32>,
    /// Show only rows about processes of this container of Linux: its name, the first digits of its id, or its pod (`POD`,
    /// `NAMESPACE/POD`).
    #[arg(long, value_name = "CONTAINER")]
    pub(crate) container: Vec<String>,
    /// Show only rows about processes of this control group of Linux and those below it: `/system.slice/nginx.service`, or names at
    /// any place of its path, `nginx.service`.
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<String>,
    /// Show only rows about these threads; other tables than those of threads, functions and stacks are left out.
    #[arg(long, visible_alias = "thread", value_name = "TID", value_delimiter = ',', value_parser = number::<u32>)]
    pub(crate) tid: Vec<u32>,
    /// Report on events at this time or later: `2026-01-02T03:04:05.678Z` (UTC if no offset is given), or from the
    /// start of the trace `12.5`, `300ms`, `2m`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Report on events before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// Find the regions that these files define, regions of interest of Windows Performance Analyzer, for the table
    /// `regions_of_interest`.
    #[arg(long, value_name = "FILE")]
    pub(crate) regions: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
    #[command(flatten)]
    pub(crate) index: IndexArgs,
    /// Show how far methods of .NET are optimized: `module![Tier]Namespace.Type.Method(args)`.
    #[arg(long)]
    pub(crate) tiers: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Write to a file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Output formats of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people.
    Text,
    /// One JSON object with all rows.
    Json,
    /// Sample stacks, one per line: process and functions separated by `;`, then the number of samples.
    Folded,
    /// A page with charts, in one file.
    Html,
    /// The contents of JSON and of the HTML page.
    Xml,
    /// Comma-separated values, with --columns, --group-by, --sum or --values.
    Csv,
}

/// Rows of a table, or groups of them.
#[derive(Debug, Args)]
pub(crate) struct RowsArgs {
    /// Show these columns of the table, row by row: `time,size`, or of what the rows refer to: `thread.process.name`.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Group the rows of the table by these columns.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', conflicts_with = "columns")]
    pub(crate) group_by: Vec<String>,
    /// Add up these columns in each group.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', conflicts_with = "columns")]
    pub(crate) sum: Vec<String>,
    /// Compute these of each group: `sum(COLUMN)`, `min`, `max`, `mean`, `count`, `unique`, `p50`, `p95`, …; of some rows
    /// with a condition, `sum(size) where operation == Read`.
    #[arg(long, value_name = "VALUE,…", conflicts_with = "columns")]
    pub(crate) values: Vec<String>,
    /// Count or show only rows for which this is true, with columns of the table as names: `size >= 0x10000 and path
    /// iendswith ".dll"`.
    #[arg(long = "where", value_name = "EXPR")]
    pub(crate) condition: Option<String>,
    /// Sort groups by a column to group by, a value, or `rows` [default: the first value].
    #[arg(long, value_name = "WHAT")]
    pub(crate) sort: Option<String>,
}

impl RowsArgs {
    fn are_given(&self) -> bool {
        let RowsArgs { columns, group_by, sum, values, condition, sort } = self;
        [columns, group_by, sum, values].iter().any(|names| !names.is_empty())
            || condition.is_some()
            || sort.is_some()
    }
}

/// Accepts names of tables, and `PROVIDER/EVENT`.
#[derive(Clone)]
struct TableNames(PossibleValuesParser);

impl TypedValueParser for TableNames {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        match value.to_str().filter(|name| name.contains('/')) {
            Some(name) => Ok(name.to_owned()),
            None => self.0.parse_ref(command, argument, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// Returns the values of a list. Commas in parentheses and quotes belong to a value.
fn values_of(list: &str) -> impl Iterator<Item = String> {
    let (mut depth, mut quote) = (0_u32, None);
    let values = list.split(move |character| {
        match (quote, character) {
            (Some(mark), _) if character == mark => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') => return depth == 0,
            _ => {}
        }
        false
    });
    values.map(|value| value.trim().to_owned()).collect::<Vec<_>>().into_iter()
}

/// Returns the names of the tables of reports, and of those with rows.
fn table_names() -> TableNames {
    let mut names: Vec<PossibleValue> =
        report_tables().map(|kind| value(kind.name(), kind.about())).collect();
    for schema in row_tables() {
        if !names.iter().any(|name| name.get_name() == &*schema.name) {
            names.push(PossibleValue::new(&*schema.name).help(format!("{} (by rows)", schema.title)));
        }
    }
    TableNames(PossibleValuesParser::new(names))
}

fn value(name: &'static str, help: &'static str) -> PossibleValue {
    PossibleValue::new(name).help(help)
}

/// Returns the tables that `--table` chooses from.
fn report_tables() -> impl Iterator<Item = TableKind> {
    TableKind::ALL.iter().copied().chain([TableKind::WaitChains])
}

/// Returns the tables with a name: collections of .NET have two, which are shown together.
fn tables_named(name: &str) -> Vec<TableKind> {
    let is_it = |kind: &TableKind| kind.name() == name || (name == "gc" && *kind == TableKind::GcProcesses);
    report_tables().filter(is_it).collect()
}

/// What is done with stacks before they are shown.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// Keep only stacks with a function, process or module that matches: `function`, `module!function`, `module!*`.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Leave out stacks with a function, process or module that matches.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Count functions that match for their callers.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) fold: Vec<String>,
    /// Count functions with less than this percentage of the total for their callers.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) fold_percent: Option<f64>,
    /// Show functions by their module as `module!?`, all or those of modules that match.
    #[arg(
        long,
        value_name = "PATTERN",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*"
    )]
    pub(crate) group_modules: Vec<String>,
    /// Show functions of the system and of .NET by their module as `module!?`.
    #[arg(long)]
    pub(crate) just_my_code: bool,
    /// Name functions by the tags in a `.stacktags` file of Windows Performance Analyzer.
    #[arg(long, value_name = "FILE")]
    pub(crate) stack_tags: Vec<PathBuf>,
}

impl ShapeArgs {
    /// Converts the arguments, all but the files of stack tags.
    pub(crate) fn shape(&self) -> TreeShape {
        let patterns = |texts: &[String]| texts.iter().map(|text| FramePattern::new(text)).collect();
        TreeShape {
            include: patterns(&self.include),
            exclude: patterns(&self.exclude),
            fold: patterns(&self.fold),
            fold_percent: self.fold_percent.unwrap_or(0.0),
            group_modules: patterns(&self.group_modules),
            just_my_code: self.just_my_code,
            ..TreeShape::default()
        }
    }
}

/// Accepts what can be counted by stack, and returns its table by function.
pub(crate) fn stacks() -> impl TypedValueParser<Value = TableKind> {
    let samples = value("samples", "samples of what runs").alias("cpu");
    let weights = StackWeight::ALL.map(|weight| match weight {
        StackWeight::OffCpu => value(weight.name(), weight.about()).alias("off-cpu"),
        _ => value(weight.name(), weight.about()),
    });
    PossibleValuesParser::new([samples].into_iter().chain(weights)).try_map(|name| match &*name {
        "samples" | "cpu" => Ok(TableKind::Functions),
        "off-cpu" => Ok(TableKind::ByFunction(StackWeight::OffCpu)),
        name => match StackWeight::of_name(name) {
            Some(weight) => Ok(TableKind::ByFunction(weight)),
            None => Err(UsageError(format!("`{name}` cannot be counted by stack"))),
        },
    })
}

impl ReportArgs {
    /// Converts the arguments to a request for rows of a table, if they are one.
    pub(crate) fn rows_request(&self) -> Result<Option<RowsRequest>> {
        let has_rows_only =
            matches!(&self.table[..], [table] if tables_named(table).is_empty()) && !self.rows.are_given();
        if !self.rows.are_given() && !has_rows_only {
            return Ok(None);
        }
        let usage = |text: &str| Err(UsageError(text.to_owned()).into());
        let [table] = &self.table[..] else {
            return usage(
                "--columns, --group-by, --sum, --values and --where need one --table; `etw tables` lists them",
            );
        };
        let has_processes =
            [&self.process, &self.container, &self.cgroup].iter().any(|names| !names.is_empty())
                || !self.pid.is_empty()
                || !self.tid.is_empty();
        if !self.stacks.is_empty() || self.tree.is_some() || has_processes {
            return usage(
                "rows of a table cannot be combined with --stacks, --tree, --process, --pid, --container, --cgroup and --tid",
            );
        }
        let format = match self.format {
            ReportFormat::Text => RowsFormat::Text,
            ReportFormat::Json => RowsFormat::Json,
            ReportFormat::Csv => RowsFormat::Csv,
            ReportFormat::Html => RowsFormat::Html,
            ReportFormat::Folded | ReportFormat::Xml => {
                return usage("rows of a table are written as text, json, csv or html");
            }
        };
        // A condition alone shows rows.
        let has_columns = !self.rows.columns.is_empty();
        let is_grouped = !has_columns && (!self.rows.group_by.is_empty() || self.rows.sort.is_some());
        let columns = if has_columns { &self.rows.columns } else { &self.rows.group_by };
        let sums = self.rows.sum.iter().map(|column| format!("sum({column})"));
        let request = RowsRequest {
            files: self.files.clone(),
            table: table.clone(),
            columns: columns.clone(),
            is_grouped,
            values: sums.chain(self.rows.values.iter().flat_map(|list| values_of(list))).collect(),
            condition: self.rows.condition.clone(),
            sort: self.rows.sort.clone(),
            top: self.top,
            from: time(self.from.as_deref())?,
            to: time(self.to.as_deref())?,
            regions: self.regions.clone(),
            symbols: self.symbols.options(),
            index: self.index.options(),
            format,
            output: self.output.clone(),
        };
        Ok(Some(match row_summary(table).filter(|_| has_rows_only) {
            Some(summary) => request.with_summary(&summary),
            None => request,
        }))
    }

    /// Converts the arguments to a request.
    pub(crate) fn request(self) -> Result<Request> {
        let mut kinds = Vec::new();
        for name in &self.table {
            let named = tables_named(name);
            if named.is_empty() {
                let text = format!("the table {name} has rows only, and is shown alone");
                return Err(UsageError(text).into());
            }
            kinds.extend(named);
        }
        if !self.regions.is_empty() {
            let text = "--regions needs --table regions_of_interest";
            return Err(UsageError(text.to_owned()).into());
        }
        if self.format == ReportFormat::Csv {
            return Err(UsageError(
                "--format csv needs --columns, --group-by, or a table that has rows only".to_owned(),
            )
            .into());
        }
        Ok(Request {
            files: self.files,
            tables: once(&kinds),
            stacks: once(&self.stacks),
            tree: self.tree.map(|kind| TreeRequest { kind, min_percent: self.min_percent, top: self.top }),
            shape: self.shape.shape(),
            stack_tags: self.shape.stack_tags,
            top: self.top,
            processes: ProcessFilter {
                ids: self.pid,
                names: self.process,
                containers: self.container,
                control_groups: self.cgroup,
                threads: self.tid,
            },
            from: time(self.from.as_deref())?,
            to: time(self.to.as_deref())?,
            symbols: self.symbols.options(),
            tiers: self.tiers,
            format: match self.format {
                ReportFormat::Json => Format::Json,
                ReportFormat::Folded => Format::Folded,
                ReportFormat::Html => Format::Html,
                ReportFormat::Xml => Format::Xml,
                ReportFormat::Text | ReportFormat::Csv => Format::Text,
            },
            output: self.output,
        })
    }
}

/// Returns the tables, each once.
pub(crate) fn once(chosen: &[TableKind]) -> Vec<TableKind> {
    let mut tables: Vec<TableKind> = Vec::new();
    for table in chosen {
        if !tables.contains(table) {
            tables.push(*table);
        }
    }
    tables
}

/// Parses the view of a call tree.
fn tree_kind(text: &str) -> Result<TreeKind, String> {
    let view = match text.split_once('=') {
        None if text == "top-down" => TreeView::TopDown,
        None if text == "bottom-up" => TreeView::BottomUp,
        None if text == "by-name" => TreeView::ByName,
        None if text == "tags" => return Ok(TreeKind::Tags),
        Some(("callers", name)) if !name.is_empty() => TreeView::Callers(FramePattern::new(name)),
        Some(("callees", name)) if !name.is_empty() => TreeView::Callees(FramePattern::new(name)),
        _ => return Err("use top-down, bottom-up, by-name, callers=NAME, callees=NAME or tags".to_owned()),
    };
    Ok(TreeKind::View(view))
}

/// Parses a percentage.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("use a number from 0 to 100".to_owned()),
    }
}

pub(crate) fn time(text: Option<&str>) -> Result<Option<TimePoint>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error: openetw::TimePointError| UsageError(error.to_string()).into())
}
