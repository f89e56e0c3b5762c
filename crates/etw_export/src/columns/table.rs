//! The rows of one table.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use etw_schema::{Decoding, EventSchema, Properties};

use super::builder::{Builder, Lost};
use super::kind::{self, Column, Kind};
use crate::fields::FieldSelection;
use crate::header::SourcePart;
use crate::json::{self, Fields};
use crate::put::TimeWriter;
use etw_schema::Event;

/// The columns of every table before those of the payload. `DecodeError`, `ExtraPayload` and `Inferred` have the same
/// meaning as in JSON; `Stack` starts with the innermost frame.
pub const HEADER_COLUMNS: [&str; 14] = [
    "Time",
    "Processor",
    "ProcessId",
    "ThreadId",
    "Process",
    "Level",
    "Opcode",
    "Keyword",
    "ActivityId",
    "RelatedActivityId",
    "Stack",
    "DecodeError",
    "ExtraPayload",
    "Inferred",
];
/// The columns after these that tell where the file has the event, if they are requested: its path, and the numbers of
/// [`RecordPlace`](etw_event::RecordPlace).
pub const PLACE_COLUMNS: [&str; 5] =
    ["SourceFile", "SourceOffset", "SourceWithin", "SourceBuffer", "SourceRecord"];
/// Approximate bytes of a row's header.
const HEADER_BYTES: usize = 128;
/// Approximate bytes of a column with a few rows.
const MIN_COLUMN_BYTES: usize = 256;

/// The columns after those of the header.
#[derive(Debug)]
enum Payload {
    /// A column for each field.
    Fields,
    /// All fields as one JSON text, for a schema with too many.
    Json(Box<Fields>),
    /// The text of the message, then a column for each field.
    Message,
    /// For undecoded events: GUID, id, version, reason, bytes.
    Undecoded,
}

/// What identifies a table.
#[derive(Debug)]
pub(super) struct TableKey {
    /// The name of the file, which tables of other columns may have too.
    pub(super) name: String,
    pub(super) schema: SchemaRef,
}

impl PartialEq for TableKey {
    fn eq(&self, other: &TableKey) -> bool {
        let fields = || self.schema.fields().iter().zip(other.schema.fields());
        Arc::ptr_eq(&self.schema, &other.schema)
            || self.name == other.name
                && self.schema.fields().len() == other.schema.fields().len()
                && fields().all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type())
    }
}

impl Eq for TableKey {}

impl Hash for TableKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Rows of a table, and how events become rows.
pub(super) struct TableRows {
    pub(super) key: Arc<TableKey>,
    builders: Vec<Builder>,
    /// Names of the sources, if the columns that tell where an event is from are wanted.
    sources: Option<Arc<[String]>>,
    payload: Payload,
    times: TimeWriter,
    rows: usize,
    bytes: usize,
}

impl TableRows {
    /// Creates a table with a column for each field, if there is room for them.
    pub(super) fn of_schema(
        name: String,
        schema: &EventSchema,
        room: usize,
        sources: Option<Arc<[String]>>,
    ) -> TableRows {
        let places: &[&str] = if sources.is_some() { &PLACE_COLUMNS } else { &[] };
        let columns = kind::of_schema(schema, &[&HEADER_COLUMNS, places].concat(), room);
        let (columns, payload) = match columns {
            Some(mut columns) if schema.decoding == Decoding::Wpp => {
                columns.insert(0, Column::new("FormattedMessage", Kind::Text));
                (columns, Payload::Message)
            }
            Some(columns) => (columns, Payload::Fields),
            None => (vec![Column::new("Fields", Kind::Text)], Payload::Json(Box::new(Fields::of(schema)))),
        };
        let metadata = HashMap::from([
            ("provider".to_owned(), schema.provider.name.to_string()),
            ("provider_guid".to_owned(), schema.provider.guid.to_string()),
            ("event_id".to_owned(), schema.descriptor.id.to_string()),
            ("event_version".to_owned(), schema.descriptor.version.to_string()),
            ("event_opcode".to_owned(), schema.descriptor.opcode.0.to_string()),
        ]);
        TableRows::new(name, columns, payload, metadata, sources)
    }

    pub(super) fn undecoded(name: String, sources: Option<Arc<[String]>>) -> TableRows {
        let columns = vec![
            Column::new("Provider", Kind::Text),
            Column::new("EventId", Kind::U16),
            Column::new("Version", Kind::U8),
            Column::new("Reason", Kind::Text),
            Column::new("Payload", Kind::Binary),
        ];
        TableRows::new(name, columns, Payload::Undecoded, HashMap::new(), sources)
    }

    fn new(
        name: String,
        columns: Vec<Column>,
        payload: Payload,
        metadata: HashMap<String, String>,
        sources: Option<Arc<[String]>>,
    ) -> TableRows {
        let kinds = [
            Kind::Time,
            Kind::U16,
            Kind::U32,
            Kind::U32,
            Kind::Text,
            Kind::U8,
            Kind::U8,
            Kind::U64,
            Kind::Text,
            Kind::Text,
            Kind::List(Box::new(Kind::U64)),
            Kind::Text,
            Kind::Binary,
            Kind::Text,
        ];
        let header = HEADER_COLUMNS.iter().zip(kinds).map(|(name, kind)| Column::new(name, kind));
        let kinds = [Kind::Text, Kind::U64, Kind::U32, Kind::U64, Kind::U32];
        let places = PLACE_COLUMNS.iter().zip(kinds).map(|(name, kind)| Column::new(name, kind));
        let places = places.filter(|_| sources.is_some());
        let columns: Vec<Column> = header.chain(places).chain(columns).collect();
        let fields: Vec<_> = columns.iter().map(Column::field).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        TableRows {
            key: Arc::new(TableKey { name, schema }),
            builders: columns.iter().map(|column| Builder::new(&column.kind)).collect(),
            sources,
            payload,
            times: TimeWriter::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Returns the number of columns, including nested ones.
    pub(super) fn width(&self) -> usize {
        self.builders.iter().map(Builder::width).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds an event.
    pub(super) fn put(&mut self, event: &Event<'_>, lost: &mut Lost) {
        let TableRows { builders, sources, payload, times, .. } = self;
        let (header, mut fields) = builders.split_at_mut(HEADER_COLUMNS.len());
        let mut bytes = HEADER_BYTES + put_header(header, event, lost);
        if let Some(sources) = sources {
            let (places, others) = fields.split_at_mut(PLACE_COLUMNS.len());
            fields = others;
            bytes += put_places(places, event, sources);
        }
        match (&event.properties, payload) {
            (Ok(properties), Payload::Fields) => bytes += put_fields(fields, properties, lost),
            (Ok(properties), Payload::Message) => {
                let mut text = String::new();
                properties.write_message(&mut text);
                bytes += text.len();
                if let Some((message, fields)) = fields.split_first_mut() {
                    message.text(Some(&text));
                    bytes += put_fields(fields, properties, lost);
                }
            }
            (Ok(properties), Payload::Json(keys)) => {
                let mut text = Vec::new();
                json::put_fields(&mut text, &FieldSelection::all(), keys, times, properties);
                bytes += text.len();
                fields.iter_mut().for_each(|builder| builder.text(str::from_utf8(&text).ok()));
            }
            (Err(reason), Payload::Undecoded) => bytes += put_undecoded(fields, event, &reason.to_string()),
            _ => bytes += fields.iter_mut().map(Builder::null).sum::<usize>(),
        }
        self.rows += 1;
        self.bytes += bytes;
    }

    /// Takes the rows, and the approximate number of bytes they hold.
    ///
    /// # Errors
    ///
    /// Fails if a list has more elements than its offsets can count.
    pub(super) fn take_rows(&mut self) -> Result<(RecordBatch, usize), ArrowError> {
        let columns = self.builders.iter_mut().map(Builder::finish).collect::<Result<Vec<_>, _>>()?;
        let rows = RecordBatch::try_new(self.key.schema.clone(), columns)?;
        self.rows = 0;
        // Buffers have a minimum size, which counts where rows are few.
        let bytes = std::mem::take(&mut self.bytes).max(rows.num_columns() * MIN_COLUMN_BYTES);
        Ok((rows, bytes))
    }
}

fn put_header(columns: &mut [Builder], event: &Event<'_>, lost: &mut Lost) -> usize {
    let record = event.record;
    let descriptor = record.descriptor();
    let [
        time,
        processor,
        process_id,
        thread_id,
        process,
        level,
        opcode,
        keyword,
        activity,
        related,
        stack,
        decode_error,
        extra,
        inferred,
    ] = columns
    else {
        return 0;
    };
    time.time(record.time(), lost);
    number(processor, Some(record.processor().into()));
    number(process_id, record.process_id().map(u64::from));
    number(thread_id, record.thread_id().map(u64::from));
    process.text(event.process);
    number(level, Some(descriptor.level.0.into()));
    number(opcode, Some(descriptor.opcode.0.into()));
    number(keyword, Some(descriptor.keyword.0));
    activity.text(record.activity_id().map(|id| id.to_string()).as_deref());
    related.text(record.related_activity_id().map(|id| id.to_string()).as_deref());
    let mut bytes = 0;
    match (record.stack_trace(), stack) {
        (Some(trace), Builder::List { ends, valid, elements, .. }) => {
            let before = ends.last().copied().unwrap_or(0);
            let mut count = 0;
            for address in trace.addresses() {
                number(elements, Some(address));
                count += 1;
            }
            bytes += 8 * count as usize;
            ends.push(before.saturating_add(count));
            valid.push(true);
        }
        (_, stack) => {
            stack.null();
        }
    }
    let (error, rest, inference) = match &event.properties {
        Ok(properties) => {
            (properties.error().map(|error| error.to_string()), properties.rest(), properties.inferred())
        }
        Err(_) => (None, &[][..], None),
    };
    inferred.text(inference.map(|inference| inference.to_string()).as_deref());
    decode_error.text(error.as_deref());
    extra.bytes(Some(rest).filter(|rest| !rest.is_empty()));
    bytes + rest.len()
}

fn put_places(columns: &mut [Builder], event: &Event<'_>, sources: &[String]) -> usize {
    let (record, place) = (event.record, event.record.place());
    let name = sources.get(record.origin().source as usize);
    for (column, part) in columns.iter_mut().zip(SourcePart::ALL) {
        match part {
            SourcePart::File => column.text(name.map(String::as_str)),
            _ => number(column, part.number(place)),
        }
    }
    name.map_or(0, String::len)
}

fn number(builder: &mut Builder, value: Option<u64>) {
    match (builder, value) {
        (Builder::U8(builder), Some(value)) => builder.append_value(value as u8),
        (Builder::U16(builder), Some(value)) => builder.append_value(value as u16),
        (Builder::U32(builder), Some(value)) => builder.append_value(value as u32),
        (Builder::U64(builder), Some(value)) => builder.append_value(value),
        (builder, _) => {
            builder.null();
        }
    }
}

fn put_fields(columns: &mut [Builder], properties: &Properties<'_>, lost: &mut Lost) -> usize {
    let mut found = properties.iter();
    let mut bytes = 0;
    for column in columns {
        bytes += match found.next() {
            Some(property) => column.value(property.value(), property.format(), lost),
            // The payload ends before this field.
            None => column.null(),
        };
    }
    bytes
}

fn put_undecoded(columns: &mut [Builder], event: &Event<'_>, why: &str) -> usize {
    let [provider, id, version, reason, payload] = columns else { return 0 };
    let record = event.record;
    provider.text(Some(&record.provider_id().to_string()));
    number(id, Some(record.descriptor().id.into()));
    number(version, Some(record.descriptor().version.into()));
    reason.text(Some(why));
    payload.bytes(Some(record.payload()));
    why.len() + record.payload().len()
}
