//! Schema sources, and merging of several descriptions of one provider.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use etw_event::Guid;

use crate::builtin::BuiltIn;
use crate::{Decoding, EventSchema, Provider};

/// A source of schemas: a store, a set of files, or the built-in tables.
pub trait SchemaSource: Send + Sync {
    /// Returns the provider whose records carry this GUID: provider GUID, class GUID of classic events, or message GUID
    /// of WPP. A source that knows only the name returns a provider without events.
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>>;

    /// Returns the provider as a build of Windows has it, for sources that know several. 0 means that the build is
    /// unknown.
    fn provider_of_build(&self, guid: &Guid, _build: u32) -> Option<Arc<Provider>> {
        self.provider(guid)
    }

    /// Looks up a manifest event in a source that does not list the events of its providers, because they are many.
    fn event_of_build(&self, _guid: &Guid, _id: u16, _version: u8, _build: u32) -> Found {
        Found::NoProvider
    }

    /// Returns the other layouts of an event that this source, or another one, found for a build, for sources that know
    /// several releases. They are tried if a payload does not end where the event's properties end.
    fn other_layouts(&self, _event: &EventSchema, _build: u32) -> OtherLayouts {
        OtherLayouts { layouts: Vec::new(), is_certain: true }
    }
}

/// The result of [`SchemaSource::other_layouts`].
#[derive(Debug, Clone, PartialEq)]
pub struct OtherLayouts {
    /// The layouts, nearest to the build first.
    pub layouts: Vec<Arc<EventSchema>>,
    /// Whether the build is known to have the event as it was found, or this source did not find it.
    pub is_certain: bool,
}

/// The result of [`SchemaSource::event_of_build`].
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The schema of the event.
    Event(Arc<EventSchema>),
    /// The provider does not have the event.
    NoEvent {
        /// Whether other versions of the id are known.
        other_versions: bool,
    },
    /// The provider is unknown, or [`SchemaSource::provider`] lists all its events.
    NoProvider,
}

impl SchemaSource for BuiltIn {
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>> {
        BuiltIn::provider(self, guid)
    }
}

/// A schema source that holds its providers in memory.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    by_guid: HashMap<Guid, Joined>,
}

impl Providers {
    /// Creates an empty source.
    pub fn new() -> Providers {
        Providers::default()
    }

    /// Adds a provider. If it is already present, new events replace those with the same key; the others are kept.
    pub fn add(&mut self, provider: Provider) {
        match self.by_guid.entry(provider.info.guid) {
            Entry::Occupied(mut known) => known.get_mut().add(provider),
            Entry::Vacant(place) => {
                place.insert(Joined::new(provider));
            }
        }
    }

    /// Returns the providers in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.by_guid.values().map(|joined| &joined.provider)
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
        self.by_guid.get(guid).map(|joined| joined.provider.clone())
    }
}

/// The key of an event within its provider: id, version and, for classic events, opcode.
type EventKey = (u16, u8, u8);

fn key_of(event: &EventSchema) -> EventKey {
    let descriptor = &event.descriptor;
    let is_classic = event.decoding == Decoding::Mof || event.provider.class_of.is_some();
    (descriptor.id, descriptor.version, if is_classic { descriptor.opcode.0 } else { 0 })
}

/// One provider merged from several descriptions; later ones take precedence. Each addition takes time proportional to
/// its own events only, because a trace may contain many manifests of one provider.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    provider: Arc<Provider>,
    /// Index of each event in the provider's list.
    places: HashMap<EventKey, usize>,
}

impl Joined {
    pub(crate) fn new(provider: Provider) -> Joined {
        let mut places = HashMap::with_capacity(provider.events.len());
        for (place, event) in provider.events.iter().enumerate() {
            places.entry(key_of(event)).or_insert(place);
        }
        Joined { provider: Arc::new(provider), places }
    }

    /// Returns the manifest event with this id and version, without a search through all events.
    pub(crate) fn event(&self, id: u16, version: u8) -> Option<&Arc<EventSchema>> {
        self.provider.events.get(*self.places.get(&(id, version, 0))?)
    }

    /// Returns whether any version of a manifest event is known.
    pub(crate) fn has_id(&self, id: u16) -> bool {
        (0..=u8::MAX).any(|version| self.event(id, version).is_some())
    }

    pub(crate) fn provider(&self) -> &Arc<Provider> {
        &self.provider
    }

    /// Merges a newer description. Its names and events replace the older ones. Each event keeps the names of the
    /// description it came from.
    pub(crate) fn add(&mut self, newer: Provider) {
        let provider = Arc::make_mut(&mut self.provider);
        provider.info = newer.info;
        let mut added = HashSet::with_capacity(newer.events.len());
        for event in newer.events {
            let key = key_of(&event);
            let place = self.places.get(&key).and_then(|place| provider.events.get_mut(*place));
            match place {
                Some(older) if added.insert(key) => *older = event,
                // If one description has an event twice, lookups find the first.
                Some(_) => provider.events.push(event),
                None => {
                    added.insert(key);
                    self.places.insert(key, provider.events.len());
                    provider.events.push(event);
                }
            }
        }
    }

    pub(crate) fn into_provider(self) -> Provider {
        Arc::unwrap_or_clone(self.provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProviderInfo;
    use etw_event::EventDescriptor;

    #[test]
    fn newer_descriptions_go_before_older_ones() {
        let check = |descriptions: &[(&str, &[(u16, &str)])], expected: &str| {
            let describe = |(name, events): &(&str, &[(u16, &str)])| {
                let info = Arc::new(ProviderInfo::new(Guid::ZERO, name, Decoding::Manifest, "test"));
                let event = |(id, name): &(u16, &str)| {
                    let descriptor = EventDescriptor { id: *id, ..EventDescriptor::default() };
                    let mut schema = EventSchema::new(info.clone(), descriptor);
                    schema.name = Some((*name).into());
                    Arc::new(schema)
                };
                Provider { events: events.iter().map(event).collect(), info: info.clone() }
            };
            let providers: Providers = descriptions.iter().map(describe).collect();
            let provider = SchemaSource::provider(&providers, &Guid::ZERO).unwrap();
            let events = provider.events.iter().map(|event| event.name.as_deref().unwrap_or_default());
            let text = [provider.info.name.as_ref()].into_iter().chain(events).collect::<Vec<_>>().join(" ");
            assert_eq!(text, expected);
        };
        check(&[("A", &[(1, "a1"), (2, "a2")])], "A a1 a2");
        check(&[("A", &[(1, "a1"), (2, "a2")]), ("B", &[(2, "b2"), (3, "b3")])], "B a1 b2 b3");
        check(&[("A", &[(1, "a1")]), ("B", &[(1, "first"), (1, "second")])], "B first second");
        check(&[("A", &[(1, "first"), (1, "second")]), ("B", &[(1, "b1")])], "B b1 second");
        check(&[("A", &[]), ("B", &[(1, "b1")]), ("C", &[(1, "c1")])], "C c1");
    }
}
