//! A schema ready for decoding: its layout and its parsed message.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use etw_event::{PointerSize, Record};

use crate::layout::{Layout, Located};
use crate::message::Message;
use crate::properties::{Properties, PropertyIndex};
use crate::{EventSchema, Inference, ProviderInfo, Value, strings};

/// A schema with its layout.
///
/// ```
/// use std::sync::Arc;
/// use etw_event::{EventDescriptor, Guid, Origin, Record, Ticks};
/// use etw_schema::{CompiledSchema, Decoding, EventSchema, InType, Located, OutType, Property, ProviderInfo};
///
/// let provider = ProviderInfo::new(Guid::ZERO, "Contoso", Decoding::Manifest, "contoso.man");
/// let mut schema = EventSchema::new(Arc::new(provider), EventDescriptor::default());
/// schema.properties = vec![
///     Property::scalar("ProcessId", InType::UINT32, OutType::PID),
///     Property::scalar("Image", InType::UNICODE_STRING, OutType::NULL),
/// ];
/// schema.top_level = 2;
/// let compiled = CompiledSchema::new(Arc::new(schema));
///
/// // An EVENT_HEADER of 80 bytes and the payload.
/// let mut bytes = vec![0; 80];
/// bytes[..4].copy_from_slice(&[94, 0, 0x13, 0xC0]);
/// bytes.extend([42, 0, 0, 0]);
/// bytes.extend("x.exe".encode_utf16().flat_map(u16::to_le_bytes));
/// let origin = Origin::default();
/// let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
///
/// let mut located = Located::new(); // Reused for every event.
/// let event = compiled.locate(&record, &mut located);
/// assert_eq!(event.get::<u32>("ProcessId").unwrap(), 42);
/// assert_eq!(event.get::<String>("Image").unwrap(), "x.exe");
/// assert_eq!(event.find("Image").unwrap().text().to_string(), "x.exe");
/// assert!(event.get::<u8>("Image").is_err());
/// ```
#[derive(Debug)]
pub struct CompiledSchema {
    /// The schema.
    pub schema: Arc<EventSchema>,
    /// The positions of its properties.
    pub layout: Layout,
    /// Bytes of the payload before the properties: TraceLogging metadata, if it is in the payload.
    pub(crate) skip: u32,
    /// One key per top-level property, to reject most names without comparing strings.
    keys: Box<[u64]>,
    others: Others,
    /// The message text, parsed on first use.
    message: OnceLock<Option<Message>>,
    this: Weak<CompiledSchema>,
}

/// Other layouts that a payload may have.
#[derive(Debug)]
struct Others {
    layouts: Box<[Arc<CompiledSchema>]>,
    /// Whether the schema itself holds for every payload that ends where its properties end.
    is_certain: bool,
}

impl CompiledSchema {
    /// Compiles a schema.
    pub fn new(schema: Arc<EventSchema>) -> Arc<CompiledSchema> {
        CompiledSchema::with_others(schema, &[], true)
    }

    /// Compiles a schema whose properties start after the first `skip` bytes of the payload.
    pub(crate) fn with_skip(schema: Arc<EventSchema>, skip: u32) -> Arc<CompiledSchema> {
        CompiledSchema::compile(schema, skip, Others { layouts: Box::new([]), is_certain: true })
    }

    /// Compiles a schema with other layouts of its event, the likeliest first. [`CompiledSchema::locate`] takes one of
    /// them for a payload that only they fit. If the schema is not certain, it says so where several of them fit.
    pub(crate) fn with_others(
        schema: Arc<EventSchema>,
        others: &[Arc<EventSchema>],
        is_certain: bool,
    ) -> Arc<CompiledSchema> {
        let mut distinct: Vec<&EventSchema> = vec![&schema];
        let mut layouts = Vec::new();
        let none = || Others { layouts: Box::new([]), is_certain: true };
        let mut add = |schema: Arc<EventSchema>| layouts.push(CompiledSchema::compile(schema, 0, none()));
        for other in others {
            let is_known = |known: &&EventSchema| {
                known.top_level == other.top_level && known.properties == other.properties
            };
            if !distinct.iter().any(is_known) {
                distinct.push(other);
            }
        }
        for layout in &distinct {
            let variants = strings::variants(layout);
            if !std::ptr::eq(*layout, &*schema) && variants.is_empty() {
                add(Arc::new((*layout).clone()));
            }
            variants.into_iter().for_each(|variant| add(Arc::new(variant)));
        }
        let others = Others { layouts: layouts.into(), is_certain };
        CompiledSchema::compile(schema, 0, others)
    }

    fn compile(schema: Arc<EventSchema>, skip: u32, others: Others) -> Arc<CompiledSchema> {
        let layout = Layout::new(&schema);
        let top_level = schema.properties.iter().take(schema.top_level.into());
        let keys = top_level.map(|property| name_key(&property.name)).collect();
        let message = OnceLock::new();
        Arc::new_cyclic(|this| CompiledSchema {
            schema,
            layout,
            skip,
            keys,
            others,
            message,
            this: this.clone(),
        })
    }

    /// Returns this compiled schema to keep. Properties borrow it without the count of references, which saves a step
    /// for each event.
    pub fn shared(&self) -> Arc<CompiledSchema> {
        // It is in no `Arc` any more if a program took it out.
        self.this.upgrade().unwrap_or_else(|| CompiledSchema::with_skip(self.schema.clone(), self.skip))
    }

    /// Returns whether a source states the schema completely: nothing of it is inferred, and it is not only one of
    /// several that the event may have.
    pub fn is_stated(&self) -> bool {
        self.schema.inferred.is_none() && self.others.is_certain
    }

    /// Returns the provider's names.
    #[inline]
    pub fn provider(&self) -> &ProviderInfo {
        &self.schema.provider
    }

    /// Locates the properties of a record with this schema. Does not allocate once `located` has grown large enough.
    ///
    /// If the payload does not end where they end, but where those of another layout of the event do, the result is of
    /// that one: [`Properties::compiled`] has it.
    ///
    /// [`Properties::error`] reports a damaged payload; the properties before the damage are available.
    #[inline]
    pub fn locate<'a>(&'a self, record: &Record<'a>, located: &'a mut Located) -> Properties<'a> {
        let payload = record.payload().get(self.skip as usize..).unwrap_or_default();
        located.clock = record.origin().clock;
        self.locate_alone(record, payload, located);
        let mut compiled = self;
        if !self.others.layouts.is_empty() {
            let is_exact = located.error().is_none() && located.consumed_bytes() == payload.len();
            if !is_exact || located.inferred.is_some() || !self.others.is_certain {
                compiled = self.choose(record, payload, located);
            }
        }
        Properties { compiled, payload, located }
    }

    /// Locates the properties of this layout.
    #[inline]
    fn locate_alone(&self, record: &Record<'_>, payload: &[u8], located: &mut Located) {
        let pointer = record.pointer_size();
        self.layout.locate(payload, pointer, located);
        if self.layout.depends_on_pointer_size() && record.has_class_guid_in_header() {
            self.retry(payload, pointer, located);
        }
    }

    /// Locates the properties of the layout that fits best, the likeliest of these.
    #[cold]
    fn choose<'a>(
        &'a self,
        record: &Record<'_>,
        payload: &[u8],
        located: &mut Located,
    ) -> &'a CompiledSchema {
        let mut best = self.fits(payload, located).then_some(self);
        for other in &self.others.layouts {
            other.locate_alone(record, payload, located);
            // Bytes up to the end, and almost any bytes as text, end where every payload ends.
            let is_proof = other.fits(payload, located)
                && !other.layout.extends_to_end(located.pointer_size())
                && !other.has_control_characters(payload, located);
            match best {
                None if is_proof => best = Some(other),
                Some(chosen) if is_proof => {
                    chosen.locate_alone(record, payload, located);
                    located.inferred = Some(Inference::Layouts);
                    return chosen;
                }
                _ => {}
            }
        }
        let chosen = best.unwrap_or(self);
        chosen.locate_alone(record, payload, located);
        chosen
    }

    /// Returns whether the payload ends where the located properties end, with no string or terminator missing.
    fn fits(&self, payload: &[u8], located: &Located) -> bool {
        located.error().is_none()
            && located.consumed_bytes() == payload.len()
            && located.inferred.is_none()
            && !self.layout.ends_unterminated(located)
    }

    /// Locates a classic user-mode event, whose payload may have the other pointer size if a 32-bit program relogged it
    /// (Observed: the `*_64_*` files of google-sawbuck). The other size is used if it alone fits exactly.
    #[inline]
    fn retry(&self, payload: &[u8], pointer: PointerSize, located: &mut Located) {
        let fits = |located: &Located| {
            let exact = located.error().is_none() && located.consumed_bytes() == payload.len();
            // The upper half of a pointer may look like the start of a string that extends to the end of the payload.
            // Such a string contains characters that names do not.
            exact && (pointer == PointerSize::Eight || !self.has_control_characters(payload, located))
        };
        if fits(located) {
            return;
        }
        let other = match pointer {
            PointerSize::Four => PointerSize::Eight,
            PointerSize::Eight => PointerSize::Four,
        };
        self.layout.locate(payload, other, located);
        if !fits(located) {
            self.layout.locate(payload, pointer, located);
        }
    }

    /// Returns whether a UTF-16 string among the properties contains a control character.
    fn has_control_characters(&self, payload: &[u8], located: &Located) -> bool {
        let properties = Properties { compiled: self, payload, located };
        properties.iter().any(|property| match property.value() {
            Value::Utf16(text) => {
                let mut units = text.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
                units.any(|unit| unit < 0x20)
            }
            _ => false,
        })
    }

    /// Returns the index of a top-level property by name. Names are case-sensitive.
    #[inline]
    pub fn property_index(&self, name: &str) -> Option<PropertyIndex> {
        let key = name_key(name);
        let found = self
            .keys
            .iter()
            .zip(&self.schema.properties)
            .position(|(candidate, property)| *candidate == key && *property.name == *name)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there is a key for each top-level property, a u16"
        )]
        Some(PropertyIndex(found as u16))
    }

    /// Returns the parsed message text, if the schema has one.
    pub fn message(&self) -> Option<&Message> {
        let schema = &self.schema;
        let parse = || schema.message.as_deref().map(|text| Message::parse(text, schema.message_style));
        self.message.get_or_init(parse).as_ref()
    }

    /// Returns the event's label for messages: `Provider/Name`, or the parts of it that are known.
    pub fn label(&self) -> EventLabel<'_> {
        EventLabel(&self.schema)
    }
}

/// Packs the length and the first and last bytes of a name into one number.
#[inline]
fn name_key(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let word = if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(23)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
    } else {
        bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    word ^ (bytes.len() as u64) << 56
}

/// The label of an event in messages.
#[derive(Clone, Copy)]
pub struct EventLabel<'a>(&'a EventSchema);

impl fmt::Display for EventLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.0;
        let descriptor = &schema.descriptor;
        f.write_str(&schema.provider.name)?;
        match (&schema.name, &schema.task_name, &schema.opcode_name) {
            (Some(name), ..) => write!(f, "/{name}"),
            (None, Some(task), Some(opcode)) => write!(f, "/{task}/{opcode}"),
            (None, Some(task), None) => write!(f, "/{task}"),
            _ => write!(f, "/{}", descriptor.id),
        }?;
        if descriptor.id != 0 {
            write!(f, " (id {} version {})", descriptor.id, descriptor.version)
        } else {
            Ok(())
        }
    }
}
