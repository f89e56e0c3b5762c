//! The columns that every event has, and rows of events as record batches.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Builder, RecordBatch, RecordBatchOptions, StringArray,
    StringBuilder, TimestampNanosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, SchemaRef, TimeUnit};
use datafusion::arrow::error::ArrowError;
use etw_arrow::{EventColumns, EventColumnsBuilder};
use etw_consumer::ProcessTable;
use etw_event::{FileTime, Guid, Record};
use etw_export::{JsonWriter, Options};
use etw_schema::{Event, EventSchema, HeaderField, HeaderOrigin, HeaderType, HeaderValue, Undecoded};
use serde::{Deserialize, Serialize};

/// Limit of remembered names of kinds of events.
const MAX_NAMES: usize = 1 << 16;

/// A column that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wanted {
    #[serde(with = "by_name")]
    Header(HeaderField),
    /// All fields as JSON.
    Payload,
    /// The trace.
    Trace,
    /// A field, by its number among the fields of the table.
    Field(usize),
}

/// Fields of the header by the names of their columns.
pub(crate) mod by_name {
    use etw_schema::HeaderField;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(field: &HeaderField, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(field.column())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderField, D::Error> {
        let name = String::deserialize(deserializer)?;
        HeaderField::from_column(&name)
            .ok_or_else(|| de::Error::unknown_variant(&name, &["a column of the header"]))
    }
}

/// Returns the columns of the table `events`.
pub(crate) fn event_columns() -> Vec<Wanted> {
    let mut columns: Vec<Wanted> = HeaderField::event_columns().map(Wanted::Header).collect();
    let size = columns.iter().position(|column| *column == Wanted::Header(HeaderField::PayloadSize));
    columns.insert(size.map_or(columns.len(), |place| place + 1), Wanted::Payload);
    columns.push(Wanted::Trace);
    columns
}

/// Returns the columns of the tables of kinds of events, before the fields. [`Wanted::Trace`] comes after these.
pub(crate) fn kind_columns() -> impl Iterator<Item = Wanted> {
    HeaderField::kind_columns().map(Wanted::Header)
}

/// Name of the column with the trace.
pub(crate) const TRACE: &str = "trace";

impl Wanted {
    /// Returns the column in a table's schema; `None` for a field, whose table knows it.
    pub(crate) fn field(self) -> Option<Field> {
        let (name, data_type, is_nullable, summary) = match self {
            Wanted::Header(field) => (field.column(), data_type(field), is_nullable(field), field.summary()),
            Wanted::Payload => {
                let summary = "Fields of the event as JSON; missing if no schema describes them.";
                ("payload", DataType::Utf8, true, summary)
            }
            Wanted::Trace => (TRACE, dictionary(), false, "Trace that the row is of."),
            Wanted::Field(_) => return None,
        };
        let metadata = [("summary".to_owned(), summary.to_owned())];
        Some(Field::new(name, data_type, is_nullable).with_metadata(metadata.into()))
    }

    /// Whether the schema of the event is needed.
    pub(crate) fn needs_schema(self) -> bool {
        match self {
            Wanted::Header(field) => matches!(field.origin(), HeaderOrigin::Schema | HeaderOrigin::Payload),
            Wanted::Payload | Wanted::Field(_) => true,
            Wanted::Trace => false,
        }
    }
}

fn data_type(field: HeaderField) -> DataType {
    match field.value_type() {
        HeaderType::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        HeaderType::RepeatedText | HeaderType::Names => dictionary(),
        HeaderType::Guid if field.origin() == HeaderOrigin::Schema => dictionary(),
        HeaderType::U8 => DataType::UInt8,
        HeaderType::U16 => DataType::UInt16,
        HeaderType::U32 => DataType::UInt32,
        HeaderType::U64 | HeaderType::Mask => DataType::UInt64,
        HeaderType::I64 => DataType::Int64,
        _ => DataType::Utf8,
    }
}

/// Whether events may lack a field.
fn is_nullable(field: HeaderField) -> bool {
    match field {
        HeaderField::Provider | HeaderField::Event | HeaderField::ProviderGuid => false,
        HeaderField::Processor | HeaderField::PayloadSize | HeaderField::RawTime => false,
        field => field.origin() != HeaderOrigin::Descriptor,
    }
}

/// Returns the number that the header of a record has for a column.
#[inline]
pub(crate) fn number(field: HeaderField, record: &Record<'_>) -> Option<i128> {
    match field {
        HeaderField::Time => Some(unix_nanos(record.time())?.into()),
        HeaderField::RawTime => Some(record.raw_time().0.into()),
        field => field.number(record).map(i128::from),
    }
}

/// Returns the type of texts that repeat.
pub(crate) fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Returns a time in nanoseconds since 1970, if it is between 1677 and 2262.
pub(crate) fn unix_nanos(time: FileTime) -> Option<i64> {
    i64::try_from(time.unix_nanos()).ok()
}

/// Texts of a column, each once.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    codes: HashMap<String, i32>,
    texts: Vec<String>,
    keys: Vec<Option<i32>>,
    /// The texts as an array, if there are no newer ones.
    array: Option<Arc<StringArray>>,
}

impl Texts {
    pub(crate) fn code(&mut self, text: &str) -> i32 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        let code = i32::try_from(self.texts.len()).unwrap_or(i32::MAX);
        self.codes.insert(text.to_owned(), code);
        self.texts.push(text.to_owned());
        self.array = None;
        code
    }

    pub(crate) fn put(&mut self, code: Option<i32>) {
        self.keys.push(code);
    }

    pub(crate) fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let texts = &self.texts;
        let array = self.array.get_or_insert_with(|| Arc::new(StringArray::from_iter_values(texts)));
        let keys: Int32Array = self.keys.drain(..).collect();
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, array.clone())?))
    }
}

/// The names of an event, as codes of their texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameCodes {
    pub(crate) provider: i32,
    pub(crate) event: i32,
    /// Whether the conditions accept the names.
    pub(crate) is_wanted: bool,
}

/// What the names of an event depend on.
type NameKey = (usize, Guid, u16, u8, u16);

/// The names of kinds of events, each looked up once.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) providers: Texts,
    pub(crate) events: Texts,
    /// With the schemas, whose addresses are in the keys.
    known: HashMap<NameKey, (NameCodes, Option<Arc<EventSchema>>)>,
    last: Option<(NameKey, NameCodes)>,
}

impl Names {
    /// Returns the names of an event; `is_wanted` decides about those of a kind that is new.
    #[inline]
    pub(crate) fn of(&mut self, event: &Event<'_>, is_wanted: impl Fn(&str, &str) -> bool) -> NameCodes {
        let (record, descriptor) = (event.record, event.record.descriptor());
        let address = event.schema().map_or(0, |schema| Arc::as_ptr(schema) as usize);
        let key = (address, record.provider_id(), descriptor.id, descriptor.opcode.0, descriptor.task);
        if let Some((last, codes)) = self.last
            && last == key
        {
            return codes;
        }
        if self.known.len() >= MAX_NAMES {
            self.known.clear();
        }
        let (providers, events) = (&mut self.providers, &mut self.events);
        let (codes, _) = self.known.entry(key).or_insert_with(|| {
            let names = event.names();
            let (provider, name) = (names.provider_text(), names.event());
            let is_wanted = is_wanted(&provider, &name);
            let codes =
                NameCodes { provider: providers.code(&provider), event: events.code(&name), is_wanted };
            (codes, event.schema().cloned())
        });
        self.last = Some((key, *codes));
        *codes
    }
}

/// Returns a value of an event as text.
fn text<'a>(field: HeaderField, event: &Event<'a>) -> Option<Cow<'a, str>> {
    match field.value(event, None)? {
        HeaderValue::Text(text) => Some(text),
        HeaderValue::Guid(guid) => Some(guid.to_string().into()),
        HeaderValue::Names(names) => Some(names.join(",").into()),
        HeaderValue::Bytes(bytes) => {
            let mut text = String::with_capacity(2 * bytes.len());
            // Writing to a string does not fail.
            bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")).ok()?;
            Some(text.into())
        }
        _ => None,
    }
}

/// Bytes from which on rows are a batch, however few they are.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// Rows of events.
pub(crate) struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
    fields: EventColumnsBuilder,
    trace: String,
    rows: usize,
    /// Bytes of what has no fixed size, about.
    bytes: usize,
}

/// What is the same for all events of a trace or of a file of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfTrace<'a> {
    pub(crate) name: &'a str,
    /// Names of the computers of its files, if they are wanted.
    pub(crate) computers: &'a [Option<String>],
    /// Names of its files, if they are wanted.
    pub(crate) files: &'a [Option<String>],
}

enum Column {
    Time(TimestampNanosecondBuilder),
    Provider,
    Event,
    U8(HeaderField, UInt8Builder),
    U16(HeaderField, UInt16Builder),
    U32(HeaderField, UInt32Builder),
    U64(HeaderField, UInt64Builder),
    I64(HeaderField, Int64Builder),
    Process(Texts),
    Text(HeaderField, StringBuilder),
    /// Texts that repeat.
    Repeated(HeaderField, Texts),
    Payload(Box<JsonWriter>, Vec<u8>, StringBuilder),
    Trace(Texts),
    /// A text of each file of the trace.
    OfFile(Vec<Option<String>>, Texts),
    Field,
}

impl Rows {
    /// Creates rows with these columns, which are those of the schema.
    pub(crate) fn new(
        schema: SchemaRef,
        wanted: &[Wanted],
        fields: &EventColumns,
        of_trace: OfTrace<'_>,
    ) -> Rows {
        let numbers: Vec<usize> = wanted
            .iter()
            .filter_map(|wanted| match wanted {
                Wanted::Field(number) => Some(*number),
                _ => None,
            })
            .collect();
        let column = |wanted: &Wanted| match *wanted {
            Wanted::Field(_) => Column::Field,
            Wanted::Payload => Column::Payload(
                Box::new(JsonWriter::new(&Options::default())),
                Vec::new(),
                StringBuilder::new(),
            ),
            Wanted::Trace => Column::Trace(Texts::default()),
            Wanted::Header(field) => match field {
                HeaderField::Provider => Column::Provider,
                HeaderField::Event => Column::Event,
                HeaderField::Process => Column::Process(Texts::default()),
                HeaderField::Computer => Column::OfFile(of_trace.computers.to_vec(), Texts::default()),
                HeaderField::SourceFile => Column::OfFile(of_trace.files.to_vec(), Texts::default()),
                field => match data_type(field) {
                    DataType::Timestamp(..) => {
                        Column::Time(TimestampNanosecondBuilder::new().with_timezone("UTC"))
                    }
                    DataType::UInt8 => Column::U8(field, UInt8Builder::new()),
                    DataType::UInt16 => Column::U16(field, UInt16Builder::new()),
                    DataType::UInt32 => Column::U32(field, UInt32Builder::new()),
                    DataType::UInt64 => Column::U64(field, UInt64Builder::new()),
                    DataType::Int64 => Column::I64(field, Int64Builder::new()),
                    DataType::Utf8 => Column::Text(field, StringBuilder::new()),
                    _ => Column::Repeated(field, Texts::default()),
                },
            },
        };
        Rows {
            schema,
            columns: wanted.iter().map(column).collect(),
            fields: fields.builder(&numbers),
            trace: of_trace.name.to_owned(),
            rows: 0,
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Whether the rows are a batch, which has a number of rows, or so many bytes that fewer are enough.
    pub(crate) fn are_enough(&self, batch_rows: usize) -> bool {
        self.rows >= batch_rows || self.bytes >= BATCH_BYTES
    }

    /// Adds an event.
    #[inline]
    pub(crate) fn put(
        &mut self,
        record: &Record<'_>,
        event: Option<&Event<'_>>,
        names: (&mut Names, Option<NameCodes>),
        processes: &ProcessTable,
    ) {
        let (texts, codes) = names;
        // Columns of the record alone need no schema.
        let bare = Event::new(record, Err(&Undecoded::NamelessMessage));
        for column in &mut self.columns {
            match column {
                Column::Time(builder) => builder.append_option(unix_nanos(record.time())),
                Column::Provider => texts.providers.put(codes.map(|codes| codes.provider)),
                Column::Event => texts.events.put(codes.map(|codes| codes.event)),
                Column::U8(field, builder) => builder.append_option(number(*field, record).map(|n| n as u8)),
                Column::U16(field, builder) => {
                    builder.append_option(number(*field, record).map(|n| n as u16))
                }
                Column::U32(field, builder) => {
                    builder.append_option(number(*field, record).map(|n| n as u32))
                }
                Column::U64(field, builder) => {
                    builder.append_option(number(*field, record).map(|n| n as u64))
                }
                Column::I64(field, builder) => {
                    builder.append_option(number(*field, record).map(|n| n as i64))
                }
                Column::Process(texts) => {
                    let code = processes.name_of(record).map(|name| texts.code(name));
                    texts.put(code);
                }
                Column::Text(field, builder) => builder.append_option(text(*field, event.unwrap_or(&bare))),
                Column::Repeated(field, texts) => {
                    let code = text(*field, event.unwrap_or(&bare)).map(|text| texts.code(&text));
                    texts.put(code);
                }
                Column::Payload(writer, bytes, builder) => {
                    match event.filter(|event| event.properties.is_ok()) {
                        Some(event) => {
                            bytes.clear();
                            writer.put_fields(bytes, event);
                            self.bytes += bytes.len();
                            builder.append_value(String::from_utf8_lossy(bytes));
                        }
                        None => builder.append_null(),
                    }
                }
                Column::Trace(texts) => {
                    let code = texts.code(&self.trace);
                    texts.put(Some(code));
                }
                Column::OfFile(names, texts) => {
                    let name = names.get(record.origin().source as usize).and_then(Option::as_deref);
                    let code = name.map(|name| texts.code(name));
                    texts.put(code);
                }
                Column::Field => {}
            }
        }
        if let Some(event) = event {
            self.fields.put(event);
            self.bytes += record.as_bytes().len();
        }
        self.rows += 1;
    }

    /// Takes the rows.
    pub(crate) fn take(&mut self, names: &mut Names) -> Result<RecordBatch, ArrowError> {
        let mut fields = self.fields.take()?.into_iter();
        let arrays = self.columns.iter_mut().map(|column| -> Result<ArrayRef, ArrowError> {
            Ok(match column {
                Column::Time(builder) => Arc::new(builder.finish()),
                Column::Provider => names.providers.take()?,
                Column::Event => names.events.take()?,
                Column::U8(_, builder) => Arc::new(builder.finish()),
                Column::U16(_, builder) => Arc::new(builder.finish()),
                Column::U32(_, builder) => Arc::new(builder.finish()),
                Column::U64(_, builder) => Arc::new(builder.finish()),
                Column::I64(_, builder) => Arc::new(builder.finish()),
                Column::Process(texts)
                | Column::Trace(texts)
                | Column::OfFile(_, texts)
                | Column::Repeated(_, texts) => texts.take()?,
                Column::Text(_, builder) | Column::Payload(_, _, builder) => Arc::new(builder.finish()),
                Column::Field => fields
                    .next()
                    .ok_or_else(|| ArrowError::InvalidArgumentError("a field has no values".to_owned()))?,
            })
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        self.bytes = 0;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
    }
}
