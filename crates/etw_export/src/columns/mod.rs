//! Events as tables: a Parquet or Arrow file for each kind of event, with a column for each field.
//!
//! Each table has the header's columns ([`HEADER_COLUMNS`]), followed by those of the payload with the types of its
//! schema: numbers, texts, times, bytes, lists, structs. Names of values are in the metadata of their columns. Events
//! without a schema go to a separate table, with their bytes.
//!
//! Rows are collected until a row group is full, or until all tables together hold too much, so memory is bounded
//! for any number of events. The number of open files is limited; a table written again after its file was closed
//! continues in another file.
//!
//! ```
//! use std::fs::File;
//!
//! use etw_export::{ColumnFormat, ColumnsWriter};
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
mod encode;
mod kind;
mod table;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use etw_event::EventDescriptor;
use etw_schema::EventSchema;

use builder::Lost;
use encode::{Encoders, Job};
use etw_schema::Event;
use table::Table;

pub use table::HEADER_COLUMNS;

/// Limit of tables. Only a hostile file has more different events.
const MAX_TABLES: usize = 1 << 14;
/// Limit of columns in all tables. Beyond it, the fields of new events are one column of JSON.
const MAX_COLUMNS: usize = 1 << 18;
/// Limit of schemas distinguished by address, and of their properties.
const MAX_SCHEMAS: usize = 1 << 14;
const MAX_PROPERTIES: usize = 1 << 18;
/// Limit of open files.
const MAX_OPEN: usize = 256;
/// Number of rows in a row group.
const GROUP_ROWS: usize = 1 << 16;
/// Limit of the approximate bytes held in all tables.
const MAX_BYTES: usize = 64 << 20;
/// Limit in characters of each part of a file name.
const MAX_NAME: usize = 80;
/// Name of the table of events without a schema.
const UNDECODED: &str = "undecoded";

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
    tables: Vec<Table>,
    /// Tables by schema address. The schemas are kept alive, so that addresses stay unique.
    by_schema: HashMap<usize, (Arc<EventSchema>, usize)>,
    /// Number of properties of these schemas.
    properties: usize,
    /// Number of columns in all tables.
    columns: usize,
    /// Tables by file name and shape.
    by_shape: HashMap<(String, String), usize>,
    /// Number of tables with the same file name.
    by_name: HashMap<String, u32>,
    undecoded: Option<usize>,
    summary: ColumnsSummary,
    lost: Lost,
    /// Approximate bytes held by the tables.
    bytes: usize,
    open: usize,
    /// Counts writes, to find the least recently written file.
    clock: u64,
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
            tables: Vec::new(),
            by_schema: HashMap::new(),
            properties: 0,
            columns: 0,
            by_shape: HashMap::new(),
            by_name: HashMap::new(),
            undecoded: None,
            summary: ColumnsSummary::default(),
            lost: Lost::default(),
            bytes: 0,
            open: 0,
            clock: 0,
        }
    }

    /// Adds an event as a row.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written, or the trace has more than 16,384 different events. A thread's error is
    /// returned by a later call.
    pub fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        let index = match event.schema() {
            Some(schema) => self.table_of(event, schema)?,
            None => self.undecoded()?,
        };
        let Some(table) = self.tables.get_mut(index) else { return Ok(()) };
        self.bytes += table.put(event, &mut self.lost);
        self.summary.events += 1;
        self.summary.undecoded += u64::from(event.properties.is_err());
        if table.rows() >= GROUP_ROWS {
            self.flush(index)?;
        }
        if self.bytes >= MAX_BYTES {
            (0..self.tables.len()).try_for_each(|index| self.flush(index))?;
        }
        Ok(())
    }

    /// Writes the remaining rows and completes the files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn finish(mut self) -> io::Result<ColumnsSummary> {
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

    fn table_of(&mut self, event: &Event<'_>, schema: &Arc<EventSchema>) -> io::Result<usize> {
        let address = Arc::as_ptr(schema) as usize;
        if let Some((_, index)) = self.by_schema.get(&address) {
            return Ok(*index);
        }
        if self.by_schema.len() >= MAX_SCHEMAS || self.properties >= MAX_PROPERTIES {
            self.by_schema.clear();
            self.properties = 0;
        }
        self.properties += schema.properties.len();
        let name = file_name(event);
        let table = Table::of_schema(schema, MAX_COLUMNS.saturating_sub(self.columns));
        let index = self.add(name, table)?;
        self.by_schema.insert(address, (schema.clone(), index));
        Ok(index)
    }

    fn undecoded(&mut self) -> io::Result<usize> {
        if let Some(index) = self.undecoded {
            return Ok(index);
        }
        let index = self.add(UNDECODED.to_owned(), Table::undecoded())?;
        self.undecoded = Some(index);
        Ok(index)
    }

    /// Returns the table of this name and shape. It may exist already, because schemas come from several sources.
    fn add(&mut self, name: String, mut table: Table) -> io::Result<usize> {
        let shape = (name, table.shape());
        if let Some(known) = self.by_shape.get(&shape) {
            return Ok(*known);
        }
        if self.tables.len() >= MAX_TABLES {
            return Err(io::Error::other(format!(
                "the trace has more than {MAX_TABLES} different events; --provider takes fewer"
            )));
        }
        let same = self.by_name.entry(shape.0.to_ascii_lowercase()).or_insert(0);
        *same += 1;
        table.name = match *same {
            1 => shape.0.clone(),
            number => format!("{}.{number}", shape.0),
        };
        self.columns += table.width();
        self.tables.push(table);
        self.by_shape.insert(shape, self.tables.len() - 1);
        Ok(self.tables.len() - 1)
    }

    /// Writes the rows held by a table.
    fn flush(&mut self, index: usize) -> io::Result<()> {
        self.clock += 1;
        if self.tables[index].rows() == 0 {
            return Ok(());
        }
        if !self.tables[index].is_open {
            if self.open >= MAX_OPEN {
                self.close_oldest()?;
            }
            let table = &mut self.tables[index];
            let name = format!("{}.{}", table.next_file(), self.format.extension());
            let file = (self.create)(&name)?;
            self.encoders.take(Job::Open { table: index, schema: table.schema.clone(), file })?;
            table.is_open = true;
            table.files += 1;
            self.open += 1;
            self.summary.files += 1;
        }
        let table = &mut self.tables[index];
        table.written = self.clock;
        let (rows, bytes) = table.take_rows().map_err(io::Error::other)?;
        self.bytes -= bytes;
        self.encoders.take(Job::Rows { table: index, rows })
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

/// Returns `Provider/Event.1.v0`: the event's name and id, or a classic event's type, and its version.
fn file_name(event: &Event<'_>) -> String {
    let record = event.record;
    let descriptor: EventDescriptor = record.descriptor();
    let names = event.names();
    let provider = names.provider().map_or_else(|| names.provider_guid().to_string(), str::to_owned);
    let name = names.event();
    let id = if record.kind().is_classic() { descriptor.opcode.0.into() } else { descriptor.id };
    format!("{}/{}.{id}.v{}", plain(&provider), plain(&name), descriptor.version)
}

/// Replaces characters that are not valid in file names on every system.
fn plain(name: &str) -> String {
    let taken = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    let name: String = name.chars().take(MAX_NAME).map(taken).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
