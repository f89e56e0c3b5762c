//! Events as rows, collected by one thread.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use etw_event::EventDescriptor;
use etw_schema::{Event, EventSchema, Source};

use super::builder::Lost;
use super::table::{TableKey, TableRows};

/// Limit of tables. Only a hostile file has more different events.
const MAX_TABLES: usize = 1 << 14;
/// Limit of columns in all tables. Beyond it, the fields of new events are one column of JSON.
const MAX_COLUMNS: usize = 1 << 18;
/// Limit of schemas distinguished by address, and of their properties.
const MAX_SCHEMAS: usize = 1 << 14;
const MAX_PROPERTIES: usize = 1 << 18;
/// Limit in characters of each part of a file name.
const MAX_NAME: usize = 80;
/// Name of the table of events without a schema.
const UNDECODED: &str = "undecoded";

/// Collects events as rows of tables, which a [`ColumnsWriter`](super::ColumnsWriter) writes or [`Rows::into_batches`]
/// returns.
pub struct RowCollector {
    tables: Vec<TableRows>,
    /// Tables by schema address. The schemas are kept alive, so that addresses stay unique.
    by_schema: HashMap<usize, (Arc<EventSchema>, usize)>,
    /// Number of properties of these schemas.
    properties: usize,
    by_key: HashMap<Arc<TableKey>, usize>,
    undecoded_table: Option<usize>,
    /// Number of columns in the tables of all collectors.
    columns: Arc<AtomicUsize>,
    /// The sources, if the columns that tell where an event is from are wanted.
    sources: Option<Arc<[Source]>>,
    /// Tables that have rows, in the order of their first one.
    used: Vec<usize>,
    events: u64,
    undecoded: u64,
    lost: Lost,
}

/// The rows that a [`RowCollector`] collected.
pub struct Rows {
    pub(super) pieces: Vec<Piece>,
    pub(super) events: u64,
    pub(super) undecoded: u64,
    pub(super) lost: Lost,
}

/// Rows of one table.
pub(super) struct Piece {
    pub(super) table: Arc<TableKey>,
    pub(super) rows: RecordBatch,
    /// Approximate bytes.
    pub(super) bytes: usize,
}

impl Rows {
    /// Returns the rows of each table as a record batch, in the order of the tables' first rows.
    pub fn into_batches(self) -> impl ExactSizeIterator<Item = RecordBatch> {
        self.pieces.into_iter().map(|piece| piece.rows)
    }
}

impl Default for RowCollector {
    fn default() -> RowCollector {
        RowCollector::new()
    }
}

impl RowCollector {
    /// Creates an empty collector.
    pub fn new() -> RowCollector {
        RowCollector::with_columns(Arc::default())
    }

    /// Returns an empty collector with the same limit of columns.
    pub(super) fn another(&self) -> RowCollector {
        RowCollector { sources: self.sources.clone(), ..RowCollector::with_columns(self.columns.clone()) }
    }

    /// Adds the columns that tell where an event is from to every table. `sources` are the files and sessions that events
    /// are from, by `Origin::source`.
    pub(super) fn with_places(self, sources: Arc<[Source]>) -> RowCollector {
        RowCollector { sources: Some(sources), ..self }
    }

    fn with_columns(columns: Arc<AtomicUsize>) -> RowCollector {
        RowCollector {
            tables: Vec::new(),
            by_schema: HashMap::new(),
            properties: 0,
            by_key: HashMap::new(),
            undecoded_table: None,
            columns,
            sources: None,
            used: Vec::new(),
            events: 0,
            undecoded: 0,
            lost: Lost::default(),
        }
    }

    /// Returns the number of events collected since the rows were taken.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Adds an event as a row.
    ///
    /// # Errors
    ///
    /// Fails if there were more than 16,384 different events.
    pub fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        let index = match event.schema() {
            Some(schema) => self.table_of(event, schema)?,
            None => self.undecoded_table()?,
        };
        let Some(table) = self.tables.get_mut(index) else { return Ok(()) };
        if table.is_empty() {
            self.used.push(index);
        }
        table.put(event, &mut self.lost);
        self.events += 1;
        self.undecoded += u64::from(event.properties.is_err());
        Ok(())
    }

    /// Takes the rows.
    ///
    /// # Errors
    ///
    /// Fails if a list has more elements than its offsets can count.
    pub fn take(&mut self) -> io::Result<Rows> {
        let mut pieces = Vec::with_capacity(self.used.len());
        for index in self.used.drain(..) {
            let Some(table) = self.tables.get_mut(index) else { continue };
            let (rows, bytes) = table.take_rows().map_err(io::Error::other)?;
            pieces.push(Piece { table: table.key.clone(), rows, bytes });
        }
        Ok(Rows {
            pieces,
            events: std::mem::take(&mut self.events),
            undecoded: std::mem::take(&mut self.undecoded),
            lost: std::mem::take(&mut self.lost),
        })
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
        let room = MAX_COLUMNS.saturating_sub(self.columns.load(Ordering::Relaxed));
        let index = self.add(TableRows::from_schema(file_name(event), schema, room, self.sources.clone()))?;
        self.by_schema.insert(address, (schema.clone(), index));
        Ok(index)
    }

    fn undecoded_table(&mut self) -> io::Result<usize> {
        if let Some(index) = self.undecoded_table {
            return Ok(index);
        }
        let index = self.add(TableRows::undecoded(UNDECODED.to_owned(), self.sources.clone()))?;
        self.undecoded_table = Some(index);
        Ok(index)
    }

    /// Returns the table with this key. It may exist already, because schemas come from several sources.
    fn add(&mut self, table: TableRows) -> io::Result<usize> {
        if let Some(known) = self.by_key.get(&table.key) {
            return Ok(*known);
        }
        check_tables(self.tables.len())?;
        self.columns.fetch_add(table.width(), Ordering::Relaxed);
        self.by_key.insert(table.key.clone(), self.tables.len());
        self.tables.push(table);
        Ok(self.tables.len() - 1)
    }
}

/// Fails if no table can be added to this many.
pub(super) fn check_tables(tables: usize) -> io::Result<()> {
    if tables < MAX_TABLES {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the trace has more than {MAX_TABLES} different events; --provider takes fewer"
    )))
}

/// Returns `Provider/Event.1.v0`: the event's name and id, or a classic event's type, and its version.
fn file_name(event: &Event<'_>) -> String {
    let record = event.record;
    let descriptor: EventDescriptor = record.descriptor();
    let names = event.names();
    let provider = names.provider_text();
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
