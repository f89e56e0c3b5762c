//! Owned events (level 4).

#[cfg(feature = "json")]
mod json;

use std::fmt;
use std::sync::Arc;

use etw_event::{FileTime, Guid, OwnedRecord, Record};
use etw_schema::text::Text;
use etw_schema::{
    Array, CompiledSchema, Event, EventSchema, Format, Located, Members, Names, ProviderInfo, Undecoded,
    Value,
};

/// Level 4: an event that owns all its data, to be kept and sent to other threads.
///
/// Costs an allocation for each text.
///
/// With the feature `json` it is `Serialize`, and `to_json` returns its JSON text.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedEvent {
    record: OwnedRecord,
    properties: Result<OwnedProperties, Undecoded>,
    /// The known facts about the provider of an event without a schema.
    provider: Option<Arc<ProviderInfo>>,
    process: Option<Arc<str>>,
    start: FileTime,
}

impl OwnedEvent {
    /// Returns the record.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        self.record.record()
    }

    /// Returns the top-level properties, in order.
    ///
    /// # Errors
    ///
    /// Fails with the reason why the event could not be decoded.
    #[inline]
    pub fn properties(&self) -> Result<&OwnedProperties, &Undecoded> {
        self.properties.as_ref()
    }

    /// Returns the value of a top-level property, or `None` if the event or its payload has no such property.
    pub fn get(&self, name: &str) -> Option<&OwnedValue> {
        self.properties.as_ref().ok()?.get(name)
    }

    /// Returns the schema, or `None` for an event that could not be decoded.
    pub fn schema(&self) -> Option<&Arc<EventSchema>> {
        self.properties.as_ref().ok().map(OwnedProperties::schema)
    }

    /// Returns the image name of the process that logged the event, or `None` if it is unknown or was not requested.
    pub fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }

    /// Returns the names of the header's fields.
    pub fn names(&self) -> Names<'_> {
        Names::new(&self.record(), self.schema().map(Arc::as_ref), self.provider.as_deref())
    }

    /// Calls `look` with the event in the form that filters and exports take. Locates the properties again.
    pub fn with_event<R>(&self, look: impl FnOnce(&Event<'_>) -> R) -> R {
        let record = self.record();
        let mut located = Located::new();
        let properties = match &self.properties {
            Ok(properties) => Ok(properties.compiled.locate(&record, &mut located)),
            Err(reason) => Err(reason),
        };
        let (provider, process) = (self.provider.as_ref(), self.process());
        look(&Event { provider, process, start: self.start, ..Event::new(&record, properties) })
    }
}

impl From<&Event<'_>> for OwnedEvent {
    fn from(event: &Event<'_>) -> OwnedEvent {
        OwnedEvent {
            record: event.record.into(),
            properties: match &event.properties {
                Ok(properties) => Ok(OwnedProperties {
                    compiled: properties.compiled().shared(),
                    values: owned_values(properties.iter()),
                }),
                Err(reason) => Err((*reason).clone()),
            },
            provider: event.provider.cloned(),
            process: event.process.map(Arc::from),
            start: event.start,
        }
    }
}

/// The top-level properties of an event with owned values. The names are in the schema, which events share.
#[derive(Clone)]
pub struct OwnedProperties {
    compiled: Arc<CompiledSchema>,
    values: Vec<OwnedValue>,
}

impl OwnedProperties {
    /// Returns the schema.
    pub fn schema(&self) -> &Arc<EventSchema> {
        &self.compiled.schema
    }

    /// Returns the number of properties.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns an iterator over names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OwnedValue)> {
        self.schema().properties.iter().map(|property| &*property.name).zip(&self.values)
    }

    /// Returns the value of the property `name`.
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
    /// No value.
    Null,
    /// An integer or pointer.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Boolean(bool),
    /// Text.
    Text(String),
    /// A GUID.
    Guid(Guid),
    /// A time in UTC.
    Time(FileTime),
    /// Binary data.
    Binary(Vec<u8>),
    /// The elements of an array.
    Array(Vec<OwnedValue>),
    /// The members of a struct.
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

/// Appends an owned copy of a value. Takes a reference and appends here, because copying a value that has just been
/// written stalls on that store and costs more than everything else.
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
        // Other values (addresses, SIDs) are kept as their displayed text.
        Value::Sid(_) | Value::Ipv4(_) | Value::Ipv6(_) | Value::SocketAddress(_) => {
            OwnedValue::Text(Text::new(*value, format, None).to_string())
        }
        Value::Utf16(_) | Value::Ansi(_) | Value::Char16(_) | Value::Char8(_) => {
            OwnedValue::Text(value.as_text().unwrap_or_default().into_owned())
        }
        _ => value.as_integer().map_or(OwnedValue::Null, OwnedValue::Integer),
    });
}
