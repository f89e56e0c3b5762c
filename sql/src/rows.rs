//! The tables with rows of traces: processes, requests, samples, as `etw tables` lists them.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, bail};
use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, StringArray,
    UInt32Array, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit, UInt32Type};
use datafusion::arrow::error::ArrowError;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use etw_arrow::ArrowTable;
use etw_columns::{Column, ColumnType, Table, TableSchema, Value};
use etw_event::FileTime;
use etw_tables::row_tables;
use serde::{Deserialize, Serialize};

use crate::bases::{Bases, Traces};
use crate::columns::{TRACE, Wanted, dictionary, unix_nanos};
use crate::condition::{Accepted, Condition};
use crate::database::Unreadable;
use crate::events::blocking;
use crate::scan::{Reading, Run, Scan};
use crate::source::{Source, prepare};

/// The table whose name the events of the traces have here.
const EVENTS: &str = "events";
const GENERIC_EVENTS: &str = "generic_events";
/// Column with the number of the row, of tables that others refer to.
const ROW: &str = "row";
/// The table of the traces, which also has those that cannot be read.
const TRACES: &str = "traces";

/// Returns the declaration of a table with rows, by the name that queries use.
pub(crate) fn declared(wanted: &str) -> Option<&'static TableSchema> {
    row_tables().find(|schema| name(schema) == wanted)
}

/// Returns the names of all tables with rows, as queries use them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    row_tables().map(name)
}

fn name(schema: &'static TableSchema) -> &'static str {
    match &*schema.name {
        EVENTS => GENERIC_EVENTS,
        name => name,
    }
}

/// A table with rows of some traces.
#[derive(Debug)]
pub(crate) struct RowTable {
    declared: &'static TableSchema,
    traces: Arc<Traces>,
    sources: Vec<Source>,
    /// Of the table of traces, those that cannot be read.
    unreadable: Vec<Unreadable>,
    schema: SchemaRef,
    columns: Vec<RowColumn>,
}

/// A column of a table with rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RowColumn {
    /// The number of the row.
    Row,
    /// A column of the table, by its number.
    Own(usize),
    /// The trace.
    Trace,
    /// Whether the trace was read, of the table of traces.
    Status,
    /// Why it was not.
    Error,
}

impl RowTable {
    /// Returns the table with a name.
    pub(crate) fn find(
        traces: &Arc<Traces>,
        sources: &[Source],
        unreadable: &[Unreadable],
        wanted: &str,
    ) -> Option<RowTable> {
        let declared = self::declared(wanted)?;
        let is_referred = row_tables().flat_map(|table| table.columns.iter()).any(|column| {
            column.table == declared.name
                || column.column_type == ColumnType::Stack && declared.name == "frames"
        });
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        if is_referred && declared.column(ROW).is_none() {
            columns.push(RowColumn::Row);
            fields.push(with_summary(Field::new(ROW, DataType::UInt32, false), "Number of the row."));
        }
        for (number, column) in declared.columns.iter().enumerate() {
            columns.push(RowColumn::Own(number));
            fields.push(field(column));
        }
        if declared.column(TRACE).is_none() {
            columns.push(RowColumn::Trace);
            fields.extend(Wanted::Trace.field());
        }
        let mut unreadable = unreadable.to_vec();
        if declared.name == TRACES {
            let text = |name, summary| with_summary(Field::new(name, DataType::Utf8, true), summary);
            columns.extend([RowColumn::Status, RowColumn::Error]);
            fields.push(text(
                "status",
                "`read`, or `unreadable` for a trace whose rows are missing everywhere.",
            ));
            fields.push(text("error", "Why it cannot be read."));
        } else {
            unreadable.clear();
        }
        let schema = Arc::new(Schema::new(fields));
        let (traces, sources) = (traces.clone(), sources.to_vec());
        Some(RowTable { declared, traces, sources, unreadable, schema, columns })
    }

    fn condition(&self, expression: &Expr) -> Option<(usize, Accepted)> {
        let Condition { column, accepted } = Condition::from_expression(expression)?;
        let number = self.declared.column(&column)?;
        let is_number = matches!(
            self.declared.columns.get(number)?.column_type,
            ColumnType::U32 | ColumnType::U64 | ColumnType::I64 | ColumnType::Time | ColumnType::Duration
        );
        (is_number && matches!(accepted, Accepted::Numbers(_))).then_some((number, accepted))
    }
}

fn with_summary(field: Field, summary: &str) -> Field {
    field.with_metadata(HashMap::from([("summary".to_owned(), summary.to_owned())]))
}

fn field(column: &Column) -> Field {
    let data_type = match column.column_type {
        ColumnType::U64 => DataType::UInt64,
        // Durations are nanoseconds, as in Parquet, so that they compare with numbers.
        ColumnType::I64 | ColumnType::Duration => DataType::Int64,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        ColumnType::Text | ColumnType::Guid => dictionary(),
        _ => DataType::UInt32,
    };
    with_summary(Field::new(&*column.name, data_type, true), &column.summary)
}

#[async_trait]
impl TableProvider for RowTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // They select chunks; the query decides about the rows of these.
        let decided = |filter: &&Expr| match self.condition(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(decided).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (schema, columns) = match projection {
            Some(numbers) => {
                let columns = numbers.iter().filter_map(|number| self.columns.get(*number).copied());
                (Arc::new(self.schema.project(numbers)?), columns.collect())
            }
            None => (self.schema.clone(), self.columns.clone()),
        };
        let conditions: Vec<_> = filters.iter().filter_map(|filter| self.condition(filter)).collect();
        let (traces, sources, declared) = (self.traces.clone(), self.sources.clone(), self.declared);
        let threads = state.config().target_partitions();
        let mut pieces = blocking(move || pieces(&traces, &sources, declared, &conditions, threads)).await?;
        if let Some(first) = pieces.first_mut() {
            first.unreadable.clone_from(&self.unreadable);
        }
        if pieces.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let reading = RowReading { declared: self.declared, columns };
        let scan = Scan::new(name(self.declared), schema, Arc::new(reading), pieces, limit);
        Ok(Arc::new(scan.fitted(state)))
    }
}

/// A part of a table: some chunks.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) source: Source,
    pub(crate) bases: Arc<Bases>,
    /// Number of rows of the table.
    pub(crate) rows: u64,
    pub(crate) chunks: Vec<Range<usize>>,
    /// Number of chunks that no piece has.
    pub(crate) skipped: usize,
    /// Traces that are rows of the table of traces, too.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Divides a table among as many threads, without the chunks in which no row can meet the conditions.
fn pieces(
    traces: &Traces,
    sources: &[Source],
    declared: &TableSchema,
    conditions: &[(usize, Accepted)],
    threads: usize,
) -> anyhow::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let bases = traces.bases()?;
    prepare(sources, |source| source.index().map(|_| ()));
    for source in sources {
        let bases = bases.get(source.number).cloned().unwrap_or_default();
        let index = source.index()?.index();
        let Some(table) = index.table(&declared.name) else { continue };
        bases.check(index).with_context(|| source.name.clone())?;
        let mut wanted = Vec::new();
        for chunk in 0..table.chunks() {
            if may_meet(table, chunk, conditions)? {
                wanted.push(chunk);
            }
        }
        let piece = Piece {
            source: source.clone(),
            bases,
            rows: table.rows(),
            chunks: Vec::new(),
            skipped: table.chunks() - wanted.len(),
            unreadable: Vec::new(),
        };
        if wanted.is_empty() {
            pieces.push(piece);
            continue;
        }
        let each = wanted.len().div_ceil(threads.div_ceil(sources.len().max(1))).max(1);
        for (number, chunks) in wanted.chunks(each).enumerate() {
            // Counted once.
            let skipped = if number == 0 { piece.skipped } else { 0 };
            pieces.push(Piece { chunks: joined(chunks), skipped, ..piece.clone() });
        }
    }
    Ok(pieces)
}

/// Joins neighbours.
fn joined(chunks: &[usize]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for chunk in chunks {
        match ranges.last_mut() {
            Some(range) if range.end == *chunk => range.end += 1,
            _ => ranges.push(*chunk..*chunk + 1),
        }
    }
    ranges
}

/// Whether a row of a chunk can meet conditions, by its least and greatest values.
fn may_meet(table: Table<'_>, chunk: usize, conditions: &[(usize, Accepted)]) -> anyhow::Result<bool> {
    let number = |value: Value, is_end: bool| match value {
        Value::Integer(value) => Some(value),
        Value::Time(time) => Some(time_number(time, is_end)),
        _ => None,
    };
    for (column, accepted) in conditions {
        let Some(statistics) = table.column(*column)?.statistics(chunk) else { continue };
        match (number(statistics.min, false), number(statistics.max, true)) {
            (Some(min), Some(max)) if accepted.meets(min, max) => {}
            (Some(_), Some(_)) => return Ok(false),
            // All values are missing, which no condition accepts; or they are no numbers.
            _ if statistics.min == Value::Null => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

/// Returns a time in nanoseconds, also outside the years that queries know.
fn time_number(time: FileTime, is_end: bool) -> i128 {
    match unix_nanos(time) {
        Some(nanos) => nanos.into(),
        None if is_end => i128::MAX,
        None => i128::MIN,
    }
}

/// What is read of a table with rows.
#[derive(Debug)]
pub(crate) struct RowReading {
    pub(crate) declared: &'static TableSchema,
    pub(crate) columns: Vec<RowColumn>,
}

impl Reading for RowReading {
    type Piece = Piece;
    const NAME: &'static str = "RowScan";

    fn source(piece: &Piece) -> &Source {
        &piece.source
    }

    fn rows(piece: &Piece) -> usize {
        let all = usize::try_from(piece.rows).unwrap_or(usize::MAX);
        let own = piece.chunks.iter().map(|chunks| chunks.len() * Table::CHUNK_ROWS).sum::<usize>().min(all);
        own + piece.unreadable.len()
    }

    fn describe(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn read(&self, piece: &Piece, run: &mut Run) -> anyhow::Result<()> {
        run.counter("chunks_skipped").add(piece.skipped);
        let chunks = run.counter("chunks_read");
        let schema = run.schema.clone();
        if !piece.unreadable.is_empty() {
            run.send(&of_unreadable(&schema, &self.columns, self.declared, &piece.unreadable)?);
        }
        read(self.declared, &schema, &self.columns, piece, &mut |is_new_chunk, batch| {
            chunks.add(usize::from(is_new_chunk));
            run.send(&batch)
        })
    }
}

/// Returns the rows of traces that cannot be read.
fn of_unreadable(
    schema: &SchemaRef,
    columns: &[RowColumn],
    declared: &TableSchema,
    traces: &[Unreadable],
) -> anyhow::Result<RecordBatch> {
    let own = |number: &usize| declared.columns.get(*number).is_some_and(|column| column.name == "trace");
    let texts = |text: &dyn Fn(&Unreadable) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(traces.iter().map(text)))
    };
    let arrays = columns.iter().zip(schema.fields()).map(|(column, field)| match column {
        RowColumn::Own(number) if own(number) => cast(&texts(&|trace| trace.name.clone()), field.data_type()),
        RowColumn::Status => Ok(texts(&|_| "unreadable".to_owned())),
        RowColumn::Error => Ok(texts(&|trace| trace.error.clone())),
        _ => Ok(new_null_array(field.data_type(), traces.len())),
    });
    let arrays = arrays.collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(traces.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
}

/// Reads chunks, and passes batches to `send` until it returns false.
fn read(
    declared: &TableSchema,
    schema: &SchemaRef,
    columns: &[RowColumn],
    piece: &Piece,
    send: &mut dyn FnMut(bool, RecordBatch) -> bool,
) -> anyhow::Result<()> {
    let index = piece.source.index()?;
    let Some(table) = index.index().table(&declared.name) else { return Ok(()) };
    if table.rows() != piece.rows {
        bail!("{}: the index differs from the one that the query was planned with", piece.source.name);
    }
    let own: Vec<usize> = columns
        .iter()
        .filter_map(|column| match column {
            RowColumn::Own(number) => Some(*number),
            _ => None,
        })
        .collect();
    let arrow = ArrowTable::with_stack_codes(table, &own)?;
    let base = piece.bases.of_table(&declared.name);
    for chunks in &piece.chunks {
        let mut first = u32::try_from(chunks.start * Table::CHUNK_ROWS).context(TOO_MANY_ROWS)?;
        let mut sizes = (chunks.start..chunks.end).map(|chunk| table.chunk_rows(chunk));
        if own.is_empty() {
            // Without columns, batches would have no rows.
            for rows in sizes {
                let batch =
                    batch(schema, columns, &mut std::iter::empty(), rows, (base, first), piece, declared)?;
                first = after(first, rows)?;
                if !send(true, batch) {
                    return Ok(());
                }
            }
            continue;
        }
        let mut left = 0;
        for found in arrow.batches_of(chunks.clone()) {
            let found = found?;
            let is_new = left == 0;
            if is_new {
                left = sizes.next().unwrap_or(0);
            }
            let rows = found.num_rows();
            left = left.saturating_sub(rows);
            let mut arrays = found.columns().iter().cloned();
            let batch = batch(schema, columns, &mut arrays, rows, (base, first), piece, declared)?;
            first = after(first, rows)?;
            if !send(is_new, batch) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What a table has whose rows 32 bits do not count. `Bases::check` refuses such traces before they are read.
const TOO_MANY_ROWS: &str = "the table has more than 4,294,967,295 rows";

/// Returns the number of the row after as many.
fn after(first: u32, rows: usize) -> anyhow::Result<u32> {
    u32::try_from(rows).ok().and_then(|rows| first.checked_add(rows)).context(TOO_MANY_ROWS)
}

/// Returns a batch of the wanted columns, of which `own` has those of the table.
fn batch(
    schema: &SchemaRef,
    columns: &[RowColumn],
    own: &mut dyn Iterator<Item = ArrayRef>,
    rows: usize,
    (base, first): (u32, u32),
    piece: &Piece,
    declared: &TableSchema,
) -> anyhow::Result<RecordBatch> {
    let arrays = columns.iter().map(|column| -> Result<ArrayRef, ArrowError> {
        match column {
            RowColumn::Row => {
                let too_many = || ArrowError::InvalidArgumentError(TOO_MANY_ROWS.to_owned());
                let first = base.checked_add(first).ok_or_else(too_many)?;
                let end = after(first, rows).map_err(|_| too_many())?;
                Ok(Arc::new((first..end).collect::<UInt32Array>()) as ArrayRef)
            }
            RowColumn::Trace => {
                let keys = Int32Array::from(vec![0; rows]);
                let names = Arc::new(StringArray::from(vec![piece.source.name.as_str()]));
                Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names)?) as ArrayRef)
            }
            RowColumn::Status => Ok(Arc::new(StringArray::from(vec!["read"; rows])) as ArrayRef),
            RowColumn::Error => Ok(new_null_array(&DataType::Utf8, rows)),
            RowColumn::Own(number) => {
                let missing = || ArrowError::InvalidArgumentError("a column has no values".to_owned());
                let array = own.next().ok_or_else(missing)?;
                let Some(column) = declared.columns.get(*number) else { return Err(missing()) };
                Ok(match column.column_type {
                    ColumnType::Duration => cast(&array, &DataType::Int64)?,
                    ColumnType::Row => moved(array, piece.bases.of_table(&column.table)),
                    ColumnType::Stack => moved(array, piece.bases.of_stacks()),
                    _ => array,
                })
            }
        }
    });
    let arrays = arrays.collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
}

/// Adds to references, so that those of several traces differ.
fn moved(array: ArrayRef, base: u32) -> ArrayRef {
    match array.as_primitive_opt::<UInt32Type>() {
        Some(numbers) if base > 0 => Arc::new(numbers.unary::<_, UInt32Type>(|number| number + base)),
        _ => array,
    }
}
