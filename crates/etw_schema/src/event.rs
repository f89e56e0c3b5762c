//! A decoded event: a record with its located properties, or the reason why it has none.

use std::fmt;
use std::sync::Arc;

use etw_event::{FileTime, Record};

use crate::{
    EventSchema, FromValue, Names, Properties, PropertyError, PropertyValue, ProviderInfo, Undecoded, Value,
};

/// A record with every property located. Values are read from the payload when asked for.
///
/// [`Resolver::decode`](crate::Resolver::decode) makes events; filters, exports and tools take them.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The properties, or why there are none.
    pub properties: Result<Properties<'a>, &'a Undecoded>,
    /// What is known of the provider of an event without schema.
    pub provider: Option<&'a Arc<ProviderInfo>>,
    /// Image name of the process that logged the event; `None` if it is unknown or was not asked for.
    pub process: Option<&'a str>,
    /// Start of the trace, from which filters count relative times.
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
    /// The property is missing, or its value is of another kind.
    #[error(transparent)]
    Property(#[from] PropertyError),
}

impl<'a> Event<'a> {
    /// An event of which only the record and its properties are known.
    #[inline]
    pub fn new(record: &'a Record<'a>, properties: Result<Properties<'a>, &'a Undecoded>) -> Event<'a> {
        Event { record, properties, provider: None, process: None, start: FileTime(0) }
    }

    /// The schema; `None` for an event that could not be decoded.
    #[inline]
    pub fn schema(&self) -> Option<&'a Arc<EventSchema>> {
        self.properties.as_ref().ok().map(|properties| &properties.compiled().schema)
    }

    /// The names of the header's fields.
    #[inline]
    pub fn names(&self) -> Names<'a> {
        Names::of(self.record, self.schema().map(Arc::as_ref), self.provider.map(Arc::as_ref))
    }

    /// A top-level property; `None` if the event or its payload has none of this name.
    #[inline]
    pub fn find(&self, name: &str) -> Option<PropertyValue<'a>> {
        self.properties.as_ref().ok()?.find(name)
    }

    /// The value of a top-level property: `event.get::<u32>("ProcessId")?`. [`FromValue`] lists the conversions.
    ///
    /// # Errors
    /// The event has no schema or no such property, the payload does not hold it, or its value does not convert.
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
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("record", self.record)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}
