//! Tables as chunks of typed columns, in memory and in index files, and pivots over them.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! An [`IndexWriter`] takes rows of any number of tables and writes them column by column in chunks of 65,536 rows. An
//! [`Index`] maps such a file and decodes the columns that are needed, chunk by chunk. A [`Pivot`] groups rows by columns,
//! level by level, on all processors. A [`TableSchema`] says what a table and its columns mean, for everything that shows
//! or exports them.
//!
//! Not in this crate: what the tables of a trace are, and a query language.
//!
//! ```
//! use etw_columns::{Aggregate, Column, ColumnType, IndexWriter, Pivot, Role, TableSchema, Unit, Value};
//!
//! const PROCESS: usize = 0;
//! const BYTES: usize = 1;
//! const COLUMNS: &[Column] = &[
//!     Column::new("process", ColumnType::Text, "Process that requested.").role(Role::Key),
//!     Column::new("bytes", ColumnType::U64, "Size of the request.").unit(Unit::Bytes).role(Role::Measure),
//! ];
//! static DISK: TableSchema = TableSchema::new("disk", "Disk I/O", "One row for each request to a disk.", COLUMNS);
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("trace.index");
//! // What the index is made from: if it changes, the index is stale.
//! let identity = b"trace.etl, 4096 bytes";
//! let mut writer = IndexWriter::create(&path, identity)?;
//! let disk = writer.table(&DISK)?;
//! for (process, bytes) in [("a.exe", 4096), ("b.exe", 512), ("a.exe", 8192)] {
//!     writer.row(disk)?.text(PROCESS, process).u64(BYTES, bytes).end()?;
//! }
//! writer.finish()?;
//!
//! let index = etw_columns::Index::open(&path, identity)?;
//! let table = index.table("disk").expect("written above");
//! let result = Pivot::new([PROCESS], [Aggregate::Sum(BYTES)]).run(table, 2)?;
//! let first = &result.groups[0];
//! let Value::Code(code) = first.keys[0] else { panic!("texts are codes") };
//! assert_eq!(index.texts()?.get(code), Some("a.exe"));
//! assert_eq!((first.rows, first.values[0]), (2, Value::Integer(12288)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Values
//!
//! | rule | |
//! |---|---|
//! | missing values | Every column may have them. They are a group of their own, meet no condition but [`Filter::Null`], and count in no aggregate but [`Aggregate::Rows`]. |
//! | NaN | Every NaN is stored as the same one. It equals itself and is greater than every other number. A sum with it is NaN. |
//! | zero | Negative zero is stored as zero. |
//! | times | UTC in units of 100 ns since 1601, as in events. |
//! | durations | Nanoseconds. |
//!
//! # The file
//!
//! All numbers are little-endian. The parts follow each other in the order header, chunks, dictionaries, directory.
//!
//! | offset | bytes | header |
//! |---|---|---|
//! | 0 | 8 | `ETWINDEX` |
//! | 8 | 4 | version of the format, 2 |
//! | 12 | 4 | 0 |
//! | 16 | 8 | offset of the directory |
//! | 24 | 8 | length of the directory |
//! | 32 | 8 | length of the file, which the directory ends |
//! | 40 | 4 | CRC-32 of the directory |
//! | 44 | 4 | CRC-32 of the bytes before |
//!
//! A value is stored as a *word* of 64 bits whose unsigned order is the order of the values: unsigned numbers and codes as
//! they are; signed numbers with the highest bit inverted; floating-point numbers with the highest bit inverted, or all bits
//! if they are negative. The *block* of a column in a chunk has the difference of each word to the least one, in as many
//! bits as the greatest difference has, lowest first and without gaps; 15 bits are stored as 16, 30 and 31 as 32, and more
//! than 56 as 64. The last byte is filled with zeros. If some but not all values are missing, a bit for each row follows,
//! lowest first, which is set if the value is there.
//!
//! The dictionary of texts has the end of each text (8 bytes) and then the texts in UTF-8; that of GUIDs has 16 bytes each;
//! that of stacks has the frame of each (8 bytes) and then the callers of each (4 bytes), which are 0 or the code of a
//! stack plus one.
//!
//! The directory has, each text with its length in 4 bytes before it:
//!
//! 1. the identity of the source;
//! 2. for texts, GUIDs and stacks: offset (8 bytes), length (8), number of entries (4) and CRC-32 (4) of the dictionary;
//! 3. the number of tables (4), and for each: name, title and summary; the number of columns (4) and for each name, summary,
//!    table that rows refer to, type, unit and role (a byte each, in the order of [`ColumnType`], [`Unit`] and [`Role`], from
//!    0, where roles are detail, key, measure, start, end); the number of rows (8); for each chunk, for each column: offset
//!    (8), least word (8), greatest word (8), number of missing values (4) and CRC-32 (4) of the block.
//!
//! Opening checks the header and the directory. A block or dictionary is checked when it is first used: its checksum, and
//! that its values lie within what the directory says of them.

#![forbid(unsafe_code)]

mod dictionary;
mod encoding;
mod error;
mod format;
mod index;
mod parts;
mod pivot;
mod schema;
mod value;
mod writer;

pub use dictionary::{Guids, StackNode, Stacks, Texts};
pub use error::ColumnsError;
pub use index::{ChunkStatistics, ColumnReader, Element, Index, Table, Values};
pub use parts::FetchParts;
pub use pivot::{
    Aggregate, AggregateError, Comparison, CountedRows, Filter, Group, Order, OrderBy, Pivot, PivotResult,
    TextPattern, TextPosition,
};
pub use schema::{Column, ColumnType, Role, TableSchema, Unit};
pub use value::Value;
pub use writer::{IndexWriter, Row, TableId};
