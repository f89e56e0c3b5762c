//! TraceLogging events whose fields are known only at run time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use etw_event::{EventDescriptor, ExtendedType, Guid, Keyword, Level, Opcode};

use crate::fields::support::{FieldType, Raw};
use crate::macros::Options;
use crate::metadata::{Arity, Field, Format, append_field, append_name, append_tags, in_type, item_of};
use crate::payload::{Payload, PayloadWriter};
use crate::provider::{EventMetadata, Provider};
use crate::write::Outcome;

/// Builds a TraceLogging event field by field, for fields that are known only at run time.
///
/// It allocates memory; if the fields are known at compile time, prefer [`event!`](crate::event!). A builder can write
/// its event several times.
///
/// ```
/// use etw_provider::{EventBuilder, Level, Provider, fields};
///
/// let provider = Provider::create("MyCompany.Script", None, None);
/// provider.register();
/// if provider.is_enabled() {
///     EventBuilder::new("LineRead")
///         .level(Level::INFORMATION)
///         .add("line", fields::u32::FIELD, &7u32)
///         .add("text", fields::str8::FIELD, &fields::str8::value("some text"))
///         .structure("place", 2)
///         .add("x", fields::f64::FIELD, &0.5)
///         .add("y", fields::f64::FIELD, &1.5)
///         .write(provider);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct EventBuilder {
    name: String,
    options: Options,
    activity: Option<Guid>,
    related: Option<Guid>,
    /// The fields' metadata, without the event's size, tags and name.
    fields: Vec<u8>,
    payload: Vec<u8>,
}

impl EventBuilder {
    /// Creates an event without fields, of [`Level::VERBOSE`]. Names are cut at the first zero.
    pub fn new(name: &str) -> EventBuilder {
        EventBuilder {
            name: cut(name).to_owned(),
            options: Options::DEFAULT,
            activity: None,
            related: None,
            fields: Vec::new(),
            payload: Vec::new(),
        }
    }

    /// Sets the level.
    pub fn level(mut self, level: Level) -> EventBuilder {
        self.options = self.options.level(level);
        self
    }

    /// Sets the keywords.
    pub fn keyword(mut self, keyword: Keyword) -> EventBuilder {
        self.options = self.options.keyword(keyword);
        self
    }

    /// Sets the opcode.
    pub fn opcode(mut self, opcode: Opcode) -> EventBuilder {
        self.options = self.options.opcode(opcode);
        self
    }

    /// Sets the task.
    pub fn task(mut self, task: u16) -> EventBuilder {
        self.options = self.options.task(task);
        self
    }

    /// Sets the tags, of which only the low 28 bits are used.
    pub fn tags(mut self, tags: u32) -> EventBuilder {
        self.options = self.options.tags(tags & 0x0FFF_FFFF);
        self
    }

    /// Sets the event's activity; by default it is the thread's.
    pub fn activity(mut self, activity: Guid) -> EventBuilder {
        self.activity = Some(activity);
        self
    }

    /// Sets the activity that caused the event's activity.
    pub fn related(mut self, activity: Guid) -> EventBuilder {
        self.related = Some(activity);
        self
    }

    /// Adds a field. The value must match the type; use `value` of the same module of [`fields`](crate::fields).
    pub fn add<P: Payload + ?Sized>(self, name: &str, field: FieldType, value: &P) -> EventBuilder {
        self.add_field(&field.named(cut(name)), value)
    }

    /// Adds a field with another display format.
    pub fn add_formatted<P: Payload + ?Sized>(
        self,
        name: &str,
        field: FieldType,
        format: Format,
        value: &P,
    ) -> EventBuilder {
        self.add_field(&field.named(cut(name)).format(format), value)
    }

    /// Starts a structure of the next `members` fields (1 to 127). A nested structure counts as one field.
    pub fn structure(self, name: &str, members: u8) -> EventBuilder {
        self.structure_of(name, members, Arity::One)
    }

    /// Starts an array of `count` structures, each as in [`EventBuilder::structure`]. Add the fields of the first
    /// structure with their values, and the values of the others with [`EventBuilder::add_values`].
    pub fn structures(mut self, name: &str, members: u8, count: u16) -> EventBuilder {
        self = self.structure_of(name, members, Arity::Variable);
        self.payload.extend(count.to_le_bytes());
        self
    }

    /// Adds values without a field, for the second and later structures of an array.
    pub fn add_values<P: Payload + ?Sized>(mut self, values: &P) -> EventBuilder {
        self.put(values);
        self
    }

    /// Writes the event to the sessions that want it.
    pub fn write(&self, provider: &Provider) -> Outcome {
        let descriptor: EventDescriptor = self.options.descriptor;
        let wanted = provider.wanted(descriptor.level, descriptor.keyword);
        if wanted == 0 {
            return Outcome::NotEnabled;
        }
        let schema = schema_of(self.options.tags, &self.name, &self.fields);
        let event = EventMetadata::from_parts(descriptor, &self.name, &schema);
        let (activity, related) = (self.activity.as_ref(), self.related.as_ref());
        provider.write_event(wanted, &event, activity, related, &Raw(&self.payload))
    }

    fn structure_of(mut self, name: &str, members: u8, arity: Arity) -> EventBuilder {
        let field = Field::new(cut(name), in_type::STRUCT, Format::Default).arity(arity);
        append_field(&mut self.fields, &field);
        // The number of members takes the place of the format of other fields.
        if let Some(count) = self.fields.last_mut() {
            *count = members.clamp(1, 127);
        }
        self
    }

    fn add_field<P: Payload + ?Sized>(mut self, field: &Field<'_>, value: &P) -> EventBuilder {
        append_field(&mut self.fields, field);
        self.put(value);
        self
    }

    fn put<P: Payload + ?Sized>(&mut self, value: &P) {
        let len = value.len_bytes();
        let words: Vec<AtomicU64> = (0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let mut writer = PayloadWriter::new(&words);
        value.put(&mut writer);
        writer.finish();
        let start = self.payload.len();
        self.payload.extend(words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()));
        self.payload.truncate(start + len);
    }
}

/// The description of an event whose fields are known only at run time, shared by many events.
#[derive(Debug)]
pub struct EventTemplate {
    name: String,
    schema: Vec<u64>,
}

impl EventTemplate {
    /// Creates the description of an event with these fields. Names are cut at the first zero.
    pub fn new<'f>(name: &str, fields: impl IntoIterator<Item = (&'f str, FieldType)>) -> EventTemplate {
        let mut bytes = Vec::new();
        for (name, field) in fields {
            append_field(&mut bytes, &field.named(cut(name)));
        }
        let name = cut(name).to_owned();
        let schema = schema_of(0, &name, &bytes);
        EventTemplate { name, schema }
    }

    /// Writes an event of this description to the sessions of the bits of `wanted`, a result of [`Provider::wanted`].
    /// The payload must contain the fields' values.
    #[inline]
    pub fn write<P: Payload + ?Sized>(
        &self,
        provider: &Provider,
        wanted: u32,
        options: Options,
        activity: Option<&Guid>,
        related: Option<&Guid>,
        payload: &P,
    ) -> Outcome {
        let event = EventMetadata::from_parts(options.descriptor, &self.name, &self.schema);
        provider.write_event(wanted, &event, activity, related, payload)
    }
}

/// Returns the extended item that describes an event.
fn schema_of(tags: u32, name: &str, fields: &[u8]) -> Vec<u64> {
    let mut metadata = vec![0; 2];
    append_tags(&mut metadata, tags);
    append_name(&mut metadata, name);
    metadata.extend(fields);
    // If the size does not fit, the record is too large; the write detects that.
    let size = u16::try_from(metadata.len()).unwrap_or(u16::MAX);
    for (to, from) in metadata.iter_mut().zip(size.to_le_bytes()) {
        *to = from;
    }
    item_of(ExtendedType::EVENT_SCHEMA_TL, &metadata)
}

/// Returns the name up to the first zero.
fn cut(name: &str) -> &str {
    name.split('\0').next().unwrap_or_default()
}
