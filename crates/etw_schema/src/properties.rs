//! The properties of one event: names, values, arrays and structs over what was located in its payload.

use std::iter::Zip;
use std::ops::Range;
use std::sync::Arc;
use std::{fmt, slice};

use crate::layout::{FRAME_START, Format, Frame, LocateErrorKind, LocatedSlots, Place, Shape};
use crate::value::{FromValue, Value};
use crate::{CompiledSchema, EventSchema, LocateError, Property, PropertyType, ValueMap, text};

/// The located properties of one event: what [`CompiledSchema::locate`] gives. Cheap to copy.
///
/// Values are read from the payload when asked for.
#[derive(Clone, Copy)]
pub struct Properties<'a> {
    pub(crate) compiled: &'a Arc<CompiledSchema>,
    pub(crate) payload: &'a [u8],
    pub(crate) located: &'a LocatedSlots,
}

/// A property of a schema, found once by [`CompiledSchema::property_index`] and good for all its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PropertyIndex(pub(crate) u16);

/// A property with its value, which is read from the payload when asked for.
#[derive(Clone, Copy)]
pub struct PropertyValue<'a> {
    property: &'a Property,
    place: &'a Place,
    instance: Instance<'a>,
}

/// Why a property's value could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// The event has no such property.
    #[error("event {event}: no property '{property}'")]
    Unknown {
        /// The event.
        event: String,
        /// The name asked for.
        property: String,
    },
    /// The payload does not hold the property.
    #[error("event {event}: property '{property}' is not in the payload: {reason}")]
    Missing {
        /// The event.
        event: String,
        /// The property.
        property: String,
        /// Why.
        reason: String,
    },
    /// The value is of another kind, or does not fit the type asked for.
    #[error("event {event}: property '{property}' is {found}, which is no {expected}")]
    Conversion {
        /// The event.
        event: String,
        /// The property.
        property: String,
        /// What the property is.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
}

/// An error of [`Properties::error`], with the names that make it readable.
#[derive(Clone, Copy)]
pub struct PayloadError<'a> {
    schema: &'a EventSchema,
    /// The error.
    pub error: LocateError,
}

impl<'a> PayloadError<'a> {
    /// The property that the payload does not have.
    pub fn property_name(&self) -> &'a str {
        self.schema.properties.get(usize::from(self.error.property)).map_or("", |property| &*property.name)
    }
}

impl fmt::Display for PayloadError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.property_name();
        match self.error.kind {
            LocateErrorKind::Defect(defect) => {
                write!(f, "property '{name}': the schema cannot be followed: {defect}")
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
    /// The event's schema.
    #[inline]
    pub fn compiled(&self) -> &'a Arc<CompiledSchema> {
        self.compiled
    }

    /// The schema as its source has it.
    #[inline]
    pub fn schema(&self) -> &'a EventSchema {
        &self.compiled.schema
    }

    /// How many top-level properties were located.
    #[inline]
    pub fn len(&self) -> usize {
        self.located.members.into()
    }

    /// Whether none was.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Why not all of the schema's properties were located; `None` if all were, or if only the last is missing, is a
    /// null-terminated string, and the payload ends exactly before it.
    pub fn error(&self) -> Option<PayloadError<'a>> {
        let schema = self.schema();
        self.located.error().map(|error| PayloadError { schema, error: *error })
    }

    /// Appends the event's message with its inserts; whether the schema has one.
    pub fn write_message(&self, out: &mut impl text::TextOut) -> bool {
        match self.compiled.message() {
            Some(message) => {
                message.write_to(out, self);
                true
            }
            None => false,
        }
    }

    /// Bytes of the payload that the located properties leave.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.payload.get(self.located.end as usize..).unwrap_or_default()
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The located top-level properties, in their order.
    #[inline]
    pub fn iter(&self) -> Members<'a> {
        self.top().iter()
    }

    /// The located top-level property of a name; `None` if there is none or the payload does not hold it.
    #[inline]
    pub fn find(&self, name: &str) -> Option<PropertyValue<'a>> {
        self.at(self.compiled.property_index(name)?)
    }

    /// The located top-level property of an index; `None` if the payload does not hold it.
    #[inline]
    pub fn at(&self, index: PropertyIndex) -> Option<PropertyValue<'a>> {
        self.top().member(index.0)
    }

    /// The value of a top-level property, converted as [`FromValue`] tells.
    ///
    /// # Errors
    /// There is no such property, the payload does not hold it, or its value does not convert.
    #[inline]
    pub fn get<T: FromValue<'a>>(&self, name: &str) -> Result<T, PropertyError> {
        match self.find(name) {
            Some(found) => T::from_value(found.value()).ok_or_else(|| self.conversion::<T>(&found)),
            None => Err(self.not_found(name)),
        }
    }

    /// As [`Properties::get`], by an index found before.
    ///
    /// # Errors
    /// As for [`Properties::get`].
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

    /// As [`Properties::get`]; `None` if the event has no such property, the payload does not hold it, or it does
    /// not convert.
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
    /// The property's name.
    #[inline]
    pub fn name(&self) -> &'a str {
        &self.property.name
    }

    /// The property as the schema has it.
    #[inline]
    pub fn property(&self) -> &'a Property {
        self.property
    }

    /// The value.
    #[inline(always)]
    pub fn value(&self) -> Value<'a> {
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
                let parts = (self.property, self.place);
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

    /// Calls `each` with every plain value in this one, which is it itself unless it is an array or a struct, and with the
    /// bytes of the payload that are the value's: without the count before it and the terminator behind it, but all of a
    /// text of fixed size.
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
            _ => return for_each_plain_in(self.value(), each),
        };
        each(bytes.start as usize..bytes.end as usize, self.value());
    }

    /// The value of an array or struct. Takes all parts by themselves, so that they need not lie in memory where the
    /// value is a plain one.
    #[cold]
    #[inline(never)]
    fn compound(
        (property, place): (&'a Property, &'a Place),
        compiled: &'a Arc<CompiledSchema>,
        payload: &'a [u8],
        located: &'a LocatedSlots,
        start: u32,
        slots: u32,
    ) -> Value<'a> {
        let properties = Properties { compiled, payload, located };
        let instance = Instance { properties, start, slots };
        let slot = || properties.located.slot(slots + place.offset);
        let array = |start: u32, count: u32, child: u32| {
            Value::Array(Array { properties, place, property, start, count, child })
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
            // Members behind a defect of the schema are never located.
            Shape::Fixed | Shape::Slot | Shape::Nowhere => Value::Null,
        }
    }

    /// How the value, or each element of the array, is shown.
    #[inline]
    pub fn format(&self) -> Format {
        self.place.format
    }

    /// Names for the value, or for the elements of the array.
    #[inline]
    pub fn map(&self) -> Option<&'a ValueMap> {
        match &self.property.kind {
            PropertyType::Value { map, .. } => map.as_deref(),
            PropertyType::Struct { .. } => None,
        }
    }

    /// Whether the schema wants the property not to be shown (`NOPRINT`).
    #[inline]
    pub fn is_hidden(&self) -> bool {
        matches!(self.property.kind, PropertyType::Value { out_type: crate::OutType::NO_PRINT, .. })
    }

    /// Appends the value's text, by in-type, out-type and map.
    #[inline]
    pub fn write_text(&self, out: &mut (impl text::TextOut + ?Sized)) {
        text::write_value(out, &self.value(), self.format(), self.map());
    }

    /// The value's text, by in-type, out-type and map. Displays without allocating.
    pub fn text(&self) -> text::Text<'a> {
        text::Text { value: self.value(), format: self.format(), map: self.map() }
    }
}

impl fmt::Debug for PropertyValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.text())
    }
}

/// Where one instance of a frame lies in the payload.
#[derive(Clone, Copy)]
struct Instance<'a> {
    properties: Properties<'a>,
    /// Where the instance begins.
    start: u32,
    /// Its first slot.
    slots: u32,
}

impl Instance<'_> {
    /// Where a member at a fixed distance from what lies before it begins.
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
    /// Members located.
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

/// What is plain in an array or struct.
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

/// The members of the event or of a struct, in their order.
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

/// A struct's members.
#[derive(Clone, Copy)]
pub struct Struct<'a> {
    instance: Instance<'a>,
    frame: u16,
}

impl<'a> Struct<'a> {
    /// The members, in their order.
    #[inline]
    pub fn iter(&self) -> Members<'a> {
        self.within().iter()
    }

    /// The member of a name.
    pub fn find(&self, name: &str) -> Option<PropertyValue<'a>> {
        let frame = self.within().frame;
        let properties = &self.instance.properties.schema().properties;
        let members = properties.get(usize::from(frame.first)..)?.get(..frame.places.len())?;
        let index = members.iter().position(|property| *property.name == *name)?;
        self.within().member(index as u16)
    }

    /// The value of a member, converted as [`FromValue`] tells.
    ///
    /// # Errors
    /// There is no such member, or its value does not convert.
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
        Within { instance: self.instance, frame, members: frame.places.len() as u16 }
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
    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The array's property.
    pub fn property(&self) -> &'a Property {
        self.property
    }

    /// How the elements are shown.
    #[inline]
    pub fn format(&self) -> Format {
        self.place.format
    }

    /// The element of an index.
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

    /// Where in the payload an element lies that is no struct.
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

    /// The struct of an index.
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

    /// The elements.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let array = *self;
        (0..array.len()).map_while(move |index| array.get(index))
    }

    /// The bytes of all elements, if each takes a fixed number of bytes.
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
