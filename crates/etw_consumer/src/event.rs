//! Events of levels 2 to 4: with their schema, with their properties located, and owned.

use std::fmt;
use std::sync::Arc;

use etw_event::{EventDescriptor, FileTime, Guid, Record, Ticks};
use etw_schema::text::Text;
use etw_schema::{
    Array, CompiledSchema, EventSchema, Format, FromValue, Members, Properties, PropertyError, PropertyValue,
    ProviderInfo, Undecoded, Value,
};

/// Level 2: a record with its schema.
#[derive(Clone, Copy)]
pub struct SchemaEvent<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The schema, or why there is none.
    pub schema: Result<&'a CompiledSchema, &'a Undecoded>,
}

/// Level 3: a record with every property located. Values are read from the payload when asked for.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The properties, or why there are none.
    pub properties: Result<Properties<'a>, &'a Undecoded>,
    /// What is known of the provider of an event without schema.
    pub provider: Option<&'a ProviderInfo>,
    /// The image name of the process that logged the event; `None` if it is not known, or process names were not asked
    /// for (see [`TraceBuilder::process_names`](crate::TraceBuilder::process_names)).
    pub process: Option<&'a str>,
    /// When the trace begins.
    pub start: FileTime,
}

/// Why a property of an event could not be had. Names the event and the property.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The event has no schema.
    #[error("property '{property}' of an event without schema: {reason}")]
    Undecoded {
        /// The property that was asked for.
        property: String,
        /// Why there is no schema.
        reason: Undecoded,
    },
    /// The property is not there, or is no such value.
    #[error(transparent)]
    Property(#[from] PropertyError),
}

impl<'a> Event<'a> {
    /// The schema; `None` for an event that could not be decoded.
    #[inline]
    pub fn schema(&self) -> Option<&'a EventSchema> {
        self.properties.as_ref().ok().map(Properties::schema)
    }

    /// A top-level property; `None` if the event or its payload has none of this name.
    #[inline]
    pub fn find(&self, name: &str) -> Option<PropertyValue<'a>> {
        self.properties.as_ref().ok()?.find(name)
    }

    /// The value of a top-level property: `event.get::<u32>("ProcessId")?`. [`FromValue`] tells what converts to what.
    #[inline]
    pub fn get<T: FromValue<'a>>(&self, name: &str) -> Result<T, EventError> {
        match &self.properties {
            Ok(properties) => Ok(properties.get(name)?),
            Err(reason) => {
                Err(EventError::Undecoded { property: name.to_owned(), reason: (*reason).clone() })
            }
        }
    }

    /// A property by name or path, `Struct.Member`, in its exact spelling.
    pub fn find_path(&self, path: &str) -> Option<PropertyValue<'a>> {
        let properties = self.properties.as_ref().ok()?;
        // A name may have a dot of its own.
        if let Some(found) = properties.find(path) {
            return Some(found);
        }
        let mut parts = path.split('.');
        let mut found = properties.find(parts.next()?)?;
        for part in parts {
            let Value::Struct(members) = found.value() else { return None };
            found = members.find(part)?;
        }
        Some(found)
    }

    /// The event as a value of its own.
    pub fn to_owned_event(&self) -> OwnedEvent {
        let record = self.record;
        OwnedEvent {
            source: record.origin().source,
            time: record.time(),
            raw_time: record.raw_time(),
            provider_id: record.provider_id(),
            descriptor: record.descriptor(),
            process_id: record.process_id(),
            thread_id: record.thread_id(),
            processor: record.processor(),
            activity_id: record.activity_id(),
            related_activity_id: record.related_activity_id(),
            stack: record.stack_trace().map(|stack| stack.addresses().collect()).unwrap_or_default(),
            process: self.process.map(Arc::from),
            provider: self
                .schema()
                .map(|schema| &*schema.provider)
                .or(self.provider)
                .map(|info| info.name.clone()),
            name: self.schema().and_then(|schema| schema.name.clone()),
            undecoded: self.properties.as_ref().err().map(|reason| (*reason).clone()),
            properties: match &self.properties {
                Ok(properties) => OwnedProperties {
                    schema: Some(properties.compiled().schema.clone()),
                    values: owned_values(properties.iter()),
                },
                Err(_) => OwnedProperties::default(),
            },
            payload: record.payload().to_vec(),
        }
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("record", self.record)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

/// Level 4: an event that owns everything, to be kept and sent to other threads. Costs an allocation for each text.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedEvent {
    /// Number of the file among those read together.
    pub source: u32,
    /// Time in UTC.
    pub time: FileTime,
    /// Time on the session's own clock.
    pub raw_time: Ticks,
    /// Provider, class or message GUID.
    pub provider_id: Guid,
    /// The descriptor.
    pub descriptor: EventDescriptor,
    /// Process that logged the event.
    pub process_id: Option<u32>,
    /// Thread that logged the event.
    pub thread_id: Option<u32>,
    /// Processor on which it was logged.
    pub processor: u16,
    /// The activity.
    pub activity_id: Option<Guid>,
    /// The activity that caused this one.
    pub related_activity_id: Option<Guid>,
    /// The stack, innermost address first.
    pub stack: Vec<u64>,
    /// Image name of the process.
    pub process: Option<Arc<str>>,
    /// Name of the provider.
    pub provider: Option<Arc<str>>,
    /// Name of the event.
    pub name: Option<Arc<str>>,
    /// Why the event could not be decoded.
    pub undecoded: Option<Undecoded>,
    /// The top-level properties, in their order.
    pub properties: OwnedProperties,
    /// The payload.
    pub payload: Vec<u8>,
}

impl OwnedEvent {
    /// A top-level property.
    pub fn get(&self, name: &str) -> Option<&OwnedValue> {
        self.properties.get(name)
    }
}

/// The top-level properties of an event, which own their values. Names stand in the schema, which all its events share.
#[derive(Clone, Default)]
pub struct OwnedProperties {
    /// `None` of an event that could not be decoded.
    schema: Option<Arc<EventSchema>>,
    values: Vec<OwnedValue>,
}

impl OwnedProperties {
    /// The schema; `None` of an event that could not be decoded.
    pub fn schema(&self) -> Option<&Arc<EventSchema>> {
        self.schema.as_ref()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OwnedValue)> {
        let schema = self.schema.iter().flat_map(|schema| &schema.properties);
        schema.map(|property| &*property.name).zip(&self.values)
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&OwnedValue> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl PartialEq for OwnedProperties {
    fn eq(&self, other: &OwnedProperties) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for OwnedProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A value that owns its text and bytes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum OwnedValue {
    /// Nothing.
    Null,
    /// An integer; pointers too.
    Integer(i128),
    /// Floating point.
    Float(f64),
    /// A truth value.
    Boolean(bool),
    /// Text.
    Text(String),
    /// GUID.
    Guid(Guid),
    /// A time in UTC.
    Time(FileTime),
    /// Bytes.
    Binary(Vec<u8>),
    /// Elements.
    Array(Vec<OwnedValue>),
    /// Members.
    Struct(Vec<(Arc<str>, OwnedValue)>),
}

fn owned_values(members: Members<'_>) -> Vec<OwnedValue> {
    let mut owned = Vec::with_capacity(members.size_hint().0);
    for member in members {
        push_owned(&mut owned, &member.value(), member.format());
    }
    owned
}

fn owned_elements(array: &Array<'_>) -> Vec<OwnedValue> {
    let mut owned = Vec::with_capacity(array.len());
    for element in array.iter() {
        push_owned(&mut owned, &element, array.format());
    }
    owned
}

fn owned_members(members: Members<'_>) -> Vec<(Arc<str>, OwnedValue)> {
    let names = members.clone().map(|member| member.property().name.clone());
    names.zip(owned_values(members)).collect()
}

/// Appends a value that owns its text and bytes. It is taken by reference and appended here: each copy of a value that was
/// written a moment ago waits for that, which costs more than all else.
#[inline(always)]
fn push_owned(owned: &mut Vec<OwnedValue>, value: &Value<'_>, format: Format) {
    owned.push(match *value {
        Value::F32(value) => OwnedValue::Float(value.into()),
        Value::F64(value) => OwnedValue::Float(value),
        Value::Bool(value) => OwnedValue::Boolean(value),
        Value::Guid(value) => OwnedValue::Guid(value),
        Value::FileTime(time) | Value::RawTime(_, time) => OwnedValue::Time(time),
        Value::SystemTime(time) => time.to_filetime().map_or(OwnedValue::Null, OwnedValue::Time),
        Value::Binary(bytes) => OwnedValue::Binary(bytes.to_vec()),
        Value::Array(array) => OwnedValue::Array(owned_elements(&array)),
        Value::Struct(members) => OwnedValue::Struct(owned_members(members.iter())),
        // What is neither number nor text itself is kept as people read it: addresses, SIDs.
        Value::Sid(_) | Value::Ipv4(_) | Value::Ipv6(_) | Value::SocketAddress(_) => {
            OwnedValue::Text(Text::new(*value, format, None).to_string())
        }
        Value::Utf16(_) | Value::Ansi(_) | Value::Char16(_) | Value::Char8(_) => {
            OwnedValue::Text(value.as_text().unwrap_or_default().into_owned())
        }
        _ => value.as_integer().map_or(OwnedValue::Null, OwnedValue::Integer),
    });
}
