//! Events and tables of an index as Arrow record batches, and as Parquet and Arrow files.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! An [`ArrowTable`] turns a table of an [`Index`](etw_columns::Index) into record batches of at most 65,536 rows, one
//! after the other, so that memory does not grow with the number of rows. [`write_parquet`] and [`write_arrow`] write
//! them as files.
//!
//! [`events`] has events as tables, one for each kind.
//!
//! Not in this crate: what the tables of a trace are, and what the columns of events are called
//! ([`etw_schema::kinds`]).
//!
//! ```
//! use etw_arrow::ArrowTable;
//! use etw_columns::{Column, ColumnType, IndexWriter, TableSchema};
//!
//! const COLUMNS: &[Column] = &[
//!     Column::new("process", ColumnType::Text, "Process that requested."),
//!     Column::new("bytes", ColumnType::U64, "Size of the request."),
//! ];
//! static DISK: TableSchema = TableSchema::new("disk", "Disk I/O", "One row for each request to a disk.", COLUMNS);
//!
//! let mut writer = IndexWriter::in_memory();
//! let disk = writer.table(&DISK)?;
//! writer.row(disk)?.text(0, "a.exe").u64(1, 4096).end()?;
//! let index = writer.finish()?;
//!
//! let table = ArrowTable::new(index.table("disk").expect("written above"))?;
//! let rows: usize = table.batches().map(|batch| batch.map(|batch| batch.num_rows())).sum::<Result<_, _>>()?;
//! assert_eq!(rows, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Columns
//!
//! | column | Arrow | |
//! |---|---|---|
//! | `U64`, `U32`, `I64`, `F64` | `UInt64`, `UInt32`, `Int64`, `Float64` | |
//! | `Bool` | `Boolean` | |
//! | `Time` | `Timestamp` in ns, UTC | null outside the years 1677 to 2262 |
//! | `Duration` | `Duration` in ns | in Parquet a 64-bit integer, for readers that do not know Arrow's types |
//! | `Text` | dictionary of `Utf8` | the dictionary has the texts of this column only |
//! | `Guid` | dictionary of `Utf8` | as other exports show GUIDs |
//! | `Stack` | list of `UInt64` | frames, the innermost first |
//! | `Row` | `UInt32` | number of a row of the table that the metadata names |
//!
//! Columns with arrays and structs have texts in an index; their values may be given from elsewhere
//! ([`ArrowTable::with_given`]).
//!
//! A table that others refer to starts with the column `row`, the number of the row. The metadata of a column has its
//! `summary`, its `unit` (`count`, `ns`, `bytes`, `percent`, `address`, `hex` or `id`), and for rows and stacks of a
//! trace's tables the `table`; that of a table its `name`, `title` and `summary`.

#![forbid(unsafe_code)]

mod batches;
mod columns;
mod error;
pub mod events;
mod files;

pub use batches::{ArrowTable, Batches};
pub use error::ArrowTableError;
pub use events::{
    ColumnFormat, ColumnsSummary, ColumnsWriter, EventColumns, EventColumnsBuilder, NestedColumns,
    RowCollector, Rows, joined_type,
};
pub use files::{write_arrow, write_arrow_with, write_parquet, write_parquet_with};
