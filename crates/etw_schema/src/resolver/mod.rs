//! Resolution of a record to its schema, through the sources in decoding order.

mod cache;
mod carried;
mod key;
mod look_up;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use etw_event::{Guid, Record};

use crate::builtin::BuiltIn;
use crate::event_metadata::EventMetadata;
use crate::event_source::EventSourceManifests;
use crate::{CompiledSchema, Event, Located, Provider, ProviderInfo, Providers, SchemaSource, Undecoded};

pub use carried::Observed;

use cache::{Cache, Key};
use key::key_of;

/// Finds and caches the schemas of records.
///
/// Sources are searched in this order: metadata in the event (TraceLogging), metadata in the trace (event metadata and
/// the providers of [`Resolver::add_trace_provider`]), the user's sources, and the built-in schemas. Manifest events
/// need an exact match of id and version. Classic events are found by event type and version: the exact version from
/// any source, otherwise the highest version below it. For the same version the built-in schema takes precedence.
///
/// Results, including failures, are cached; a hit does not allocate. A resolver serves one thread. Clones share
/// schemas.
///
/// ```
/// use etw_event::{Origin, Record, Ticks};
/// use etw_schema::{Located, Resolver};
///
/// let mut resolver = Resolver::new();
/// let mut located = Located::new();
/// # let mut bytes = vec![0u8; 80];
/// # bytes[..4].copy_from_slice(&[80, 0, 0x13, 0xC0]);
/// # let origin = Origin::default();
/// # let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
/// let event = resolver.decode(&record, &mut located);
/// match event.properties {
///     Ok(properties) => {
///         for property in properties.iter() {
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
    /// Number of properties of manifest events in `trace`, plus eight per event.
    trace_properties: usize,
    manifests: EventSourceManifests,
    user: Vec<Arc<dyn SchemaSource>>,
    built_in: Vec<Arc<dyn SchemaSource>>,
    /// Windows builds of the traces, by [`Origin::source`](etw_event::Origin::source).
    builds: Vec<u32>,
    /// Whether they differ.
    is_mixed: bool,
    /// The providers of a GUID, as of a build, in the user's and the built-in sources.
    known: HashMap<(Guid, u32), Arc<[Arc<Provider>]>>,
    cache: Cache,
    /// The provider of the last event without a schema.
    named: Option<(Guid, Option<Arc<ProviderInfo>>)>,
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

/// Limit of GUIDs with cached source results; beyond it the cache is cleared.
const MAX_KNOWN: usize = 16_384;
impl Resolver {
    /// Creates a resolver with the built-in schemas.
    pub fn new() -> Resolver {
        Resolver { built_in: vec![Arc::new(BuiltIn)], ..Resolver::empty() }
    }

    /// Creates a resolver that knows only the metadata in events and traces.
    pub fn empty() -> Resolver {
        Resolver {
            metadata: EventMetadata::default(),
            trace: Providers::new(),
            trace_properties: 0,
            manifests: EventSourceManifests::new(),
            user: Vec::new(),
            built_in: Vec::new(),
            builds: Vec::new(),
            is_mixed: false,
            known: HashMap::new(),
            cache: Cache::default(),
            named: None,
        }
    }

    /// Adds a user's source. Sources are searched in the order added, before the built-in schemas.
    pub fn add_source(&mut self, source: Arc<dyn SchemaSource>) {
        self.user.push(source);
        self.known.clear();
        self.cache.clear();
        self.named = None;
    }

    /// Adds a source that is searched after all others.
    pub fn add_built_in(&mut self, source: Arc<dyn SchemaSource>) {
        self.built_in.push(source);
        self.known.clear();
        self.cache.clear();
        self.named = None;
    }

    /// Sets the Windows builds of the traces, from their headers, by [`Origin::source`](etw_event::Origin::source).
    /// 0 means that the build is unknown. Sources with schemas of several builds choose by them.
    pub fn set_builds(&mut self, builds: Vec<u32>) {
        self.is_mixed = builds.windows(2).any(|two| matches!(two, [one, other] if one != other));
        self.builds = builds;
        self.known.clear();
        self.cache.clear();
        self.named = None;
    }

    /// Returns the Windows build of a record's trace; 0 if it is unknown.
    fn build_of(&self, record: &Record<'_>) -> u32 {
        self.builds.get(record.origin().source as usize).or(self.builds.last()).copied().unwrap_or(0)
    }

    /// Discards cached results for a provider.
    fn forget(&mut self, guid: &Guid) {
        self.cache.forget(guid);
        self.named = None;
    }

    /// Returns the names of the provider with this GUID, from the first source that knows it.
    pub fn provider_info(&mut self, guid: &Guid) -> Option<Arc<ProviderInfo>> {
        if let Some(provider) = self.trace.provider(guid) {
            return Some(provider.info.clone());
        }
        let build = self.builds.first().copied().unwrap_or(0);
        self.known(guid, build).first().map(|provider| provider.info.clone())
    }

    /// Returns every schema found since the sources last changed.
    pub fn resolved(&self) -> impl Iterator<Item = &Arc<CompiledSchema>> {
        self.cache.outcomes().filter_map(|outcome| outcome.as_ref().ok())
    }

    /// Returns the schema of a record.
    ///
    /// # Errors
    ///
    /// Fails if no source knows the record. The error is the reason.
    #[inline]
    pub fn resolve(&mut self, record: &Record<'_>) -> Result<&Arc<CompiledSchema>, &Undecoded> {
        let index = self.index(record);
        match self.cache.outcome(index) {
            Some(outcome) => outcome.as_ref(),
            None => Err(&Undecoded::NamelessMessage),
        }
    }

    /// Decodes a record: finds its schema and locates its properties. Without a schema, the event contains the reason
    /// and the known names of its provider.
    ///
    /// The caller fills in the process and the start of the trace. Does not allocate once the schema is cached and
    /// `located` has grown large enough.
    #[inline]
    pub fn decode<'a>(&'a mut self, record: &'a Record<'a>, located: &'a mut Located) -> Event<'a> {
        let index = self.index(record);
        if !matches!(self.cache.outcome(index), Some(Ok(_))) {
            self.name(&record.provider_id());
        }
        let reason = match self.cache.outcome(index) {
            Some(Ok(schema)) => return Event::new(record, Ok(schema.locate(record, located))),
            Some(Err(reason)) => reason,
            None => &Undecoded::NamelessMessage,
        };
        let provider = self.named.as_ref().and_then(|(_, info)| info.as_ref());
        Event { provider, ..Event::new(record, Err(reason)) }
    }

    /// Returns the cache index of the result for a record.
    #[inline]
    fn index(&mut self, record: &Record<'_>) -> usize {
        let mut key = key_of(record);
        if self.is_mixed {
            key.number |= u64::from(self.build_of(record)) << 32;
        }
        match self.cache.find(&key) {
            Some(index) => index,
            None => self.miss(&key, record),
        }
    }

    #[cold]
    fn name(&mut self, guid: &Guid) {
        if self.named.as_ref().is_none_or(|(named, _)| named != guid) {
            self.named = Some((*guid, self.provider_info(guid)));
        }
    }

    #[cold]
    fn miss(&mut self, key: &Key<'_>, record: &Record<'_>) -> usize {
        let outcome = self.look_up(key, record);
        self.cache.insert(key, outcome)
    }

    /// Returns the providers of a GUID in the user's and the built-in sources, in order.
    fn known(&mut self, guid: &Guid, build: u32) -> Arc<[Arc<Provider>]> {
        if let Some(known) = self.known.get(&(*guid, build)) {
            return known.clone();
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let sources = self.user.iter().chain(&self.built_in);
        let known: Arc<[_]> = sources.filter_map(|source| source.provider_of_build(guid, build)).collect();
        self.known.insert((*guid, build), known.clone());
        known
    }

    /// Returns the providers of a GUID in all sources except event metadata, in decoding order.
    fn providers(&mut self, guid: &Guid, build: u32) -> Vec<Arc<Provider>> {
        let known = self.known(guid, build);
        self.trace.provider(guid).into_iter().chain(known.iter().cloned()).collect()
    }
}
