//! Declared tables of the report as pivots: over counted rows, or over the tables of an index.

use std::num::NonZero;

use etw_columns::{
    Aggregate, Column, ColumnsError, Filter, Group, Index, Order, OrderBy, Pivot, PivotResult, Table, Value,
};
use etw_event::FileTime;
use etw_machine::{ControlGroupNames, Duration, HashMap, ProcessFilter, ProcessIndex, ThreadIndex};

use crate::cell::Cell;
use crate::context::ReportContext;
use crate::rows::cells::RowCells;
use crate::rows::conditions::{RowFilterError, RowValue, column_path, row_filter, row_value};
use crate::summary::{ColumnSource, Summary};

/// Maximum number of values of a table of which quantiles are exact; of more, they are rounded.
const MAX_EXACT: usize = 1 << 18;

/// Selects what a table of the report includes.
#[derive(Debug, Clone, Copy)]
pub struct SummarySelection<'s> {
    /// The processes and threads to include.
    pub filter: &'s ProcessFilter,
    /// Start of the trace; times in tables are relative to it.
    pub start: FileTime,
    /// The time of all processors together, which times are compared with.
    pub processor_time: Duration,
}

/// Returns the rows of a declared table of the report, from the tables of an index. Each has a cell for each column of
/// [`Summary::columns`].
///
/// ```no_run
/// use etw_columns::IndexWriter;
/// # use etw_event::FileTime;
/// use etw_machine::{Duration, ProcessFilter};
/// # use etw_symbols::Symbolizer;
/// use etw_tables::{RowTables, Summary, SummarySelection, summary_rows};
///
/// let index = RowTables::new(IndexWriter::in_memory())?.finish(&Symbolizer::new())?;
/// let filter = ProcessFilter::default();
/// let selection = SummarySelection { filter: &filter, start: FileTime(0), processor_time: Duration(0) };
/// println!("{} rows", summary_rows(Summary::DISK, &index, &selection)?.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns [`RowFilterError::Columns`] if the index is damaged or of another version.
pub fn summary_rows(
    summary: &Summary,
    index: &Index,
    selection: &SummarySelection<'_>,
) -> Result<Vec<Vec<Cell>>, RowFilterError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let run = |pivot: &Pivot, table: Table<'_>| pivot.run(table, threads);
    let wanted = SelectedRows::from_index(selection.filter, index)?;
    selected_rows(summary, index, selection, &wanted, &run)
}

/// The rows of processes and threads that are selected; `None` for all.
pub(super) struct SelectedRows {
    processes: Option<Vec<u32>>,
    threads: Option<Vec<u32>>,
}

impl SelectedRows {
    pub(super) fn from_context(context: &ReportContext<'_>) -> SelectedRows {
        let of_processes = || {
            let processes = context.processes.all().filter(|(process, _)| context.wants(Some(*process)));
            processes.map(|(ProcessIndex(row), _)| row).collect()
        };
        let of_threads = || {
            let threads = context.processes.threads().filter(|thread| context.wants_thread(*thread));
            threads.map(|ThreadIndex(row)| row).collect()
        };
        SelectedRows {
            processes: (!context.filter.has_all_processes()).then(of_processes),
            threads: (!context.filter.threads.is_empty()).then(of_threads),
        }
    }

    fn from_index(filter: &ProcessFilter, index: &Index) -> Result<SelectedRows, ColumnsError> {
        // With several machines, names end in that of the machine.
        let has_name = |name: &str| {
            let plain = name.rsplit_once(" [").map_or(name, |(plain, _)| plain);
            filter.has_name(name) || filter.has_name(plain)
        };
        let of_processes = || {
            let texts = ["name", "cgroup", "container_id", "container", "pod"];
            rows_of(
                index,
                "processes",
                "process_id",
                texts,
                |id, [name, path, container_id, container, pod]| {
                    let group = ControlGroupNames { path, container_id, container, pod: pod.into() };
                    filter.ids.contains(&id) || has_name(name) || filter.has_group(&group)
                },
            )
        };
        let of_threads = || rows_of(index, "threads", "thread_id", [], |id, []| filter.threads.contains(&id));
        Ok(SelectedRows {
            processes: (!filter.has_all_processes()).then(of_processes).transpose()?,
            threads: (!filter.threads.is_empty()).then(of_threads).transpose()?,
        })
    }
}

/// Returns the rows of a table that are wanted, by an id and texts, which are empty where they are missing.
fn rows_of<const TEXTS: usize>(
    index: &Index,
    table: &str,
    id: &str,
    texts: [&str; TEXTS],
    is_wanted: impl Fn(u32, [&str; TEXTS]) -> bool,
) -> Result<Vec<u32>, ColumnsError> {
    let Some(table) = index.table(table) else { return Ok(Vec::new()) };
    let Some(id) = table.schema().column(id) else { return Ok(Vec::new()) };
    let columns = texts.map(|name| table.schema().column(name));
    let dictionary = index.texts()?;
    let mut rows = Vec::new();
    for row in 0..table.rows() {
        let mut texts = [""; TEXTS];
        for (text, column) in texts.iter_mut().zip(columns) {
            if let Some(column) = column
                && let Value::Code(code) = table.value(row, column)?
            {
                *text = dictionary.get(code).unwrap_or_default();
            }
        }
        if let Value::Integer(id) = table.value(row, id)?
            && u32::try_from(id).is_ok_and(|id| is_wanted(id, texts))
        {
            rows.push(row as u32);
        }
    }
    Ok(rows)
}

/// Lets a pivot have as many groups as there are: rows are as many different ones as were counted.
pub(super) fn without_limits(pivot: Pivot) -> Pivot {
    Pivot { max_groups: usize::MAX, max_exact: MAX_EXACT, max_values: usize::MAX, ..pivot }
}

/// Computes a pivot over a table.
pub(super) type Run<'r> = dyn Fn(&Pivot, Table<'_>) -> Result<PivotResult, ColumnsError> + 'r;

pub(super) fn selected_rows(
    summary: &Summary,
    index: &Index,
    selection: &SummarySelection<'_>,
    wanted: &SelectedRows,
    run: &Run<'_>,
) -> Result<Vec<Vec<Cell>>, RowFilterError> {
    let filter = selection.filter;
    let has_no_process = summary.process.is_empty() && !filter.is_empty();
    if has_no_process || (summary.thread.is_empty() && !filter.threads.is_empty()) {
        return Ok(Vec::new());
    }
    let Some(table) = index.table(summary.table) else {
        return Err(ColumnsError::Pivot("the index lacks a table of the report").into());
    };
    let question =
        SummaryQuery { table, selection, through: Vec::new(), keys: Vec::new(), values: Vec::new() };
    question.rows(summary, wanted, run)
}

/// Different values of a column, by the key of the group.
type DistinctValues = HashMap<Key, Vec<u32>>;

/// The values of the keys of a group.
type Key = Box<[(u8, u64)]>;

/// A pivot that is made of names.
struct SummaryQuery<'q> {
    table: Table<'q>,
    selection: &'q SummarySelection<'q>,
    through: Vec<Vec<usize>>,
    keys: Vec<KeyColumn<'q>>,
    values: Vec<(&'static str, RowValue)>,
}

/// A column that is grouped by.
struct KeyColumn<'q> {
    name: &'static str,
    /// Its number in the pivot.
    number: usize,
    column: &'q Column,
}

/// The source of a column's cells, with places in the lists of keys and values.
enum CellSource<'q> {
    Nothing,
    Key { places: Vec<usize>, format: Option<fn(&[Cell]) -> Cell> },
    Value(ValueCells<'q>),
    ProcessorShare(ValueCells<'q>),
    All { column: &'static str, format: fn(&[u32]) -> Option<String> },
}

struct ValueCells<'q> {
    place: usize,
    /// The column whose values are counted; `None` for a number of rows.
    column: Option<&'q Column>,
    /// The value of a group in which nothing is counted.
    otherwise: Value,
}

impl<'q> SummaryQuery<'q> {
    fn rows(
        mut self,
        summary: &Summary,
        wanted: &SelectedRows,
        run: &Run<'_>,
    ) -> Result<Vec<Vec<Cell>>, RowFilterError> {
        self.add_columns(summary)?;
        let pivot = self.pivot(summary, wanted)?;
        let result = run(&pivot, self.table)?;
        let mut lists: HashMap<&str, DistinctValues> = HashMap::default();
        for column in summary.columns {
            if let ColumnSource::All { column, .. } = column.source
                && !lists.contains_key(column)
            {
                lists.insert(column, self.lists(column, &pivot, run)?);
            }
        }
        let shown: Vec<CellSource<'_>> =
            summary.columns.iter().map(|column| self.shown(column.source, &result.total)).collect();
        let order: Vec<Option<usize>> = summary.order.iter().map(|text| self.place(text)).collect();
        let mut rows = Vec::with_capacity(result.groups.len());
        for group in &result.groups {
            let key = (!lists.is_empty()).then(|| words(&group.keys));
            let mut cells = Vec::with_capacity(shown.len());
            for shown in &shown {
                cells.push(match shown {
                    CellSource::Nothing => Cell::None,
                    CellSource::Key { places, format: None } => match places.first() {
                        Some(place) => self.key_cell(*place, group)?,
                        None => Cell::None,
                    },
                    CellSource::Key { places, format: Some(format) } => {
                        let cells = places.iter().map(|place| self.key_cell(*place, group));
                        format(&cells.collect::<Result<Vec<Cell>, _>>()?)
                    }
                    CellSource::Value(value) => self.value_cell(value, group)?,
                    CellSource::ProcessorShare(value) => match self.value_cell(value, group)? {
                        Cell::Duration(time) => Cell::percent(time.0, self.selection.processor_time.0),
                        _ => Cell::None,
                    },
                    CellSource::All { column, format } => {
                        let lists = lists.get(column).zip(key.as_ref());
                        let values = lists.and_then(|(lists, key)| lists.get(key));
                        values.and_then(|values| format(values)).map_or(Cell::None, Cell::Text)
                    }
                });
            }
            rows.push((group, cells));
        }
        let weight =
            |group: &Group, place: &Option<usize>| place.map_or(0, |place| whole(group.values[place]));
        // Rows of equal weight are in the order of what they are about.
        rows.sort_by(|(group, cells), (other_group, other_cells)| {
            let weights = order.iter().map(|place| weight(other_group, place));
            let by_weight = weights.cmp(order.iter().map(|place| weight(group, place)));
            by_weight.then_with(|| cells.iter().map(text).cmp(other_cells.iter().map(text)))
        });
        Ok(rows.into_iter().map(|(_, cells)| cells).collect())
    }

    /// Returns how a column shows groups, of which the total is known.
    fn shown(&self, source: ColumnSource, total: &Group) -> CellSource<'q> {
        let value = |text: &str| {
            let place = self.place(text)?;
            let value = &self.values[place].1;
            let column = value.column(self.table, &self.through);
            // The sum of no rows is 0, but not that of rows without a value.
            let is_part = value.condition.is_some() && matches!(value.aggregate, Aggregate::Sum(_));
            let otherwise = if is_part { Value::Integer(0) } else { Value::Null };
            Some(ValueCells { place, column, otherwise })
        };
        match source {
            ColumnSource::Code => CellSource::Nothing,
            ColumnSource::Key { paths, format } => {
                let place = |path: &&str| self.keys.iter().position(|key| key.name == *path);
                CellSource::Key { places: paths.iter().filter_map(place).collect(), format }
            }
            ColumnSource::Value { value: text, known_by } => {
                let is_known = self.place(known_by).is_none_or(|place| whole(total.values[place]) > 0);
                value(text).filter(|_| is_known).map_or(CellSource::Nothing, CellSource::Value)
            }
            ColumnSource::ProcessorShare(text) => {
                value(text).map_or(CellSource::Nothing, CellSource::ProcessorShare)
            }
            ColumnSource::All { column, format } => CellSource::All { column, format },
        }
    }

    /// Returns the place of a value.
    fn place(&self, text: &str) -> Option<usize> {
        self.values.iter().position(|(known, _)| *known == text)
    }

    fn key_cell(&self, place: usize, group: &Group) -> Result<Cell, ColumnsError> {
        self.cells().cell(self.keys[place].column, group.keys[place])
    }

    fn value_cell(&self, shown: &ValueCells<'_>, group: &Group) -> Result<Cell, ColumnsError> {
        let value = match group.values[shown.place] {
            Value::Null => shown.otherwise,
            value => value,
        };
        match (shown.column, value) {
            (Some(column), value) => self.cells().cell(column, value),
            (None, Value::Integer(count)) => Ok(u64::try_from(count).map_or(Cell::None, Cell::Count)),
            (None, _) => Ok(Cell::None),
        }
    }

    /// Adds what columns show, and what rows are grouped by and ordered by.
    fn add_columns(&mut self, summary: &Summary) -> Result<(), RowFilterError> {
        // Processes and threads of one name stay apart.
        for name in [summary.process, summary.thread] {
            if !name.is_empty() {
                self.add_key(name, self.table.path(name))?;
            }
        }
        for name in summary.by {
            let path = column_path(self.table, name);
            self.add_key(name, path)?;
        }
        for column in summary.columns {
            match column.source {
                ColumnSource::Key { paths, .. } => {
                    for name in paths {
                        self.add_key(name, self.table.path(name))?;
                    }
                }
                ColumnSource::Value { value, known_by } => {
                    self.add_value(value)?;
                    self.add_value(known_by)?;
                }
                ColumnSource::ProcessorShare(value) => self.add_value(value)?,
                ColumnSource::Code | ColumnSource::All { .. } => {}
            }
        }
        summary.order.iter().try_for_each(|value| self.add_value(value))
    }

    fn add_key(&mut self, name: &'static str, path: Option<Vec<usize>>) -> Result<(), RowFilterError> {
        let column = path.as_ref().and_then(|path| self.table.path_column(path));
        let (Some(path), Some(column)) = (path, column) else {
            return Err(ColumnsError::Pivot("a declared table groups by a column that does not exist").into());
        };
        if !self.keys.iter().any(|key| key.name == name) {
            let number = self.number_of(path);
            self.keys.push(KeyColumn { name, number, column });
        }
        Ok(())
    }

    /// Returns the number of a column in pivots.
    fn number_of(&mut self, path: Vec<usize>) -> usize {
        let known = self.through.iter().position(|other| *other == path);
        let place = known.unwrap_or_else(|| {
            self.through.push(path);
            self.through.len() - 1
        });
        self.table.schema().columns.len() + place
    }

    fn add_value(&mut self, text: &'static str) -> Result<(), RowFilterError> {
        if !text.is_empty() && !self.values.iter().any(|(known, _)| *known == text) {
            let value = row_value(text, self.table, self.selection.start, &mut self.through)?;
            self.values.push((text, value));
        }
        Ok(())
    }

    fn pivot(&mut self, summary: &Summary, wanted: &SelectedRows) -> Result<Pivot, RowFilterError> {
        let mut filters = Vec::new();
        if !summary.condition.is_empty() {
            filters.push(row_filter(summary.condition, self.table, self.selection.start, &mut self.through)?);
        }
        for (name, rows) in [(summary.process, &wanted.processes), (summary.thread, &wanted.threads)] {
            filters.extend(rows.as_ref().map(|rows| self.is_one_of(name, rows)));
        }
        let keys: Vec<usize> = self.keys.iter().map(|key| key.number).collect();
        let aggregates: Vec<Aggregate> = self.values.iter().map(|(_, value)| value.aggregate).collect();
        Ok(Pivot {
            through: self.through.clone(),
            levels: keys.len(),
            conditions: self.values.iter().map(|(_, value)| value.condition.clone()).collect(),
            filter: Filter::All(filters),
            order: Order { by: OrderBy::Nothing, descending: false },
            ..without_limits(Pivot::new(keys, aggregates))
        })
    }

    /// Returns the condition that a key is one of some rows.
    fn is_one_of(&self, name: &str, rows: &[u32]) -> Filter {
        let values = rows.iter().map(|row| Value::Code(*row)).collect();
        match self.keys.iter().find(|key| key.name == name) {
            Some(key) => Filter::In { column: key.number, values },
            None => Filter::Any(Vec::new()),
        }
    }

    /// Returns the different values of a column by group.
    fn lists(
        &mut self,
        column: &str,
        pivot: &Pivot,
        run: &Run<'_>,
    ) -> Result<DistinctValues, RowFilterError> {
        let mut lists = DistinctValues::default();
        let Some(number) = self.table.schema().column(column) else { return Ok(lists) };
        let mut pivot = Pivot { aggregates: Vec::new(), conditions: Vec::new(), ..pivot.clone() };
        pivot.keys.push(number);
        pivot.levels += 1;
        let is_there = Filter::Not(Box::new(Filter::Null { column: number }));
        pivot.filter = Filter::All(vec![pivot.filter, is_there]);
        for group in run(&pivot, self.table)?.groups {
            if let Some((Value::Integer(value), keys)) = group.keys.split_last() {
                lists.entry(words(keys)).or_default().extend(u32::try_from(*value));
            }
        }
        lists.values_mut().for_each(|values| values.sort_unstable());
        Ok(lists)
    }

    fn cells(&self) -> RowCells<'q> {
        RowCells { index: self.table.index(), start: self.selection.start }
    }
}

/// Returns a value as a whole number; 0 if it is missing.
fn whole(value: Value) -> i128 {
    match value {
        Value::Integer(value) => value,
        Value::Float(value) => value as i128,
        _ => 0,
    }
}

/// Returns values as numbers that are different if the values are.
fn words(values: &[Value]) -> Key {
    let word = |value: &Value| match value {
        Value::Null => (0, 0),
        Value::Bool(value) => (1, u64::from(*value)),
        // Sums are no keys.
        Value::Integer(value) => (1, *value as u64),
        Value::Float(value) => (1, value.to_bits()),
        Value::Time(time) => (1, time.0.cast_unsigned()),
        Value::Code(code) => (1, u64::from(*code)),
    };
    values.iter().map(word).collect()
}

/// Returns what a cell is called, for an order.
fn text(cell: &Cell) -> (&str, u64) {
    match cell {
        Cell::Text(text) => (text, 0),
        Cell::Id(number) => ("", *number),
        _ => ("", 0),
    }
}
