//! The columns that every event has, and rows of events as record batches.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
    TimestampNanosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, SchemaRef, TimeUnit};
use datafusion::arrow::error::ArrowError;
use etw_consumer::ProcessTable;
use etw_event::{FileTime, Guid, Record};
use etw_export::columns::{EventColumns, EventColumnsBuilder};
use etw_export::{JsonWriter, Options};
use etw_schema::{Event, EventSchema};
use serde::{Deserialize, Serialize};

/// Limit of remembered names of kinds of events.
const MAX_NAMES: usize = 1 << 16;

/// A column of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Header {
    Time,
    Provider,
    Event,
    Id,
    Version,
    Level,
    Opcode,
    Task,
    Channel,
    Keywords,
    ProcessId,
    ThreadId,
    Process,
    Processor,
    Activity,
    RelatedActivity,
    Size,
    Payload,
    LevelName,
    OpcodeName,
    TaskName,
    ChannelName,
    KeywordNames,
    UserSid,
    Message,
    Inferred,
    DecodeError,
    Undecoded,
    Computer,
    SourceFile,
    SourceOffset,
    SourceWithin,
    SourceBuffer,
    SourceRecord,
    Trace,
}

use Header::*;

/// The columns of the table `events`.
pub(crate) const OF_EVENTS: &[Header] = &[
    Time,
    Provider,
    Event,
    Id,
    Version,
    Level,
    Opcode,
    Task,
    Channel,
    Keywords,
    ProcessId,
    ThreadId,
    Process,
    Processor,
    Activity,
    RelatedActivity,
    Size,
    Payload,
    LevelName,
    OpcodeName,
    TaskName,
    ChannelName,
    KeywordNames,
    UserSid,
    Message,
    Inferred,
    DecodeError,
    Undecoded,
    Computer,
    SourceFile,
    SourceOffset,
    SourceWithin,
    SourceBuffer,
    SourceRecord,
    Trace,
];

/// The columns of the tables of kinds of events, before the fields. `Trace` comes after these.
pub(crate) const OF_KINDS: &[Header] = &[
    Time,
    ProcessId,
    ThreadId,
    Process,
    Processor,
    Version,
    Level,
    Opcode,
    Keywords,
    Activity,
    RelatedActivity,
];

impl Header {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Time => "time",
            Provider => "provider",
            Event => "event",
            Id => "id",
            Version => "version",
            Level => "level",
            Opcode => "opcode",
            Task => "task",
            Channel => "channel",
            Keywords => "keywords",
            ProcessId => "process_id",
            ThreadId => "thread_id",
            Process => "process",
            Processor => "processor",
            Activity => "activity",
            RelatedActivity => "related_activity",
            Size => "size",
            Payload => "payload",
            LevelName => "level_name",
            OpcodeName => "opcode_name",
            TaskName => "task_name",
            ChannelName => "channel_name",
            KeywordNames => "keyword_names",
            UserSid => "user_sid",
            Message => "message",
            Inferred => "inferred",
            DecodeError => "decode_error",
            Undecoded => "undecoded",
            Computer => "computer",
            SourceFile => "source_file",
            SourceOffset => "source_offset",
            SourceWithin => "source_within",
            SourceBuffer => "source_buffer",
            SourceRecord => "source_record",
            Trace => "trace",
        }
    }

    pub(crate) const fn summary(self) -> &'static str {
        match self {
            Time => "When the event was logged.",
            Provider => "Name of the provider, or its GUID.",
            Event => "Name of the event, or its task and opcode; Class/Type for classic events.",
            Id => "Id of the event; 0 for classic events.",
            Version => "Version of the event.",
            Level => "Level, from 1 (critical) to 5 (verbose).",
            Opcode => "Opcode; the type of a classic event.",
            Task => "Task.",
            Channel => "Channel.",
            Keywords => "Keywords.",
            ProcessId => "Process id in the header.",
            ThreadId => "Thread id in the header.",
            Process => "Image name of that process.",
            Processor => "Processor that logged the event.",
            Activity => "Activity id.",
            RelatedActivity => "Activity id of the event's cause.",
            Size => "Size of the payload in bytes.",
            Payload => "Fields of the event as JSON; missing if no schema describes them.",
            LevelName => "Name of the level.",
            OpcodeName => "Name of the opcode, or of the type of a classic event.",
            TaskName => "Name of the task, or of the class of a classic event.",
            ChannelName => "Name of the channel.",
            KeywordNames => "Names of the keywords, with `,` between them.",
            UserSid => "User that logged the event, if the session recorded it.",
            Message => "Message of the event with its inserts, if its schema has one.",
            Inferred => "What of the payload is inferred, as in `etw dump --format json`.",
            DecodeError => "Why the payload is not decoded, or not all of it.",
            Undecoded => "Bytes of the payload that are not decoded, in hexadecimal; missing if all are.",
            Computer => "Name of the computer that the trace is of, if the trace tells it.",
            SourceFile => "Path of the file that has the event.",
            SourceOffset => {
                "Byte offset in the file of the event's record or, if it is compressed, of its buffer."
            }
            SourceWithin => {
                "Byte offset of the record in its decompressed buffer; missing if the file is not compressed."
            }
            SourceBuffer => "Byte offset in the file of the buffer that has the record.",
            SourceRecord => "Number of the record in its buffer, from 1.",
            Trace => "Trace that the row is of.",
        }
    }

    pub(crate) fn field(self) -> Field {
        let data_type = match self {
            Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Provider | Event | Process | Trace | LevelName | OpcodeName | TaskName | ChannelName
            | KeywordNames | UserSid | Inferred | Computer | SourceFile => dictionary(),
            Id | Task | Processor => DataType::UInt16,
            Version | Level | Opcode | Channel => DataType::UInt8,
            Keywords | SourceOffset | SourceBuffer => DataType::UInt64,
            ProcessId | ThreadId | Size | SourceWithin | SourceRecord => DataType::UInt32,
            Activity | RelatedActivity | Payload | Message | DecodeError | Undecoded => DataType::Utf8,
        };
        let is_nullable = match self {
            Time | ProcessId | ThreadId | Process | Activity | RelatedActivity => true,
            _ => self.is_of_decoding() || matches!(self, UserSid | Computer) || self.is_of_place(),
        };
        let summary = [("summary".to_owned(), self.summary().to_owned())];
        Field::new(self.name(), data_type, is_nullable).with_metadata(summary.into())
    }

    /// Returns the column with a name.
    pub(crate) fn of_name(name: &str) -> Option<Header> {
        OF_EVENTS.iter().copied().find(|header| header.name() == name)
    }

    /// Returns the number that the header of a record has for a column.
    #[inline]
    pub(crate) fn number(self, record: &Record<'_>) -> Option<i128> {
        let descriptor = record.descriptor();
        Some(match self {
            Time => unix_nanos(record.time())?.into(),
            Id => descriptor.id.into(),
            Version => descriptor.version.into(),
            Level => descriptor.level.0.into(),
            Opcode => descriptor.opcode.0.into(),
            Task => descriptor.task.into(),
            Channel => descriptor.channel.into(),
            Keywords => descriptor.keyword.0.into(),
            ProcessId => record.process_id()?.into(),
            ThreadId => record.thread_id()?.into(),
            Processor => record.processor().into(),
            Size => (record.payload().len() as u32).into(),
            SourceOffset => record.place()?.offset.into(),
            SourceWithin => record.place()?.within?.into(),
            SourceBuffer => record.place()?.buffer.into(),
            SourceRecord => record.place()?.record.into(),
            _ => return None,
        })
    }

    /// Whether the column says what the event's schema does of it, beside its names.
    const fn is_of_decoding(self) -> bool {
        matches!(
            self,
            Payload
                | LevelName
                | OpcodeName
                | TaskName
                | ChannelName
                | KeywordNames
                | Message
                | Inferred
                | DecodeError
                | Undecoded
        )
    }

    /// Whether the column says where the file has the record.
    pub(crate) const fn is_of_place(self) -> bool {
        matches!(self, SourceOffset | SourceWithin | SourceBuffer | SourceRecord)
    }

    /// Whether the schema of the event is needed.
    pub(crate) const fn needs_schema(self) -> bool {
        matches!(self, Provider | Event) || self.is_of_decoding()
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
            let provider = names.provider().map_or_else(|| names.provider_guid().to_string(), str::to_owned);
            let name = match names.event_type() {
                Some(name) => name.into_owned(),
                None if names.is_classic() => format!("{}/{}", record.provider_id(), descriptor.opcode.0),
                None => names.event(),
            };
            let is_wanted = is_wanted(&provider, &name);
            let codes =
                NameCodes { provider: providers.code(&provider), event: events.code(&name), is_wanted };
            (codes, event.schema().cloned())
        });
        self.last = Some((key, *codes));
        *codes
    }
}

/// Returns a text of an event that others rarely have.
fn text(header: Header, record: &Record<'_>, event: Option<&Event<'_>>) -> Option<String> {
    let id = |id: Option<Guid>| id.filter(|id| !id.is_zero()).map(|id| id.to_string());
    let properties = || event.map(|event| event.properties.as_ref());
    match header {
        Activity => id(record.activity_id()),
        RelatedActivity => id(record.related_activity_id()),
        Message => {
            let mut text = String::new();
            properties()?.ok()?.write_message(&mut text).then_some(text)
        }
        DecodeError => match properties()? {
            Ok(properties) => properties.error().map(|error| error.to_string()),
            Err(reason) => Some(reason.to_string()),
        },
        Undecoded => {
            let rest = properties()?.map_or(record.payload(), |properties| properties.rest());
            (!rest.is_empty()).then(|| {
                rest.iter().fold(String::with_capacity(2 * rest.len()), |mut text, byte| {
                    // Writing to a string does not fail.
                    let _written = write!(text, "{byte:02x}");
                    text
                })
            })
        }
        _ => None,
    }
}

/// Returns a text of an event that others have, too.
fn repeated<'a>(header: Header, record: &Record<'a>, event: Option<&Event<'a>>) -> Option<Cow<'a, str>> {
    if header == UserSid {
        return record.sid().map(|sid| sid.to_string().into());
    }
    let names = event?.names();
    match header {
        LevelName => names.level().map(Cow::from),
        OpcodeName => names.opcode().map(Cow::from),
        TaskName => names.task().map(Cow::from),
        ChannelName => names.channel().map(Cow::from),
        KeywordNames => {
            let all: Vec<&str> = names.keywords().collect();
            (!all.is_empty()).then(|| all.join(",").into())
        }
        _ => event?.properties.as_ref().ok()?.inferred().map(|inferred| inferred.to_string().into()),
    }
}

/// A column that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wanted {
    Header(Header),
    /// A field, by its number among the fields of the table.
    Field(usize),
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
    U8(Header, UInt8Builder),
    U16(Header, UInt16Builder),
    U32(Header, UInt32Builder),
    U64(Header, UInt64Builder),
    Process(Texts),
    Text(Header, StringBuilder),
    /// Texts that repeat.
    Repeated(Header, Texts),
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
                Wanted::Header(_) => None,
            })
            .collect();
        let column = |wanted: &Wanted| match *wanted {
            Wanted::Field(_) => Column::Field,
            Wanted::Header(header) => match header {
                Time => Column::Time(TimestampNanosecondBuilder::new().with_timezone("UTC")),
                Provider => Column::Provider,
                Event => Column::Event,
                Id | Task | Processor => Column::U16(header, UInt16Builder::new()),
                Version | Level | Opcode | Channel => Column::U8(header, UInt8Builder::new()),
                Keywords | SourceOffset | SourceBuffer => Column::U64(header, UInt64Builder::new()),
                ProcessId | ThreadId | Size | SourceWithin | SourceRecord => {
                    Column::U32(header, UInt32Builder::new())
                }
                Process => Column::Process(Texts::default()),
                Activity | RelatedActivity | Message | DecodeError | Undecoded => {
                    Column::Text(header, StringBuilder::new())
                }
                LevelName | OpcodeName | TaskName | ChannelName | KeywordNames | UserSid | Inferred => {
                    Column::Repeated(header, Texts::default())
                }
                Payload => Column::Payload(
                    Box::new(JsonWriter::new(&Options::default())),
                    Vec::new(),
                    StringBuilder::new(),
                ),
                Trace => Column::Trace(Texts::default()),
                Computer => Column::OfFile(of_trace.computers.to_vec(), Texts::default()),
                SourceFile => Column::OfFile(of_trace.files.to_vec(), Texts::default()),
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
        for column in &mut self.columns {
            match column {
                Column::Time(builder) => builder.append_option(unix_nanos(record.time())),
                Column::Provider => texts.providers.put(codes.map(|codes| codes.provider)),
                Column::Event => texts.events.put(codes.map(|codes| codes.event)),
                Column::U8(header, builder) => builder.append_option(header.number(record).map(|n| n as u8)),
                Column::U16(header, builder) => {
                    builder.append_option(header.number(record).map(|n| n as u16))
                }
                Column::U32(header, builder) => {
                    builder.append_option(header.number(record).map(|n| n as u32))
                }
                Column::U64(header, builder) => {
                    builder.append_option(header.number(record).map(|n| n as u64))
                }
                Column::Process(texts) => {
                    let code = processes.name_of(record).map(|name| texts.code(name));
                    texts.put(code);
                }
                Column::Text(header, builder) => builder.append_option(text(*header, record, event)),
                Column::Repeated(header, texts) => {
                    let code = repeated(*header, record, event).map(|text| texts.code(&text));
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
