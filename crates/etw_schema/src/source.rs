//! Sources of schemas, and how several descriptions of one provider become one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use etw_event::Guid;

use crate::builtin::BuiltIn;
use crate::{Decoding, EventSchema, Provider};

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
    by_guid: HashMap<Guid, Joined>,
}

impl Providers {
    /// No providers.
    pub fn new() -> Providers {
        Providers::default()
    }

    /// Adds a provider. Events of one that is there already are kept unless the new one describes them too.
    pub fn add(&mut self, provider: Provider) {
        match self.by_guid.entry(provider.info.guid) {
            Entry::Occupied(mut known) => known.get_mut().add(provider),
            Entry::Vacant(place) => {
                place.insert(Joined::new(provider));
            }
        }
    }

    /// The providers, in no order.
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

/// By what an event is found among those of its provider: id, version, and of classic events the opcode too.
type EventKey = (u16, u8, u8);

fn key_of(event: &EventSchema) -> EventKey {
    let descriptor = &event.descriptor;
    let is_classic = event.decoding == Decoding::Mof || event.provider.class_of.is_some();
    (descriptor.id, descriptor.version, if is_classic { descriptor.opcode.0 } else { 0 })
}

/// One provider out of several descriptions, of which the newer holds. Each addition takes time for its own events,
/// whatever was there before: a trace may hold one manifest after the other.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    provider: Arc<Provider>,
    /// Where the events stand.
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

    /// Takes in a newer description: its names hold, and of events that both describe, its own. Each event keeps the
    /// names of the description that it is from.
    pub(crate) fn add(&mut self, newer: Provider) {
        let provider = Arc::make_mut(&mut self.provider);
        provider.info = newer.info;
        let mut added = HashSet::with_capacity(newer.events.len());
        for event in newer.events {
            let key = key_of(&event);
            let place = self.places.get(&key).and_then(|place| provider.events.get_mut(*place));
            match place {
                Some(older) if added.insert(key) => *older = event,
                // Of two in one description, the first is the one that is found.
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
