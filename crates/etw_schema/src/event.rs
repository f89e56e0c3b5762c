//! A decoded event: a record with its located properties, or the reason why it could not be decoded.

use std::fmt;
use std::sync::Arc;

use etw_event::{FileTime, Record};

use crate::{
    EventSchema, FromValue, Names, Properties, PropertyError, PropertyValue, ProviderInfo, Undecoded, Value,
};

/// A record with all properties located. Values are read from the payload on access.
///
/// Created by [`Resolver::decode`](crate::Resolver::decode); used by filters, exports and tools.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The properties, or the reason why the event could not be decoded.
    pub properties: Result<Properties<'a>, &'a Undecoded>,
    /// The known names of the provider, for an event without a schema.
    pub provider: Option<&'a Arc<ProviderInfo>>,
    /// Image name of the process that logged the event; `None` if it is unknown or was not requested.
    pub process: Option<&'a str>,
    /// Start time of the trace, the base of relative times in filters.
    pub start: FileTime,
}

/// The error of reading a property. Names the event and the property.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The event has no schema.
    #[error("property '{property}' of an event without schema: {reason}")]
    Undecoded {
        /// The requested property.
        property: String,
        /// Why the event has no schema.
        reason: Undecoded,
    },
    /// The property is missing, or its value has a different type.
    #[error(transparent)]
    Property(#[from] PropertyError),
}

impl<'a> Event<'a> {
    /// Creates an event from a record and its properties, with nothing else known.
    #[inline]
    pub fn new(record: &'a Record<'a>, properties: Result<Properties<'a>, &'a Undecoded>) -> Event<'a> {
        Event { record, properties, provider: None, process: None, start: FileTime(0) }
    }

    /// Returns the schema, or `None` if the event could not be decoded.
    #[inline]
    pub fn schema(&self) -> Option<&'a Arc<EventSchema>> {
        self.properties.as_ref().ok().map(|properties| &properties.compiled().schema)
    }

    /// Returns the names of the header fields.
    #[inline]
    pub fn names(&self) -> Names<'a> {
        Names::new(self.record, self.schema().map(Arc::as_ref), self.provider.map(Arc::as_ref))
    }

    /// Returns a top-level property by name, or `None` if the event or its payload does not have it.
    #[inline]
    pub fn find(&self, name: &str) -> Option<PropertyValue<'a>> {
        self.properties.as_ref().ok()?.find(name)
    }

    /// Returns the value of a top-level property: `event.get::<u32>("ProcessId")?`. See [`FromValue`] for conversions.
    ///
    /// # Errors
    ///
    /// Fails if the event has no schema or no such property, the payload is too short, or the value does not convert.
    #[inline]
    pub fn get<T: FromValue<'a>>(&self, name: &str) -> Result<T, EventError> {
        match &self.properties {
            Ok(properties) => Ok(properties.get(name)?),
            Err(reason) => {
                Err(EventError::Undecoded { property: name.to_owned(), reason: (*reason).clone() })
            }
        }
    }

    /// Returns a property by name or by path (`Struct.Member`). Names are case-sensitive.
    pub fn find_path(&self, path: &str) -> Option<PropertyValue<'a>> {
        let properties = self.properties.as_ref().ok()?;
        // A name may itself contain a dot.
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
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("record", self.record)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}
