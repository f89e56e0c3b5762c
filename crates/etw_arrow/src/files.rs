//! Tables as files.

use std::io::Write;

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
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties))?;
    for batch in table.batches() {
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
    let mut writer = FileWriter::try_new(out, &table.schema())?;
    for batch in table.batches() {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(())
}
