//! Tables as files.

use std::io::Write;

use arrow_ipc::writer::FileWriter;
use etw_columns::Table;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::batches::Given;
use crate::{ArrowTable, ArrowTableError, Batches};

/// Writes a table as a Parquet file with Snappy compression, in row groups of at most 65,536 rows.
///
/// # Errors
///
/// Fails if the index is damaged, the texts of a column are too long, or the file cannot be written.
pub fn write_parquet<W: Write + Send>(table: Table<'_>, out: W) -> Result<(), ArrowTableError> {
    parquet(&ArrowTable::new(table)?, None, out)
}

/// Writes a table as [`write_parquet`] does, with columns whose values `given` returns ([`ArrowTable::with_given`]).
///
/// # Errors
///
/// As [`write_parquet`] and [`ArrowTable::with_given`].
pub fn write_parquet_with<W: Write + Send>(
    table: Table<'_>,
    given: &mut Given<'_>,
    out: W,
) -> Result<(), ArrowTableError> {
    parquet(&ArrowTable::with_given(table, given)?, Some(given), out)
}

fn parquet<W: Write + Send>(
    table: &ArrowTable<'_>,
    given: Option<&mut Given<'_>>,
    out: W,
) -> Result<(), ArrowTableError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties))?;
    for batch in batches(table, given) {
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
    arrow(&ArrowTable::new(table)?, None, out)
}

/// Writes a table as [`write_arrow`] does, with columns whose values `given` returns ([`ArrowTable::with_given`]).
///
/// # Errors
///
/// As [`write_arrow`] and [`ArrowTable::with_given`].
pub fn write_arrow_with<W: Write>(
    table: Table<'_>,
    given: &mut Given<'_>,
    out: W,
) -> Result<(), ArrowTableError> {
    arrow(&ArrowTable::with_given(table, given)?, Some(given), out)
}

fn arrow<W: Write>(
    table: &ArrowTable<'_>,
    given: Option<&mut Given<'_>>,
    out: W,
) -> Result<(), ArrowTableError> {
    let mut writer = FileWriter::try_new(out, &table.schema())?;
    for batch in batches(table, given) {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(())
}

fn batches<'t, 'i>(table: &'t ArrowTable<'i>, given: Option<&'t mut Given<'t>>) -> Batches<'t, 'i> {
    match given {
        Some(given) => table.batches_with(given),
        None => table.batches(),
    }
}
