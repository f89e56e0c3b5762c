//! The part of a record after `System`: the payload's fields, decoding errors, class and stack.

use std::fmt::Display;

use etw_event::{ExtendedType, Guid, Record};
use etw_schema::{
    Count, EventSchema, Members, Properties, PropertyType, PropertyValue, Struct, Value, text::Text,
};

use super::chunk::{Chunk, Full};
use super::element::{
    Element, Open, Template, attribute, child, put_alone, put_end, put_text, substitution, text,
};
use super::kind::Kind;
use super::value::{self, Values};
use crate::fields::FieldSelection;
use etw_schema::Event;

/// The namespace of `ExtendedTracingInfo`.
const TRACE_NAMESPACE: &str = "http://schemas.microsoft.com/win/2004/08/events/trace";
/// `ERROR_EVT_INVALID_EVENT_DATA`.
const INVALID_EVENT_DATA: u32 = 15005;
/// Limit in bytes of the fields that are written of an event that is too long for a record.
const FIELDS_OF_TOO_LONG: usize = 40_000;
/// Bytes that are shown of its payload if even these fields do not fit.
const SHOWN_OF_TOO_LONG: usize = 4096;
/// Limit of the nesting depth of structs in every layout.
const MAX_DEPTH: u16 = etw_schema::MAX_DEPTH;

/// The way the payload of events with one schema is written.
pub(super) struct Payload {
    user_data: bool,
    /// The template; `None` if the elements are written for each event.
    template: Option<Template>,
    error: Template,
}

impl Payload {
    pub(super) fn new(schema: Option<&EventSchema>, fields: &FieldSelection) -> Payload {
        let is_flat = |schema: &&EventSchema| {
            let flat = |property: &etw_schema::Property| {
                property.count == Count::One && matches!(property.kind, PropertyType::Value { .. })
            };
            fields.is_all() && schema.properties.iter().all(flat)
        };
        Payload {
            user_data: schema.is_some_and(|schema| schema.user_data),
            template: schema.filter(is_flat).map(|schema| Template::new(fields_element(schema))),
            error: Template::new(error_element()),
        }
    }

    /// Writes the fields, and any decoding error, as two values.
    pub(super) fn put(
        &self,
        chunk: &mut Chunk,
        values: &mut Values,
        event: &Event<'_>,
        strict: bool,
        fields: &FieldSelection,
    ) -> Result<(), Full> {
        let properties = match &event.properties {
            Ok(properties) => properties,
            Err(reason) => {
                self.put_error(chunk, values, reason, event.record.payload())?;
                return values.null(chunk);
            }
        };
        match properties.error() {
            Some(error) if strict => {
                self.put_error(chunk, values, &error.property_name(), properties.payload())?;
                return values.null(chunk);
            }
            _ => {}
        }
        values.with(chunk, |chunk| {
            // A truncated payload has fewer fields than the template.
            match &self.template {
                Some(template) if properties.error().is_none() => put_templated(chunk, template, properties)?,
                _ => {
                    self.put_elements(chunk, properties, fields, usize::MAX)?;
                }
            }
            Ok(Kind::BINXML)
        })?;
        match properties.error() {
            Some(error) => self.put_error(chunk, values, &error, properties.rest()),
            None if !properties.rest().is_empty() => {
                self.put_error(chunk, values, &"the payload has bytes beyond its schema", properties.rest())
            }
            None => match properties.inferred() {
                Some(inferred) if !strict => {
                    self.put_error(chunk, values, &format_args!("inferred: {inferred}"), &[])
                }
                _ => values.null(chunk),
            },
        }
    }

    /// Writes the fields that fit in a record, and which ones do not.
    pub(super) fn put_cut(
        &self,
        chunk: &mut Chunk,
        values: &mut Values,
        event: &Event<'_>,
        fields: &FieldSelection,
    ) -> Result<(), Full> {
        let Ok(properties) = &event.properties else { return self.put_too_long(chunk, values, event) };
        let mut lost = None;
        values.with(chunk, |chunk| {
            lost = self.put_elements(chunk, properties, fields, FIELDS_OF_TOO_LONG)?;
            Ok(Kind::BINXML)
        })?;
        let also = |lost: &dyn Display| match (properties.error(), properties.inferred()) {
            (Some(error), _) => format!("{lost}; {error}"),
            (None, Some(inferred)) => format!("{lost}; inferred: {inferred}"),
            (None, None) => lost.to_string(),
        };
        match lost {
            Some(Lost { field, cut }) => {
                let end = if cut { "is cut" } else { "is left out" };
                let lost = format_args!(
                    "the event is too long for an event log: '{field}' {end}, and all after it is left out"
                )
                .to_string();
                self.put_error(chunk, values, &also(&lost), &[])
            }
            None => self.put_error(chunk, values, &also(&"the event is too long for an event log"), &[]),
        }
    }

    /// Writes that the payload is too long, and its first bytes.
    pub(super) fn put_too_long(
        &self,
        chunk: &mut Chunk,
        values: &mut Values,
        event: &Event<'_>,
    ) -> Result<(), Full> {
        let payload = event.record.payload();
        let reason =
            format!("the event is too long for an event log; its payload of {} bytes begins", payload.len());
        let begin = payload.get(..SHOWN_OF_TOO_LONG).unwrap_or(payload);
        self.put_error(chunk, values, &reason, begin)?;
        values.null(chunk)
    }

    fn put_error(
        &self,
        chunk: &mut Chunk,
        values: &mut Values,
        reason: &dyn Display,
        payload: &[u8],
    ) -> Result<(), Full> {
        values.with(chunk, |chunk| {
            let mut inner = Values::begin(chunk, &self.error, 3)?;
            inner.put(chunk, Kind::UINT32, &INVALID_EVENT_DATA.to_le_bytes())?;
            inner.text(chunk, &reason.to_string())?;
            inner.put(chunk, Kind::BINARY, payload)?;
            put_end(chunk)?;
            Ok(Kind::BINXML)
        })
    }

    /// Writes the fields as elements of text, in about as many bytes as there is room for. Returns the first one that is
    /// not whole.
    fn put_elements(
        &self,
        chunk: &mut Chunk,
        properties: &Properties<'_>,
        fields: &FieldSelection,
        room: usize,
    ) -> Result<Option<Lost>, Full> {
        let mut writer = Elements { user_data: self.user_data, scratch: String::new(), room, lost: None };
        let frame = |chunk: &mut Chunk, name: &str, attributes: &[_]| {
            let open = Open::put(chunk, name, attributes)?;
            open.begin_content(chunk).map(|()| open)
        };
        put_alone(chunk, |chunk| {
            let outer = frame(chunk, if self.user_data { "UserData" } else { "EventData" }, &[])?;
            let inner = match self.user_data {
                true => Some(frame(chunk, "EventXML", &[attribute("xmlns", text("Event_NS"))])?),
                false => None,
            };
            if fields.is_all() {
                writer.members(chunk, properties.iter(), 0)?;
            } else {
                for field in fields.names() {
                    if let Some(found) = field.find(properties) {
                        writer.property(chunk, field.name(), &found, 0)?;
                    }
                }
            }
            if let Some(inner) = inner {
                inner.end(chunk)?;
            }
            outer.end(chunk)
        })?;
        Ok(writer.lost)
    }
}

/// The first field that is not whole in a record.
struct Lost {
    field: String,
    /// Whether it is there in part.
    cut: bool,
}

fn put_templated(chunk: &mut Chunk, template: &Template, properties: &Properties<'_>) -> Result<(), Full> {
    let mut scratch = String::new();
    let mut values = Values::begin(chunk, template, properties.len() as u32)?;
    for property in properties.iter() {
        values.with(chunk, |chunk| {
            value::put(chunk, property.value(), property.format(), property.map(), &mut scratch)
        })?;
    }
    put_end(chunk)
}

/// Builds `EventData` or `UserData`, with a substitution for each property.
fn fields_element(schema: &EventSchema) -> Element {
    let properties = schema.properties.iter().take(usize::from(schema.top_level)).zip(0..);
    let mut fields = if schema.user_data {
        Element::new("EventXML").attribute(attribute("xmlns", text("Event_NS")))
    } else {
        Element::new("EventData")
    };
    for (property, index) in properties {
        let element = match schema.user_data {
            true => Element::new(&crate::xml::plain_element_name(&property.name)),
            false => Element::new("Data").attribute(attribute("Name", text(&property.name))),
        };
        fields.push(child(element.with(substitution(index, Kind::STRING))));
    }
    if schema.user_data { Element::new("UserData").with(child(fields)) } else { fields }
}

fn error_element() -> Element {
    let element = |name, index, kind| child(Element::new(name).with(substitution(index, kind)));
    Element::new("ProcessingErrorData")
        .with(element("ErrorCode", 0, Kind::UINT32))
        .with(element("DataItemName", 1, Kind::STRING))
        .with(element("EventPayload", 2, Kind::BINARY))
}

/// Writes properties as elements of text.
struct Elements {
    user_data: bool,
    scratch: String,
    /// Bytes that may still be written.
    room: usize,
    lost: Option<Lost>,
}

/// Bytes of an element besides its name and text.
const ELEMENT_BYTES: usize = 64;

impl Elements {
    fn members(&mut self, chunk: &mut Chunk, members: Members<'_>, depth: u16) -> Result<(), Full> {
        for member in members {
            self.property(chunk, member.name(), &member, depth)?;
        }
        Ok(())
    }

    /// Writes a value as `Data`, a struct as `ComplexData`, and an array as one such element for each of its elements.
    fn property(
        &mut self,
        chunk: &mut Chunk,
        name: &str,
        member: &PropertyValue<'_>,
        depth: u16,
    ) -> Result<(), Full> {
        match member.value() {
            Value::Array(array) => {
                for element in array.iter() {
                    self.one(chunk, name, member, element, depth)?;
                }
                Ok(())
            }
            value => self.one(chunk, name, member, value, depth),
        }
    }

    fn one(
        &mut self,
        chunk: &mut Chunk,
        name: &str,
        member: &PropertyValue<'_>,
        value: Value<'_>,
        depth: u16,
    ) -> Result<(), Full> {
        if self.lost.is_some() {
            return Ok(());
        }
        let Some(room) = self.room.checked_sub(ELEMENT_BYTES + 2 * name.len()) else {
            self.lost = Some(Lost { field: name.to_owned(), cut: false });
            return Ok(());
        };
        self.room = room;
        let kind = if matches!(value, Value::Struct(_)) { "ComplexData" } else { "Data" };
        let open = match self.user_data {
            true => Open::put(chunk, &crate::xml::plain_element_name(name), &[])?,
            false => Open::put(chunk, kind, &[attribute("Name", text(name))])?,
        };
        open.begin_content(chunk)?;
        match value {
            Value::Struct(inner) => self.inner(chunk, &inner, depth)?,
            value => {
                self.scratch.clear();
                Text::new(value, member.format(), member.map()).write_to(&mut self.scratch);
                if self.scratch.len() > self.room / 2 {
                    // A character has no more UTF-16 units than bytes.
                    let end = (0..=self.room / 2).rev().find(|end| self.scratch.is_char_boundary(*end));
                    self.scratch.truncate(end.unwrap_or(0));
                    self.lost = Some(Lost { field: name.to_owned(), cut: true });
                }
                self.room = self.room.saturating_sub(2 * self.scratch.len());
                put_text(chunk, &self.scratch)?;
            }
        }
        open.end(chunk)
    }

    fn inner(&mut self, chunk: &mut Chunk, inner: &Struct<'_>, depth: u16) -> Result<(), Full> {
        if depth < MAX_DEPTH { self.members(chunk, inner.iter(), depth + 1) } else { Ok(()) }
    }
}

/// Writes the class GUID, the instance and the stack as one value.
pub(super) fn put_tracing_info(
    chunk: &mut Chunk,
    values: &mut Values,
    record: &Record<'_>,
    event_guid: Option<Guid>,
) -> Result<(), Full> {
    let instance = record.instance();
    let has_stack = record
        .extended_items()
        .any(|item| matches!(item.ext_type, ExtendedType::STACK_TRACE32 | ExtendedType::STACK_TRACE64));
    if event_guid.is_none() && instance.is_none() && !has_stack {
        return values.null(chunk);
    }
    values.with(chunk, |chunk| {
        put_alone(chunk, |chunk| {
            let open = Open::put(chunk, "ExtendedTracingInfo", &[attribute("xmlns", text(TRACE_NAMESPACE))])?;
            open.begin_content(chunk)?;
            let simple = |chunk: &mut Chunk, name: &str, shown: &dyn Display| {
                Element::new(name).with(text(&shown.to_string())).put(chunk)
            };
            if let Some(guid) = event_guid {
                simple(chunk, "EventGuid", &guid)?;
            }
            if let Some(instance) = instance {
                simple(chunk, "InstanceID", &instance.id)?;
                simple(chunk, "ParentInstanceID", &instance.parent_id)?;
                simple(chunk, "ParentGuid", &instance.parent_guid)?;
            }
            for stack in record.extended_items().filter_map(|item| item.stack_trace()) {
                let inner = Open::put(chunk, "Stack", &[])?;
                inner.begin_content(chunk)?;
                for address in stack.addresses() {
                    simple(chunk, "Address", &format_args!("{address:#x}"))?;
                }
                inner.end(chunk)?;
            }
            open.end(chunk)
        })?;
        Ok(Kind::BINXML)
    })
}
