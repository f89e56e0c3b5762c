//! Tables as files.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema};
use etw_columns::Table;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::{ArrowTable, ArrowTableError};

/// Writes a table as a Parquet file with Snappy compression, in row groups of at most 65,536 rows.
///
/// # Errors
///
/// Fails if the index is damaged, the texts of a column are too long, or the file cannot be written.
pub fn write_parquet<W: Write + Send>(table: Table<'_>, out: W) -> Result<(), ArrowTableError> {
    let table = ArrowTable::new(table)?;
    parquet(&table, table.batches(), out)
}

/// Writes a table as [`write_parquet`] does, with `given` columns from elsewhere ([`ArrowTable::with_given`]):
/// `values` returns so many rows after those it returned before.
///
/// # Errors
///
/// As [`write_parquet`], [`ArrowTable::with_given`] and [`ArrowTable::fill`]; and if `values` fails.
pub fn write_parquet_with<W: Write + Send>(
    table: Table<'_>,
    given: &Schema,
    values: impl FnMut(usize) -> io::Result<RecordBatch>,
    out: W,
) -> Result<(), ArrowTableError> {
    let table = ArrowTable::with_given(table, given)?;
    parquet(&table, filled(&table, values), out)
}

/// Returns the batches of a table with the values of the columns that are given.
fn filled<'t>(
    table: &'t ArrowTable<'_>,
    mut values: impl FnMut(usize) -> io::Result<RecordBatch> + 't,
) -> impl Iterator<Item = Result<RecordBatch, ArrowTableError>> + 't {
    table.batches().map(move |batch| {
        let batch = batch?;
        let given = values(batch.num_rows()).map_err(ArrowError::from)?;
        table.fill(&batch, &given)
    })
}

fn parquet<W: Write + Send>(
    table: &ArrowTable<'_>,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowTableError>>,
    out: W,
) -> Result<(), ArrowTableError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties))?;
    for batch in batches {
        writer.write(&batch?)?;
        writer.flush()?;
    }
    writer.close()?;
    Ok(())
}

/// Writes a table as a file in Arrow's file format (Feather), in batches of at most 65,536 rows.
///
/// # Errors
///
/// Fails if the index is damaged, the texts of a column are too long, or the file cannot be written.
pub fn write_arrow<W: Write>(table: Table<'_>, out: W) -> Result<(), ArrowTableError> {
    let table = ArrowTable::new(table)?;
    arrow(&table, table.batches(), out)
}

/// Writes a table as [`write_arrow`] does, with `given` columns from elsewhere ([`ArrowTable::with_given`]):
/// `values` returns so many rows after those it returned before.
///
/// # Errors
///
/// As [`write_arrow`], [`ArrowTable::with_given`] and [`ArrowTable::fill`]; and if `values` fails.
pub fn write_arrow_with<W: Write>(
    table: Table<'_>,
    given: &Schema,
    values: impl FnMut(usize) -> io::Result<RecordBatch>,
    out: W,
) -> Result<(), ArrowTableError> {
    let table = ArrowTable::with_given(table, given)?;
    arrow(&table, filled(&table, values), out)
}

fn arrow<W: Write>(
    table: &ArrowTable<'_>,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowTableError>>,
    out: W,
) -> Result<(), ArrowTableError> {
    let mut writer = FileWriter::try_new(out, &table.schema())?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(())
}
