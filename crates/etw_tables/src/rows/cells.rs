//! Values of tables with rows as cells, for display.

use etw_columns::{Column, ColumnType, ColumnsError, Index, Unit, Value};
use etw_event::FileTime;
use etw_machine::Duration;

use super::list::row_label;
use crate::cell::Cell;

/// Shows the values of the tables of an index.
///
/// ```no_run
/// use etw_tables::{RowCells, RowTables};
/// use etw_columns::IndexWriter;
/// # use etw_event::FileTime;
/// # use etw_symbols::Symbolizer;
///
/// let index = RowTables::new(IndexWriter::in_memory())?.finish(&Symbolizer::new())?;
/// let cells = RowCells { index: &index, start: FileTime(0) };
/// let disk = index.table("disk").expect("it is one of the tables");
/// let size = disk.schema().column("size").expect("it is one of the columns");
/// println!("{:?}", cells.cell(&disk.schema().columns[size], disk.value(0, size)?)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RowCells<'i> {
    /// The index with the tables.
    pub index: &'i Index,
    /// Start of the trace, which times are relative to.
    pub start: FileTime,
}

impl RowCells<'_> {
    /// Returns a value of a column as a cell. Rows of other tables are shown by what they are called, and stacks by their
    /// functions.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Damaged`] if a needed part of the index is damaged.
    pub fn cell(&self, column: &Column, value: Value) -> Result<Cell, ColumnsError> {
        Ok(match value {
            Value::Null => Cell::None,
            Value::Bool(value) => Cell::Text(value.to_string()),
            Value::Time(time) => Cell::Time(time.0.saturating_sub(self.start.0)),
            Value::Integer(value) => number(value, column.unit),
            Value::Float(value) => number(value.round() as i128, column.unit),
            Value::Code(code) => match column.column_type {
                ColumnType::Text => Cell::text(self.index.texts()?.get(code)),
                ColumnType::Guid => {
                    self.index.guids()?.get(code).map_or(Cell::None, |guid| Cell::Text(guid.to_string()))
                }
                ColumnType::Stack => Cell::Text(self.stack(code)?),
                _ => Cell::Text(self.label(&column.table, code)?),
            },
        })
    }

    /// Returns the functions of a stack, outermost first and separated by `;`.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Damaged`] if a needed part of the index is damaged.
    pub fn stack(&self, code: u32) -> Result<String, ColumnsError> {
        let frames: Vec<u64> = self.index.stacks()?.frames(code).collect();
        let mut names = Vec::new();
        for frame in frames.into_iter().rev() {
            let frame = u32::try_from(frame).unwrap_or(u32::MAX);
            names.push(self.label("frames", frame)?.replace(';', ":"));
        }
        Ok(names.join(";"))
    }

    /// Returns what a row of a table is called ([`row_label`]); its number if the rows of the table have no names.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Damaged`] if a needed part of the index is damaged.
    pub fn label(&self, table: &str, row: u32) -> Result<String, ColumnsError> {
        let (Some(label), Some(target)) = (row_label(table), self.index.table(table)) else {
            return Ok(row.to_string());
        };
        let text = |name: &str| -> Result<Option<String>, ColumnsError> {
            let Some(path) = target.path(name) else { return Ok(None) };
            let Some(column) = target.path_column(&path) else { return Ok(None) };
            Ok(match self.cell(column, target.path_value(row.into(), &path)?)? {
                Cell::Text(text) => Some(text),
                Cell::Id(number) | Cell::Count(number) => Some(number.to_string()),
                _ => None,
            })
        };
        let mut parts = Vec::new();
        for column in label.columns {
            parts.extend(text(column)?.filter(|text| !text.is_empty()));
        }
        match label.otherwise.filter(|_| parts.is_empty()) {
            Some(otherwise) => Ok(text(otherwise)?.unwrap_or_default()),
            None => Ok(parts.join(label.separator)),
        }
    }
}

/// Returns a number of a unit as a cell.
fn number(value: i128, unit: Unit) -> Cell {
    let unsigned = u64::try_from(value);
    match (unit, unsigned) {
        (Unit::Bytes, Ok(value)) => Cell::Bytes(value),
        (Unit::Nanoseconds, Ok(value)) => Cell::Duration(Duration(value / 100)),
        (Unit::Count, Ok(value)) => Cell::Count(value),
        (Unit::Id, Ok(value)) => Cell::Id(value),
        (Unit::Address | Unit::Hex, Ok(value)) => Cell::Text(format!("{value:#x}")),
        _ => i64::try_from(value).map_or_else(|_| Cell::Text(value.to_string()), Cell::Number),
    }
}
