//! Resolution of a record to its schema, through the sources in decoding order.

mod cache;
mod carried;
mod key;
mod look_up;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use etw_event::{EventDescriptor, Guid, Record};

use crate::builtin::BuiltIn;
use crate::source::Joined;
use crate::{CompiledSchema, Event, Located, Provider, ProviderInfo, SchemaSource, Undecoded};

use carried::Carried;
pub use carried::Observed;

use cache::{Cache, Key};
use key::key_of;

/// Finds and caches the schemas of records.
///
/// Sources are searched in this order: metadata in the event (TraceLogging), metadata in the trace (event metadata and
/// EventSource manifests), the user's sources, and the built-in schemas. Manifest events
/// need an exact match of id and version. Classic events are found by event type and version: the exact version from
/// any source, otherwise the highest version below it. For the same version the built-in schema takes precedence.
///
/// Metadata in a trace holds for the events of that trace; those of other traces of its machine
/// ([`Resolver::set_machines`]) are described by it if nothing else does. So an event is called the same alone and
/// beside others. Of several EventSource manifests of one provider, each holds for the process that sent it: from its
/// arrival on, the first one also before. The other descriptions of an event are used for payloads that only they fit
/// ([`CompiledSchema::locate`]).
///
/// An event is called as the built-in schemas call it, else the user's, else its trace; a description that has a name for
/// the event goes before one that has not ([`EventSchema::names`](crate::EventSchema::names)).
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
    /// What each trace says of schemas, by [`Origin::source`](etw_event::Origin::source).
    carried: Vec<Carried>,
    /// The providers and classes of which any of them says something.
    carried_guids: HashSet<Guid>,
    /// Whether it depends on a record's trace or process which of their schemas holds.
    is_scoped: bool,
    /// Number of properties of the events in the manifests, plus eight per event.
    carried_properties: usize,
    user: Vec<Arc<dyn SchemaSource>>,
    built_in: Vec<Arc<dyn SchemaSource>>,
    /// Windows builds of the traces, by [`Origin::source`](etw_event::Origin::source).
    builds: Vec<u32>,
    /// Whether they differ.
    is_mixed: bool,
    /// Machines of the traces, by [`Origin::source`](etw_event::Origin::source).
    machines: Vec<u32>,
    /// The providers of a GUID, as of a build, in the user's and the built-in sources.
    known: HashMap<(Guid, u32), Known>,
    cache: Cache,
    /// The provider of the last event without a schema.
    named: Option<Named>,
}

/// The descriptions of a provider in the sources that are no traces.
#[derive(Clone)]
struct Known {
    user: Arc<[Arc<Provider>]>,
    built_in: Arc<[Arc<Provider>]>,
}

impl Known {
    /// Returns all descriptions, in decoding order.
    fn all(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.user.iter().chain(self.built_in.iter())
    }
}

/// The names of the provider of an event without a schema.
#[derive(Clone)]
struct Named {
    guid: Guid,
    source: usize,
    info: Option<Arc<ProviderInfo>>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("machines", &self.carried.len())
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
            carried: vec![Carried::default()],
            carried_guids: HashSet::new(),
            is_scoped: false,
            carried_properties: 0,
            user: Vec::new(),
            built_in: Vec::new(),
            builds: Vec::new(),
            is_mixed: false,
            machines: Vec::new(),
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

    /// Sets on which machine each trace was recorded, by [`Origin::source`](etw_event::Origin::source): equal numbers are
    /// of one boot of a machine. Without this, all traces are one.
    ///
    /// Call it before [`Resolver::observe`], which adds what traces say.
    pub fn set_machines(&mut self, machines: &[u32]) {
        self.machines = machines.to_vec();
        self.carried = vec![Carried::default(); machines.len().max(1)];
        self.carried_guids.clear();
        self.is_scoped = false;
        self.cache.clear();
        self.named = None;
    }

    /// Returns the number of a record's trace in `carried`.
    fn source_of(&self, record: &Record<'_>) -> usize {
        match self.machines.is_empty() {
            true => 0,
            false => record.origin().source as usize,
        }
    }

    /// Returns what a record's trace says of schemas.
    fn carried_by(&self, record: &Record<'_>) -> &Carried {
        static NOTHING: LazyLock<Carried> = LazyLock::new(Carried::default);
        self.carried.get(self.source_of(record)).unwrap_or(&NOTHING)
    }

    /// Returns what the other traces of its machine say.
    fn carried_beside(&self, record: &Record<'_>) -> impl Iterator<Item = &Carried> {
        let own = self.source_of(record);
        let machine = self.machines.get(own);
        let others = self.carried.iter().zip(&self.machines).enumerate();
        others
            .filter(move |(source, (_, of))| *source != own && Some(*of) == machine)
            .map(|(_, (carried, _))| carried)
    }

    /// Whether one of the traces describes a manifest event: the one that has it, or another one. A file with the records of
    /// all of them has that description too.
    pub fn is_carried(&self, record: &Record<'_>) -> bool {
        let (guid, EventDescriptor { id, version, .. }) = (record.provider_id(), record.descriptor());
        self.carried.iter().any(|carried| {
            !carried.metadata.layouts(&guid, id, version).is_empty()
                || carried.manifests(record, &guid).any(|manifest| manifest.event(id, version).is_some())
        })
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
        if let Some(info) = self.carried.iter().find_map(|carried| carried.info(guid)) {
            return Some(info.clone());
        }
        let build = self.builds.first().copied().unwrap_or(0);
        self.known(guid, build).all().next().map(|provider| provider.info.clone())
    }

    /// Returns the names of the provider with this GUID for a record.
    fn info_for(&mut self, record: &Record<'_>, guid: &Guid) -> Option<Arc<ProviderInfo>> {
        if let Some(info) = self.carried_by(record).info(guid) {
            return Some(info.clone());
        }
        let build = self.build_of(record);
        let known = self.known(guid, build).all().next().map(|provider| provider.info.clone());
        known.or_else(|| self.carried_beside(record).find_map(|carried| carried.info(guid)).cloned())
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
            self.name(record);
        }
        let reason = match self.cache.outcome(index) {
            Some(Ok(schema)) => return Event::new(record, Ok(schema.locate(record, located))),
            Some(Err(reason)) => reason,
            None => &Undecoded::NamelessMessage,
        };
        let provider = self.named.as_ref().and_then(|named| named.info.as_ref());
        Event { provider, ..Event::new(record, Err(reason)) }
    }

    /// Returns the cache index of the result for a record.
    #[inline]
    fn index(&mut self, record: &Record<'_>) -> usize {
        let mut key = key_of(record);
        if self.is_mixed {
            key.number |= u64::from(self.build_of(record)) << 32;
        }
        if self.is_scoped {
            key.scope = self.scope_of(record, &key.guid);
        }
        match self.cache.find(&key) {
            Some(index) => index,
            None => self.miss(&key, record),
        }
    }

    /// Returns the number of what holds for a record's process, among all that the traces say of its provider; 0 if
    /// they say nothing.
    #[inline(never)]
    fn scope_of(&self, record: &Record<'_>, guid: &Guid) -> u64 {
        // Hooks have a class that is not in their key.
        let class = guid.is_zero().then(|| record.provider_id());
        if !self.carried_guids.contains(class.as_ref().unwrap_or(guid)) {
            return 0;
        }
        let manifest = self.carried_by(record).manifest_number(record, guid);
        1 + manifest + ((self.source_of(record) as u64) << 32)
    }

    #[cold]
    fn name(&mut self, record: &Record<'_>) {
        let guid = record.provider_id();
        let source = self.source_of(record);
        if self.named.as_ref().is_none_or(|named| named.guid != guid || named.source != source) {
            self.named = Some(Named { guid, source, info: self.info_for(record, &guid) });
        }
    }

    #[cold]
    fn miss(&mut self, key: &Key<'_>, record: &Record<'_>) -> usize {
        let outcome = self.look_up(key, record);
        self.cache.insert(key, outcome)
    }

    /// Returns the providers of a GUID in the user's and the built-in sources.
    fn known(&mut self, guid: &Guid, build: u32) -> Known {
        if let Some(known) = self.known.get(&(*guid, build)) {
            return known.clone();
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let of = |sources: &[Arc<dyn SchemaSource>]| {
            sources.iter().filter_map(|source| source.provider_of_build(guid, build)).collect()
        };
        let known = Known { user: of(&self.user), built_in: of(&self.built_in) };
        self.known.insert((*guid, build), known.clone());
        known
    }

    /// Returns the providers of a record's GUID in all sources except event metadata, in decoding order.
    fn providers(&mut self, record: &Record<'_>, guid: &Guid) -> Vec<Arc<Provider>> {
        let known = self.known(guid, self.build_of(record));
        let carried = self.carried_by(record).manifests(record, guid);
        let beside = self.carried_beside(record).flat_map(|carried| carried.manifests(record, guid));
        let (carried, beside) = (carried.map(Joined::provider), beside.map(Joined::provider));
        carried.chain(known.all()).chain(beside).cloned().collect()
    }
}
