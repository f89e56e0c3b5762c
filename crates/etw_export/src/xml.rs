//! Events as XML in the Windows event schema, as tracerpt writes them.
//!
//! Source: the schema of `http://schemas.microsoft.com/win/2004/08/events/event` (documentation of the Windows Event
//! Log); `ExtendedTracingInfo` and `EventName` belong to `http://schemas.microsoft.com/win/2004/08/events/trace`
//! (Observed: samples of tracerpt's output in the documentation of Event Tracing).
//!
//! An event is one line. With [`Options::lines`] it has tracerpt's layout instead: one element per line, with lines
//! ending in CR LF. Times then have nine digits, `Correlation` is always present, and `EventName` is only the class of
//! a classic event, as in tracerpt.
//!
//! ```
//! use etw_export::xml::{XML_FOOTER, XML_HEADER};
//! use etw_export::{Options, XmlWriter};
//! use etw_schema::Event;
//!
//! fn document(events: &[Event<'_>]) -> Vec<u8> {
//!     let mut writer = XmlWriter::new(&Options::default());
//!     let mut out = XML_HEADER.as_bytes().to_vec();
//!     for event in events {
//!         writer.put(&mut out, event);
//!     }
//!     out.extend_from_slice(XML_FOOTER.as_bytes());
//!     out
//! }
//! ```

use etw_event::{ExtendedType, Guid, Record};
use etw_schema::{Members, PropertyValue, Struct, Value, text};
use std::borrow::Cow;

use crate::cache::Cache;
use crate::escape::{self, Escaping, Xml};
use crate::fields::FieldSelection;
use crate::options::Options;
use crate::put::{self, TimeWriter};
use etw_schema::Event;

/// The text before the first event. In tracerpt's layout, lines end in CR LF.
pub const XML_HEADER: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Events>\n";
/// The text after the last event.
pub const XML_FOOTER: &str = "</Events>\n";

/// Limit of the nesting depth of structs in every layout.
const MAX_DEPTH: u16 = etw_schema::MAX_DEPTH;

/// Writes events as `Event` elements.
pub struct XmlWriter {
    cache: Cache<Parts>,
    time: TimeWriter,
    /// `<Computer>…</Computer>` for each source.
    computers: Vec<Vec<u8>>,
    raw_time: bool,
    layout: Layout,
    strict: bool,
    fields: FieldSelection,
}

/// The layout of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// One event per line.
    Event,
    /// One element per line.
    Element,
}

impl Layout {
    /// Starts the line of an element at nesting depth `depth`.
    #[inline]
    fn line(self, out: &mut Vec<u8>, depth: usize) {
        if self == Layout::Element {
            out.extend_from_slice(b"\r\n");
            out.resize(out.len() + depth.min(usize::from(MAX_DEPTH) + 4), b'\t');
        }
    }
}

/// The output shared by all events with one schema.
struct Parts {
    /// From `<Event` to `SystemTime="`.
    head: Vec<u8>,
    channel: Vec<u8>,
    /// The members of `RenderingInfo` other than the message.
    rendering: Vec<u8>,
    /// `<EventGuid>…</EventGuid>`, or nothing.
    event_guid: Vec<u8>,
    has_message: bool,
    /// Whether the properties come from a `UserData` template.
    user_data: bool,
}

impl XmlWriter {
    /// Creates a writer for events from the sources in the options.
    pub fn new(options: &Options) -> XmlWriter {
        let computers = options.sources.iter().map(|source| {
            let mut element = Vec::new();
            text_element(&mut element, "Computer", source.computer.as_deref().unwrap_or_default());
            element
        });
        XmlWriter {
            cache: Cache::new(),
            time: TimeWriter::new(),
            computers: computers.collect(),
            raw_time: options.raw_time,
            layout: if options.lines { Layout::Element } else { Layout::Event },
            strict: options.strict,
            fields: options.fields.clone(),
        }
    }

    /// Appends an event as one element and a line break.
    pub fn put(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        let record = event.record;
        let layout = self.layout;
        let Some(parts) = self.cache.get(record, event.schema(), || Parts::new(event, layout)) else {
            return;
        };
        out.extend_from_slice(&parts.head);
        self.time.put(out, record.time());
        if layout == Layout::Element && out.last() == Some(&b'Z') {
            out.pop();
            out.extend_from_slice(b"00Z");
        }
        if self.raw_time {
            out.extend_from_slice(b"\" RawTime=\"");
            put::signed(out, record.raw_time().0);
        }
        out.extend_from_slice(b"\"/>");
        correlation(out, record, layout);
        execution(out, record, layout);
        out.extend_from_slice(&parts.channel);
        layout.line(out, 2);
        let computer = self.computers.get(record.origin().source as usize);
        out.extend_from_slice(computer.map_or(b"<Computer/>", Vec::as_slice));
        if let Some(sid) = record.sid() {
            layout.line(out, 2);
            out.extend_from_slice(b"<Security UserID=\"");
            escape::display::<Xml>(out, sid);
            out.extend_from_slice(b"\"/>");
        }
        layout.line(out, 1);
        out.extend_from_slice(b"</System>");
        match &event.properties {
            Ok(properties) if self.strict && properties.error().is_some() => {
                let property = properties.error().map_or("", |error| error.property_name());
                processing_error(out, layout, &property, properties.payload());
            }
            Ok(properties) => {
                let style = if parts.user_data { Style::UserData } else { Style::EventData };
                let end = out.len() + put::MAX_PAYLOAD_BYTES;
                let within = Within { style, layout, depth: 0, end };
                style.open(out, layout);
                if self.fields.is_all() {
                    members(out, properties.iter(), within);
                } else {
                    for field in self.fields.names() {
                        if let Some(found) = field.find(properties) {
                            property(out, field.name(), &found, within);
                        }
                    }
                }
                style.close(out, layout);
                if let Some(error) = properties.error() {
                    processing_error(out, layout, &error, properties.rest());
                } else if !properties.rest().is_empty() {
                    let reason = "the payload has bytes beyond its schema";
                    processing_error(out, layout, &reason, properties.rest());
                } else if let Some(inferred) = properties.inferred().filter(|_| !self.strict) {
                    processing_error(out, layout, &format_args!("inferred: {inferred}"), &[]);
                }
            }
            Err(reason) => processing_error(out, layout, reason, record.payload()),
        }
        layout.line(out, 1);
        out.extend_from_slice(b"<RenderingInfo Culture=\"en-US\">");
        if let Ok(properties) = &event.properties
            && parts.has_message
        {
            layout.line(out, 2);
            out.extend_from_slice(b"<Message>");
            properties.write_message(&mut Escaping::<Xml>::new(out));
            out.extend_from_slice(b"</Message>");
        }
        out.extend_from_slice(&parts.rendering);
        layout.line(out, 1);
        out.extend_from_slice(b"</RenderingInfo>");
        tracing_info(out, layout, record, &parts.event_guid);
        layout.line(out, 0);
        out.extend_from_slice(match layout {
            Layout::Event => b"</Event>\n",
            Layout::Element => b"</Event>\r\n",
        });
    }
}

impl Parts {
    fn new(event: &Event<'_>, layout: Layout) -> Parts {
        let schema = event.schema().map(|schema| &**schema);
        let names = event.names();
        let descriptor = event.record.descriptor();
        let mut head = Vec::new();
        head.extend_from_slice(b"<Event xmlns=\"http://schemas.microsoft.com/win/2004/08/events/event\">");
        layout.line(&mut head, 1);
        head.extend_from_slice(b"<System>");
        layout.line(&mut head, 2);
        head.extend_from_slice(b"<Provider");
        if let Some(name) = names.provider() {
            attribute(&mut head, "Name", name);
        }
        head.extend_from_slice(b" Guid=\"");
        put::guid(&mut head, names.provider_guid());
        head.extend_from_slice(b"\"/>");
        let numbers = [
            ("EventID", u32::from(descriptor.id)),
            ("Version", descriptor.version.into()),
            ("Level", descriptor.level.0.into()),
            ("Task", descriptor.task.into()),
            ("Opcode", descriptor.opcode.0.into()),
        ];
        for (name, number) in numbers {
            layout.line(&mut head, 2);
            text_element(&mut head, name, &number.to_string());
        }
        layout.line(&mut head, 2);
        head.extend_from_slice(b"<Keywords>");
        put::hex(&mut head, descriptor.keyword.0);
        head.extend_from_slice(b"</Keywords>");
        layout.line(&mut head, 2);
        head.extend_from_slice(b"<TimeCreated SystemTime=\"");
        let mut channel = Vec::new();
        layout.line(&mut channel, 2);
        text_element(&mut channel, "Channel", names.channel().unwrap_or_default());
        let mut rendering = Vec::new();
        let texts = [("Level", names.level()), ("Task", names.task()), ("Opcode", names.opcode())];
        for (name, text) in texts {
            if let Some(text) = text {
                layout.line(&mut rendering, 2);
                text_element(&mut rendering, name, text);
            }
        }
        if names.keywords().next().is_some() {
            layout.line(&mut rendering, 2);
            rendering.extend_from_slice(b"<Keywords>");
            for keyword in names.keywords() {
                layout.line(&mut rendering, 3);
                text_element(&mut rendering, "Keyword", keyword);
            }
            layout.line(&mut rendering, 2);
            rendering.extend_from_slice(b"</Keywords>");
        }
        if let Some(provider) = names.provider() {
            layout.line(&mut rendering, 2);
            text_element(&mut rendering, "Provider", provider);
        }
        let event_type = match layout == Layout::Element && names.is_classic() {
            true => names.task().map(Cow::Borrowed),
            false => names.event_type(),
        };
        if let Some(event_type) = event_type {
            layout.line(&mut rendering, 2);
            rendering.extend_from_slice(
                b"<EventName xmlns=\"http://schemas.microsoft.com/win/2004/08/events/trace\">",
            );
            escape::text::<Xml>(&mut rendering, &event_type);
            rendering.extend_from_slice(b"</EventName>");
        }
        let mut event_guid = Vec::new();
        if let Some(guid) = names.event_guid() {
            layout.line(&mut event_guid, 2);
            guid_element(&mut event_guid, "EventGuid", guid);
        }
        let has_message = schema.is_some_and(|schema| schema.message.is_some());
        let user_data = schema.is_some_and(|schema| schema.user_data);
        Parts { head, channel, rendering, event_guid, has_message, user_data }
    }
}

fn correlation(out: &mut Vec<u8>, record: &Record<'_>, layout: Layout) {
    let (mut activity, related) = (record.activity_id(), record.related_activity_id());
    if layout == Layout::Element {
        activity = activity.or(Some(Guid::ZERO));
    }
    if activity.is_none() && related.is_none() {
        return;
    }
    layout.line(out, 2);
    out.extend_from_slice(b"<Correlation");
    for (name, guid) in [("ActivityID", activity), ("RelatedActivityID", related)] {
        if let Some(guid) = guid {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            put::guid(out, guid);
            out.push(b'"');
        }
    }
    out.extend_from_slice(b"/>");
}

fn execution(out: &mut Vec<u8>, record: &Record<'_>, layout: Layout) {
    layout.line(out, 2);
    out.extend_from_slice(b"<Execution");
    let (kernel, user) = record.cpu_times().unzip();
    let numbers = [
        ("ProcessID", record.process_id().map(u64::from)),
        ("ThreadID", record.thread_id().map(u64::from)),
        ("ProcessorID", Some(record.processor().into())),
        ("KernelTime", kernel.map(u64::from)),
        ("UserTime", user.map(u64::from)),
        ("ProcessorTime", record.processor_time()),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            put::unsigned(out, number);
            out.push(b'"');
        }
    }
    out.extend_from_slice(b"/>");
}

/// The element form of properties.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `<Data Name="Id">7</Data>`
    EventData,
    /// `<Id>7</Id>`, as in `UserData` templates.
    UserData,
}

impl Style {
    /// Writes the start of the properties. `EventXML` and its namespace are the usual choice of `UserData` templates;
    /// schemas do not contain the actual one.
    fn open(self, out: &mut Vec<u8>, layout: Layout) {
        layout.line(out, 1);
        match self {
            Style::EventData => out.extend_from_slice(b"<EventData>"),
            Style::UserData => {
                out.extend_from_slice(b"<UserData>");
                layout.line(out, 2);
                out.extend_from_slice(b"<EventXML xmlns=\"Event_NS\">");
            }
        }
    }

    /// Writes the end of the properties.
    fn close(self, out: &mut Vec<u8>, layout: Layout) {
        if self == Style::UserData {
            layout.line(out, 2);
            out.extend_from_slice(b"</EventXML>");
        }
        layout.line(out, 1);
        out.extend_from_slice(match self {
            Style::EventData => b"</EventData>",
            Style::UserData => b"</UserData>",
        });
    }

    /// Writes an element whose content is written by `content`.
    fn element(self, out: &mut Vec<u8>, kind: &str, name: &str, content: impl FnOnce(&mut Vec<u8>)) {
        out.push(b'<');
        match self {
            Style::EventData => {
                out.extend_from_slice(kind.as_bytes());
                attribute(out, "Name", name);
            }
            Style::UserData => element_name(out, name),
        }
        out.push(b'>');
        content(out);
        out.extend_from_slice(b"</");
        match self {
            Style::EventData => out.extend_from_slice(kind.as_bytes()),
            Style::UserData => element_name(out, name),
        }
        out.push(b'>');
    }
}

/// Returns the same name as [`element_name`].
pub(crate) fn plain_element_name(name: &str) -> String {
    let mut out = Vec::new();
    element_name(&mut out, name);
    String::from_utf8(out).unwrap_or_default()
}

/// Writes a name without the characters that element names must not contain.
fn element_name(out: &mut Vec<u8>, name: &str) {
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.push(b'_');
    }
    out.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c as u8 } else { b'_' }));
}

/// The position of a value in an event.
#[derive(Clone, Copy)]
struct Within {
    style: Style,
    layout: Layout,
    depth: u16,
    /// Limit of the output's length, at which arrays and structs are cut.
    end: usize,
}

fn members(out: &mut Vec<u8>, members: Members<'_>, within: Within) {
    for member in members {
        if out.len() > within.end {
            return;
        }
        property(out, member.name(), &member, within);
    }
}

impl Within {
    fn line(self, out: &mut Vec<u8>) {
        self.layout.line(out, 2 + usize::from(self.style == Style::UserData) + usize::from(self.depth));
    }
}

/// Writes a value as `Data`, a struct as `ComplexData`, and an array as one such element for each of its elements.
fn property(out: &mut Vec<u8>, name: &str, member: &PropertyValue<'_>, within: Within) {
    let one = |out: &mut Vec<u8>, value: &Value<'_>| match value {
        Value::Struct(inner) => complex(out, name, inner, within),
        value => {
            within.line(out);
            within.style.element(out, "Data", name, |out| {
                text::write_value(&mut Escaping::<Xml>::new(out), value, member.format(), member.map());
            });
        }
    };
    match &member.value() {
        Value::Array(array) => {
            for element in array.iter() {
                if out.len() > within.end {
                    return;
                }
                one(out, &element);
            }
        }
        value => one(out, value),
    }
}

fn complex(out: &mut Vec<u8>, name: &str, inner: &Struct<'_>, within: Within) {
    within.line(out);
    within.style.element(out, "ComplexData", name, |out| {
        if within.depth < MAX_DEPTH {
            members(out, inner.iter(), Within { depth: within.depth + 1, ..within });
            within.line(out);
        }
    });
}

/// Writes why a payload, or the rest of it, could not be decoded.
fn processing_error(out: &mut Vec<u8>, layout: Layout, reason: &dyn std::fmt::Display, payload: &[u8]) {
    layout.line(out, 1);
    out.extend_from_slice(b"<ProcessingErrorData>");
    layout.line(out, 2);
    // 15005 is ERROR_EVT_INVALID_EVENT_DATA.
    out.extend_from_slice(b"<ErrorCode>15005</ErrorCode>");
    layout.line(out, 2);
    out.extend_from_slice(b"<DataItemName>");
    escape::display::<Xml>(out, reason);
    out.extend_from_slice(b"</DataItemName>");
    layout.line(out, 2);
    out.extend_from_slice(b"<EventPayload>");
    put::hex_bytes(out, payload);
    out.extend_from_slice(b"</EventPayload>");
    layout.line(out, 1);
    out.extend_from_slice(b"</ProcessingErrorData>");
}

fn tracing_info(out: &mut Vec<u8>, layout: Layout, record: &Record<'_>, event_guid: &[u8]) {
    let instance = record.instance();
    let has_stack = record
        .extended_items()
        .any(|item| matches!(item.ext_type, ExtendedType::STACK_TRACE32 | ExtendedType::STACK_TRACE64));
    if event_guid.is_empty() && instance.is_none() && !has_stack {
        return;
    }
    layout.line(out, 1);
    out.extend_from_slice(
        b"<ExtendedTracingInfo xmlns=\"http://schemas.microsoft.com/win/2004/08/events/trace\">",
    );
    out.extend_from_slice(event_guid);
    if let Some(instance) = instance {
        layout.line(out, 2);
        text_element(out, "InstanceID", &instance.id.to_string());
        layout.line(out, 2);
        text_element(out, "ParentInstanceID", &instance.parent_id.to_string());
        layout.line(out, 2);
        guid_element(out, "ParentGuid", instance.parent_guid);
    }
    for stack in record.extended_items().filter_map(|item| item.stack_trace()) {
        layout.line(out, 2);
        out.extend_from_slice(b"<Stack>");
        for address in stack.addresses() {
            layout.line(out, 3);
            out.extend_from_slice(b"<Address>");
            put::hex(out, address);
            out.extend_from_slice(b"</Address>");
        }
        layout.line(out, 2);
        out.extend_from_slice(b"</Stack>");
    }
    layout.line(out, 1);
    out.extend_from_slice(b"</ExtendedTracingInfo>");
}

fn attribute(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    escape::text::<Xml>(out, value);
    out.push(b'"');
}

fn text_element(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    if text.is_empty() {
        return out.extend_from_slice(b"/>");
    }
    out.push(b'>');
    escape::text::<Xml>(out, text);
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

fn guid_element(out: &mut Vec<u8>, name: &str, guid: Guid) {
    text_element(out, name, &guid.to_string());
}
