//! Errors of the crate.

use arrow_schema::ArrowError;
use etw_columns::ColumnsError;
use parquet::errors::ParquetError;

/// Why a table cannot be turned into record batches or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrowTableError {
    /// The index cannot be read.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// Arrow cannot represent the values, or the file cannot be written.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The Parquet file cannot be written.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// The different texts of a column are longer, or more, than the dictionary of an Arrow column can hold.
    #[error("column '{column}': the texts take {found} bytes, more than {limit}", limit = i32::MAX)]
    Texts {
        /// Name of the column.
        column: String,
        /// Length of all different texts in bytes.
        found: u64,
    },
    /// A stack has more frames than a batch can hold.
    #[error("column '{column}': a stack has more than {limit} frames")]
    Stack {
        /// Name of the column.
        column: String,
        /// Greatest number of frames.
        limit: usize,
    },
}
