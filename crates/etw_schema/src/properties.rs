//! The properties of one event: names, values, arrays and structs.

use std::iter::Zip;
use std::ops::Range;
use std::{fmt, slice};

use crate::layout::{FRAME_START, Format, Frame, LocateErrorKind, LocatedSlots, Place, Read, Shape};
use crate::value::{FromValue, Value};
use crate::{CompiledSchema, EventSchema, Inference, LocateError, Property, PropertyType, ValueMap, text};

/// The located properties of one event, returned by [`CompiledSchema::locate`]. Cheap to copy.
///
/// Values are read from the payload on access.
#[derive(Clone, Copy)]
pub struct Properties<'a> {
    pub(crate) compiled: &'a CompiledSchema,
    pub(crate) payload: &'a [u8],
    pub(crate) located: &'a LocatedSlots,
}

/// The index of a property in a schema, from [`CompiledSchema::property_index`]. Valid for all events of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PropertyIndex(pub(crate) u16);

/// A property with its value, which is read from the payload on access.
#[derive(Clone, Copy)]
pub struct PropertyValue<'a> {
    property: &'a Property,
    place: &'a Place,
    instance: Instance<'a>,
}

/// The error of reading a property's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// The event has no such property.
    #[error("event {event}: no property '{property}'")]
    Unknown {
        /// The event.
        event: String,
        /// The requested name.
        property: String,
    },
    /// The payload does not contain the property.
    #[error("event {event}: property '{property}' is not in the payload: {reason}")]
    Missing {
        /// The event.
        event: String,
        /// The property.
        property: String,
        /// The reason.
        reason: String,
    },
    /// The value has a different type, or does not fit the requested one.
    #[error("event {event}: property '{property}' is {found}, expected {expected}")]
    Conversion {
        /// The event.
        event: String,
        /// The property.
        property: String,
        /// The type of the value.
        found: String,
        /// The requested type.
        expected: &'static str,
    },
}

/// An error of [`Properties::error`], with the names needed for its message.
#[derive(Clone, Copy)]
pub struct PayloadError<'a> {
    schema: &'a EventSchema,
    /// The error.
    pub error: LocateError,
}

impl<'a> PayloadError<'a> {
    /// Returns the name of the first property that could not be located.
    pub fn property_name(&self) -> &'a str {
        self.schema.properties.get(usize::from(self.error.property)).map_or("", |property| &*property.name)
    }
}

impl fmt::Display for PayloadError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.property_name();
        match self.error.kind {
            LocateErrorKind::Defect(defect) => {
                write!(f, "property '{name}': invalid schema: {defect}")
            }
            kind => write!(f, "property '{name}' at payload offset {}: {kind}", self.error.offset),
        }
    }
}

impl fmt::Debug for PayloadError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'a> Properties<'a> {
    /// Returns the event's compiled schema.
    #[inline]
    pub fn compiled(&self) -> &'a CompiledSchema {
        self.compiled
    }

    /// Returns the event's schema.
    #[inline]
    pub fn schema(&self) -> &'a EventSchema {
        &self.compiled.schema
    }

    /// Returns the number of located top-level properties.
    #[inline]
    pub fn len(&self) -> usize {
        self.located.members.into()
    }

    /// Returns whether no property was located.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns why some properties could not be located, or `None` if all were. Null-terminated strings at the end may be
    /// missing: [`Properties::inferred`] says so.
    pub fn error(&self) -> Option<PayloadError<'a>> {
        let schema = self.schema();
        self.located.error().map(|error| PayloadError { schema, error: *error })
    }

    /// Returns what is not certain about properties that were located: the source does not state it, or several layouts
    /// are possible. The values may be others.
    #[inline]
    pub fn inferred(&self) -> Option<Inference> {
        if self.located.error().is_some() {
            return None;
        }
        self.located.inferred.or_else(|| self.schema().inferred.map(|inferred| inferred.what))
    }

    /// Returns whether the payload is decoded completely: no byte is left, and no property is missing.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.located.error().is_none() && self.rest().is_empty()
    }

    /// Appends the event's message with its inserts. Returns whether the schema has a message.
    pub fn write_message(&self, out: &mut impl text::TextOut) -> bool {
        match self.compiled.message() {
            Some(message) => {
                message.write_to(out, self);
                true
            }
            None => false,
        }
    }

    /// Returns the bytes of the payload after the located properties.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.payload.get(self.located.end as usize..).unwrap_or_default()
    }

    /// Returns the payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns an iterator over the located top-level properties, in order.
    #[inline]
    pub fn iter(&self) -> Members<'a> {
        self.top().iter()
    }

    /// Returns the top-level property of a name, or `None` if it does not exist or was not located.
    #[inline]
    pub fn find(&self, name: &str) -> Option<PropertyValue<'a>> {
        self.at(self.compiled.property_index(name)?)
    }

    /// Returns the top-level property at an index, or `None` if it was not located.
    #[inline]
    pub fn at(&self, index: PropertyIndex) -> Option<PropertyValue<'a>> {
        self.top().member(index.0)
    }

    /// Returns the value of a top-level property, converted as described at [`FromValue`].
    ///
    /// # Errors
    ///
    /// Fails if the property does not exist, the payload does not contain it, or its value does not convert.
    #[inline]
    pub fn get<T: FromValue<'a>>(&self, name: &str) -> Result<T, PropertyError> {
        match self.find(name) {
            Some(found) => T::from_value(found.value()).ok_or_else(|| self.conversion::<T>(&found)),
            None => Err(self.not_found(name)),
        }
    }

    /// Returns the value of the top-level property at an index, converted like [`Properties::get`].
    ///
    /// # Errors
    ///
    /// Fails under the same conditions as [`Properties::get`].
    #[inline]
    pub fn get_at<T: FromValue<'a>>(&self, index: PropertyIndex) -> Result<T, PropertyError> {
        match self.at(index) {
            Some(found) => T::from_value(found.value()).ok_or_else(|| self.conversion::<T>(&found)),
            None => {
                let property = self.schema().properties.get(usize::from(index.0));
                Err(self.not_found(property.map_or("", |property| &*property.name)))
            }
        }
    }

    /// Returns the value of a top-level property like [`Properties::get`], but `None` instead of an error.
    #[inline]
    pub fn try_get<T: FromValue<'a>>(&self, name: &str) -> Option<T> {
        T::from_value(self.find(name)?.value())
    }

    #[inline]
    fn top(&self) -> Within<'a> {
        let plan = self.compiled.layout.plan(self.located.pointer);
        let instance = Instance { properties: *self, start: 0, slots: 0 };
        Within { instance, frame: plan.top(), members: self.located.members }
    }

    #[cold]
    fn not_found(&self, name: &str) -> PropertyError {
        let (event, property) = (self.compiled.label().to_string(), name.to_owned());
        match (self.compiled.property_index(name), self.error()) {
            (None, _) => PropertyError::Unknown { event, property },
            (_, Some(error)) => PropertyError::Missing { event, property, reason: error.to_string() },
            _ => PropertyError::Missing { event, property, reason: "the payload ends before it".into() },
        }
    }

    #[cold]
    fn conversion<T: FromValue<'a>>(&self, found: &PropertyValue<'a>) -> PropertyError {
        let (name, value) = (found.name(), found.value());
        let found = match value.as_integer() {
            Some(number) => format!("{} {number}", value.kind_name()),
            None => value.kind_name().to_owned(),
        };
        let (event, property) = (self.compiled.label().to_string(), name.to_owned());
        PropertyError::Conversion { event, property, found, expected: T::NAME }
    }
}

impl<'a> IntoIterator for Properties<'a> {
    type Item = PropertyValue<'a>;
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        self.iter()
    }
}

impl fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|property| (property.name(), property.text()))).finish()
    }
}

impl<'a> PropertyValue<'a> {
    /// Returns the property's name.
    #[inline]
    pub fn name(&self) -> &'a str {
        &self.property.name
    }

    /// Returns the property's description in the schema.
    #[inline]
    pub fn property(&self) -> &'a Property {
        self.property
    }

    /// Returns the value. An array of characters is the text up to its first NUL.
    #[inline(always)]
    pub fn value(&self) -> Value<'a> {
        self.read(true)
    }

    /// Returns the value as it is stored: an array of characters is an array.
    pub fn stored_value(&self) -> Value<'a> {
        self.read(false)
    }

    #[inline(always)]
    fn read(&self, characters_are_text: bool) -> Value<'a> {
        let Instance { properties, slots, .. } = self.instance;
        let (start, end) = match self.place.shape {
            Shape::Fixed => {
                let start = self.instance.fixed_start(self.place);
                (start, start.wrapping_add(self.place.size))
            }
            Shape::Slot => {
                let slot = properties.located.slot(slots.wrapping_add(self.place.offset));
                (slot.start, slot.end)
            }
            _ => {
                let Properties { compiled, payload, located } = properties;
                let parts = (self.property, self.place, characters_are_text);
                return PropertyValue::compound(
                    parts,
                    compiled,
                    payload,
                    located,
                    self.instance.start,
                    slots,
                );
            }
        };
        let bytes = properties.payload.get(start as usize..end as usize).unwrap_or_default();
        Value::read(self.place.read, bytes, &properties.located.clock)
    }

    /// Calls `each` for every scalar in this value, with its byte range in the payload. The range excludes a count
    /// before and a terminator after the value, but covers all of a text of fixed size.
    pub fn for_each_plain(&self, each: &mut dyn FnMut(Range<usize>, Value<'a>)) {
        let Instance { properties, slots, .. } = self.instance;
        let bytes = match self.place.shape {
            Shape::Fixed => {
                let start = self.instance.fixed_start(self.place);
                start..start.saturating_add(self.place.size)
            }
            Shape::Slot => {
                let slot = properties.located.slot(slots.saturating_add(self.place.offset));
                slot.start..slot.end
            }
            _ => return for_each_plain_in(self.stored_value(), each),
        };
        each(bytes.start as usize..bytes.end as usize, self.stored_value());
    }

    /// Returns the value of an array or struct. Takes the parts as arguments, so that the caller need not spill them to
    /// memory for a scalar.
    #[cold]
    #[inline(never)]
    fn compound(
        (property, place, characters_are_text): (&'a Property, &'a Place, bool),
        compiled: &'a CompiledSchema,
        payload: &'a [u8],
        located: &'a LocatedSlots,
        start: u32,
        slots: u32,
    ) -> Value<'a> {
        let properties = Properties { compiled, payload, located };
        let instance = Instance { properties, start, slots };
        let slot = || properties.located.slot(slots + place.offset);
        let array = |start: u32, count: u32, child: u32| {
            let array = Array { properties, place, property, start, count, child };
            let text = if characters_are_text { array.text() } else { None };
            text.unwrap_or(Value::Array(array))
        };
        let nested = |start: u32, slots: u32| {
            let instance = Instance { properties, start, slots };
            Value::Struct(Struct { instance, frame: place.frame })
        };
        match place.shape {
            Shape::FixedArray | Shape::StructArray => array(instance.fixed_start(place), place.count, 0),
            Shape::SlotArray | Shape::SlotElements | Shape::SlotStructArray | Shape::SlotStructs => {
                let slot = slot();
                array(slot.start, slot.count, slot.child)
            }
            Shape::Struct => nested(instance.fixed_start(place), 0),
            Shape::SlotStruct => {
                let slot = slot();
                nested(slot.start, slot.child)
            }
            // Members after a schema defect are never located.
            Shape::Fixed | Shape::Slot | Shape::Nowhere => Value::Null,
        }
    }

    /// Returns the format of the value, or of each element of the array.
    #[inline]
    pub fn format(&self) -> Format {
        self.place.format
    }

    /// Returns the names for the value, or for the elements of the array.
    #[inline]
    pub fn map(&self) -> Option<&'a ValueMap> {
        match &self.property.kind {
            PropertyType::Value { map, .. } => map.as_deref(),
            PropertyType::Struct { .. } => None,
        }
    }

    /// Returns whether the schema hides the property (`NOPRINT`).
    #[inline]
    pub fn is_hidden(&self) -> bool {
        matches!(self.property.kind, PropertyType::Value { out_type: crate::OutType::NO_PRINT, .. })
    }

    /// Appends the value's text, as given by in-type, out-type and map.
    #[inline]
    pub fn write_text(&self, out: &mut (impl text::TextOut + ?Sized)) {
        text::write_value(out, &self.value(), self.format(), self.map());
    }

    /// Returns the value's text, as given by in-type, out-type and map. Displaying it does not allocate.
    pub fn text(&self) -> text::Text<'a> {
        text::Text { value: self.value(), format: self.format(), map: self.map() }
    }
}

impl fmt::Debug for PropertyValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.text())
    }
}

/// The position of one instance of a frame in the payload.
#[derive(Clone, Copy)]
struct Instance<'a> {
    properties: Properties<'a>,
    /// Start of the instance.
    start: u32,
    /// Index of its first slot.
    slots: u32,
}

impl Instance<'_> {
    /// Returns the start of a member at a fixed distance from its base.
    #[inline(always)]
    fn fixed_start(&self, place: &Place) -> u32 {
        let base = if place.base == FRAME_START {
            self.start
        } else {
            self.properties.located.slot(self.slots.wrapping_add(place.base.into())).next
        };
        base.wrapping_add(place.offset)
    }
}

/// One instance of a frame, with its located members.
#[derive(Clone, Copy)]
struct Within<'a> {
    instance: Instance<'a>,
    frame: &'a Frame,
    /// Number of located members.
    members: u16,
}

impl<'a> Within<'a> {
    #[inline]
    fn member(&self, index: u16) -> Option<PropertyValue<'a>> {
        if index >= self.members {
            return None;
        }
        let place = self.frame.places.get(usize::from(index))?;
        let properties = &self.instance.properties.schema().properties;
        let property = properties.get(usize::from(self.frame.first) + usize::from(index))?;
        Some(PropertyValue { property, place, instance: self.instance })
    }

    #[inline]
    fn iter(&self) -> Members<'a> {
        let properties = &self.instance.properties.schema().properties;
        let properties = properties.get(usize::from(self.frame.first)..).unwrap_or_default();
        let places = self.frame.places.get(..self.members.into()).unwrap_or_default();
        Members { instance: self.instance, members: places.iter().zip(properties) }
    }
}

/// Calls `each` for every scalar in an array or struct.
fn for_each_plain_in<'a>(value: Value<'a>, each: &mut dyn FnMut(Range<usize>, Value<'a>)) {
    match value {
        Value::Struct(members) => members.iter().for_each(|member| member.for_each_plain(each)),
        Value::Array(array) => {
            for (index, value) in array.iter().enumerate() {
                match array.bytes_of(index) {
                    Some(bytes) => each(bytes, value),
                    None => for_each_plain_in(value, each),
                }
            }
        }
        _ => {}
    }
}

/// An iterator over the members of an event or a struct, in order.
#[derive(Clone)]
pub struct Members<'a> {
    instance: Instance<'a>,
    members: Zip<slice::Iter<'a, Place>, slice::Iter<'a, Property>>,
}

impl<'a> Iterator for Members<'a> {
    type Item = PropertyValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<PropertyValue<'a>> {
        let (place, property) = self.members.next()?;
        Some(PropertyValue { property, place, instance: self.instance })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.members.size_hint()
    }
}

/// The members of a struct.
#[derive(Clone, Copy)]
pub struct Struct<'a> {
    instance: Instance<'a>,
    frame: u16,
}

impl<'a> Struct<'a> {
    /// Returns an iterator over the members, in order.
    #[inline]
    pub fn iter(&self) -> Members<'a> {
        self.within().iter()
    }

    /// Returns the member of a name.
    pub fn find(&self, name: &str) -> Option<PropertyValue<'a>> {
        let frame = self.within().frame;
        let properties = &self.instance.properties.schema().properties;
        let members = properties.get(usize::from(frame.first)..)?.get(..frame.places.len())?;
        let index = members.iter().position(|property| *property.name == *name)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is below the number of members, a u16")]
        self.within().member(index as u16)
    }

    /// Returns the value of a member, converted as described at [`FromValue`].
    ///
    /// # Errors
    ///
    /// Fails if the member does not exist, or its value does not convert.
    pub fn get<T: FromValue<'a>>(&self, name: &str) -> Result<T, PropertyError> {
        let properties = &self.instance.properties;
        match self.find(name) {
            Some(found) => T::from_value(found.value()).ok_or_else(|| properties.conversion::<T>(&found)),
            None => Err(PropertyError::Unknown {
                event: properties.compiled.label().to_string(),
                property: name.to_owned(),
            }),
        }
    }

    fn within(&self) -> Within<'a> {
        let properties = &self.instance.properties;
        let plan = properties.compiled.layout.plan(properties.located.pointer);
        let frame = plan.frame(self.frame);
        #[expect(clippy::cast_possible_truncation, reason = "the schema has the number of members as a u16")]
        let members = frame.places.len() as u16;
        Within { instance: self.instance, frame, members }
    }
}

impl<'a> IntoIterator for Struct<'a> {
    type Item = PropertyValue<'a>;
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        self.iter()
    }
}

impl fmt::Debug for Struct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|member| (member.name(), member.text()))).finish()
    }
}

/// The elements of an array, all of one type.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    properties: Properties<'a>,
    place: &'a Place,
    property: &'a Property,
    start: u32,
    count: u32,
    child: u32,
}

impl<'a> Array<'a> {
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether the array is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the array's property.
    pub fn property(&self) -> &'a Property {
        self.property
    }

    /// Returns the format of the elements.
    #[inline]
    pub fn format(&self) -> Format {
        self.place.format
    }

    /// Returns the element at an index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        if index >= self.len() {
            return None;
        }
        match self.bytes_of(index) {
            Some(bytes) => {
                let bytes = self.properties.payload.get(bytes)?;
                Some(Value::read(self.place.read, bytes, &self.properties.located.clock))
            }
            None => self.struct_of(index).map(Value::Struct),
        }
    }

    /// Returns the range in the payload of an element that is not a struct.
    #[inline]
    fn bytes_of(&self, index: usize) -> Option<Range<usize>> {
        let index = u32::try_from(index).ok()?;
        let (start, end) = match self.place.shape {
            Shape::FixedArray | Shape::SlotArray => {
                let start = self.start.saturating_add(index.saturating_mul(self.place.size));
                (start, start.saturating_add(self.place.size))
            }
            Shape::SlotElements => {
                let slot = self.properties.located.slot(self.child.saturating_add(index));
                (slot.start, slot.end)
            }
            _ => return None,
        };
        Some(start as usize..end as usize)
    }

    /// Returns the struct at an index.
    #[inline(never)]
    fn struct_of(&self, index: usize) -> Option<Struct<'a>> {
        let index = u32::try_from(index).ok()?;
        let Properties { compiled, located, .. } = self.properties;
        let frame = self.place.frame;
        let (start, slots) = match self.place.shape {
            Shape::StructArray | Shape::SlotStructArray => {
                (self.start.saturating_add(index.saturating_mul(self.place.size)), 0)
            }
            Shape::SlotStructs => {
                let stride = u32::from(compiled.layout.plan(located.pointer).frame(frame).slots) + 1;
                let own = self.child.saturating_add(index.saturating_mul(stride));
                (located.slot(own).start, own.saturating_add(1))
            }
            _ => return None,
        };
        Some(Struct { instance: Instance { properties: self.properties, start, slots }, frame })
    }

    /// Returns an iterator over the elements.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let array = *self;
        (0..array.len()).map_while(move |index| array.get(index))
    }

    /// Returns the characters up to the first NUL, if the elements are characters.
    fn text(&self) -> Option<Value<'a>> {
        let bytes = match self.place.read {
            Read::Char8 | Read::Char16 => self.as_bytes()?,
            _ => return None,
        };
        let wide = self.place.read == Read::Char16;
        let end = match wide {
            true => bytes.as_chunks::<2>().0.iter().position(|unit| *unit == [0, 0]).map(|end| 2 * end),
            false => bytes.iter().position(|byte| *byte == 0),
        };
        let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
        Some(if wide { Value::Utf16(bytes) } else { Value::Ansi(bytes) })
    }

    /// Returns the bytes of all elements, if each has a fixed size.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match self.place.shape {
            Shape::FixedArray | Shape::SlotArray | Shape::StructArray | Shape::SlotStructArray => {
                let bytes = self.count.saturating_mul(self.place.size) as usize;
                self.properties.payload.get(self.start as usize..)?.get(..bytes)
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
