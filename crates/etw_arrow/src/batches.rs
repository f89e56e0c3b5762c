//! The record batches of a table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use etw_columns::{ColumnType, Table};

use crate::ArrowTableError;
use crate::columns::{Decoded, Source, StackForm};

/// Most frames of stacks in a batch, which bounds its memory.
pub(crate) const MAX_FRAMES: usize = 1 << 22;
/// Name of the column with the numbers of rows.
const ROW: &str = "row";

/// A table of an index as record batches.
///
/// Besides one batch at a time, memory holds the different texts of its columns.
pub struct ArrowTable<'i> {
    table: Table<'i>,
    schema: SchemaRef,
    /// Whether the first column is the number of the row.
    is_numbered: bool,
    columns: Vec<Source<'i>>,
    /// The columns whose values come from elsewhere.
    given: Vec<usize>,
}

impl<'i> ArrowTable<'i> {
    /// Prepares a table. Columns with texts are read once, to find the texts that they have.
    ///
    /// # Errors
    ///
    /// Returns [`ArrowTableError::Columns`] if the index is damaged, and [`ArrowTableError::Texts`] if the texts of a
    /// column are too long.
    pub fn new(table: Table<'i>) -> Result<ArrowTable<'i>, ArrowTableError> {
        ArrowTable::with_fields(table, &[])
    }

    /// Prepares a table some of whose columns have values from elsewhere, such as arrays and structs, which an index
    /// keeps as texts. These columns, whose names and types are `given`, are null until [`ArrowTable::fill`] replaces them.
    ///
    /// # Errors
    ///
    /// As [`ArrowTable::new`]; and if the table has no column of a name.
    pub fn with_given(table: Table<'i>, given: &Schema) -> Result<ArrowTable<'i>, ArrowTableError> {
        let fields: Vec<Field> = given.fields().iter().map(|field| (**field).clone()).collect();
        ArrowTable::with_fields(table, &fields)
    }

    fn with_fields(table: Table<'i>, fields: &[Field]) -> Result<ArrowTable<'i>, ArrowTableError> {
        let (description, index) = (table.schema(), table.index());
        let mut references = index.tables().flat_map(|table| table.schema().columns.iter());
        let is_numbered = description.column(ROW).is_none()
            && references.any(|column| {
                column.table == description.name
                    || (column.column_type == ColumnType::Stack && description.name == "frames")
            });
        let all: Vec<usize> = (0..description.columns.len()).collect();
        ArrowTable::of_columns(table, &all, is_numbered, fields, StackForm::Frames)
    }

    /// Prepares some columns of a table, by their numbers, in this order and without the number of the row.
    ///
    /// # Errors
    ///
    /// As [`ArrowTable::new`], and [`ArrowTableError::Columns`] if there is no such column.
    pub fn with_columns(table: Table<'i>, columns: &[usize]) -> Result<ArrowTable<'i>, ArrowTableError> {
        ArrowTable::of_columns(table, columns, false, &[], StackForm::Frames)
    }

    /// As [`ArrowTable::with_columns`], with the codes of stacks ([`Index::stacks`](etw_columns::Index::stacks)) instead of
    /// their frames, which are fewer values to compare and to group by.
    ///
    /// # Errors
    ///
    /// As [`ArrowTable::with_columns`].
    pub fn with_stack_codes(table: Table<'i>, columns: &[usize]) -> Result<ArrowTable<'i>, ArrowTableError> {
        ArrowTable::of_columns(table, columns, false, &[], StackForm::Codes)
    }

    fn of_columns(
        table: Table<'i>,
        columns: &[usize],
        is_numbered: bool,
        fields: &[Field],
        stacks: StackForm,
    ) -> Result<ArrowTable<'i>, ArrowTableError> {
        let (description, index) = (table.schema(), table.index());
        let given = fields.iter().map(|field| {
            let missing = || ArrowError::SchemaError(format!("no column '{}'", field.name()));
            description.column(field.name()).ok_or_else(missing)
        });
        let given: Vec<usize> = given.collect::<Result<_, _>>()?;
        let source = |number: &usize| {
            let place = given.iter().position(|other| other == number);
            match place.and_then(|place| fields.get(place)) {
                Some(field) => Source::given(table, *number, field.data_type().clone()),
                None => Source::new(table, *number, stacks),
            }
        };
        let columns: Vec<Source<'i>> = columns.iter().map(source).collect::<Result<_, _>>()?;
        let number = is_numbered.then(|| {
            let metadata = HashMap::from([("summary".to_owned(), "Number of the row.".to_owned())]);
            Field::new(ROW, DataType::UInt32, false).with_metadata(metadata)
        });
        let fields: Vec<Field> =
            number.into_iter().chain(columns.iter().map(|column| column.field(index))).collect();
        let texts =
            [("name", &description.name), ("title", &description.title), ("summary", &description.summary)];
        let metadata: HashMap<String, String> =
            texts.map(|(key, text)| (key.to_owned(), text.to_string())).into();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        Ok(ArrowTable { table, schema, is_numbered, columns, given })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the batches in the order of rows, each with at most 65,536 rows and 4,194,304 frames of stacks. After an
    /// error there are no more. Columns with values from elsewhere are null.
    pub fn batches(&self) -> Batches<'_, 'i> {
        self.batches_of(0..self.table.chunks())
    }

    /// As [`ArrowTable::batches`], of the rows in some chunks of the table.
    pub fn batches_of(&self, chunks: Range<usize>) -> Batches<'_, 'i> {
        let end = chunks.end.min(self.table.chunks());
        Batches { table: self, chunk: chunks.start, end, row: 0, values: Vec::new() }
    }

    /// Returns a batch with other values in the columns that are given, which are those of `given` in its order.
    ///
    /// # Errors
    ///
    /// Fails if there are other columns, or another number of rows.
    pub fn fill(&self, batch: &RecordBatch, given: &RecordBatch) -> Result<RecordBatch, ArrowTableError> {
        let mut columns = batch.columns().to_vec();
        for (place, array) in self.given.iter().zip(given.columns()) {
            if let Some(column) = columns.get_mut(place + usize::from(self.is_numbered)) {
                *column = array.clone();
            }
        }
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}

/// The batches of a table.
pub struct Batches<'t, 'i> {
    table: &'t ArrowTable<'i>,
    /// The next chunk, or the one whose rows are not all returned.
    chunk: usize,
    /// The chunk before which the batches end.
    end: usize,
    /// The next row of the chunk.
    row: usize,
    /// The values of the chunk, if `row` is not 0.
    values: Vec<Decoded>,
}

impl Iterator for Batches<'_, '_> {
    type Item = Result<RecordBatch, ArrowTableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.chunk >= self.end {
            return None;
        }
        let batch = self.batch();
        if batch.is_err() {
            self.chunk = self.end;
        }
        Some(batch)
    }
}

impl Batches<'_, '_> {
    fn batch(&mut self) -> Result<RecordBatch, ArrowTableError> {
        let ArrowTable { table, schema, is_numbered, columns, .. } = self.table;
        if self.row == 0 {
            self.values = columns.iter().map(|column| column.decode(self.chunk)).collect::<Result<_, _>>()?;
        }
        let end = self.last_row()?;
        let number = is_numbered.then(|| {
            let first = (self.chunk * Table::CHUNK_ROWS) as u32;
            Arc::new((self.row..end).map(|row| first + row as u32).collect::<UInt32Array>()) as ArrayRef
        });
        let arrays = columns.iter().zip(&self.values);
        let arrays = arrays.map(|(column, values)| column.array(values, self.row..end));
        let arrays = number.into_iter().map(Ok).chain(arrays).collect::<Result<_, _>>()?;
        let batch = RecordBatch::try_new(schema.clone(), arrays)?;
        self.row = end;
        if end >= table.chunk_rows(self.chunk) {
            (self.chunk, self.row) = (self.chunk + 1, 0);
            self.values.clear();
        }
        Ok(batch)
    }

    /// Returns the row of the chunk at which the batch ends, so that its stacks are not too many.
    fn last_row(&self) -> Result<usize, ArrowTableError> {
        let ArrowTable { table, columns, .. } = self.table;
        let (rows, mut sum) = (table.chunk_rows(self.chunk), 0);
        for row in self.row..rows {
            for (column, values) in columns.iter().zip(&self.values) {
                sum += column.frames(values, row)?;
            }
            if sum > MAX_FRAMES && row > self.row {
                return Ok(row);
            }
        }
        Ok(rows)
    }
}
