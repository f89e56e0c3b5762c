//! The columns of a pivot: those of the table, and those of the tables that its rows refer to.

use std::sync::Arc;

use crate::ColumnsError;
use crate::encoding::Block;
use crate::index::{ColumnReader, Table};
use crate::schema::{Column, ColumnType};

use super::batch::Buffer;

/// Most steps from a row to the value of another table.
const MAX_STEPS: usize = 16;

/// A column, or what its row numbers stand for.
#[derive(Debug, Clone)]
pub(super) struct Source<'i> {
    /// The column of the table itself.
    pub(super) reader: ColumnReader<'i>,
    /// The column whose values are meant.
    column: &'i Column,
    /// Those values, by the numbers in the table's own column.
    values: Option<Arc<Buffer>>,
}

/// The least and the greatest word of a column in some chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordRange {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) has_nulls: bool,
}

impl<'i> Source<'i> {
    /// Returns a column of a table. Numbers after its own columns are those of `through`: paths of columns, each of
    /// which but the last refers to rows of the table of the next one.
    pub(super) fn new(
        table: Table<'i>,
        through: &[Vec<usize>],
        column: usize,
    ) -> Result<Source<'i>, ColumnsError> {
        let of_table = table.schema().columns.len();
        let Some(path) = column.checked_sub(of_table).and_then(|number| through.get(number)) else {
            let reader = table.column(column)?;
            return Ok(Source { reader, column: reader.column(), values: None });
        };
        if path.len() > MAX_STEPS {
            return Err(ColumnsError::Pivot("a path through too many tables"));
        }
        let Some((first, rest)) = path.split_first() else {
            return Err(ColumnsError::Pivot("a path without columns"));
        };
        let reader = table.column(*first)?;
        let mut source = Source { reader, column: reader.column(), values: None };
        for step in rest {
            if source.column.column_type != ColumnType::Row {
                let column = source.column.name.to_string();
                return Err(ColumnsError::Type { column, what: "no reference to the rows of a table" });
            }
            let target = table.index().table(&source.column.table);
            let target = target.ok_or(ColumnsError::Pivot("a reference to a table that does not exist"))?;
            let next = target.column(*step)?;
            let values = all_values(next, target)?;
            let values = match &source.values {
                None => values,
                Some(before) => {
                    let mut buffer = Buffer { words: before.words.clone(), valid: before.valid.clone() };
                    replace(&mut buffer, &values);
                    buffer
                }
            };
            (source.column, source.values) = (next.column(), Some(Arc::new(values)));
        }
        Ok(source)
    }

    /// Returns the column of the table itself that a number leads to first, as [`new`](Source::new) reads it.
    pub(super) fn first(own: usize, through: &[Vec<usize>], column: usize) -> usize {
        let path = column.checked_sub(own).and_then(|number| through.get(number));
        path.and_then(|path| path.first()).copied().unwrap_or(column)
    }

    /// Returns the description of the column.
    pub(super) fn column(&self) -> &'i Column {
        self.column
    }

    /// Returns what is known of a chunk without reading it, if anything is.
    pub(super) fn description(&self, chunk: usize) -> Option<Block> {
        let block = self.reader.description(chunk)?;
        let Some(values) = &self.values else { return Some(*block) };
        // How many values are missing is not known, unless none is.
        let is_whole = block.nulls == 0 && values.valid.is_empty();
        let (min, max) = range_of(values);
        is_whole.then_some(Block { min, max, ..*block })
    }

    /// Returns the range of the words in some chunks.
    pub(super) fn range(&self, table: Table<'_>, chunks: impl Iterator<Item = usize>) -> WordRange {
        let mut range = WordRange { min: u64::MAX, max: 0, has_nulls: false };
        for chunk in chunks {
            let Some(block) = self.reader.description(chunk) else { continue };
            range.has_nulls |= block.nulls > 0;
            if (block.nulls as usize) < table.chunk_rows(chunk) {
                range.min = range.min.min(block.min);
                range.max = range.max.max(block.max);
            }
        }
        if let Some(values) = &self.values {
            range.has_nulls |= !values.valid.is_empty();
            (range.min, range.max) = range_of(values);
        }
        if range.min > range.max {
            (range.min, range.max) = (0, 0);
        }
        range
    }

    /// Replaces the words of the table's own column by those that are meant.
    pub(super) fn follow(&self, buffer: &mut Buffer) {
        if let Some(values) = &self.values {
            replace(buffer, values);
        }
    }
}

/// Replaces row numbers by the values of these rows.
fn replace(buffer: &mut Buffer, values: &Buffer) {
    if !values.valid.is_empty() || values.words.is_empty() {
        if buffer.valid.is_empty() {
            buffer.valid.resize(buffer.words.len(), 1);
        }
        for (valid, word) in buffer.valid.iter_mut().zip(&buffer.words) {
            *valid &= values.valid.get(*word as usize).copied().unwrap_or(0);
        }
    }
    for word in &mut buffer.words {
        *word = values.words.get(*word as usize).copied().unwrap_or(0);
    }
}

/// Returns the least and the greatest word of values that are there.
fn range_of(values: &Buffer) -> (u64, u64) {
    let present = |(place, word): (usize, &u64)| (values.valid.get(place) != Some(&0)).then_some(*word);
    let present = values.words.iter().enumerate().filter_map(present);
    present.fold((u64::MAX, 0), |(min, max), word| (min.min(word), max.max(word)))
}

/// Returns all values of a column. Those of rows without a value are zeros that are not valid.
fn all_values(reader: ColumnReader<'_>, table: Table<'_>) -> Result<Buffer, ColumnsError> {
    let mut all = Buffer::default();
    let mut part = Buffer::default();
    for chunk in 0..table.chunks() {
        let rows = table.chunk_rows(chunk);
        let (block, bytes) = reader.block(chunk)?;
        block.words(bytes, 0..rows, &mut part.words);
        block.validity(bytes, rows, 0..rows, &mut part.valid);
        if all.valid.is_empty() && !part.valid.is_empty() {
            all.valid.resize(all.words.len(), 1);
        }
        all.words.extend_from_slice(&part.words);
        let is_whole = part.valid.is_empty();
        all.valid.extend_from_slice(&part.valid);
        if is_whole && !all.valid.is_empty() {
            all.valid.resize(all.words.len(), 1);
        }
    }
    Ok(all)
}
