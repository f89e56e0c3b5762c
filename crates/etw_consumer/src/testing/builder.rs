//! Builder of synthetic events.

use std::sync::Arc;

use etw_etl::encode::{EncodeError, RecordBuilder};
use etw_event::{
    Clock, EventDescriptor, ExtendedType, FileTime, Guid, Origin, PointerSize, Record, RecordError, Ticks,
};
use etw_schema::{CompiledSchema, EventSchema, InType, Property, PropertyType, builtin};

use super::TestValue;
use super::values::empty;

/// The reason why a synthetic event could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// No built-in provider has such an event.
    #[error("no built-in schema of provider '{provider}', event id {id} version {version}")]
    NoSchema {
        /// The provider's name or GUID.
        provider: String,
        /// The event's id.
        id: u16,
        /// The event's version.
        version: u8,
    },
    /// The event has no such property.
    #[error("the event has no property '{property}'; it has {}", known.join(", "))]
    NoProperty {
        /// The property.
        property: String,
        /// The event's properties.
        known: Vec<String>,
    },
    /// The property cannot hold the value.
    #[error("property '{property}' of type {in_type} cannot hold {value:?}")]
    Value {
        /// The property.
        property: String,
        /// The in-type of the property.
        in_type: String,
        /// The value.
        value: TestValue,
    },
    /// A property has no value.
    #[error("property '{property}' has no value; pack_incomplete makes it zero or empty")]
    Missing {
        /// The property.
        property: String,
    },
    /// The record cannot be built.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Builds a synthetic event of a schema: properties by name, header fields, extended data.
#[derive(Debug, Clone)]
pub struct EventBuilder {
    schema: Arc<EventSchema>,
    record: RecordBuilder,
    values: Vec<(String, TestValue)>,
    pointer: PointerSize,
}

impl EventBuilder {
    /// Returns a builder for an event of a schema, logged by a 64-bit process at time 0 of a system-time clock.
    pub fn new(schema: Arc<EventSchema>) -> EventBuilder {
        EventBuilder::with_pointer_size(schema, PointerSize::Eight)
    }

    /// As [`EventBuilder::new`], for a process of this pointer size.
    pub fn with_pointer_size(schema: Arc<EventSchema>, pointer: PointerSize) -> EventBuilder {
        let guid = schema.provider.guid;
        let record = match schema.provider.class_of {
            Some(_) => RecordBuilder::full(pointer, guid, &schema.descriptor),
            None => RecordBuilder::event(pointer, guid, &schema.descriptor),
        };
        EventBuilder { schema, record, values: Vec::new(), pointer }
    }

    /// Returns a builder for an event of a built-in provider, by the provider's name or GUID.
    ///
    /// # Errors
    ///
    /// Fails if no built-in provider has such an event.
    pub fn built_in(provider: &str, id: u16, version: u8) -> Result<EventBuilder, PackError> {
        let guid = builtin::find(provider).or_else(|| provider.parse().ok());
        let found = guid.and_then(|guid| builtin::BuiltIn.provider(&guid));
        let is_wanted = |event: &&Arc<EventSchema>| {
            let EventDescriptor { id: its, version: of, .. } = event.descriptor;
            (its, of) == (id, version)
        };
        let schema = found.and_then(|found| found.events.iter().find(is_wanted).cloned());
        let missing = || PackError::NoSchema { provider: provider.to_owned(), id, version };
        Ok(EventBuilder::new(schema.ok_or_else(missing)?))
    }

    /// Sets a top-level property. The order of calls does not matter; the last value of a name is used.
    pub fn property(mut self, name: &str, value: impl Into<TestValue>) -> EventBuilder {
        self.values.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the time.
    pub fn time(mut self, time: FileTime) -> EventBuilder {
        self.record = self.record.time(Ticks(time.0));
        self
    }

    /// Sets the process and thread.
    pub fn process(mut self, process_id: u32, thread_id: u32) -> EventBuilder {
        self.record = self.record.process(process_id, thread_id);
        self
    }

    /// Sets the activity id.
    pub fn activity_id(mut self, activity_id: Guid) -> EventBuilder {
        self.record = self.record.activity_id(activity_id);
        self
    }

    /// Adds the id of the related activity, which caused this one.
    pub fn related_activity_id(mut self, activity_id: Guid) -> EventBuilder {
        self.record = self.record.related_activity_id(activity_id);
        self
    }

    /// Adds a stack.
    pub fn stack(mut self, addresses: &[u64]) -> EventBuilder {
        self.record = self.record.stack(0, addresses);
        self
    }

    /// Adds the user's SID, as bytes.
    pub fn sid(self, sid: &[u8]) -> EventBuilder {
        self.extended(ExtendedType::SID, sid)
    }

    /// Adds the container id.
    pub fn container_id(self, container: Guid) -> EventBuilder {
        self.extended(ExtendedType::CONTAINER_ID, &container.to_bytes())
    }

    /// Adds the process start key.
    pub fn process_start_key(self, key: u64) -> EventBuilder {
        self.extended(ExtendedType::PROCESS_START_KEY, &key.to_le_bytes())
    }

    /// Adds an extended data item.
    pub fn extended(mut self, ext_type: ExtendedType, data: &[u8]) -> EventBuilder {
        self.record = self.record.item(ext_type, data);
        self
    }

    /// Builds the event; every property must have a value.
    ///
    /// # Errors
    ///
    /// Fails if a property has no value, has one that it cannot hold, or does not exist.
    pub fn pack(self) -> Result<SyntheticRecord, PackError> {
        let payload =
            self.payload(|property| Err(PackError::Missing { property: property.name.to_string() }))?;
        self.finish(&payload)
    }

    /// Builds the event; properties without a value are zero or empty.
    ///
    /// # Errors
    ///
    /// Fails if a property has a value that it cannot hold, or does not exist.
    pub fn pack_incomplete(self) -> Result<SyntheticRecord, PackError> {
        let payload = self.payload(|property| Ok(empty(property, self.pointer)))?;
        self.finish(&payload)
    }

    /// Builds the event with these bytes as its payload, without checking them against the schema.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be built.
    pub fn pack_raw(self, payload: &[u8]) -> Result<SyntheticRecord, PackError> {
        self.finish(payload)
    }

    fn finish(self, payload: &[u8]) -> Result<SyntheticRecord, PackError> {
        let bytes = self.record.payload(payload).build()?;
        Ok(SyntheticRecord { bytes, origin: origin(), schema: Some(CompiledSchema::new(self.schema)) })
    }

    /// Returns the payload; `missing` returns the bytes of properties without a value.
    fn payload(
        &self,
        missing: impl Fn(&Property) -> Result<Vec<u8>, PackError>,
    ) -> Result<Vec<u8>, PackError> {
        let top_level = self.schema.properties.iter().take(self.schema.top_level.into());
        let known = || top_level.clone().map(|property| property.name.to_string());
        if let Some((property, _)) = self.values.iter().find(|(name, _)| !known().any(|known| known == *name))
        {
            return Err(PackError::NoProperty { property: property.clone(), known: known().collect() });
        }
        let mut payload = Vec::new();
        for property in top_level.clone() {
            let value = self.values.iter().rev().find(|(name, _)| *name == *property.name);
            payload.extend(match value {
                None => missing(property)?,
                Some((_, value)) => value.encode(property, self.pointer).ok_or_else(|| PackError::Value {
                    property: property.name.to_string(),
                    in_type: in_type_name(&property.kind),
                    value: value.clone(),
                })?,
            });
        }
        Ok(payload)
    }
}

fn in_type_name(kind: &PropertyType) -> String {
    let in_type = match kind {
        PropertyType::Value { in_type, .. } => *in_type,
        PropertyType::Struct { .. } => InType::STRUCT,
    };
    in_type.name().map_or_else(|| in_type.0.to_string(), str::to_owned)
}

fn origin() -> Origin {
    Origin { clock: Clock::system_time(), ..Origin::default() }
}

/// A record that was not written by a session, with its schema if it was made from one.
#[derive(Debug, Clone)]
pub struct SyntheticRecord {
    bytes: Vec<u8>,
    origin: Origin,
    pub(super) schema: Option<Arc<CompiledSchema>>,
}

impl SyntheticRecord {
    /// Returns a record from its bytes, such as [`RecordBuilder`] makes; its schema is found as in a trace.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a record.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<SyntheticRecord, RecordError> {
        Record::parse(&bytes, &origin(), Ticks(0))?;
        Ok(SyntheticRecord { bytes, origin: origin(), schema: None })
    }

    /// Returns the bytes of the record.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the record, whose bytes were valid when they were packed.
    pub(super) fn record(&self) -> Option<Record<'_>> {
        Record::parse(&self.bytes, &self.origin, Ticks(0)).ok()
    }
}
