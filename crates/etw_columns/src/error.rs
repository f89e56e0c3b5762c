//! Errors of the crate.

use std::io;

/// Why an index cannot be written or read, or a pivot cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// The system failed to read or write, for example because the disk is full.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not start as an index does.
    #[error("not an index of columns")]
    NotAnIndex,
    /// The index was written in another version of the format.
    #[error("index of version {found}, this program reads version {expected}")]
    OtherVersion {
        /// Version in the file.
        found: u32,
        /// Version of this program.
        expected: u32,
    },
    /// The index was made from another source, or from the source before it changed.
    #[error("the index is of another file, or the file has changed since")]
    Stale,
    /// The file is shorter or longer than it was written.
    #[error("the index has {found} bytes instead of {expected}")]
    Cut {
        /// Bytes that were written.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A part of the index is not what was written.
    #[error("damaged index: {what} at offset {offset}")]
    Damaged {
        /// Offset of the part in the file.
        offset: u64,
        /// The part and what is wrong with it.
        what: &'static str,
    },
    /// The table has no such column.
    #[error("table '{table}' has no column {column}")]
    NoColumn {
        /// Name of the table.
        table: String,
        /// Number of the column, from 0.
        column: usize,
    },
    /// The table has no such row or chunk.
    #[error("table '{table}' has no {what} {number}")]
    NoRow {
        /// Name of the table.
        table: String,
        /// `row` or `chunk`.
        what: &'static str,
        /// Number of the row or chunk, from 0.
        number: u64,
    },
    /// A value or an operation does not fit the type of a column.
    #[error("column '{column}': {what}")]
    Type {
        /// Name of the column.
        column: String,
        /// What does not fit.
        what: &'static str,
    },
    /// A table cannot be written as described.
    #[error("table '{table}': {what}")]
    Schema {
        /// Name of the table.
        table: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A dictionary has no room for another entry.
    #[error("more than {limit} different {what}")]
    DictionaryFull {
        /// Kind of the entries.
        what: &'static str,
        /// Greatest number of entries.
        limit: u64,
    },
    /// A row or stack refers to an entry that does not exist.
    #[error("no {what} {code} in this index")]
    NoEntry {
        /// Kind of the entry.
        what: &'static str,
        /// Code of the entry, or row number.
        code: u64,
    },
    /// A pivot has more groups than allowed.
    #[error("more than {limit} groups; filter the rows or group by another column")]
    TooManyGroups {
        /// Greatest number of groups, [`Pivot::max_groups`](crate::Pivot::max_groups).
        limit: usize,
    },
    /// A pivot has to hold more values for percentiles or different values than allowed.
    #[error("more than {limit} different values in groups; filter the rows or group by another column")]
    TooManyValues {
        /// Greatest number of values, [`Pivot::max_values`](crate::Pivot::max_values).
        limit: usize,
    },
    /// A pivot cannot be computed as described.
    #[error("pivot: {0}")]
    Pivot(&'static str),
}
