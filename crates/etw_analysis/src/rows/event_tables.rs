//! Tables of the kinds of events: a row for each event, with a column for each field of its payload.

use std::borrow::Cow;
use std::sync::Arc;

use etw_columns::{Column, ColumnType, ColumnsError, TableId, TableSchema, Unit};
use etw_consumer::Event;
use etw_event::{Guid, Record};
use etw_schema::{Count, EventSchema, InType, OutType, Property, PropertyType};

use super::columns::{GuidValue, Id, Process, Processor, Stack, Thread, Time};
use super::declared::{PendingValue, pending};
use super::source::{EventContext, RowContext, RowSource};
use super::table::{RowWriter, TableRow, table};
use crate::maps::{HashMap, HashSet};

/// Maximum number of kinds of events; further ones have no table.
const MAX_KINDS: usize = 1 << 14;
/// Maximum number of columns of a table.
const MAX_COLUMNS: usize = 1024;

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

/// What makes a kind of events, of any version: the provider, and the id, the type of a classic event, or the name of a
/// self-describing one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KindKey {
    /// GUID of the provider, or of the class of a classic event.
    pub provider: Guid,
    /// Whether the event is a classic one.
    pub is_classic: bool,
    /// Id of the event, or the type of a classic one.
    pub id: u16,
    /// Name of a self-describing event, whose id is 0.
    pub name: Option<String>,
}

impl KindKey {
    /// Returns the kind of an event.
    pub fn of(event: &Event<'_>) -> KindKey {
        let (is_classic, id) = classic_and_id(event.record);
        let name = (id == 0 && !is_classic).then(|| event.names().event());
        KindKey { provider: event.record.provider_id(), is_classic, id, name }
    }

    /// Whether an event is of the kind.
    pub fn has(&self, event: &Event<'_>) -> bool {
        self.provider == event.record.provider_id() && *self == KindKey::of(event)
    }

    /// Whether an event may be of the kind, by its header; a cheap check before [`KindKey::has`].
    pub fn may_have(&self, record: &Record<'_>) -> bool {
        (self.is_classic, self.id) == classic_and_id(record) && self.provider == record.provider_id()
    }

    /// Whether [`KindKey::may_have`] suffices: no other kind of events has such headers.
    pub fn is_told_by_header(&self) -> bool {
        self.name.is_none()
    }
}

/// Returns whether an event is a classic one, and its id or type.
#[inline]
fn classic_and_id(record: &Record<'_>) -> (bool, u16) {
    let descriptor = record.descriptor();
    match record.kind().is_classic() {
        true => (true, descriptor.opcode.0.into()),
        false => (false, descriptor.id),
    }
}

/// The kinds of events of a trace, for tables of them ([`RowTables::of_events`](super::RowTables::of_events)).
///
/// ```no_run
/// use etw_analysis::{EventKinds, RowTables};
/// use etw_columns::IndexWriter;
/// use etw_consumer::Trace;
/// use etw_symbols::Symbolizer;
///
/// let mut trace = Trace::open_file("trace.etl")?;
/// let mut kinds = EventKinds::default();
/// trace.for_each_layout(|event| kinds.add(event))?;
/// let table = kinds.find("Microsoft-Windows-Kernel-Network/TCPIPDatasent").expect("the trace has such events");
/// let stacks = trace.stacks()?;
/// let mut tables = RowTables::new(IndexWriter::in_memory())?.of_events([table])?;
/// trace.for_each_layout(|event| tables.add(event, &stacks.of(event.record)))?;
/// let index = tables.finish(&Symbolizer::new())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct EventKinds {
    kinds: HashMap<KindKey, Kind>,
}

#[derive(Debug)]
struct Kind {
    provider: String,
    name: String,
    events: u64,
    /// The number of the kind, in order of first appearance.
    number: usize,
    columns: Vec<Merged>,
    schemas: HashMap<usize, Arc<EventSchema>>,
}

/// A column of the payload, as all versions have it.
#[derive(Debug, Clone, PartialEq)]
struct Merged {
    name: String,
    column_type: ColumnType,
    unit: Unit,
}

/// The table of a kind of events.
#[derive(Debug, Clone)]
pub struct EventTable {
    key: KindKey,
    schema: TableSchema,
    events: u64,
    /// The schemas of all versions.
    schemas: Vec<Arc<EventSchema>>,
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

    /// Returns the schemas of all versions of the event.
    pub fn schemas(&self) -> &[Arc<EventSchema>] {
        &self.schemas
    }

    /// Returns the numbers of a schema's properties, each with the number of its column. A property with names for its
    /// values has two columns.
    pub fn columns_of(&self, schema: &EventSchema) -> Vec<(usize, usize)> {
        let places = columns(schema).into_iter();
        places.filter_map(|(number, merged)| Some((number, self.schema.column(&merged.name)?))).collect()
    }
}

impl EventKinds {
    /// Adds an event.
    pub fn add(&mut self, event: &Event<'_>) {
        let key = KindKey::of(event);
        let number = self.kinds.len();
        if number >= MAX_KINDS && !self.kinds.contains_key(&key) {
            return;
        }
        let kind = self.kinds.entry(key).or_insert_with(|| {
            let names = event.names();
            let provider = match names.is_classic() {
                // The name of a classic event starts with its class.
                true => String::new(),
                false => names.provider().map_or_else(|| names.provider_guid().to_string(), str::to_owned),
            };
            let name = match (names.event_type(), names.is_classic()) {
                (Some(name), _) => name.into_owned(),
                (None, true) => {
                    format!("{}/{}", event.record.provider_id(), event.record.descriptor().opcode.0)
                }
                (None, false) => names.event(),
            };
            let name = without_version(&name).to_owned();
            Kind { provider, name, events: 0, number, columns: Vec::new(), schemas: HashMap::default() }
        });
        kind.events += 1;
        if let Some(schema) = event.schema() {
            let address = Arc::as_ptr(schema) as usize;
            if kind.schemas.insert(address, schema.clone()).is_none() {
                for (_, merged) in columns(schema) {
                    kind.merge(merged);
                }
            }
        }
    }

    /// Returns the tables of all kinds, in the order of their names.
    pub fn tables(&self) -> Vec<EventTable> {
        let full_name = |kind: &Kind| match &*kind.provider {
            "" => kind.name.clone(),
            provider => format!("{provider}/{}", kind.name),
        };
        let mut counts: HashMap<String, usize> = HashMap::default();
        for kind in self.kinds.values() {
            *counts.entry(full_name(kind)).or_default() += 1;
        }
        let mut all: Vec<(&KindKey, &Kind)> = self.kinds.iter().collect();
        all.sort_by_key(|(_, kind)| kind.number);
        let mut used = HashSet::default();
        let tables = all.into_iter().map(|(key, kind)| {
            let mut name = full_name(kind);
            if counts.get(&name).is_some_and(|count| *count > 1) {
                name = format!("{name} ({})", key.id);
            }
            // The same provider under two GUIDs.
            if !used.insert(name.clone()) {
                name = format!("{name} {}", key.provider);
            }
            let schemas = kind.schemas.values().cloned().collect();
            EventTable { key: key.clone(), schema: kind.schema(name), events: kind.events, schemas }
        });
        let mut tables: Vec<EventTable> = tables.collect();
        tables.sort_by(|one, other| one.schema.name.cmp(&other.schema.name));
        tables
    }

    /// Finds a table by its name, ignoring case, or by the provider and the id of the event: `Provider/12`.
    pub fn find(&self, name: &str) -> Option<EventTable> {
        let tables = self.tables();
        let by_id = |table: &&EventTable| {
            let kind = self.kinds.get(&table.key);
            let of_provider = kind.and_then(|kind| {
                let rest =
                    name.get(..kind.provider.len()).filter(|it| it.eq_ignore_ascii_case(&kind.provider));
                rest.and(name.get(kind.provider.len()..)?.strip_prefix('/'))
            });
            !table.key.is_classic
                && of_provider
                    .and_then(|id| id.parse::<u16>().ok())
                    .is_some_and(|id| id != 0 && id == table.key.id)
        };
        let found = tables.iter().find(|table| table.schema.name.eq_ignore_ascii_case(name));
        found.or_else(|| tables.iter().find(by_id)).cloned()
    }
}

impl Kind {
    fn merge(&mut self, column: Merged) {
        match self.columns.iter().position(|known| known.name == column.name) {
            Some(number) => self.columns[number] = self.columns[number].with(column),
            None if self.columns.len() < MAX_COLUMNS => self.columns.push(column),
            None => {}
        }
    }

    fn schema(&self, name: String) -> TableSchema {
        let title = name.clone();
        let payload = self.columns.iter().map(|merged| Column {
            name: Cow::Owned(merged.name.clone()),
            column_type: merged.column_type,
            unit: merged.unit,
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

impl Merged {
    /// Returns the column for values of two versions.
    fn with(&self, other: Merged) -> Merged {
        use ColumnType::{F64, I64, U64};
        let column_type = match (self.column_type, other.column_type) {
            (one, other) if one == other => one,
            (U64, I64) | (I64, U64) => I64,
            (U64 | I64, F64) | (F64, U64 | I64) => F64,
            _ => ColumnType::Text,
        };
        let unit = if self.unit == other.unit { self.unit } else { Unit::None };
        Merged { name: other.name, column_type, unit }
    }
}

/// Returns the name without the version that names of some events end in.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_V") {
        Some((rest, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            rest
        }
        _ => name,
    }
}

/// Returns the columns of a schema, each with the number of its property. A property with names for its values has a
/// second one with these.
fn columns(schema: &EventSchema) -> Vec<(usize, Merged)> {
    let top = schema.properties.get(..usize::from(schema.top_level)).unwrap_or_default();
    let mut names: HashSet<String> =
        HeaderColumns::SCHEMA.columns.iter().map(|column| column.name.to_string()).collect();
    let mut columns = Vec::new();
    for (number, property) in top.iter().enumerate() {
        // Dots separate the columns of a path.
        let mut name = property.name.replace('.', "_");
        while !names.insert(name.clone()) {
            name.push('_');
        }
        let (column_type, unit, has_names) = column_type(property);
        columns.push((number, Merged { name: name.clone(), column_type, unit }));
        if has_names {
            let name = format!("{name}_name");
            if names.insert(name.clone()) {
                columns.push((number, Merged { name, column_type: ColumnType::Text, unit: Unit::None }));
            }
        }
    }
    columns
}

/// Returns the type of a property's column, and whether its values have names.
fn column_type(property: &Property) -> (ColumnType, Unit, bool) {
    let PropertyType::Value { in_type, out_type, map } = &property.kind else {
        return (ColumnType::Text, Unit::None, false);
    };
    if property.count != Count::One {
        return (ColumnType::Text, Unit::None, false);
    }
    let (column_type, unit) = of_value(*in_type, *out_type);
    let is_number = matches!(column_type, ColumnType::U64 | ColumnType::I64);
    (column_type, unit, is_number && map.is_some())
}

fn of_value(in_type: InType, out_type: OutType) -> (ColumnType, Unit) {
    let is_number = in_type.is_integer() || matches!(in_type, InType::POINTER | InType::SIZE_T);
    let unit = match out_type {
        OutType::STRING | OutType::CHAR4 | OutType::IPV4 | OutType::MAC_ADDRESS if is_number => {
            return (ColumnType::Text, Unit::None);
        }
        OutType::BOOLEAN if is_number => return (ColumnType::Bool, Unit::None),
        OutType::HEX_INT8
        | OutType::HEX_INT16
        | OutType::HEX_INT32
        | OutType::HEX_INT64
        | OutType::HEX_BINARY
        | OutType::NTSTATUS
        | OutType::HRESULT => Unit::Hex,
        OutType::PID | OutType::TID | OutType::PORT => Unit::Id,
        OutType::CODE_POINTER => Unit::Address,
        _ => Unit::None,
    };
    match in_type {
        InType::INT8 | InType::INT16 | InType::INT32 | InType::INT64 => (ColumnType::I64, unit),
        InType::UINT8 | InType::UINT16 | InType::UINT32 | InType::UINT64 => (ColumnType::U64, unit),
        InType::HEX_INT32 | InType::HEX_INT64 => (ColumnType::U64, Unit::Hex),
        InType::POINTER => (ColumnType::U64, Unit::Address),
        InType::SIZE_T => (ColumnType::U64, unit),
        InType::FLOAT | InType::DOUBLE => (ColumnType::F64, Unit::None),
        InType::BOOLEAN => (ColumnType::Bool, Unit::None),
        InType::FILETIME | InType::SYSTEMTIME => (ColumnType::Time, Unit::None),
        InType::GUID => (ColumnType::Guid, Unit::None),
        _ => (ColumnType::Text, Unit::None),
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
        let Some(table) = self.by_key.get(&KindKey::of(event)).copied() else {
            return Places { table: None, columns: Vec::new() };
        };
        let of_table = &self.tables[table].0;
        let columns = event.schema().map(|schema| of_table.columns_of(schema)).unwrap_or_default();
        Places { table: Some(table), columns }
    }
}

impl RowSource for EventTables {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        self.by_key.contains_key(&KindKey::of(event.event))
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
