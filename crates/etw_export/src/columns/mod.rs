//! Events as tables: a Parquet or Arrow file for each kind of event, with a column for each field.
//!
//! Each table has the columns of the header ([`HEADER_COLUMNS`]), then those of the payload in the types of its schema:
//! numbers, texts, times, bytes, lists, structs. Names of values stand in the metadata of their columns. Events without
//! a schema are a table of their own, with their bytes.
//!
//! Rows are gathered until there are enough for a row group, or until all tables together hold too much; so memory is
//! bounded whatever the number of events. Of the files, a limited number is open at one time; a table that is written to
//! again goes on in another file.

mod builder;
mod kind;
mod table;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use etw_event::EventDescriptor;
use etw_schema::EventSchema;

use builder::Lost;
use etw_schema::Event;
use table::Table;

pub use table::HEADER_COLUMNS;

/// Tables at most. A file that has more different events was made to have them.
const MAX_TABLES: usize = 1 << 14;
/// Columns of all tables together; of events that come then, the fields are one column of JSON.
const MAX_COLUMNS: usize = 1 << 18;
/// Schemas that are told from each other by their addresses, and their properties.
const MAX_SCHEMAS: usize = 1 << 14;
const MAX_PROPERTIES: usize = 1 << 18;
/// Files that are open at one time.
const MAX_OPEN: usize = 256;
/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 16;
/// Bytes that all tables together hold, about.
const MAX_BYTES: usize = 64 << 20;
/// Characters of a part of a file's name.
const MAX_NAME: usize = 80;
/// The table of events without a schema.
const UNDECODED: &str = "undecoded";

/// How tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnFormat {
    /// Parquet, compressed by Snappy.
    Parquet,
    /// Arrow's file format (Feather).
    Arrow,
}

impl ColumnFormat {
    /// The end of the names of files.
    pub const fn extension(self) -> &'static str {
        match self {
            ColumnFormat::Parquet => "parquet",
            ColumnFormat::Arrow => "arrow",
        }
    }
}

/// What came of writing tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnsSummary {
    /// Events written, each a row.
    pub events: u64,
    /// Those of them that have no schema; their bytes are in the table `undecoded`.
    pub undecoded: u64,
    /// Tables.
    pub tables: u64,
    /// Files: more than tables where not all could be open at one time.
    pub files: u64,
    /// Times that are null, since columns hold those from 1677 to 2262 only.
    pub times_out_of_range: u64,
    /// Other values that are null, since they are not what their schema says.
    pub values_out_of_range: u64,
}

/// Writes events as rows of tables.
pub struct ColumnsWriter<W: Write + Send, F> {
    format: ColumnFormat,
    /// Opens the file of a name.
    create: F,
    tables: Vec<Table<W>>,
    /// Tables by schemas, which are held so that their addresses stay their own.
    by_schema: HashMap<usize, (Arc<EventSchema>, usize)>,
    /// Properties of these schemas.
    properties: usize,
    /// Columns of the tables.
    columns: usize,
    /// Tables by the names of their files and what their columns are.
    by_shape: HashMap<(String, String), usize>,
    /// How many tables would have the same file.
    by_name: HashMap<String, u32>,
    undecoded: Option<usize>,
    summary: ColumnsSummary,
    lost: Lost,
    /// Bytes that the tables hold.
    bytes: usize,
    open: usize,
    /// Counts writes, to tell which file has not been written to for longest.
    clock: u64,
}

impl<W: Write + Send, F: FnMut(&str) -> io::Result<W>> ColumnsWriter<W, F> {
    /// A writer; `create` opens the file of a name, which has `/` between its parts.
    pub fn new(format: ColumnFormat, create: F) -> ColumnsWriter<W, F> {
        ColumnsWriter {
            format,
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

    /// Adds an event.
    ///
    /// # Errors
    /// A file cannot be written, or the trace has more than 16,384 different events.
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

    /// Completes the files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(mut self) -> io::Result<ColumnsSummary> {
        for index in 0..self.tables.len() {
            self.flush(index)?;
            self.close(index)?;
        }
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

    /// The table of this name and shape, which may be there already: schemas come from several sources.
    fn add(&mut self, name: String, mut table: Table<W>) -> io::Result<usize> {
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

    /// Writes the rows that a table holds.
    fn flush(&mut self, index: usize) -> io::Result<()> {
        self.clock += 1;
        if self.tables[index].rows() == 0 {
            return Ok(());
        }
        if !self.tables[index].is_open() {
            if self.open >= MAX_OPEN {
                self.close_oldest()?;
            }
            let name = format!("{}.{}", self.tables[index].next_file(), self.format.extension());
            let file = (self.create)(&name)?;
            self.tables[index].open(self.format, file).map_err(io::Error::other)?;
            self.open += 1;
            self.summary.files += 1;
        }
        let table = &mut self.tables[index];
        table.written = self.clock;
        self.bytes -= table.flush().map_err(io::Error::other)?;
        Ok(())
    }

    fn close_oldest(&mut self) -> io::Result<()> {
        let open = (0..self.tables.len()).filter(|index| self.tables[*index].is_open());
        match open.min_by_key(|index| self.tables[*index].written) {
            Some(oldest) => self.close(oldest),
            None => Ok(()),
        }
    }

    fn close(&mut self, index: usize) -> io::Result<()> {
        if self.tables[index].close().map_err(io::Error::other)? {
            self.open -= 1;
        }
        Ok(())
    }
}

/// `Provider/Event.1.v0`: the event's own name and its id, or the type of a classic event, and its version.
fn file_name(event: &Event<'_>) -> String {
    let record = event.record;
    let descriptor: EventDescriptor = record.descriptor();
    let names = event.names();
    let provider = names.provider().map_or_else(|| names.provider_guid().to_string(), str::to_owned);
    let name = names.event();
    let id = if record.kind().is_classic() { descriptor.opcode.0.into() } else { descriptor.id };
    format!("{}/{}.{id}.v{}", plain(&provider), plain(&name), descriptor.version)
}

/// A name that every file system takes.
fn plain(name: &str) -> String {
    let taken = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    let name: String = name.chars().take(MAX_NAME).map(taken).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
