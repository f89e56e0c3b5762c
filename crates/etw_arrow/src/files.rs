//! Tables as files.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
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

/// Writes a table as [`write_parquet`] does, with columns whose values `given` returns ([`ArrowTable::with_given`]).
///
/// # Errors
///
/// As [`write_parquet`], [`ArrowTable::with_given`] and [`ArrowTable::fill`].
pub fn write_parquet_with<W: Write + Send>(
    table: Table<'_>,
    mut given: impl FnMut(usize) -> io::Result<Vec<u8>>,
    out: W,
) -> Result<(), ArrowTableError> {
    let table = ArrowTable::with_given(table, &mut given)?;
    parquet(&table, table.batches().map(|batch| table.fill(&batch?, &mut given)), out)
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

/// Writes a table as [`write_arrow`] does, with columns whose values `given` returns ([`ArrowTable::with_given`]).
///
/// # Errors
///
/// As [`write_arrow`], [`ArrowTable::with_given`] and [`ArrowTable::fill`].
pub fn write_arrow_with<W: Write>(
    table: Table<'_>,
    mut given: impl FnMut(usize) -> io::Result<Vec<u8>>,
    out: W,
) -> Result<(), ArrowTableError> {
    let table = ArrowTable::with_given(table, &mut given)?;
    arrow(&table, table.batches().map(|batch| table.fill(&batch?, &mut given)), out)
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
