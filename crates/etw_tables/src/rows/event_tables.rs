//! Tables of the kinds of events: a row for each event, with a column for each field of its payload.

use std::borrow::Cow;
use std::sync::Arc;

use etw_columns::{Column, ColumnType, ColumnsError, TableId, TableSchema, Unit};
use etw_consumer::Event;
use etw_event::Guid;
use etw_machine::{HashMap, HashSet};
use etw_schema::EventSchema;
use etw_schema::kinds::{ColumnUnit, FieldType, KindColumns, KindKey, KindName};

use super::columns::{GuidValue, Id, Process, Processor, Stack, Thread, Time};
use super::declared::{PendingValue, pending};
use super::source::{EventContext, RowContext, RowSource};
use super::table::{RowWriter, TableRow, table};

/// Maximum number of kinds of events; further ones have no table.
const MAX_KINDS: usize = 1 << 14;

table! {
    /// The columns that tables of all kinds of events begin with.
    HeaderColumns: "event", "Event";
    /// When the event was logged.
    time: Time,
    /// Process in the event's header, or that of its thread.
    process: Option<Process>,
    /// Thread in the event's header, or what a kernel event is about.
    thread: Option<Thread>,
    /// Processor that logged the event.
    processor: Processor,
    /// Version of the event.
    version: Id,
    /// Level, from 1 (critical) to 5 (verbose).
    level: Id,
    /// Activity id.
    activity: Option<GuidValue>,
    /// Activity id of the event's cause.
    related_activity: Option<GuidValue>,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
}

/// The kinds of events of a trace, for tables of them ([`RowTables::of_events`](super::RowTables::of_events)).
///
/// ```no_run
/// use etw_tables::{EventKinds, RowTables};
/// use etw_columns::IndexWriter;
/// use etw_consumer::Trace;
/// use etw_symbols::Symbolizer;
///
/// let mut trace = Trace::open_file("trace.etl")?;
/// let mut kinds = EventKinds::default();
/// trace.for_each_event(|event| kinds.add(event))?;
/// let table = kinds.find("Microsoft-Windows-Kernel-Network/TCPIPDatasent").expect("the trace has such events");
/// let stacks = trace.stacks()?;
/// let mut tables = RowTables::new(IndexWriter::in_memory())?.of_events([table])?;
/// trace.for_each_event(|event| tables.add(event, &stacks.of(event.record)))?;
/// let index = tables.finish(&Symbolizer::new())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct EventKinds {
    kinds: HashMap<KindKey, Kind>,
}

#[derive(Debug)]
struct Kind {
    name: KindName,
    events: u64,
    /// The number of the kind, in order of first appearance.
    number: usize,
    columns: KindColumns,
    schemas: HashMap<usize, Arc<EventSchema>>,
}

/// The table of a kind of events.
#[derive(Debug, Clone)]
pub struct EventTable {
    key: KindKey,
    name: KindName,
    schema: TableSchema,
    events: u64,
    /// The schemas of all versions.
    schemas: Vec<Arc<EventSchema>>,
    /// The columns of the fields.
    columns: KindColumns,
}

impl EventTable {
    /// Returns the description of the table, whose name is `Provider/Event`, or `Class/Type` for classic events.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Returns the number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns what makes an event a row of the table.
    pub fn key(&self) -> &KindKey {
        &self.key
    }

    /// Whether this is one of the names of the events ([`KindName::is`]).
    pub fn is_called(&self, name: &str) -> bool {
        self.name.is(name)
    }

    /// Returns the schemas of all versions of the event.
    pub fn schemas(&self) -> &[Arc<EventSchema>] {
        &self.schemas
    }

    /// Returns the numbers of a schema's properties, each with the number of its column. A property with names for its
    /// values has two columns.
    pub fn columns_of(&self, schema: &EventSchema) -> Vec<(usize, usize)> {
        let before = HeaderColumns::SCHEMA.columns.len();
        self.columns.places(schema).into_iter().map(|(property, place)| (property, before + place)).collect()
    }
}

impl EventKinds {
    /// Adds an event.
    pub fn add(&mut self, event: &Event<'_>) {
        let key = KindKey::new(event);
        let number = self.kinds.len();
        if number >= MAX_KINDS && !self.kinds.contains_key(&key) {
            return;
        }
        let kind = self.kinds.entry(key).or_insert_with(|| {
            let reserved = HeaderColumns::SCHEMA.columns.iter().map(|column| column.name.to_string());
            let columns = KindColumns::new(reserved);
            Kind { name: KindName::new(event), events: 0, number, columns, schemas: HashMap::default() }
        });
        kind.events += 1;
        if let Some(schema) = event.schema() {
            let address = Arc::as_ptr(schema) as usize;
            if kind.schemas.insert(address, schema.clone()).is_none() {
                kind.columns.add(schema);
            }
        }
    }

    /// Returns the tables of all kinds, in the order of their names.
    pub fn tables(&self) -> Vec<EventTable> {
        let mut counts: HashMap<String, usize> = HashMap::default();
        for kind in self.kinds.values() {
            *counts.entry(kind.name.to_string()).or_default() += 1;
        }
        let mut all: Vec<(&KindKey, &Kind)> = self.kinds.iter().collect();
        all.sort_by_key(|(_, kind)| kind.number);
        let mut used = HashSet::default();
        let tables = all.into_iter().map(|(key, kind)| {
            let mut name = kind.name.to_string();
            if counts.get(&name).is_some_and(|count| *count > 1) {
                name = format!("{name} ({})", key.id);
            }
            // The same provider under two GUIDs.
            if !used.insert(name.clone()) {
                name = format!("{name} {}", key.provider);
            }
            let schemas = kind.schemas.values().cloned().collect();
            EventTable {
                key: key.clone(),
                name: kind.name.clone(),
                schema: kind.schema(name),
                events: kind.events,
                schemas,
                columns: kind.columns.clone(),
            }
        });
        let mut tables: Vec<EventTable> = tables.collect();
        tables.sort_by(|one, other| one.schema.name.cmp(&other.schema.name));
        tables
    }

    /// Finds a table by its name, ignoring case, or by any other name of its events ([`EventTable::is_called`]).
    pub fn find(&self, name: &str) -> Option<EventTable> {
        let tables = self.tables();
        let exact = tables.iter().find(|table| table.schema.name.eq_ignore_ascii_case(name));
        exact.or_else(|| tables.iter().find(|table| table.is_called(name))).cloned()
    }
}

impl Kind {
    fn schema(&self, name: String) -> TableSchema {
        let title = name.clone();
        let payload = self.columns.as_slice().iter().map(|column| Column {
            name: Cow::Owned(column.name.clone()),
            column_type: column_type(&column.field_type),
            unit: match column.unit {
                ColumnUnit::Hex => Unit::Hex,
                ColumnUnit::Id => Unit::Id,
                ColumnUnit::Address => Unit::Address,
                _ => Unit::None,
            },
            role: etw_columns::Role::Detail,
            summary: Cow::Borrowed("Field of the event."),
            table: Cow::Borrowed(""),
        });
        TableSchema {
            name: Cow::Owned(name),
            title: Cow::Owned(title),
            summary: Cow::Borrowed("One row for each event, with the fields of all versions."),
            columns: HeaderColumns::SCHEMA.columns.iter().cloned().chain(payload).collect(),
        }
    }
}

/// Returns the type of a column; arrays, structs, bytes and numbers of more than 64 bits are texts.
fn column_type(field_type: &FieldType) -> ColumnType {
    match field_type {
        FieldType::Bool => ColumnType::Bool,
        FieldType::F32 | FieldType::F64 => ColumnType::F64,
        FieldType::Guid => ColumnType::Guid,
        FieldType::Time => ColumnType::Time,
        FieldType::Decimal => ColumnType::Text,
        field_type if field_type.is_unsigned() => ColumnType::U64,
        field_type if field_type.is_integer() => ColumnType::I64,
        _ => ColumnType::Text,
    }
}

/// The tables of some kinds of events.
#[derive(Debug, Default)]
pub(super) struct EventTables {
    tables: Vec<(EventTable, TableId)>,
    by_key: HashMap<KindKey, usize>,
    /// By the row of the event's kind: the table, and the places of its properties.
    of_kinds: Vec<Option<Places>>,
}

#[derive(Debug)]
struct Places {
    /// Number of the table; `None` if the kind has none.
    table: Option<usize>,
    /// Properties and their columns.
    columns: Vec<(usize, usize)>,
}

impl EventTables {
    /// Adds a table.
    pub(super) fn add(&mut self, table: EventTable, writer: &mut RowWriter) -> Result<(), ColumnsError> {
        let id = writer.table(&table.schema)?;
        self.by_key.insert(table.key.clone(), self.tables.len());
        self.tables.push((table, id));
        Ok(())
    }

    /// Returns where the properties of a kind go. Kinds differ by schema.
    fn places(&self, event: &Event<'_>) -> Places {
        let Some(table) = self.by_key.get(&KindKey::new(event)).copied() else {
            return Places { table: None, columns: Vec::new() };
        };
        let of_table = &self.tables[table].0;
        let columns = event.schema().map(|schema| of_table.columns_of(schema)).unwrap_or_default();
        Places { table: Some(table), columns }
    }
}

impl RowSource for EventTables {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        self.by_key.contains_key(&KindKey::new(event.event))
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let kind = event.kind as usize;
        if self.of_kinds.len() <= kind {
            self.of_kinds.resize_with(kind + 1, || None);
        }
        if self.of_kinds[kind].is_none() {
            self.of_kinds[kind] = Some(self.places(event.event));
        }
        let Some(Places { table: Some(table), columns }) = &self.of_kinds[kind] else { return };
        let (table, id) = &self.tables[*table];
        write(event, &table.schema, *id, columns, context.writer);
    }
}

fn write(
    event: &EventContext<'_, '_>,
    schema: &TableSchema,
    table: TableId,
    columns: &[(usize, usize)],
    writer: &mut RowWriter,
) {
    let (record, descriptor) = (event.record(), event.record().descriptor());
    let mut values: Vec<(usize, PendingValue)> = Vec::with_capacity(columns.len());
    if let Ok(properties) = event.event.properties.as_ref() {
        let mut places = columns.iter().peekable();
        for (number, property) in properties.iter().enumerate() {
            while let Some((_, column)) = places.next_if(|(of, _)| *of == number) {
                values.push((*column, pending(schema.columns[*column].column_type, &property, writer)));
            }
        }
    }
    let id = |id: Option<Guid>| id.filter(|id| *id != Guid::ZERO);
    let header = HeaderColumns {
        time: record.time(),
        process: event.process,
        thread: event.thread,
        processor: event.processor,
        version: descriptor.version.into(),
        level: descriptor.level.0.into(),
        activity: id(record.activity_id()),
        related_activity: id(record.related_activity_id()),
        stack: event.stack,
    };
    writer.add_to(table, |row| {
        header.put(row);
        for (column, value) in values {
            value.put(row, column);
        }
    });
}
