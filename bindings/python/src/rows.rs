//! Tables with rows (`docs/tables.md`) and pivots over them, as record batches.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, DurationNanosecondArray, Float64Array, Int32Array,
    Int64Array, ListArray, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::{TakeOptions, take};
use openetw::analysis::Window;
use openetw::tables::arrow::ArrowTable;
use openetw::tables::{
    Aggregate, Column, ColumnType, Filter, Index, Order, OrderBy, Pivot, Table, Value, column_path,
    in_window, row_filter, row_label, row_value,
};
use openetw::{FileTime, TimePoint};

use crate::convert::texts;
use crate::errors::Failure;

/// The rows of a table.
pub(crate) type Batches = (SchemaRef, Vec<RecordBatch>);

/// The rows that count.
pub(crate) struct Selection<'a> {
    pub(crate) from: Option<TimePoint>,
    pub(crate) to: Option<TimePoint>,
    pub(crate) condition: Option<&'a str>,
    pub(crate) start: FileTime,
}

impl Selection<'_> {
    /// Returns the condition, and the columns of other tables that it needs.
    fn filter(&self, table: Table<'_>) -> Result<(Filter, Vec<Vec<usize>>), Failure> {
        let resolve =
            |time: Option<TimePoint>, default| time.map_or(default, |time| time.resolve(self.start));
        let window =
            Window { from: resolve(self.from, Window::ALL.from), to: resolve(self.to, Window::ALL.to) };
        let (mut filter, mut through) = (in_window(table.schema(), window), Vec::new());
        if let Some(text) = self.condition {
            let condition = row_filter(text, table, self.start, &mut through)?;
            filter = Filter::All(vec![filter, condition]);
        }
        Ok((filter, through))
    }
}

/// What becomes of a column's values.
enum Shown {
    AsIs,
    /// References to rows become what these are called.
    Label(Arc<Labels>),
    /// References to rows become their values in a column of the other table.
    Through(ArrayRef),
    /// Frames of stacks become functions.
    Stack(Arc<Labels>),
}

/// What the rows of a table are called, each name once.
struct Labels {
    /// For each row, the place of its name.
    places: Vec<i32>,
    names: ArrayRef,
}

impl Labels {
    fn of(&self, rows: impl Iterator<Item = Option<u64>>) -> Result<ArrayRef, Failure> {
        let place = |row: Option<u64>| self.places.get(usize::try_from(row?).ok()?).copied();
        let places: Int32Array = rows.map(place).collect();
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(places, self.names.clone())?))
    }
}

/// Makes record batches of tables.
pub(crate) struct Reader<'i> {
    index: &'i Index,
    /// Whether references and frames stay numbers of rows.
    raw: bool,
    labels: HashMap<String, Arc<Labels>>,
}

impl<'i> Reader<'i> {
    pub(crate) fn new(index: &'i Index, raw: bool) -> Reader<'i> {
        Reader { index, raw, labels: HashMap::new() }
    }

    /// Returns columns of the rows of a table; all columns if none are named.
    pub(crate) fn read(
        &mut self,
        table: Table<'i>,
        columns: Option<&[String]>,
        selection: &Selection<'_>,
    ) -> Result<Batches, Failure> {
        let (filter, through) = selection.filter(table)?;
        let rows = match filter == Filter::All(Vec::new()) {
            true => None,
            false => Some(filter.rows(table, &through, 0, usize::MAX)?),
        };
        let paths: Vec<(String, Vec<usize>)> = match columns {
            Some(names) => names
                .iter()
                .map(|name| Ok((name.clone(), path(table, name)?)))
                .collect::<Result<_, Failure>>()?,
            None => {
                let names = table.schema().columns.iter().enumerate();
                names.map(|(number, column)| (column.name.to_string(), vec![number])).collect()
            }
        };
        if self.raw && columns.is_none() {
            let table = ArrowTable::new(table)?;
            let batches = selected(table.batches(), rows)?;
            return Ok((table.schema(), batches));
        }
        self.batches(table, &paths, rows)
    }

    fn batches(
        &mut self,
        table: Table<'i>,
        paths: &[(String, Vec<usize>)],
        rows: Option<Vec<u64>>,
    ) -> Result<Batches, Failure> {
        let mut own = Vec::new();
        let mut shown = Vec::new();
        for (_, path) in paths {
            let Some((first, rest)) = path.split_first() else { continue };
            own.push(*first);
            let column = &table.schema().columns[*first];
            shown.push(match (rest, column.column_type) {
                ([], ColumnType::Row) if !self.raw => self.label(&column.table)?,
                ([], ColumnType::Stack) if !self.raw => match self.label("frames")? {
                    Shown::Label(labels) => Shown::Stack(labels),
                    shown => shown,
                },
                ([], _) => Shown::AsIs,
                (rest, _) => Shown::Through(self.whole(&column.table, rest)?),
            });
        }
        if own.is_empty() {
            return Err(Failure::argument("no columns are named"));
        }
        let source = ArrowTable::with_columns(table, &own)?;
        let mut fields: Vec<Field> = Vec::new();
        for ((name, _), (field, shown)) in paths.iter().zip(source.schema().fields().iter().zip(&shown)) {
            let empty = shown.of(&arrow_array::new_empty_array(field.data_type()))?;
            let field =
                Field::new(name, empty.data_type().clone(), true).with_metadata(field.metadata().clone());
            fields.push(field);
        }
        let metadata = source.schema().metadata().clone();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let batches = selected(source.batches(), rows)?.into_iter().map(|batch| {
            let arrays = batch.columns().iter().zip(&shown).map(|(array, shown)| shown.of(array));
            Ok(RecordBatch::try_new(schema.clone(), arrays.collect::<Result<_, Failure>>()?)?)
        });
        let batches = batches.collect::<Result<Vec<_>, Failure>>()?;
        Ok((schema, batches))
    }

    /// Returns the values of a column, or of one that its rows refer to, for all rows of a table.
    fn whole(&mut self, table: &str, path: &[usize]) -> Result<ArrayRef, Failure> {
        let table =
            self.index.table(table).ok_or_else(|| Failure::argument(format_args!("no table '{table}'")))?;
        let (schema, batches) = self.batches(table, &[(String::new(), path.to_vec())], None)?;
        let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
        match arrays.is_empty() {
            true => Ok(arrow_array::new_empty_array(schema.field(0).data_type())),
            false => Ok(concat(&arrays)?),
        }
    }

    /// Returns what the rows of a table are called, as reports show them. Rows of tables without names stay numbers.
    fn label(&mut self, table: &str) -> Result<Shown, Failure> {
        let Some(label) = row_label(table) else { return Ok(Shown::AsIs) };
        if let Some(known) = self.labels.get(table) {
            return Ok(Shown::Label(known.clone()));
        }
        let source =
            self.index.table(table).ok_or_else(|| Failure::argument(format_args!("no table '{table}'")))?;
        let mut parts = Vec::new();
        for name in label.columns {
            parts.push(texts(&self.whole(table, &path(source, name)?)?));
        }
        let addresses = match label.otherwise {
            Some(otherwise) => Some(self.whole(table, &path(source, otherwise)?)?),
            None => None,
        };
        let rows = usize::try_from(source.rows()).unwrap_or(usize::MAX);
        let (mut names, mut known, mut places) = (Vec::new(), HashMap::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            let texts = parts.iter().filter_map(|part| {
                let part = part.as_string::<i32>();
                part.is_valid(row).then(|| part.value(row))
            });
            let mut text = texts.collect::<Vec<_>>().join(label.separator);
            if let Some(address) = addresses.as_ref().and_then(|all| all.as_primitive_opt::<UInt64Type>())
                && text.is_empty()
                && address.is_valid(row)
            {
                text = format!("{:#x}", address.value(row));
            }
            places.push(*known.entry(text).or_insert_with_key(|text: &String| {
                names.push(text.clone());
                names.len() as i32 - 1
            }));
        }
        let labels = Arc::new(Labels { places, names: Arc::new(StringArray::from(names)) });
        self.labels.insert(table.to_owned(), labels.clone());
        Ok(Shown::Label(labels))
    }

    /// Groups the rows of a table by columns, and computes values such as `sum(size)` of each group.
    pub(crate) fn pivot(
        &mut self,
        table: Table<'i>,
        by: &[String],
        values: &[String],
        sort: Option<&str>,
        top: Option<usize>,
        selection: &Selection<'_>,
    ) -> Result<Batches, Failure> {
        let (filter, mut through) = selection.filter(table)?;
        let own = table.schema().columns.len();
        let mut paths = Vec::new();
        for name in by {
            paths.push(path(table, name)?);
        }
        let keys: Vec<usize> = (own + through.len()..own + through.len() + by.len()).collect();
        through.extend(paths.iter().cloned());
        let mut counted = Vec::new();
        for text in values {
            let value = row_value(text, table, selection.start, &mut through).map_err(Failure::argument)?;
            // The number of rows is there anyway.
            if value.aggregate == Aggregate::Rows && value.condition.is_none() {
                return Err(Failure::argument("'rows' is always computed; name other values only"));
            }
            counted.push(value);
        }
        let by_value = values.iter().position(|text| Some(text.as_str()) == sort);
        let by_key = by.iter().position(|name| Some(name.as_str()) == sort);
        let order = match (by_value, by_key, sort) {
            (Some(number), ..) => OrderBy::Aggregate(number),
            (None, Some(number), _) => OrderBy::Key(number),
            (None, None, None) if !values.is_empty() => OrderBy::Aggregate(0),
            (None, None, None | Some("rows")) => OrderBy::Rows,
            (None, None, Some(name)) => {
                return Err(Failure::argument(format_args!(
                    "sort='{name}' is neither a column to group by nor a value"
                )));
            }
        };
        let columns: Vec<Option<&Column>> =
            counted.iter().map(|value| value.column(table, &through)).collect();
        let pivot = Pivot {
            levels: keys.len(),
            filter,
            conditions: counted.iter().map(|value| value.condition.clone()).collect(),
            order: Order { by: order, descending: !matches!(order, OrderBy::Key(_)) },
            top: top.unwrap_or(usize::MAX),
            through,
            ..Pivot::new(keys, counted.iter().map(|value| value.aggregate).collect::<Vec<_>>())
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let groups = pivot.run(table, threads)?.groups;
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        let mut add = |name: &str, array: ArrayRef| {
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        };
        for (number, (name, path)) in by.iter().zip(&paths).enumerate() {
            let column = table
                .path_column(path)
                .ok_or_else(|| Failure::argument(format_args!("no column '{name}'")))?;
            let keys: Vec<Value> = groups.iter().map(|group| group.keys[number]).collect();
            add(name, self.values(&keys, column)?);
        }
        add("rows", Arc::new(groups.iter().map(|group| group.rows).collect::<UInt64Array>()));
        let count = Column::new("", ColumnType::I64, "");
        for (number, (text, column)) in values.iter().zip(columns).enumerate() {
            let results: Vec<Value> = groups.iter().map(|group| group.values[number]).collect();
            add(text, self.values(&results, column.unwrap_or(&count))?);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), arrays)?;
        Ok((schema, vec![batch]))
    }

    /// Returns single values of a column as an array.
    fn values(&mut self, values: &[Value], column: &Column) -> Result<ArrayRef, Failure> {
        let codes = || -> UInt32Array {
            let code = |value: &Value| if let Value::Code(code) = value { Some(*code) } else { None };
            values.iter().map(code).collect()
        };
        let time = |value: &Value| match value {
            Value::Time(time) => i64::try_from(time.unix_nanos()).ok(),
            _ => None,
        };
        let integer = |value: &Value| match value {
            Value::Integer(value) => i64::try_from(*value).ok(),
            Value::Float(value) => Some(value.round() as i64),
            _ => None,
        };
        let float = |value: &Value| match value {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        };
        Ok(match column.column_type {
            ColumnType::Text => {
                let texts = self.index.texts()?;
                Arc::new(
                    codes().iter().map(|code| code.and_then(|code| texts.get(code))).collect::<StringArray>(),
                )
            }
            ColumnType::Guid => {
                let guids = self.index.guids()?;
                let text =
                    |code: Option<u32>| code.and_then(|code| guids.get(code)).map(|guid| guid.to_string());
                Arc::new(codes().iter().map(text).collect::<StringArray>())
            }
            ColumnType::Row => match self.label(&column.table)? {
                Shown::Label(labels) if !self.raw => {
                    labels.of(codes().iter().map(|row| row.map(u64::from)))?
                }
                _ => Arc::new(codes()),
            },
            ColumnType::Stack => Arc::new(codes()),
            ColumnType::Bool => {
                let truth = |value: &Value| if let Value::Bool(value) = value { Some(*value) } else { None };
                Arc::new(values.iter().map(truth).collect::<BooleanArray>())
            }
            ColumnType::Time => {
                Arc::new(values.iter().map(time).collect::<TimestampNanosecondArray>().with_timezone("UTC"))
            }
            ColumnType::Duration => Arc::new(values.iter().map(integer).collect::<DurationNanosecondArray>()),
            _ if values.iter().any(|value| matches!(value, Value::Float(_)))
                || values
                    .iter()
                    .any(|value| matches!(value, Value::Integer(_)) && integer(value).is_none()) =>
            {
                Arc::new(values.iter().map(float).collect::<Float64Array>())
            }
            ColumnType::F64 => Arc::new(values.iter().map(float).collect::<Float64Array>()),
            _ => Arc::new(values.iter().map(integer).collect::<Int64Array>()),
        })
    }
}

impl Shown {
    fn of(&self, array: &ArrayRef) -> Result<ArrayRef, Failure> {
        Ok(match self {
            Shown::AsIs => array.clone(),
            Shown::Label(labels) => {
                labels.of(array.as_primitive::<UInt32Type>().iter().map(|row| row.map(u64::from)))?
            }
            Shown::Through(values) => {
                // A damaged index may refer to rows that there are not.
                take(values, array, Some(TakeOptions { check_bounds: true }))?
            }
            Shown::Stack(labels) => {
                let stacks = array.as_list::<i32>();
                let functions = labels.of(stacks.values().as_primitive::<UInt64Type>().iter())?;
                let field = Field::new("item", functions.data_type().clone(), true);
                let (offsets, nulls) = (stacks.offsets().clone(), stacks.nulls().cloned());
                Arc::new(ListArray::try_new(Arc::new(field), offsets, functions, nulls)?)
            }
        })
    }
}

/// Returns the path of a column, also in tables that rows refer to.
fn path(table: Table<'_>, name: &str) -> Result<Vec<usize>, Failure> {
    // A column that refers to a row is shown by what that is called.
    if let Some(number) = table.schema().column(name) {
        return Ok(vec![number]);
    }
    column_path(table, name).ok_or_else(|| {
        let known: Vec<&str> = table.schema().columns.iter().map(|column| &*column.name).collect();
        let (table, known) = (&table.schema().name, known.join(", "));
        Failure::argument(format_args!("table {table} has no column '{name}'; it has: {known}"))
    })
}

/// Returns the rows with these numbers, which ascend, of consecutive batches.
fn selected(
    batches: impl Iterator<Item = Result<RecordBatch, openetw::tables::arrow::ArrowTableError>>,
    rows: Option<Vec<u64>>,
) -> Result<Vec<RecordBatch>, Failure> {
    let Some(rows) = rows else { return Ok(batches.collect::<Result<_, _>>()?) };
    let (mut rest, mut first, mut all) = (&rows[..], 0, Vec::new());
    for batch in batches {
        let batch = batch?;
        let end = first + batch.num_rows() as u64;
        let (own, others) = rest.split_at(rest.partition_point(|row| *row < end));
        if !own.is_empty() {
            let places: UInt64Array = own.iter().map(|row| row - first).collect();
            let arrays = batch.columns().iter().map(|array| take(array, &places, None));
            all.push(RecordBatch::try_new(batch.schema(), arrays.collect::<Result<_, _>>()?)?);
        }
        (rest, first) = (others, end);
    }
    Ok(all)
}
