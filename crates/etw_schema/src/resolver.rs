//! From a record to its schema, through the layers of sources in decoding order.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use etw_event::{
    EventDescriptor, ExtendedType, Fields, Guid, HeaderKind, HookId, MessageFlags, Record, classes,
};

use crate::builtin::BuiltIn;
use crate::cache::{Cache, Key, KeyKind, Outcome};
use crate::event_metadata::{EventMetadata, EventMetadataError};
use crate::event_source::{EventSourceManifests, IncompleteManifest, MANIFEST_EVENT_ID, is_manifest_chunk};
use crate::manifest::{Problem, ProblemKind};
use crate::tracelogging::{self, ProviderTraits, TraceLoggingError};
use crate::{CompiledSchema, Decoding, EventSchema, InType, OutType, Property, Provider, ProviderInfo};

/// Where schemas come from: a store, a set of files, this library's own tables.
pub trait SchemaSource: Send + Sync {
    /// The provider whose records are named by this GUID: provider GUID, class GUID of classic events, or message
    /// GUID of WPP. A source that knows only a name returns a provider without events.
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>>;
}

impl SchemaSource for BuiltIn {
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>> {
        BuiltIn::provider(self, guid)
    }
}

/// Providers held in memory, as a source.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    by_guid: HashMap<Guid, Arc<Provider>>,
}

impl Providers {
    /// No providers.
    pub fn new() -> Providers {
        Providers::default()
    }

    /// Adds a provider. Events of one that is there already are kept unless the new one describes them too.
    pub fn add(&mut self, provider: Provider) {
        match self.by_guid.get_mut(&provider.info.guid) {
            Some(known) => *known = Arc::new(joined(known, provider)),
            None => {
                self.by_guid.insert(provider.info.guid, Arc::new(provider));
            }
        }
    }

    /// The providers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.by_guid.values()
    }
}

impl FromIterator<Provider> for Providers {
    fn from_iter<T: IntoIterator<Item = Provider>>(providers: T) -> Providers {
        let mut all = Providers::new();
        providers.into_iter().for_each(|provider| all.add(provider));
        all
    }
}

impl SchemaSource for Providers {
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>> {
        self.by_guid.get(guid).cloned()
    }
}

/// The newer description of a provider, with the events that only the older one has.
fn joined(older: &Provider, newer: Provider) -> Provider {
    let is_classic = newer.info.decoding == Decoding::Mof || newer.info.class_of.is_some();
    let key = |event: &EventSchema| {
        let descriptor = event.descriptor;
        (descriptor.id, descriptor.version, if is_classic { descriptor.opcode.0 } else { 0 })
    };
    let described: HashSet<_> = newer.events.iter().map(|event| key(event)).collect();
    let only_older = older.events.iter().filter(|event| !described.contains(&key(event)));
    let mut events = newer.events;
    events.extend(only_older.cloned());
    Provider { info: newer.info, events }
}

/// Why a record has no schema. One line of text each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Undecoded {
    /// No source knows any event of the provider.
    #[error("no schema of provider {}{provider}", named(.name))]
    UnknownProvider {
        /// The provider.
        provider: Guid,
        /// Its name, if that is known.
        name: Option<Arc<str>>,
    },
    /// The provider is known, this event of it is not.
    #[error("provider {} {provider} is known, event id {id} version {version} is not{}", on_one_line(.name), also(.other_versions))]
    UnknownEvent {
        /// The provider.
        provider: Guid,
        /// Its name.
        name: Arc<str>,
        /// The event's id.
        id: u16,
        /// Its version.
        version: u8,
        /// Whether the id is known in other versions, which are not guessed from.
        other_versions: bool,
    },
    /// No source knows the class of a classic event.
    #[error("no schema of class {class} (event type {opcode}, version {version})")]
    UnknownClass {
        /// The class.
        class: Guid,
        /// The event type.
        opcode: u8,
        /// The version.
        version: u8,
    },
    /// The class is known, this event type of it is not, or only in later versions.
    #[error("class {} {class} is known, event type {opcode} version {version} is not", on_one_line(.name))]
    UnknownType {
        /// The class.
        class: Guid,
        /// Its name.
        name: Arc<str>,
        /// The event type.
        opcode: u8,
        /// The version.
        version: u8,
    },
    /// A kernel event in a group without a class.
    #[error("kernel event {:#06x} version {version} belongs to no known class", .hook.0)]
    UnknownHook {
        /// The hook id.
        hook: HookId,
        /// The version.
        version: u8,
    },
    /// No TMF of the message's GUID.
    #[error("no WPP format of message GUID {message} (message {number})")]
    UnknownMessageGuid {
        /// The message GUID.
        message: Guid,
        /// The message's number.
        number: u16,
    },
    /// The message GUID is known, the number is not.
    #[error("WPP messages of {name} {message} are known, number {number} is not")]
    UnknownMessage {
        /// The message GUID.
        message: Guid,
        /// Name of the source directory.
        name: Arc<str>,
        /// The message's number.
        number: u16,
    },
    /// A WPP message whose header carries no GUID.
    #[error("the WPP message carries no GUID by which to find its format")]
    NamelessMessage,
    /// The TraceLogging metadata of the event is broken.
    #[error("broken TraceLogging metadata: {0}")]
    TraceLogging(TraceLoggingError),
    /// A kind of record that carries no name of its event.
    #[error("records of kind {0:?} do not say what they are")]
    Nameless(HeaderKind),
}

fn named(name: &Option<Arc<str>>) -> String {
    name.as_ref().map_or(String::new(), |name| format!("{} ", on_one_line(name)))
}

/// A name as it stands in a message: traces may give any characters to their providers.
fn on_one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

fn also(other_versions: &bool) -> &'static str {
    if *other_versions { " (the id is, in other versions)" } else { "" }
}

/// What [`Resolver::observe`] found in a record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Observed {
    /// Nothing that concerns schemas.
    Nothing,
    /// Event metadata.
    EventMetadata,
    /// A chunk of an EventSource manifest.
    ManifestChunk,
    /// The last missing chunk of an EventSource manifest, which was read.
    Manifest {
        /// The provider that wrote it.
        provider: Guid,
        /// The process that wrote it.
        process: u32,
        /// What in it could not be understood.
        problems: Vec<Problem>,
    },
}

/// Finds the schemas of records.
///
/// Sources are asked in this order: what the event carries (TraceLogging), what the trace carries (event metadata, and
/// the providers of [`Resolver::add_trace_provider`]), the user's sources, the built-in ones. Manifest events are
/// found by exact id and version, never by another version. Classic events are found by event type and version: the
/// exact one in any source, else the highest below it; of the same version the built-in one.
///
/// Results are cached, failures too; a hit allocates nothing. A resolver serves one thread; clones share the schemas.
///
/// ```
/// use etw_event::{Origin, Record, Ticks};
/// use etw_schema::{Located, Resolver, Undecoded};
///
/// let mut resolver = Resolver::new();
/// let mut located = Located::new();
/// # let mut bytes = vec![0u8; 80];
/// # bytes[..4].copy_from_slice(&[80, 0, 0x13, 0xC0]);
/// # let origin = Origin::default();
/// # let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
/// match resolver.resolve(&record) {
///     Ok(schema) => {
///         let event = schema.locate(&record, &mut located);
///         for property in event.iter() {
///             println!("{}: {}", property.name(), property.text());
///         }
///     }
///     Err(reason) => println!("not decoded: {reason}"),
/// }
/// ```
#[derive(Clone)]
pub struct Resolver {
    metadata: EventMetadata,
    trace: Providers,
    /// Properties of the events in `trace` that came from manifests, where an event itself counts as eight.
    trace_properties: usize,
    manifests: EventSourceManifests,
    user: Vec<Arc<dyn SchemaSource>>,
    built_in: Vec<Arc<dyn SchemaSource>>,
    /// What user and built-in sources know of a GUID.
    known: HashMap<Guid, Arc<[Arc<Provider>]>>,
    cache: Cache,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("event_metadata", &self.metadata.len())
            .field("user_sources", &self.user.len())
            .field("built_in_sources", &self.built_in.len())
            .finish_non_exhaustive()
    }
}

impl Default for Resolver {
    fn default() -> Resolver {
        Resolver::new()
    }
}

/// GUIDs of which the sources' answers are kept; more, and they are asked again.
const MAX_KNOWN: usize = 16_384;
/// Properties that the EventSource manifests of a trace may describe. Events share templates, so that a trace made for
/// it could ask for a hundred times its own size; real traces have some ten thousand.
const MAX_TRACE_PROPERTIES: usize = 1 << 20;

impl Resolver {
    /// A resolver with the built-in schemas.
    pub fn new() -> Resolver {
        Resolver { built_in: vec![Arc::new(BuiltIn)], ..Resolver::empty() }
    }

    /// A resolver that knows only what events and traces carry.
    pub fn empty() -> Resolver {
        Resolver {
            metadata: EventMetadata::default(),
            trace: Providers::new(),
            trace_properties: 0,
            manifests: EventSourceManifests::new(),
            user: Vec::new(),
            built_in: Vec::new(),
            known: HashMap::new(),
            cache: Cache::default(),
        }
    }

    /// Adds a source of the user's; the one added first is asked first, all before the built-in ones.
    pub fn add_source(&mut self, source: Arc<dyn SchemaSource>) {
        self.user.push(source);
        self.known.clear();
        self.cache.clear();
    }

    /// Adds a provider that the trace itself describes (EventSource manifests).
    pub fn add_trace_provider(&mut self, provider: Provider) {
        let guid = provider.info.guid;
        self.trace.add(provider);
        self.cache.forget(&guid);
    }

    /// Takes in the payload of an EventInfo event (class EventMetadata, opcode 0x20): a `TRACE_EVENT_INFO`.
    ///
    /// # Errors
    /// The blob is cut, or the trace holds too much of them.
    pub fn add_event_metadata(&mut self, blob: &[u8]) -> Result<(), EventMetadataError> {
        if let Some(guid) = self.metadata.add_event(blob)? {
            self.cache.forget(&guid);
        }
        Ok(())
    }

    /// Takes in the payload of an EventMapInfo event (class EventMetadata, opcode 0x21): a GUID, then an
    /// `EVENT_MAP_INFO`.
    ///
    /// # Errors
    /// The blob is cut, or the trace holds too much of them.
    pub fn add_event_map(&mut self, payload: &[u8]) -> Result<(), EventMetadataError> {
        if let Some(guid) = self.metadata.add_map(payload)? {
            self.cache.forget(&guid);
        }
        Ok(())
    }

    /// Takes in what a record says of the schemas of others: event metadata of a merged trace, chunks of EventSource
    /// manifests. Cheap for all other records. Metadata may come after the events it describes: those who want them
    /// decoded read a trace twice.
    ///
    /// # Errors
    /// As for [`Resolver::add_event_metadata`].
    #[inline]
    pub fn observe(&mut self, record: &Record<'_>) -> Result<Observed, EventMetadataError> {
        if record.has_class_guid_in_header() {
            if record.provider_id() == classes::EVENT_METADATA {
                return self.observe_metadata(record);
            }
        } else if record.kind().is_event_header() && record.descriptor().id == MANIFEST_EVENT_ID {
            return Ok(self.observe_chunk(record));
        }
        Ok(Observed::Nothing)
    }

    #[cold]
    fn observe_metadata(&mut self, record: &Record<'_>) -> Result<Observed, EventMetadataError> {
        match record.descriptor().opcode.0 {
            0x20 => self.add_event_metadata(record.payload())?,
            0x21 => self.add_event_map(record.payload())?,
            _ => return Ok(Observed::Nothing),
        }
        Ok(Observed::EventMetadata)
    }

    #[cold]
    fn observe_chunk(&mut self, record: &Record<'_>) -> Observed {
        if !is_manifest_chunk(record) {
            return Observed::Nothing;
        }
        let Some(mut manifest) = self.manifests.add(record) else { return Observed::ManifestChunk };
        if let Some(provider) = manifest.provider {
            let properties: usize = provider.events.iter().map(|event| 8 + event.properties.len()).sum();
            self.trace_properties = self.trace_properties.saturating_add(properties);
            if self.trace_properties <= MAX_TRACE_PROPERTIES {
                self.add_trace_provider(provider);
            } else {
                let kind = ProblemKind::TooMany("events in the manifests of this trace; this one is ignored");
                manifest.problems.push(Problem { line: 1, column: 1, kind });
            }
        }
        Observed::Manifest { provider: manifest.guid, process: manifest.process, problems: manifest.problems }
    }

    /// EventSource manifests of which chunks are still missing.
    pub fn incomplete_manifests(&self) -> Vec<IncompleteManifest> {
        self.manifests.clone().finish()
    }

    /// What the trace carries of event metadata.
    pub fn event_metadata(&self) -> &EventMetadata {
        &self.metadata
    }

    /// The providers that the trace itself describes.
    pub fn trace_providers(&self) -> &Providers {
        &self.trace
    }

    /// The names of the provider that a record belongs to, from the first source that knows it.
    pub fn provider_info(&mut self, guid: &Guid) -> Option<Arc<ProviderInfo>> {
        if let Some(provider) = self.trace.provider(guid) {
            return Some(provider.info.clone());
        }
        self.known(guid).first().map(|provider| provider.info.clone())
    }

    /// Every schema that was found since the last change of the sources.
    pub fn resolved(&self) -> impl Iterator<Item = &Arc<CompiledSchema>> {
        self.cache.outcomes().filter_map(|outcome| outcome.as_ref().ok())
    }

    /// The schema of a record.
    ///
    /// # Errors
    /// No source knows the record; the reason says what is missing.
    #[inline]
    pub fn resolve(&mut self, record: &Record<'_>) -> Result<&Arc<CompiledSchema>, &Undecoded> {
        let key = key_of(record);
        let index = match self.cache.find(&key) {
            Some(index) => index,
            None => self.miss(&key, record),
        };
        match self.cache.outcome(index) {
            Some(outcome) => outcome.as_ref(),
            None => Err(&Undecoded::NamelessMessage),
        }
    }

    #[cold]
    fn miss(&mut self, key: &Key<'_>, record: &Record<'_>) -> usize {
        let outcome = self.look_up(key, record);
        self.cache.insert(key, outcome)
    }

    fn look_up(&mut self, key: &Key<'_>, record: &Record<'_>) -> Outcome {
        match key.kind {
            KeyKind::TraceLogging => self.trace_logging(key, record, 0),
            KeyKind::TraceLoggingInPayload => match self.trace_logging(key, record, key.blob.len()) {
                Ok(found) => Ok(found),
                // The channel alone does not make it TraceLogging.
                Err(error) => self.manifest(record).map_err(|_| error),
            },
            KeyKind::StringOnly => Ok(self.one_string(record, "Message", OutType::STRING)),
            KeyKind::Xml => Ok(self.one_string(record, "Xml", OutType::XML)),
            KeyKind::Manifest => self.manifest(record),
            KeyKind::Classic | KeyKind::Hook => self.classic(record),
            KeyKind::Message => self.message(record),
            KeyKind::Header => Err(Undecoded::Nameless(record.kind())),
        }
    }

    /// What user and built-in sources know of a GUID, in their order.
    fn known(&mut self, guid: &Guid) -> Arc<[Arc<Provider>]> {
        if let Some(known) = self.known.get(guid) {
            return known.clone();
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let sources = self.user.iter().chain(&self.built_in);
        let known: Arc<[_]> = sources.filter_map(|source| source.provider(guid)).collect();
        self.known.insert(*guid, known.clone());
        known
    }

    /// What all layers but event metadata know of a GUID, in decoding order.
    fn providers(&mut self, guid: &Guid) -> Vec<Arc<Provider>> {
        let known = self.known(guid);
        self.trace.provider(guid).into_iter().chain(known.iter().cloned()).collect()
    }

    fn trace_logging(&mut self, key: &Key<'_>, record: &Record<'_>, skip: usize) -> Outcome {
        let traits = ProviderTraits::parse(key.traits).ok();
        let known = self.provider_info(&key.guid);
        let name = match (&traits, &known) {
            (Some(traits), _) => String::from_utf8_lossy(traits.name),
            (None, Some(known)) => (&*known.name).into(),
            (None, None) => key.guid.to_string().into(),
        };
        let provider = ProviderInfo::new(key.guid, &name, Decoding::TraceLogging, "the event itself");
        let schema = tracelogging::parse_event(key.blob, Arc::new(provider), record.descriptor())
            .map_err(Undecoded::TraceLogging)?;
        let mut compiled = CompiledSchema::new(Arc::new(schema));
        compiled.skip = skip as u32;
        Ok(Arc::new(compiled))
    }

    /// An event whose payload is one string.
    fn one_string(&mut self, record: &Record<'_>, name: &str, out_type: OutType) -> Arc<CompiledSchema> {
        let guid = record.provider_id();
        let provider = self.provider_info(&guid).unwrap_or_else(|| {
            let name = ProviderTraits::name_of(record).unwrap_or_else(|| guid.to_string());
            Arc::new(ProviderInfo::new(guid, &name, Decoding::BuiltIn, "the record's header"))
        });
        let mut schema = EventSchema::new(provider, record.descriptor());
        schema.properties = vec![Property::scalar(name, InType::UNICODE_STRING, out_type)];
        schema.top_level = 1;
        Arc::new(CompiledSchema::new(Arc::new(schema)))
    }

    fn manifest(&mut self, record: &Record<'_>) -> Outcome {
        let EventDescriptor { id, version, .. } = record.descriptor();
        let guid = record.provider_id();
        let decode = ProviderTraits::of(record).and_then(|traits| traits.decode);
        for guid in [Some(guid), decode].into_iter().flatten() {
            if let Some(schema) = self.metadata.event(&guid, id, version) {
                return Ok(compiled(Arc::new(schema)));
            }
            for provider in self.providers(&guid) {
                let found = provider
                    .events
                    .iter()
                    .find(|event| event.descriptor.id == id && event.descriptor.version == version);
                if let Some(schema) = found {
                    return Ok(compiled(schema.clone()));
                }
            }
        }
        // EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG: the event is described by MOF.
        if record.event_property() & 4 != 0
            && let Ok(found) = self.classic(record)
        {
            return Ok(found);
        }
        if is_manifest_chunk(record) {
            return Ok(self.manifest_chunk(record));
        }
        let providers = self.providers(&guid);
        let mut names =
            providers.iter().map(|provider| &provider.info.name).chain(self.metadata.provider_name(&guid));
        let name = names.next().cloned().or_else(|| ProviderTraits::name_of(record).map(Arc::from));
        let knows_events = providers.iter().any(|provider| !provider.events.is_empty());
        let name = match name {
            Some(name) if knows_events || self.metadata.provider_name(&guid).is_some() => name,
            name => return Err(Undecoded::UnknownProvider { provider: guid, name }),
        };
        let has_id = |provider: &Arc<Provider>| provider.events.iter().any(|event| event.descriptor.id == id);
        let other_versions = providers.iter().any(has_id) || self.metadata.has_id(&guid, id);
        Err(Undecoded::UnknownEvent { provider: guid, name, id, version, other_versions })
    }

    /// A piece of an EventSource's manifest, which is an event as well.
    fn manifest_chunk(&mut self, record: &Record<'_>) -> Arc<CompiledSchema> {
        static PROPERTIES: LazyLock<Vec<Property>> = LazyLock::new(|| {
            let number = |name| Property::scalar(name, InType::UINT8, OutType::NULL);
            let word = |name| Property::scalar(name, InType::UINT16, OutType::NULL);
            vec![
                number("Format"),
                number("MajorVersion"),
                number("MinorVersion"),
                number("Magic"),
                word("TotalChunks"),
                word("ChunkNumber"),
                Property::scalar("Manifest", InType::NON_NULL_TERMINATED_ANSI_STRING, OutType::UTF8),
            ]
        });
        let guid = record.provider_id();
        let provider = self.provider_info(&guid).unwrap_or_else(|| {
            let name = ProviderTraits::name_of(record).unwrap_or_else(|| guid.to_string());
            Arc::new(ProviderInfo::new(guid, &name, Decoding::BuiltIn, "EventSource"))
        });
        let mut schema = EventSchema::new(provider, record.descriptor());
        schema.decoding = Decoding::BuiltIn;
        schema.name = Some("ManifestData".into());
        schema.properties = PROPERTIES.clone();
        schema.top_level = schema.properties.len() as u16;
        compiled(Arc::new(schema))
    }

    fn classic(&mut self, record: &Record<'_>) -> Outcome {
        let class = record.provider_id();
        let descriptor = record.descriptor();
        let opcode = descriptor.opcode.0;
        let version = match record.hook_id() {
            Some(HookId(PARTITION_INFO)) => partition_info_version(record),
            _ => descriptor.version,
        };
        if class.is_zero()
            && let Some(hook) = record.hook_id()
        {
            return Err(Undecoded::UnknownHook { hook, version });
        }
        if let Some(schema) = self.metadata.classic_event(&class, opcode, version) {
            return Ok(compiled(Arc::new(schema)));
        }
        let providers = self.providers(&class);
        // Of classes that are built in, published MOF files describe the same versions with fewer fields
        // (Observed: SampleProfile in perfview's kerneltraceeventparser.mof).
        let is_built_in = |provider: &&Arc<Provider>| provider.info.decoding == Decoding::BuiltIn;
        let built_in = || providers.iter().filter(is_built_in);
        let others = || providers.iter().filter(|provider| !is_built_in(provider));
        let of_type = || built_in().chain(others()).flat_map(|provider| &provider.events);
        let mut best: Option<&Arc<EventSchema>> = None;
        for event in of_type().filter(|event| event.descriptor.opcode.0 == opcode && event.descriptor.id == 0)
        {
            let found = event.descriptor.version;
            if found <= version && best.is_none_or(|best| best.descriptor.version < found) {
                best = Some(event);
            }
        }
        match (best, providers.first()) {
            (Some(schema), _) => Ok(compiled(schema.clone())),
            (None, Some(provider)) => {
                Err(Undecoded::UnknownType { class, name: provider.info.name.clone(), opcode, version })
            }
            (None, None) => Err(Undecoded::UnknownClass { class, opcode, version }),
        }
    }

    fn message(&mut self, record: &Record<'_>) -> Outcome {
        if !record.message_flags().has(MessageFlags::GUID) {
            return Err(Undecoded::NamelessMessage);
        }
        let message = record.provider_id();
        let number = record.descriptor().id;
        let providers = self.providers(&message);
        let mut events = providers.iter().flat_map(|provider| &provider.events);
        if let Some(schema) = events.find(|event| event.descriptor.id == number) {
            return Ok(compiled(schema.clone()));
        }
        match providers.first() {
            Some(provider) => {
                Err(Undecoded::UnknownMessage { message, name: provider.info.name.clone(), number })
            }
            None => Err(Undecoded::UnknownMessageGuid { message, number }),
        }
    }
}

fn compiled(schema: Arc<EventSchema>) -> Arc<CompiledSchema> {
    Arc::new(CompiledSchema::new(schema))
}

/// Hook id of PartitionInfoExtension.
const PARTITION_INFO: u16 = 0x0050;

/// PartitionInfoExtension begins with its version; the header says 2 even where that is 0 (Observed: every session
/// file of Windows 10 and 11, as powershell).
#[cold]
fn partition_info_version(record: &Record<'_>) -> u8 {
    record.payload().u16_at(0).map_or(0, |version| version.min(0xFF) as u8)
}

/// What identifies a record's schema.
#[inline]
fn key_of<'a>(record: &Record<'a>) -> Key<'a> {
    let key = |kind, guid, number| Key { kind, guid, number, blob: &[], traits: &[] };
    let kind = record.kind();
    if kind.has_hook_id() {
        let bytes = record.as_bytes();
        let hook = record.hook_id().map_or(0, |hook| hook.0);
        let version = match hook {
            PARTITION_INFO => partition_info_version(record),
            _ => bytes.u8_at(0).unwrap_or(0),
        };
        return key(KeyKind::Hook, Guid::ZERO, u32::from(version) << 16 | u32::from(hook));
    }
    let guid = record.provider_id();
    let descriptor = record.descriptor();
    if kind.is_event_header() {
        if record.flags() & 1 != 0 {
            let mut blob: &[u8] = &[];
            let mut traits: &[u8] = &[];
            for item in record.extended_items() {
                match item.ext_type {
                    ExtendedType::EVENT_SCHEMA_TL => blob = item.data,
                    ExtendedType::PROVIDER_TRAITS => traits = item.data,
                    _ => {}
                }
            }
            if !blob.is_empty() {
                return Key { kind: KeyKind::TraceLogging, guid, number: 0, blob, traits };
            }
        }
        return special_key(record, guid, &descriptor).unwrap_or_else(|| {
            key(KeyKind::Manifest, guid, u32::from(descriptor.version) << 16 | u32::from(descriptor.id))
        });
    }
    match kind {
        HeaderKind::Message => key(KeyKind::Message, guid, descriptor.id.into()),
        HeaderKind::Timed => key(KeyKind::Header, Guid::ZERO, kind as u32),
        _ => {
            let number = u32::from(descriptor.version) << 8 | u32::from(descriptor.opcode.0);
            key(KeyKind::Classic, guid, number)
        }
    }
}

/// The rarer forms of an `EVENT_HEADER`.
#[inline]
fn special_key<'a>(record: &Record<'a>, guid: Guid, descriptor: &EventDescriptor) -> Option<Key<'a>> {
    let key = |kind, blob| Some(Key { kind, guid, number: 0, blob, traits: &[] });
    if record.is_string_only() {
        return key(KeyKind::StringOnly, &[]);
    }
    // EVENT_HEADER_PROPERTY_FORWARDED_XML.
    if record.event_property() & 2 != 0 {
        return key(KeyKind::Xml, &[]);
    }
    if descriptor.channel == 11
        && let Ok(blob) = tracelogging::sized(record.payload())
    {
        return key(KeyKind::TraceLoggingInPayload, blob);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Located, OpcodeName};
    use etw_event::{Opcode, Origin, Ticks};

    const PROVIDER: Guid = Guid::from_u128(0x11111111_2222_3333_4444_555555555555);

    /// An EVENT_HEADER record; items are `(kind, data)`.
    fn event(descriptor: [u8; 16], flags: u16, items: &[(u16, &[u8])], payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; 80];
        bytes[2..4].copy_from_slice(&[0x13, 0xC0]);
        let flags = flags | u16::from(!items.is_empty());
        bytes[4..6].copy_from_slice(&flags.to_le_bytes());
        bytes[0x18..0x28].copy_from_slice(&PROVIDER.to_bytes());
        bytes[0x28..0x38].copy_from_slice(&descriptor);
        for (index, (kind, data)) in items.iter().enumerate() {
            let total = (8 + data.len()).next_multiple_of(8);
            bytes.extend((total as u16).to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend([u8::from(index + 1 < items.len()), 0]);
            bytes.extend((data.len() as u16).to_le_bytes());
            bytes.extend(*data);
            bytes.resize(bytes.len() + total - 8 - data.len(), 0);
        }
        bytes.extend(payload);
        let size = (bytes.len() as u16).to_le_bytes();
        bytes[..2].copy_from_slice(&size);
        bytes
    }

    fn descriptor(id: u16, version: u8, channel: u8) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&id.to_le_bytes());
        bytes[2..4].copy_from_slice(&[version, channel]);
        bytes
    }

    fn blob(fields: &[u8]) -> Vec<u8> {
        let body = [b"\0SameName\0", fields].concat();
        [&(body.len() as u16 + 2).to_le_bytes(), body.as_slice()].concat()
    }

    /// `name=value` of each property, or the reason for none.
    fn decode(resolver: &mut Resolver, bytes: &[u8]) -> String {
        static ORIGIN: std::sync::LazyLock<Origin> = std::sync::LazyLock::new(Origin::default);
        let record = Record::parse(bytes, &ORIGIN, Ticks(0)).unwrap();
        let mut located = Located::new();
        match resolver.resolve(&record) {
            Ok(schema) => {
                let event = schema.locate(&record, &mut located);
                assert!(event.rest().is_empty() && event.error().is_none(), "{:?}", event.error());
                event.iter().map(|property| format!("{property:?}")).collect::<Vec<_>>().join(" ")
            }
            Err(reason) => reason.to_string(),
        }
    }

    /// krabsetw's issue 193: its cache told TraceLogging events apart by everything but their fields.
    #[test]
    fn events_that_differ_in_nothing_but_their_fields() {
        let header = descriptor(0, 0, 11);
        let (number, text) = (blob(b"a\0\x08"), blob(b"a\0\x01"));
        let (other, hex) = (blob(b"b\0\x08"), blob(b"a\0\x14"));
        let traits = b"\x07\0Prov\0";
        let record = |blob: &[u8], payload: &[u8]| event(header, 0, &[(12, traits), (11, blob)], payload);
        let mut resolver = Resolver::empty();
        for _ in 0..3 {
            assert_eq!(decode(&mut resolver, &record(&number, &[65, 0, 0, 0])), "a=65");
            assert_eq!(decode(&mut resolver, &record(&text, &[65, 0, 0, 0])), "a=A");
            assert_eq!(decode(&mut resolver, &record(&other, &[65, 0, 0, 0])), "b=65");
            assert_eq!(decode(&mut resolver, &record(&hex, &[65, 0, 0, 0])), "a=0x41");
        }
        let names: Vec<_> =
            resolver.resolved().map(|schema| schema.schema.provider.name.to_string()).collect();
        assert_eq!(names, ["Prov"; 4]);
    }

    #[test]
    fn metadata_in_the_payload() {
        let header = descriptor(0, 0, 11);
        let payload = [blob(b"a\0\x08"), vec![7, 0, 0, 0]].concat();
        assert_eq!(decode(&mut Resolver::empty(), &event(header, 0, &[], &payload)), "a=7");
        let text = decode(&mut Resolver::empty(), &event(header, 0, &[(11, b"\x04\0xx")], &[]));
        assert_eq!(
            text,
            "broken TraceLogging metadata: the metadata ends at offset 3, within the event's name"
        );
    }

    #[test]
    fn a_flood_of_distinct_metadata_stays_bounded() {
        let mut resolver = Resolver::empty();
        for number in 0..40_000u32 {
            let name = format!("f{number}\0\x03");
            let bytes = event(descriptor(0, 0, 11), 0, &[(11, &blob(name.as_bytes()))], &[1]);
            assert_eq!(decode(&mut resolver, &bytes), format!("f{number}=1"));
        }
        assert!(resolver.resolved().count() <= 16_384);
    }

    fn manifest(name: &str, decoding: Decoding, events: &[(u16, u8, &str)]) -> Provider {
        let info = Arc::new(ProviderInfo::new(PROVIDER, name, decoding, "test"));
        let schema = |(id, version, property): &(u16, u8, &str)| {
            let descriptor = EventDescriptor { id: *id, version: *version, ..EventDescriptor::default() };
            let mut schema = EventSchema::new(info.clone(), descriptor);
            schema.properties = vec![Property::scalar(property, InType::UINT8, OutType::NULL)];
            schema.top_level = 1;
            Arc::new(schema)
        };
        Provider { events: events.iter().map(schema).collect(), info: info.clone() }
    }

    #[test]
    fn layers_are_asked_in_their_order() {
        let bytes = |id, version| event(descriptor(id, version, 0), 0, &[], &[5]);
        let mut resolver = Resolver::new();
        let check = |resolver: &mut Resolver, id, version, text: &str| {
            assert_eq!(decode(resolver, &bytes(id, version)), text);
        };
        check(&mut resolver, 1, 0, "no schema of provider {11111111-2222-3333-4444-555555555555}");
        let user =
            Providers::from_iter([manifest("User", Decoding::Manifest, &[(1, 0, "user"), (2, 0, "user")])]);
        resolver.add_source(Arc::new(user));
        check(&mut resolver, 1, 0, "user=5");
        resolver.add_trace_provider(manifest("Trace", Decoding::EventSource, &[(1, 0, "trace")]));
        check(&mut resolver, 1, 0, "trace=5");
        check(&mut resolver, 2, 0, "user=5");
        resolver.add_trace_provider(manifest(
            "Trace",
            Decoding::EventSource,
            &[(1, 0, "newer"), (3, 0, "x")],
        ));
        check(&mut resolver, 1, 0, "newer=5");
        check(
            &mut resolver,
            1,
            1,
            "provider Trace {11111111-2222-3333-4444-555555555555} is known, event id 1 version 1 is not \
             (the id is, in other versions)",
        );
        assert_eq!(resolver.provider_info(&PROVIDER).unwrap().name.as_ref(), "Trace");
    }

    #[test]
    fn classic_versions_fall_back_to_the_highest_below() {
        let mut info = ProviderInfo::new(PROVIDER, "Class", Decoding::Mof, "test");
        info.opcodes.push(OpcodeName { value: 1, task: None, name: "Start".into(), message: None });
        let info = Arc::new(info);
        let schema = |version, opcode, property: &str| {
            let descriptor =
                EventDescriptor { version, opcode: Opcode(opcode), ..EventDescriptor::default() };
            let mut schema = EventSchema::new(info.clone(), descriptor);
            schema.properties = vec![Property::scalar(property, InType::UINT8, OutType::NULL)];
            schema.top_level = 1;
            Arc::new(schema)
        };
        let events =
            vec![schema(1, 1, "one"), schema(4, 1, "four"), schema(2, 1, "two"), schema(2, 2, "other")];
        let provider = Provider { info: info.clone(), events };
        let mut resolver = Resolver::new();
        resolver.add_source(Arc::new(Providers::from_iter([provider])));
        let mut check = |version, opcode, text: &str| {
            let mut bytes = vec![0; 48];
            bytes[..8].copy_from_slice(&[49, 0, 0x14, 0xC0, opcode, 0, version, 0]);
            bytes[0x18..0x28].copy_from_slice(&PROVIDER.to_bytes());
            bytes.push(9);
            assert_eq!(decode(&mut resolver, &bytes), text);
        };
        check(
            0,
            1,
            "class Class {11111111-2222-3333-4444-555555555555} is known, event type 1 version 0 is not",
        );
        check(1, 1, "one=9");
        check(2, 1, "two=9");
        check(3, 1, "two=9");
        check(4, 1, "four=9");
        check(200, 1, "four=9");
        check(5, 2, "other=9");
        check(
            5,
            3,
            "class Class {11111111-2222-3333-4444-555555555555} is known, event type 3 version 5 is not",
        );
    }

    #[test]
    fn rarer_forms() {
        let check = |bytes: &[u8], text: &str| assert_eq!(decode(&mut Resolver::new(), bytes), text);
        check(&event([0; 16], 4, &[], b"h\0i\0\0\0"), "Message=hi");
        let chunk = [1, 1, 0, 0x5B, 1, 0, 0, 0, b'<', b'>'];
        check(
            &event(descriptor(0xFFFE, 1, 0), 0, &[], &chunk),
            "Format=1 MajorVersion=1 MinorVersion=0 Magic=91 TotalChunks=1 ChunkNumber=0 Manifest=<>",
        );
        let mut xml = event(descriptor(1, 0, 0), 0, &[], b"<\0>\0");
        xml[6] = 2;
        check(&xml, "Xml=<>");
        let mut hook = vec![0; 16];
        hook[..8].copy_from_slice(&[2, 0, 0x11, 0xC0, 16, 0, 1, 0x77]);
        check(&hook, "kernel event 0x7701 version 2 belongs to no known class");
        check(&[8, 0, 0, 0x90, 10, 0, 0, 0], "the WPP message carries no GUID by which to find its format");
        let mut message = vec![24, 0, 0, 0x90, 10, 0, 2, 0];
        message.extend(PROVIDER.to_bytes());
        check(&message, "no WPP format of message GUID {11111111-2222-3333-4444-555555555555} (message 10)");
    }
}
