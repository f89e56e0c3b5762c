//! Rows of the tables of single events, requests and switches, and pivots over them.

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;

use anyhow::{Context, Result};
use etw_app::index::{self, IndexOptions, Tables};
use etw_app::input::check_read;
use etw_app::symbols::SymbolOptions;
use etw_app::table::{WIDTH, cell_value, put_cells};
use etw_app::text::csv_field;
use etw_app::{UsageError, output};
use openetw::analysis::{Cell, Machines, Window};
use openetw::tables::{
    Column, ColumnsError, EventKinds, EventTable, Filter, Index, IndexWriter, Order, OrderBy, Pivot,
    PivotResult, Regions, RowCells, RowFilterError, RowSummary, RowTables, Table, Value, column_path,
    in_window, row_filter, row_value,
};
use openetw::{FileTime, TimePoint, Trace};
use serde_json::json;

use super::html;

/// Default number of rows.
const TOP: usize = 20;
/// Default number of rows on a page.
const TOP_OF_PAGE: usize = 1000;

/// What to show of a table.
#[derive(Debug, Clone)]
pub struct RowsRequest {
    /// Traces; those of several machines share the tables.
    pub files: Vec<PathBuf>,
    /// Name of the table.
    pub table: String,
    /// Columns to show, or to group by if `values` or `is_grouped` says so; empty for those of the table.
    pub columns: Vec<String>,
    /// Whether rows are grouped by the columns.
    pub is_grouped: bool,
    /// What to count of each group: `sum(COLUMN)`, `p95(COLUMN)` and others.
    pub values: Vec<String>,
    /// Condition on the rows, in the filter language; `None` for all rows.
    pub condition: Option<String>,
    /// One of `values`, or a column to group by, that groups are sorted by; `None` for the first value.
    pub sort: Option<String>,
    /// Maximum number of rows or groups; `None` for the default of the format.
    pub top: Option<usize>,
    /// Start of the period; `None` for the start of the trace.
    pub from: Option<TimePoint>,
    /// End of the period; `None` for the end of the trace.
    pub to: Option<TimePoint>,
    /// Files of regions of interest, for the table `regions_of_interest`.
    pub regions: Vec<PathBuf>,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
    /// Whether and where the tables are kept.
    pub index: IndexOptions,
    /// Output format.
    pub format: RowsFormat,
    /// File to write; `None` for standard output.
    pub output: Option<PathBuf>,
}

/// Output formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// Comma-separated values with a header line (RFC 4180).
    Csv,
    /// A page, in one file.
    Html,
}

impl RowsRequest {
    /// Asks for the groups that a table has at first. Shares are left out.
    #[must_use]
    pub fn with_summary(mut self, summary: &RowSummary) -> RowsRequest {
        let values = summary.values.iter().filter(|value| !value.starts_with("percent("));
        let values: Vec<String> = values.map(|value| (*value).to_owned()).collect();
        self.columns = summary.by.iter().map(|column| (*column).to_owned()).collect();
        self.is_grouped = true;
        self.sort = values.first().cloned();
        // All groups have their number of rows.
        self.values = values.into_iter().filter(|value| value != "rows").collect();
        self
    }

    /// Returns true for groups of rows, and false for single rows.
    pub(super) fn is_pivot(&self) -> bool {
        self.is_grouped || !self.values.is_empty()
    }
}

/// Reads the traces and writes rows of a table, or groups of them.
///
/// # Errors
///
/// Fails if a trace cannot be read, if the table has no such column ([`UsageError`]), or if the output cannot be written.
pub fn run(request: &RowsRequest) -> Result<()> {
    let is_known = openetw::tables::row_tables().any(|schema| schema.name == request.table);
    if !is_known && !request.table.contains('/') {
        let names: Vec<&str> = openetw::tables::row_tables().map(|schema| &*schema.name).collect();
        let names = names.join(", ");
        return usage(&format!(
            "no table '{}' with rows; there are: {names}, and PROVIDER/EVENT of the trace",
            request.table
        ));
    }
    if !is_known || !request.regions.is_empty() {
        return from_trace(request, is_known);
    }
    let tables = Tables::open(&request.files, &request.index, &request.symbols)?;
    let (out, tables) = match made_of(request, &tables) {
        Err(error) if tables.is_from_file() && is_damage(&error) => {
            let (files, error) = (&request.files, format!("{error:#}"));
            let tables = tables.again(files, &request.index, &request.symbols, &error)?;
            (made_of(request, &tables)?, tables)
        }
        made => (made?, tables),
    };
    write(request, &out)?;
    tables.check_read()
}

fn made_of(request: &RowsRequest, tables: &Tables) -> Result<Vec<u8>> {
    made(request, tables.tables(), &request.table, tables.index.start_time())
}

/// Whether an error says that a part of an index is not what was written.
fn is_damage(error: &anyhow::Error) -> bool {
    let is_damage = |error: &ColumnsError| matches!(error, ColumnsError::Damaged { .. });
    error.chain().any(|error| error.downcast_ref().is_some_and(is_damage))
}

/// Writes rows of a table that no index has: of a kind of events, or with regions of interest.
fn from_trace(request: &RowsRequest, is_known: bool) -> Result<()> {
    let regions = read_regions(&request.regions)?;
    let mut trace = index::open_trace(&request.files)?;
    let of_events = match is_known {
        true => None,
        false => Some(event_table(&mut trace, &request.table)?),
    };
    let name = of_events.as_ref().map_or(&*request.table, |table| &table.schema().name).to_owned();
    let (overview, stacks) = (trace.overview()?, trace.stacks()?);
    let tables = RowTables::new(IndexWriter::in_memory())?.of_machines(Machines::from_trace(&trace));
    let mut tables = tables.of_events(of_events)?.of_regions(regions);
    tables.add_traces(&trace, &overview);
    trace.for_each_event(|event| tables.add(event, &stacks.of(event.record)))?;
    tables.add_losses(trace.statistics());
    let index = tables.finish(&request.symbols.symbolizer()?)?;
    write(request, &made(request, &index, &name, trace.start_time())?)?;
    check_read(&trace)
}

fn write(request: &RowsRequest, out: &[u8]) -> Result<()> {
    let path = request.output.as_deref();
    let mut file =
        if request.format == RowsFormat::Csv { output::open_csv(path)? } else { output::open(path)? };
    file.write_all(out)?;
    file.flush()?;
    Ok(())
}

/// Returns the text of the rows or groups of a table.
fn made(request: &RowsRequest, index: &Index, name: &str, start: FileTime) -> Result<Vec<u8>> {
    let resolve = |time: Option<TimePoint>, default| time.map_or(default, |time| time.resolve(start));
    let window =
        Window { from: resolve(request.from, Window::ALL.from), to: resolve(request.to, Window::ALL.to) };
    if window.from >= window.to {
        return usage("--from is not before --to");
    }
    let table = index.table(name).context("the table is missing")?;
    let shown = Shown { index, table, start };
    let mut conditions = Conditions { filter: in_window(table.schema(), window), through: Vec::new() };
    if let Some(text) = &request.condition {
        let filter = row_filter(text, table, start, &mut conditions.through).map_err(wrong_condition)?;
        conditions.filter = Filter::All(vec![conditions.filter, filter]);
    }
    let (headings, rows, more) = match request.is_pivot() {
        true => shown.groups(request, conditions)?,
        false => shown.rows(request, &conditions)?,
    };
    let mut out = Vec::new();
    match request.format {
        RowsFormat::Text => {
            let is_terminal = output::is_terminal(request.output.as_deref());
            let width = if is_terminal { WIDTH } else { usize::MAX };
            writeln!(out, "{}", table.schema().title)?;
            put_cells(&mut out, &headings, &rows, width)?;
            if more > 0 {
                writeln!(out, "  … {more} more")?;
            }
        }
        RowsFormat::Json => {
            let object = |row: &Vec<Cell>| -> serde_json::Value {
                headings.iter().cloned().zip(row.iter().map(cell_value)).collect()
            };
            let rows: Vec<_> = rows.iter().map(object).collect();
            let value = json!({ "table": name, "rows": rows, "more": more });
            writeln!(out, "{value}")?;
        }
        RowsFormat::Html => {
            let files: Vec<String> = request.files.iter().map(|file| file.display().to_string()).collect();
            html::put_rows(&mut out, table.schema(), &files, request, (&headings, &rows, more));
        }
        RowsFormat::Csv => {
            let line = |fields: Vec<String>| fields.join(",");
            writeln!(
                out,
                "{}",
                line(headings.iter().map(|heading| csv_field(heading).into_owned()).collect())
            )?;
            for row in &rows {
                writeln!(out, "{}", line(row.iter().map(csv_cell).collect()))?;
            }
        }
    }
    Ok(out)
}

/// Reads files of regions of interest.
///
/// # Errors
///
/// Fails if a file cannot be read, or does not define regions.
pub fn read_regions(files: &[PathBuf]) -> Result<Regions> {
    let mut regions = Regions::default();
    for path in files {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| name.clone())?;
        regions.add_file(&name, &bytes).with_context(|| name.clone())?;
    }
    Ok(regions)
}

/// Finds the table of a kind of events in a trace.
fn event_table(trace: &mut Trace, name: &str) -> Result<EventTable> {
    let mut kinds = EventKinds::default();
    trace.for_each_event(|event| kinds.add(event))?;
    match kinds.find(name) {
        Some(table) => Ok(table),
        None => {
            usage(&format!("the trace has no events '{name}'; `etw tables FILE` lists those that it has"))
        }
    }
}

fn usage<T>(text: &str) -> Result<T> {
    Err(UsageError(text.to_owned()).into())
}

/// A table, for showing its values.
struct Shown<'i> {
    index: &'i Index,
    table: Table<'i>,
    start: FileTime,
}

/// A column to show, with its path through the tables.
struct Field<'i> {
    path: Vec<usize>,
    column: &'i Column,
}

/// Which rows are shown, with the paths of the columns of other tables that the filter needs.
struct Conditions {
    filter: Filter,
    through: Vec<Vec<usize>>,
}

/// Headings, rows and the number of rows that are not shown.
type Shape = (Vec<String>, Vec<Vec<Cell>>, u64);

impl<'i> Shown<'i> {
    /// Finds a column by its name or path, such as `thread.process.name`, also in the tables that rows refer to.
    fn field(&self, name: &str) -> Result<Field<'i>> {
        let Some(path) = column_path(self.table, name) else {
            let known = self.table.schema().columns.iter().map(|column| &*column.name);
            let known: Vec<&str> = known.collect();
            let table = &self.table.schema().name;
            return usage(&format!("table {table} has no column '{name}'; it has: {}", known.join(", ")));
        };
        let column = self.table.path_column(&path).context("the path leads to a column")?;
        Ok(Field { path, column })
    }

    fn cells(&self) -> RowCells<'i> {
        RowCells { index: self.index, start: self.start }
    }

    fn groups(&self, request: &RowsRequest, conditions: Conditions) -> Result<Shape> {
        let Conditions { filter, mut through } = conditions;
        // Columns of the filter come first.
        let own = self.table.schema().columns.len();
        let first = own + through.len();
        let mut fields = Vec::new();
        for name in &request.columns {
            fields.push(self.field(name)?);
        }
        let keys: Vec<usize> = (first..first + fields.len()).collect();
        through.extend(fields.iter().map(|field| field.path.clone()));
        let mut values = Vec::new();
        for text in &request.values {
            let value = row_value(text, self.table, self.start, &mut through).map_err(wrong_value)?;
            values.push((text, value));
        }
        let sort = request.sort.as_deref();
        let by_value = values.iter().position(|(text, _)| Some(text.as_str()) == sort);
        let by_key = request.columns.iter().position(|name| Some(name.as_str()) == sort);
        let by = match (by_value, by_key, sort) {
            (Some(number), ..) => OrderBy::Aggregate(number),
            (None, Some(number), _) => OrderBy::Key(number),
            (None, None, Some(name)) if name != "rows" => {
                return usage(&format!("--sort {name} is neither a column to group by nor a value"));
            }
            (None, None, Some(_)) => OrderBy::Rows,
            (None, None, None) if values.is_empty() => OrderBy::Rows,
            (None, None, None) => OrderBy::Aggregate(0),
        };
        let top = self.top(request);
        let columns: Vec<Option<&Column>> =
            values.iter().map(|(_, value)| value.column(self.table, &through)).collect();
        let pivot = Pivot {
            levels: keys.len(),
            filter,
            conditions: values.iter().map(|(_, value)| value.condition.clone()).collect(),
            order: Order { by, descending: !matches!(by, OrderBy::Key(_)) },
            top,
            through,
            ..Pivot::new(keys, values.iter().map(|(_, value)| value.aggregate).collect::<Vec<_>>())
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let PivotResult { groups, group_count, .. } = pivot.run(self.table, threads).map_err(wrong_use)?;
        let mut headings = request.columns.clone();
        headings.push("rows".to_owned());
        headings.extend(values.iter().map(|(text, _)| (*text).clone()));
        let mut rows = Vec::new();
        for group in &groups {
            let mut row = Vec::new();
            for (field, key) in fields.iter().zip(&group.keys) {
                row.push(self.cells().cell(field.column, *key)?);
            }
            row.push(Cell::Count(group.rows));
            for (column, value) in columns.iter().zip(&group.values) {
                row.push(match column {
                    Some(column) => self.cells().cell(column, *value)?,
                    None => count(*value),
                });
            }
            rows.push(row);
        }
        Ok((headings, rows, (group_count - groups.len()) as u64))
    }

    fn rows(&self, request: &RowsRequest, conditions: &Conditions) -> Result<Shape> {
        let Conditions { filter, through } = conditions;
        let columns = match request.columns.is_empty() {
            true => self.table.schema().columns.iter().map(|column| column.name.to_string()).collect(),
            false => request.columns.clone(),
        };
        if request.sort.is_some() {
            return usage("--sort needs --group-by");
        }
        let fields: Vec<Field> = columns.iter().map(|name| self.field(name)).collect::<Result<_>>()?;
        let limit = self.top(request);
        let mut found = filter.rows(self.table, through, 0, limit.saturating_add(1))?;
        let more = match found.len() > limit {
            false => 0,
            true => {
                let (filter, through) = (filter.clone(), through.clone());
                let count = Pivot { filter, through, ..Pivot::new([], []) };
                count.run(self.table, 1)?.total.rows.saturating_sub(limit as u64)
            }
        };
        found.truncate(limit);
        let mut rows = Vec::new();
        for row in found {
            let mut cells = Vec::new();
            for field in &fields {
                let value = self.table.path_value(row, &field.path)?;
                cells.push(self.cells().cell(field.column, value)?);
            }
            rows.push(cells);
        }
        Ok((columns, rows, more))
    }

    fn top(&self, request: &RowsRequest) -> usize {
        let default = match request.format {
            RowsFormat::Text => TOP,
            RowsFormat::Html => TOP_OF_PAGE,
            RowsFormat::Json | RowsFormat::Csv => usize::MAX - 1,
        };
        request.top.unwrap_or(default)
    }
}

/// Returns an error of a condition as one of the options, if it is one.
fn wrong_condition(error: RowFilterError) -> anyhow::Error {
    match error {
        RowFilterError::Columns(error) => error.into(),
        error => UsageError(format!("--where: {error}")).into(),
    }
}

/// Returns an error of what is counted as one of the options, if it is one.
fn wrong_value(error: RowFilterError) -> anyhow::Error {
    match error {
        RowFilterError::Columns(error) => error.into(),
        error => UsageError(error.to_string()).into(),
    }
}

/// Returns an error of a pivot as one of the options, if it is one.
fn wrong_use(error: ColumnsError) -> anyhow::Error {
    match error {
        ColumnsError::Type { .. } | ColumnsError::NoColumn { .. } | ColumnsError::Pivot(_) => {
            UsageError(error.to_string()).into()
        }
        _ => error.into(),
    }
}

fn count(value: Value) -> Cell {
    match value {
        Value::Integer(value) => u64::try_from(value).map_or(Cell::None, Cell::Count),
        _ => Cell::None,
    }
}

fn csv_cell(cell: &Cell) -> String {
    match cell_value(cell) {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => csv_field(&text).into_owned(),
        other => other.to_string(),
    }
}
