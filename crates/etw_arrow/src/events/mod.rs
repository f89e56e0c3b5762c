//! Events as tables: a Parquet or Arrow file for each kind of event, with a column for each field.
//!
//! Each table has the columns of the header ([`HeaderField::file_columns`](etw_schema::HeaderField::file_columns)), followed by
//! those of the payload with the types of its schema: numbers, texts, times, bytes, lists, structs. Names of values are in the metadata of their columns. Events
//! without a schema go to a separate table, with their bytes.
//!
//! Rows are collected until a row group is full, or until all tables together hold too much, so memory is bounded
//! for any number of events. The number of open files is limited; a table written again after its file was closed
//! continues in another file.
//!
//! Threads can divide the work: each fills a [`RowCollector`] with a piece of the trace, and the writer takes their
//! [`Rows`] in the order of the pieces ([`ColumnsWriter::collector`]).
//!
//! ```
//! use std::fs::File;
//!
//! use etw_arrow::{ColumnFormat, ColumnsWriter};
//! use etw_schema::Event;
//!
//! /// Writes events as Parquet, one file for each kind.
//! fn write(events: &[Event<'_>]) -> std::io::Result<u64> {
//!     let mut writer = ColumnsWriter::new(ColumnFormat::Parquet, 1, |name: &str| File::create(name));
//!     for event in events {
//!         writer.put(event)?;
//!     }
//!     Ok(writer.finish()?.events)
//! }
//! ```

mod builder;
mod collect;
mod encode;
mod nested;
mod selected;
mod table;
mod types;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use etw_schema::{Event, Source};

use builder::Lost;
use encode::{Encoders, Job};
use table::TableKey;

pub use collect::{RowCollector, Rows};
pub use nested::NestedColumns;
pub use selected::{EventColumns, EventColumnsBuilder};
pub use types::joined_type;

/// Limit of open files.
const MAX_OPEN: usize = 256;
/// Number of rows in a row group.
const GROUP_ROWS: usize = 1 << 16;
/// Limit of the approximate bytes held in all tables.
const MAX_BYTES: usize = 64 << 20;
/// Number of rows that [`ColumnsWriter::put`] collects before it distributes them to their tables.
const OWN_ROWS: u64 = 1 << 12;
/// Number of pieces of a table's rows that are joined to one, so that short pieces do not take much memory.
const MAX_PIECES: usize = 64;

/// The file format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnFormat {
    /// Parquet with Snappy compression.
    Parquet,
    /// Arrow's file format (Feather).
    Arrow,
}

impl ColumnFormat {
    /// Returns the extension of file names.
    pub const fn extension(self) -> &'static str {
        match self {
            ColumnFormat::Parquet => "parquet",
            ColumnFormat::Arrow => "arrow",
        }
    }
}

/// The result of writing tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnsSummary {
    /// Number of events written, one row each.
    pub events: u64,
    /// Number of these events without a schema; their bytes are in the table `undecoded`.
    pub undecoded: u64,
    /// Number of tables.
    pub tables: u64,
    /// Number of files. Exceeds `tables` if not all files could be open at the same time.
    pub files: u64,
    /// Number of times written as null because they are outside the columns' range, 1677 to 2262.
    pub times_out_of_range: u64,
    /// Number of other values written as null because they do not match their schema.
    pub values_out_of_range: u64,
}

/// Writes events as rows of tables.
pub struct ColumnsWriter<W: Write + Send + 'static, F> {
    format: ColumnFormat,
    encoders: Encoders<W>,
    /// Creates the file with a given name.
    create: F,
    /// Collects the events of [`ColumnsWriter::put`].
    own: RowCollector,
    tables: Vec<Table>,
    by_key: HashMap<Arc<TableKey>, usize>,
    /// Number of tables with the same file name.
    by_name: HashMap<String, u32>,
    summary: ColumnsSummary,
    lost: Lost,
    /// Approximate bytes held by the tables.
    bytes: usize,
    open: usize,
    /// Counts writes, to find the least recently written file.
    clock: u64,
}

/// A table's rows that are not written yet, and its file.
struct Table {
    key: Arc<TableKey>,
    /// The file's name, without part and extension.
    name: String,
    pieces: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    is_open: bool,
    /// Number of files begun.
    files: u32,
    /// Value of the write counter at the last write.
    written: u64,
}

impl<W: Write + Send + 'static, F: FnMut(&str) -> io::Result<W>> ColumnsWriter<W, F> {
    /// Creates a writer. `create` opens the file with a given name, whose parts are separated by `/`.
    ///
    /// Files are encoded and written by up to `threads` threads beside the caller's, each table by one of them; with 0,
    /// by the caller's. They hold at most eight row groups each besides the rows that the writer collects.
    pub fn new(format: ColumnFormat, threads: usize, create: F) -> ColumnsWriter<W, F> {
        ColumnsWriter {
            format,
            encoders: Encoders::new(format, threads),
            create,
            own: RowCollector::new(),
            tables: Vec::new(),
            by_key: HashMap::new(),
            by_name: HashMap::new(),
            summary: ColumnsSummary::default(),
            lost: Lost::default(),
            bytes: 0,
            open: 0,
            clock: 0,
        }
    }

    /// Adds the columns that tell where an event is from to every table. `sources` are the files and sessions that events
    /// are from, by `Origin::source`; readers find places on request.
    #[must_use]
    pub fn with_places(self, sources: impl IntoIterator<Item = Source>) -> ColumnsWriter<W, F> {
        ColumnsWriter { own: self.own.with_places(sources.into_iter().collect()), ..self }
    }

    /// Adds an event as a row.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written, or the trace has more than 16,384 different events. A thread's error is
    /// returned by a later call.
    pub fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.own.put(event)?;
        if self.own.events() >= OWN_ROWS { self.put_own() } else { Ok(()) }
    }

    /// Returns a collector for events, which another thread may fill. Collectors of one writer share its limit of
    /// columns.
    pub fn collector(&self) -> RowCollector {
        self.own.another()
    }

    /// Adds the rows of a collector after those that the writer has.
    ///
    /// # Errors
    ///
    /// As [`ColumnsWriter::put`].
    pub fn put_rows(&mut self, rows: Rows) -> io::Result<()> {
        self.put_own()?;
        self.distribute(rows)
    }

    /// Writes the remaining rows and completes the files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn finish(mut self) -> io::Result<ColumnsSummary> {
        self.put_own()?;
        for index in 0..self.tables.len() {
            self.flush(index)?;
            self.close(index)?;
        }
        self.encoders.finish()?;
        self.summary.tables = self.tables.len() as u64;
        self.summary.times_out_of_range = self.lost.times;
        self.summary.values_out_of_range = self.lost.values;
        Ok(self.summary)
    }

    fn put_own(&mut self) -> io::Result<()> {
        if self.own.events() == 0 {
            return Ok(());
        }
        let rows = self.own.take()?;
        self.distribute(rows)
    }

    /// Adds rows to their tables, and writes those of full tables.
    fn distribute(&mut self, rows: Rows) -> io::Result<()> {
        self.summary.events += rows.events;
        self.summary.undecoded += rows.undecoded;
        self.lost.add(rows.lost);
        for piece in rows.pieces {
            let index = self.table_of(piece.table)?;
            let Some(table) = self.tables.get_mut(index) else { continue };
            table.rows += piece.rows.num_rows();
            table.bytes += piece.bytes;
            self.bytes += piece.bytes;
            table.pieces.push(piece.rows);
            if table.rows >= GROUP_ROWS {
                self.flush(index)?;
            } else if table.pieces.len() >= MAX_PIECES {
                table.join().map_err(io::Error::other)?;
            }
        }
        if self.bytes >= MAX_BYTES {
            (0..self.tables.len()).try_for_each(|index| self.flush(index))?;
        }
        Ok(())
    }

    /// Returns the table with a key.
    fn table_of(&mut self, key: Arc<TableKey>) -> io::Result<usize> {
        if let Some(known) = self.by_key.get(&key) {
            return Ok(*known);
        }
        collect::check_tables(self.tables.len())?;
        let same = self.by_name.entry(key.name.to_ascii_lowercase()).or_insert(0);
        *same += 1;
        let name = match *same {
            1 => key.name.clone(),
            number => format!("{}.{number}", key.name),
        };
        self.tables.push(Table {
            key: key.clone(),
            name,
            pieces: Vec::new(),
            rows: 0,
            bytes: 0,
            is_open: false,
            files: 0,
            written: 0,
        });
        self.by_key.insert(key, self.tables.len() - 1);
        Ok(self.tables.len() - 1)
    }

    /// Writes the rows held by a table.
    fn flush(&mut self, index: usize) -> io::Result<()> {
        self.clock += 1;
        if self.tables[index].rows == 0 {
            return Ok(());
        }
        if !self.tables[index].is_open {
            if self.open >= MAX_OPEN {
                self.close_oldest()?;
            }
            let table = &mut self.tables[index];
            let name = format!("{}.{}", table.next_file(), self.format.extension());
            let file = (self.create)(&name)?;
            self.encoders.take(Job::Open { table: index, schema: table.key.schema.clone(), file })?;
            table.is_open = true;
            table.files += 1;
            self.open += 1;
            self.summary.files += 1;
        }
        let table = &mut self.tables[index];
        table.written = self.clock;
        table.rows = 0;
        self.bytes -= std::mem::take(&mut table.bytes);
        let pieces = std::mem::take(&mut table.pieces);
        self.encoders.take(Job::Rows { table: index, pieces })
    }

    fn close_oldest(&mut self) -> io::Result<()> {
        let open = (0..self.tables.len()).filter(|index| self.tables[*index].is_open);
        match open.min_by_key(|index| self.tables[*index].written) {
            Some(oldest) => self.close(oldest),
            None => Ok(()),
        }
    }

    fn close(&mut self, index: usize) -> io::Result<()> {
        let table = &mut self.tables[index];
        if !std::mem::take(&mut table.is_open) {
            return Ok(());
        }
        self.open -= 1;
        self.encoders.take(Job::Close { table: index })
    }
}

impl Table {
    /// Returns the name of the next file, without its extension.
    fn next_file(&self) -> String {
        if self.files == 0 { self.name.clone() } else { format!("{}.part{}", self.name, self.files + 1) }
    }

    /// Joins the pieces to one.
    fn join(&mut self) -> Result<(), ArrowError> {
        self.pieces = vec![concat_batches(&self.key.schema, &self.pieces)?];
        Ok(())
    }
}

#[cfg(test)]
mod tests;
