//! The rows of one table.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use etw_export::{JsonWriter, Options};
use etw_schema::kinds::{FieldType, MAX_COLUMNS, column_names};
use etw_schema::{Decoding, Event, EventSchema, HeaderField, Properties, PropertyType, Source, ValueMap};

use super::builder::{Builder, Lost};
use super::types;

/// Approximate bytes of a row's header.
const HEADER_BYTES: usize = 128;
/// Approximate bytes of a column with a few rows.
const MIN_COLUMN_BYTES: usize = 256;

/// Name and type of a column, and the names of its values.
type PayloadColumn = (String, FieldType, Option<Arc<ValueMap>>);

/// What the columns of the payload have.
enum Payload {
    /// Each a field.
    Fields,
    /// All fields as one JSON text, for a schema with too many.
    Json(Box<JsonWriter>),
    /// Nothing: the events are not decoded.
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
    /// The first columns.
    header: Vec<HeaderField>,
    builders: Vec<Builder>,
    /// The sources, if the columns that tell where an event is from are wanted.
    sources: Option<Arc<[Source]>>,
    payload: Payload,
    rows: usize,
    bytes: usize,
}

impl TableRows {
    /// Creates a table with a column for each field, if there is room for them.
    pub(super) fn from_schema(
        name: String,
        schema: &EventSchema,
        room: usize,
        sources: Option<Arc<[Source]>>,
    ) -> TableRows {
        let mut header: Vec<HeaderField> = HeaderField::file_columns(sources.is_some()).collect();
        if schema.decoding == Decoding::Wpp {
            header.push(HeaderField::Message);
        }
        let (fields, payload) = match fields(schema, &header, room) {
            Some(fields) => (fields, Payload::Fields),
            None => {
                let writer = JsonWriter::new(&Options::default());
                let column = ("Fields".to_owned(), FieldType::Text, None);
                (vec![column], Payload::Json(Box::new(writer)))
            }
        };
        let metadata = HashMap::from([
            ("provider".to_owned(), schema.provider.name.to_string()),
            ("provider_guid".to_owned(), schema.provider.guid.to_string()),
            ("event_id".to_owned(), schema.descriptor.id.to_string()),
            ("event_version".to_owned(), schema.descriptor.version.to_string()),
            ("event_opcode".to_owned(), schema.descriptor.opcode.0.to_string()),
        ]);
        TableRows::new(name, header, fields, payload, metadata, sources)
    }

    /// Creates the table of events without a schema.
    pub(super) fn undecoded(name: String, sources: Option<Arc<[Source]>>) -> TableRows {
        let header =
            HeaderField::file_columns(sources.is_some()).chain([HeaderField::Provider, HeaderField::Id]);
        TableRows::new(name, header.collect(), Vec::new(), Payload::Undecoded, HashMap::new(), sources)
    }

    fn new(
        name: String,
        header: Vec<HeaderField>,
        fields: Vec<PayloadColumn>,
        payload: Payload,
        metadata: HashMap<String, String>,
        sources: Option<Arc<[Source]>>,
    ) -> TableRows {
        let of_header =
            header.iter().map(|field| (field.column().to_owned(), types::header_type(*field), None));
        let columns: Vec<PayloadColumn> = of_header.chain(fields).collect();
        let field = |(name, field_type, map): &PayloadColumn| {
            types::with_map(Field::new(name, types::data_type(field_type), true), map.as_deref())
        };
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        TableRows {
            key: Arc::new(TableKey { name, schema }),
            header,
            builders: columns.iter().map(|(_, field_type, _)| Builder::new(field_type)).collect(),
            sources,
            payload,
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
        let TableRows { builders, header, sources, payload, .. } = self;
        let source =
            sources.as_deref().and_then(|sources| sources.get(event.record.origin().source as usize));
        let (columns, fields) = builders.split_at_mut(header.len());
        let mut bytes = HEADER_BYTES;
        for (column, field) in columns.iter_mut().zip(header) {
            bytes += column.header(field.value(event, source), lost);
        }
        match (&event.properties, payload) {
            (Ok(properties), Payload::Fields) => bytes += put_fields(fields, properties, lost),
            (Ok(_), Payload::Json(writer)) => {
                let mut text = Vec::new();
                writer.put_fields(&mut text, event);
                bytes += text.len();
                fields.iter_mut().for_each(|builder| builder.text(str::from_utf8(&text).ok()));
            }
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

/// Returns the columns of a schema's payload, or `None` if there are too many.
fn fields(schema: &EventSchema, header: &[HeaderField], room: usize) -> Option<Vec<PayloadColumn>> {
    let mut room = room.min(MAX_COLUMNS);
    let top = schema.properties.get(..usize::from(schema.top_level))?;
    let reserved: Vec<&str> = header.iter().map(|field| field.column()).collect();
    let names = column_names(top, &reserved);
    let columns = top.iter().zip(names).map(|(property, name)| {
        let map = match &property.kind {
            PropertyType::Value { map, .. } => map.clone(),
            PropertyType::Struct { .. } => None,
        };
        Some((name, FieldType::from_property(schema, property, &mut room)?, map))
    });
    columns.collect()
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
