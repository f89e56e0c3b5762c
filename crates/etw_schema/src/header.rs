//! The fields of an event's header, and of what else every event has: the one list that JSON, CSV, Parquet, SQL, filters
//! and Python read.

use std::borrow::Cow;

use etw_event::{EventDescriptor, FileTime, Guid, Record, StackTrace};

use crate::{Event, Names};

/// Declares [`HeaderField`]: sentence, name; column; object and key in JSON; names in filters; type; where its value
/// comes from; the tables that have the column.
macro_rules! header_fields {
    ($($(#[doc = $summary:literal])+
    $field:ident: $column:literal, $object:ident $key:literal, [$($name:literal),*], $type:ident, $origin:ident, $tables:ident;)+) => {
        /// A field of an event's header, or of what else every event has.
        ///
        /// `docs/header.md` lists them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum HeaderField {
            $($(#[doc = $summary])+ $field,)+
        }

        impl HeaderField {
            /// All fields, in the order of columns.
            pub const ALL: &[HeaderField] = &[$(HeaderField::$field),+];

            /// Returns the name of the column, and of the attribute in Python; empty without one.
            pub const fn column(self) -> &'static str {
                match self { $(HeaderField::$field => $column,)+ }
            }

            /// Returns what it is, in sentences.
            pub const fn summary(self) -> &'static str {
                match self { $(HeaderField::$field => concat!($($summary),+).trim_ascii(),)+ }
            }

            /// Returns the object in `System` of an event's JSON that has the field.
            #[inline(always)]
            pub const fn object(self) -> HeaderObject {
                match self { $(HeaderField::$field => HeaderObject::$object,)+ }
            }

            /// Returns the key in [`HeaderField::object`]; empty for a field that `System` does not have.
            #[inline(always)]
            pub const fn key(self) -> &'static str {
                match self { $(HeaderField::$field => $key,)+ }
            }

            /// Returns `"Object":{"key":`, which begins an object in JSON with this field.
            #[inline(always)]
            pub const fn json_first(self) -> &'static str {
                match self {
                    $(HeaderField::$field => concat!("\"", stringify!($object), "\":{\"", $key, "\":"),)+
                }
            }

            /// Returns `,"key":`, which continues an object in JSON with this field.
            #[inline(always)]
            pub const fn json_next(self) -> &'static str {
                match self { $(HeaderField::$field => concat!(",\"", $key, "\":"),)+ }
            }

            /// Returns the names in filters, beside its path in JSON; errors use the first.
            pub const fn filter_names(self) -> &'static [&'static str] {
                match self { $(HeaderField::$field => &[$($name),*],)+ }
            }

            /// Returns the type of values.
            #[inline(always)]
            pub const fn value_type(self) -> HeaderType {
                match self { $(HeaderField::$field => HeaderType::$type,)+ }
            }

            /// Returns where the value comes from.
            #[inline(always)]
            pub const fn origin(self) -> HeaderOrigin {
                match self { $(HeaderField::$field => HeaderOrigin::$origin,)+ }
            }

            const fn tables(self) -> Tables {
                match self { $(HeaderField::$field => Tables::$tables,)+ }
            }

            /// Calls a visitor with every field, as code that is made for each field.
            #[inline(always)]
            pub fn visit(visitor: &mut impl HeaderVisitor) {
                $(visitor.field(HeaderField::$field);)+
            }
        }
    };
}

header_fields! {
    /// When the event was logged.
    Time: "time", TimeCreated "SystemTime", ["time"], Time, Record, Kinds;
    /// Name of the provider, or its GUID.
    Provider: "provider", None "", ["provider", "class"], RepeatedText, Schema, Events;
    /// Name of the event without its version, or its task and opcode; `Class/Type` for classic events.
    Event: "event", None "", ["event", "name"], RepeatedText, Schema, Events;
    /// Id of the event; 0 for classic events.
    Id: "id", System "EventID", ["id", "event_id"], U16, Descriptor, Events;
    /// Version of the event.
    Version: "version", System "Version", ["version"], U8, Descriptor, Kinds;
    /// Level, from 1 (critical) to 5 (verbose).
    Level: "level", Level "Value", ["level"], U8, Descriptor, Kinds;
    /// Opcode; the type of a classic event.
    Opcode: "opcode", Opcode "Value", ["opcode"], U8, Descriptor, Kinds;
    /// Task.
    Task: "task", Task "Value", ["task"], U16, Descriptor, Events;
    /// Channel.
    Channel: "channel", None "", ["channel"], U8, Descriptor, Events;
    /// Keywords.
    Keywords: "keywords", Keywords "Mask", ["keyword", "keywords"], Mask, Descriptor, Kinds;
    /// Process id in the header.
    ProcessId: "process_id", Execution "ProcessID", ["pid", "process_id"], U32, Record, Kinds;
    /// Thread id in the header.
    ThreadId: "thread_id", Execution "ThreadID", ["tid", "thread_id"], U32, Record, Kinds;
    /// Image name of that process.
    Process: "process", None "", ["process"], RepeatedText, Process, Kinds;
    /// Processor that logged the event.
    Processor: "processor", Execution "ProcessorID", ["processor", "cpu"], U16, Record, Kinds;
    /// Activity id.
    ActivityId: "activity", Correlation "ActivityID", ["activity"], Guid, Record, Kinds;
    /// Activity id of the event's cause.
    RelatedActivityId: "related_activity", Correlation "RelatedActivityID", ["related_activity"], Guid, Record, Kinds;
    /// Size of the payload in bytes.
    PayloadSize: "size", None "", ["size"], U32, Record, Events;
    /// Name of the level.
    LevelName: "level_name", Level "Name", [], RepeatedText, Schema, Events;
    /// Name of the opcode, or of the type of a classic event.
    OpcodeName: "opcode_name", Opcode "Name", [], RepeatedText, Schema, Events;
    /// Name of the task, or of the class of a classic event.
    TaskName: "task_name", Task "Name", [], RepeatedText, Schema, Events;
    /// Name of the channel, or its number; missing for channel 0.
    ChannelName: "channel_name", System "Channel", [], RepeatedText, Schema, Events;
    /// Names of the keywords, with `,` between them.
    KeywordNames: "keyword_names", Keywords "Name", [], Names, Schema, Events;
    /// User that logged the event, if the session recorded it.
    UserSid: "user_sid", None "", ["user", "sid", "user_sid"], RepeatedText, Record, Events;
    /// Addresses of the stack in the event, the innermost first.
    Stack: "stack", None "", ["stack"], Addresses, Record, Files;
    /// Message of the event with its inserts, if its schema has one.
    Message: "message", None "", [], Text, Payload, Events;
    /// What of the payload is inferred, as in `etw dump --format json`.
    Inferred: "inferred", None "", [], RepeatedText, Payload, Kinds;
    /// Why the payload is not decoded, or not all of it.
    DecodeError: "decode_error", None "", [], Text, Payload, Kinds;
    /// Bytes of the payload that are not decoded, in hexadecimal where they are text; missing if all are.
    Undecoded: "undecoded", None "", [], Bytes, Payload, Kinds;
    /// Name or type of the event, if it has one.
    EventType: "", System "EventType", [], Text, Schema, None;
    /// GUID of the class of a classic event, or of the task.
    EventGuid: "event_guid", System "EventGuid", [], Guid, Schema, Events;
    /// GUID of the provider; for a class, that of the provider it belongs to.
    ProviderGuid: "provider_guid", Provider "Guid", [], Guid, Schema, Events;
    /// Name of the provider.
    ProviderName: "", Provider "Name", [], Text, Schema, None;
    /// CPU time of the thread in the kernel, in clock ticks of the machine.
    KernelTime: "kernel_time", Execution "KernelTime", [], U32, Record, Events;
    /// CPU time of the thread in user mode, in clock ticks of the machine.
    UserTime: "user_time", Execution "UserTime", [], U32, Record, Events;
    /// CPU time of the thread in ticks of the processor, in traces of private sessions.
    ProcessorTime: "processor_time", Execution "ProcessorTime", [], U64, Record, Events;
    /// Reading of the session's clock.
    RawTime: "raw_time", TimeCreated "RawTime", [], I64, Record, Events;
    /// Name of the computer that recorded the trace, if the trace has it.
    Computer: "computer", System "Computer", [], RepeatedText, Source, Events;
    /// Path of the file that has the event, or name of the session.
    SourceFile: "source_file", Source "File", [], RepeatedText, Source, Places;
    /// Byte offset in the file of the event's record or, if it is compressed, of its buffer.
    SourceOffset: "source_offset", Source "Offset", [], U64, Place, Places;
    /// Byte offset of the record in its decompressed buffer; missing if the file is not compressed.
    SourceWithin: "source_within", Source "Within", [], U32, Place, Places;
    /// Byte offset in the file of the buffer that has the record.
    SourceBuffer: "source_buffer", Source "Buffer", [], U64, Place, Places;
    /// Number of the record in its buffer, from 1.
    SourceRecord: "source_record", Source "Record", [], U32, Place, Places;
}

/// Something that is done with every field ([`HeaderField::visit`]).
pub trait HeaderVisitor {
    /// Takes a field.
    fn field(&mut self, field: HeaderField);
}

/// An object in the JSON of an event's header, in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderObject {
    /// Not in `System`.
    None,
    /// `System` itself.
    System,
    /// `Correlation`.
    Correlation,
    /// `Execution`.
    Execution,
    /// `Keywords`.
    Keywords,
    /// `Level`.
    Level,
    /// `Opcode`.
    Opcode,
    /// `Task`.
    Task,
    /// `Provider`.
    Provider,
    /// `TimeCreated`.
    TimeCreated,
    /// `Source`.
    Source,
}

impl HeaderObject {
    /// All objects.
    pub const ALL: [HeaderObject; 10] = [
        HeaderObject::System,
        HeaderObject::Correlation,
        HeaderObject::Execution,
        HeaderObject::Keywords,
        HeaderObject::Level,
        HeaderObject::Opcode,
        HeaderObject::Task,
        HeaderObject::Provider,
        HeaderObject::TimeCreated,
        HeaderObject::Source,
    ];

    /// Returns the fields of the object.
    pub fn fields(self) -> impl Iterator<Item = HeaderField> + Clone {
        let is_of = move |field: &HeaderField| field.object() == self && !field.key().is_empty();
        HeaderField::ALL.iter().copied().filter(is_of)
    }

    /// Returns whether all its fields are the same for all events with one descriptor and schema.
    pub fn is_of_schema(self) -> bool {
        self.fields().all(|field| matches!(field.origin(), HeaderOrigin::Descriptor | HeaderOrigin::Schema))
    }

    /// Returns whether the object's key alone names a field.
    const fn is_field(self) -> bool {
        !matches!(self, HeaderObject::None | HeaderObject::System | HeaderObject::Execution)
    }

    /// Returns the key in `System`; empty for `System` itself, and for none.
    pub const fn key(self) -> &'static str {
        match self {
            HeaderObject::None | HeaderObject::System => "",
            HeaderObject::Correlation => "Correlation",
            HeaderObject::Execution => "Execution",
            HeaderObject::Keywords => "Keywords",
            HeaderObject::Level => "Level",
            HeaderObject::Opcode => "Opcode",
            HeaderObject::Task => "Task",
            HeaderObject::Provider => "Provider",
            HeaderObject::TimeCreated => "TimeCreated",
            HeaderObject::Source => "Source",
        }
    }
}

/// The type of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderType {
    /// A number of 8 bits.
    U8,
    /// A number of 16 bits.
    U16,
    /// A number of 32 bits.
    U32,
    /// A number of 64 bits.
    U64,
    /// A number of 64 bits, in hexadecimal where it is text.
    Mask,
    /// A signed number of 64 bits.
    I64,
    /// A time in UTC.
    Time,
    /// A GUID.
    Guid,
    /// A text that few events share.
    Text,
    /// A text that many events share.
    RepeatedText,
    /// Several names.
    Names,
    /// Bytes.
    Bytes,
    /// Addresses of a stack.
    Addresses,
}

/// Where the value of a field comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderOrigin {
    /// The record, without its schema.
    Record,
    /// The descriptor in the record: the same for all events with one.
    Descriptor,
    /// The schema: the same for all events with one descriptor and schema.
    Schema,
    /// The decoded payload.
    Payload,
    /// The table of processes.
    Process,
    /// The file or session that the event is from.
    Source,
    /// The place of the record in its file, which readers find on request only.
    Place,
}

/// The tables that have a column for a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// None.
    None,
    /// Those of files in Parquet and Arrow.
    Files,
    /// `events` of SQL.
    Events,
    /// Also those of kinds of events.
    Kinds,
    /// `events` of SQL, and files on request.
    Places,
}

/// The value of a field.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum HeaderValue<'a> {
    /// A number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A time.
    Time(FileTime),
    /// A GUID.
    Guid(Guid),
    /// A text.
    Text(Cow<'a, str>),
    /// Names.
    Names(Vec<&'a str>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Addresses of a stack, the innermost first.
    Addresses(StackTrace<'a>),
}

/// The file or session that events are from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Path of the file, `archive.zip!member.etl` for one in an archive, or name of the session.
    pub name: String,
    /// Name of the computer.
    pub computer: Option<String>,
    /// Unit of the records' CPU times, in 100 ns (`TimerResolution` of the log file header).
    pub timer_resolution: u32,
}

/// A name of the header in outputs, such as `System.Level`: one field, or the first of two that the event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderPath {
    /// The field.
    pub field: HeaderField,
    /// The field that stands for it in events without it.
    pub otherwise: Option<HeaderField>,
}

impl HeaderPath {
    /// Returns what a path in an event's JSON names, ignoring ASCII case: `System.Level.Value`. An object stands for its
    /// first field, or for its `Name` if the event has one: `System.Level`.
    pub fn from_name(name: &str) -> Option<HeaderPath> {
        let path = name.get("System.".len()..).filter(|_| HeaderPath::is_name(name))?;
        let (object, key) = path.split_once('.').unwrap_or(("", path));
        let is_of = |object: &str| {
            let object = object.to_owned();
            move |field: &HeaderField| {
                !field.key().is_empty() && field.object().key().eq_ignore_ascii_case(&object)
            }
        };
        let fields = || HeaderField::ALL.iter().copied();
        if let Some(field) =
            fields().filter(is_of(object)).find(|field| field.key().eq_ignore_ascii_case(key))
        {
            return Some(HeaderPath { field, otherwise: None });
        }
        if !object.is_empty() {
            return None;
        }
        let first = fields().filter(|field| field.object().is_field()).find(is_of(key))?;
        // Names of keywords are several.
        let named = fields()
            .filter(is_of(key))
            .find(|field| field.key() == "Name" && field.value_type() != HeaderType::Names);
        Some(match named {
            Some(field) => HeaderPath { field, otherwise: Some(first) },
            None => HeaderPath { field: first, otherwise: None },
        })
    }

    /// Returns all names: `System.Level`, `System.Level.Value`, ….
    pub fn names() -> impl Iterator<Item = String> {
        let mut last = HeaderObject::None;
        let mut fields: Vec<HeaderField> =
            HeaderField::ALL.iter().copied().filter(|field| !field.key().is_empty()).collect();
        fields.sort_by_key(|field| field.object() as u8);
        fields.into_iter().flat_map(move |field| {
            let object = field.object();
            let is_new = std::mem::replace(&mut last, object) != object;
            (is_new && object.is_field())
                .then(|| format!("System.{}", object.key()))
                .into_iter()
                .chain(field.path())
        })
    }

    /// Returns whether a name is in the namespace of the header, known or not.
    pub fn is_name(name: &str) -> bool {
        name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("System."))
    }

    /// Returns the value; `None` if the event does not have it.
    pub fn value<'a>(
        self,
        event: &Event<'a>,
        source: Option<&'a Source>,
    ) -> Option<(HeaderField, HeaderValue<'a>)> {
        let value = |field: HeaderField| Some((field, field.value(event, source)?));
        value(self.field).or_else(|| value(self.otherwise?))
    }
}

impl HeaderField {
    /// Returns the field of a column.
    pub fn from_column(column: &str) -> Option<HeaderField> {
        HeaderField::ALL.iter().copied().find(|field| field.column() == column && !column.is_empty())
    }

    /// Returns the field of a name in filters: its own ones, or its path in JSON. Names that belong to a number or GUID
    /// stand for that: `System.Level.Name` is [`HeaderField::Level`].
    pub fn from_filter_name(name: &str) -> Option<HeaderField> {
        let mut all = HeaderField::ALL.iter().copied();
        if let Some(field) = all.find(|field| field.filter_names().contains(&name)) {
            return Some(field);
        }
        if !HeaderPath::names().any(|known| known == name) {
            return None;
        }
        let field = HeaderPath::from_name(name)?.field.subject();
        (!matches!(field.origin(), HeaderOrigin::Source | HeaderOrigin::Place)).then_some(field)
    }

    /// Returns the fields that are columns of the table of all events, in their order.
    pub fn event_columns() -> impl Iterator<Item = HeaderField> {
        let is_of = |field: &HeaderField| !matches!(field.tables(), Tables::None | Tables::Files);
        HeaderField::ALL.iter().copied().filter(is_of)
    }

    /// Returns the fields that are columns of tables of one kind of events, in their order.
    pub fn kind_columns() -> impl Iterator<Item = HeaderField> {
        HeaderField::ALL.iter().copied().filter(|field| field.tables() == Tables::Kinds)
    }

    /// Returns the fields that are columns of files of one kind of events, in their order; with `places` also those that
    /// tell where the events are from.
    pub fn file_columns(places: bool) -> impl Iterator<Item = HeaderField> {
        HeaderField::ALL.iter().copied().filter(move |field| match field.tables() {
            Tables::Kinds | Tables::Files => true,
            Tables::Places => places,
            Tables::None | Tables::Events => false,
        })
    }

    /// Returns the path in an event's JSON, such as `System.Level.Value`; `None` if `System` does not have it.
    pub fn path(self) -> Option<String> {
        match (self.object(), self.key()) {
            (_, "") => None,
            (HeaderObject::System, key) => Some(format!("System.{key}")),
            (object, key) => Some(format!("System.{}.{key}", object.key())),
        }
    }

    /// Returns the field that filters compare for a name of it: the number of a name, the provider, the event.
    fn subject(self) -> HeaderField {
        match self {
            HeaderField::LevelName => HeaderField::Level,
            HeaderField::OpcodeName => HeaderField::Opcode,
            HeaderField::TaskName => HeaderField::Task,
            HeaderField::ChannelName => HeaderField::Channel,
            HeaderField::KeywordNames => HeaderField::Keywords,
            HeaderField::ProviderGuid | HeaderField::ProviderName => HeaderField::Provider,
            HeaderField::EventGuid | HeaderField::EventType => HeaderField::Event,
            field => field,
        }
    }

    /// Returns the names of a number's values as a field of their own.
    pub const fn named(self) -> Option<HeaderField> {
        match self {
            HeaderField::Level => Some(HeaderField::LevelName),
            HeaderField::Opcode => Some(HeaderField::OpcodeName),
            HeaderField::Task => Some(HeaderField::TaskName),
            HeaderField::Channel => Some(HeaderField::ChannelName),
            HeaderField::Keywords => Some(HeaderField::KeywordNames),
            _ => None,
        }
    }

    /// Returns the number of a record; `None` for a field that is no number, and if the record does not have it.
    #[inline(always)]
    pub fn number(self, record: &Record<'_>) -> Option<u64> {
        let descriptor = || -> EventDescriptor { record.descriptor() };
        Some(match self {
            HeaderField::Id => descriptor().id.into(),
            HeaderField::Version => descriptor().version.into(),
            HeaderField::Level => descriptor().level.0.into(),
            HeaderField::Opcode => descriptor().opcode.0.into(),
            HeaderField::Task => descriptor().task.into(),
            HeaderField::Channel => descriptor().channel.into(),
            HeaderField::Keywords => descriptor().keyword.0,
            HeaderField::ProcessId => record.process_id()?.into(),
            HeaderField::ThreadId => record.thread_id()?.into(),
            HeaderField::Processor => record.processor().into(),
            HeaderField::PayloadSize => record.payload().len() as u64,
            HeaderField::KernelTime => record.cpu_times()?.0.into(),
            HeaderField::UserTime => record.cpu_times()?.1.into(),
            HeaderField::ProcessorTime => record.processor_time()?,
            HeaderField::SourceOffset => record.place()?.offset,
            HeaderField::SourceWithin => record.place()?.within?.into(),
            HeaderField::SourceBuffer => record.place()?.buffer,
            HeaderField::SourceRecord => record.place()?.record.into(),
            _ => return None,
        })
    }

    /// Returns the activity id of a record; `None` for other fields, and if the record does not have it.
    #[inline(always)]
    pub fn activity(self, record: &Record<'_>) -> Option<Guid> {
        match self {
            HeaderField::ActivityId => record.activity_id(),
            HeaderField::RelatedActivityId => record.related_activity_id().filter(|id| !id.is_zero()),
            _ => None,
        }
    }

    /// Returns what the schema names; `None` for other fields, and without a name.
    pub fn name<'a>(self, names: &Names<'a>) -> Option<HeaderValue<'a>> {
        let text = |text: &'a str| HeaderValue::Text(text.into());
        match self {
            HeaderField::Provider => Some(HeaderValue::Text(names.provider_text())),
            HeaderField::ProviderName => names.provider().map(text),
            HeaderField::ProviderGuid => Some(HeaderValue::Guid(names.provider_guid())),
            HeaderField::Event => Some(HeaderValue::Text(names.event())),
            HeaderField::EventType => names.event_type().map(HeaderValue::Text),
            HeaderField::EventGuid => names.event_guid().map(HeaderValue::Guid),
            HeaderField::LevelName => names.level().map(text),
            HeaderField::OpcodeName => names.opcode().map(text),
            HeaderField::TaskName => names.task().map(text),
            HeaderField::ChannelName => names.channel().map(text),
            HeaderField::KeywordNames => Some(names.keywords().collect())
                .filter(|names: &Vec<&str>| !names.is_empty())
                .map(HeaderValue::Names),
            _ => None,
        }
    }

    /// Returns the value; `None` if the event does not have it. `source` is the file or session that the event is from.
    pub fn value<'a>(self, event: &Event<'a>, source: Option<&'a Source>) -> Option<HeaderValue<'a>> {
        let record = event.record;
        match self.origin() {
            HeaderOrigin::Schema => self.name(&event.names()),
            HeaderOrigin::Payload => self.decoded(event),
            HeaderOrigin::Process => event.process.map(|name| HeaderValue::Text(name.into())),
            HeaderOrigin::Source => match self {
                HeaderField::Computer => {
                    source?.computer.as_deref().map(|name| HeaderValue::Text(name.into()))
                }
                _ => source.map(|source| HeaderValue::Text(source.name.as_str().into())),
            },
            HeaderOrigin::Record | HeaderOrigin::Descriptor | HeaderOrigin::Place => match self {
                HeaderField::Time => Some(HeaderValue::Time(record.time())),
                HeaderField::RawTime => Some(HeaderValue::Signed(record.raw_time().0)),
                HeaderField::UserSid => record.sid().map(|sid| HeaderValue::Text(sid.to_string().into())),
                HeaderField::Stack => record.stack_trace().map(HeaderValue::Addresses),
                HeaderField::ActivityId | HeaderField::RelatedActivityId => {
                    self.activity(record).map(HeaderValue::Guid)
                }
                _ => self.number(record).map(HeaderValue::Number),
            },
        }
    }

    /// Returns what decoding the payload says.
    fn decoded<'a>(self, event: &Event<'a>) -> Option<HeaderValue<'a>> {
        let properties = event.properties.as_ref();
        let text = |text: String| HeaderValue::Text(text.into());
        match self {
            HeaderField::Message => {
                let mut message = String::new();
                properties.ok()?.write_message(&mut message).then(|| text(message))
            }
            HeaderField::Inferred => properties.ok()?.inferred().map(|inferred| text(inferred.to_string())),
            HeaderField::DecodeError => match properties {
                Ok(properties) => properties.error().map(|error| text(error.to_string())),
                Err(reason) => Some(text(reason.to_string())),
            },
            HeaderField::Undecoded => {
                let rest = properties.map_or(event.record.payload(), |properties| properties.rest());
                (!rest.is_empty()).then_some(HeaderValue::Bytes(rest))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let mut columns = HashSet::new();
        let mut names = HashSet::new();
        for field in HeaderField::ALL {
            assert!(field.summary().ends_with('.'), "{field:?}");
            if !field.column().is_empty() {
                assert!(columns.insert(field.column()), "{field:?}");
                assert_eq!(HeaderField::from_column(field.column()), Some(*field));
            }
            for name in field.filter_names() {
                assert!(names.insert(*name), "{name}");
                assert_eq!(HeaderField::from_filter_name(name), Some(*field));
            }
            let Some(path) = field.path() else { continue };
            assert_eq!(HeaderPath::from_name(&path), Some(HeaderPath { field: *field, otherwise: None }));
            assert_eq!(HeaderPath::from_name(&path.to_uppercase()), HeaderPath::from_name(&path));
        }
        assert_eq!(HeaderField::from_column(""), None);
    }

    #[test]
    fn objects_stand_for_a_field() {
        use HeaderField::*;
        let path = |name: &str| HeaderPath::from_name(name).map(|path| (path.field, path.otherwise));
        assert_eq!(path("System.Level"), Some((LevelName, Some(Level))));
        assert_eq!(path("system.provider"), Some((ProviderName, Some(ProviderGuid))));
        assert_eq!(path("System.Keywords"), Some((Keywords, None)));
        assert_eq!(path("System.TimeCreated"), Some((Time, None)));
        assert_eq!(path("System.Correlation"), Some((ActivityId, None)));
        assert_eq!(path("System.Source"), Some((SourceFile, None)));
        for name in [
            "System.",
            "System.Nothing",
            "System.Level.Nothing",
            "Level",
            "System.Level.Value.X",
            "System.Execution",
        ] {
            assert_eq!(path(name), None, "{name}");
        }
        assert!(HeaderPath::names().all(|name| path(&name).is_some()));
    }
}
