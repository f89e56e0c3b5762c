//! Schemas carried by a trace: event metadata of merged files, and EventSource manifests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use etw_event::{Guid, Record, Ticks, classes};
use etw_kernel_events::ids::{self, EventId};

use super::Resolver;
use crate::ProviderInfo;
use crate::event_metadata::{EventMetadata, EventMetadataError};
use crate::event_source::{
    EventSourceManifest, EventSourceManifests, IncompleteManifest, MANIFEST_EVENT_ID, is_manifest_chunk,
};
use crate::manifest::{Problem, ProblemKind};
use crate::source::Joined;

/// Limit of the properties described by the EventSource manifests of a trace. Events share templates, so a hostile
/// trace could require a hundred times its own size; real traces have some ten thousand.
const MAX_TRACE_PROPERTIES: usize = 1 << 20;

/// The schema information that [`Resolver::observe`] found in a record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Observed {
    /// No schema information.
    Nothing,
    /// Event metadata.
    EventMetadata,
    /// A chunk of an EventSource manifest.
    ManifestChunk,
    /// The last missing chunk of an EventSource manifest, which is now parsed.
    Manifest {
        /// The provider that wrote it.
        provider: Guid,
        /// The process that wrote it.
        process: u32,
        /// The parts of the manifest that could not be read.
        problems: Vec<Problem>,
    },
}

/// The schemas in a trace.
#[derive(Debug, Clone, Default)]
pub(super) struct Carried {
    pub(super) metadata: EventMetadata,
    gathered: EventSourceManifests,
    manifests: HashMap<Guid, Manifests>,
}

/// The EventSource manifests of one provider.
#[derive(Debug, Clone, Default)]
struct Manifests {
    /// The different ones in the order of arrival, with the numbers of their texts.
    distinct: Vec<(u32, Arc<Joined>)>,
    /// The places in that list of those that a process sent, by process and time.
    sent: BTreeMap<(u32, Ticks), usize>,
}

/// Limit of the number of remembered arrivals of a provider's manifests: some from each of the processes of a day.
const MAX_SENT: usize = 1 << 16;

impl Carried {
    /// Returns the names of a provider.
    pub(super) fn info(&self, guid: &Guid) -> Option<&Arc<ProviderInfo>> {
        self.manifests.get(guid)?.distinct.last().map(|(_, manifest)| &manifest.provider().info)
    }

    /// Returns the manifests of a provider, first the one that holds for the record's process at its time, then the
    /// latest.
    pub(super) fn manifests(&self, record: &Record<'_>, guid: &Guid) -> impl Iterator<Item = &Joined> {
        let known = self.manifests.get(guid);
        let own = known.and_then(|known| known.of(record));
        let distinct = known.map_or(&[][..], |known| &*known.distinct);
        let others = (0..distinct.len()).rev().filter(move |place| Some(*place) != own);
        own.into_iter().chain(others).filter_map(|place| distinct.get(place)).map(|(_, manifest)| &**manifest)
    }

    /// Returns whether it is known which of the provider's manifests holds for a record.
    pub(super) fn tells_manifest(&self, record: &Record<'_>, guid: &Guid) -> bool {
        self.manifests.get(guid).is_none_or(|known| known.distinct.len() < 2 || known.of(record).is_some())
    }

    /// Returns the number of the manifest that holds for a record's process; 0 if none does.
    pub(super) fn manifest_number(&self, record: &Record<'_>, guid: &Guid) -> u64 {
        let own = self.manifests.get(guid).and_then(|known| known.of(record));
        own.map_or(0, |place| 1 + place as u64)
    }
}

impl Manifests {
    /// Returns the place of the manifest that the record's process sent last before it, or first after it.
    fn of(&self, record: &Record<'_>) -> Option<usize> {
        let (process, time) = (record.process_id()?, record.raw_time());
        let last = Ticks(i64::MAX);
        let before = self.sent.range((process, Ticks(i64::MIN))..=(process, time)).next_back();
        let after = || self.sent.range((process, time)..=(process, last)).next();
        before.or_else(after).map(|(_, place)| *place)
    }

    /// Adds that a process sent the manifest at a place. Returns whether that changes what holds.
    fn send(&mut self, record: &Record<'_>, place: usize) -> bool {
        let is_new = self.sent.len() < MAX_SENT && self.of(record) != Some(place);
        if is_new {
            self.sent.insert((record.process_id().unwrap_or(0), record.raw_time()), place);
        }
        is_new
    }
}

impl Resolver {
    fn carries(&mut self, source: usize, guid: Guid) {
        self.carried_guids.insert(guid);
        let differ = |carried: &Carried| carried.manifests.get(&guid).is_some_and(|it| it.distinct.len() > 1);
        self.is_scoped |= self.carried.len() > 1 || self.carried.get(source).is_some_and(differ);
        self.forget(&guid);
    }

    /// Adds the schema information in a record: event metadata of a merged trace, or chunks of EventSource manifests.
    /// Cheap for all other records. Metadata may follow the events it describes; to decode those, read the trace twice.
    ///
    /// # Errors
    ///
    /// Fails if a blob of event metadata is truncated, or the trace's event metadata exceeds its limit.
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
        let source = self.source_of(record);
        let Some(carried) = self.carried.get_mut(source) else { return Ok(Observed::Nothing) };
        let added = match EventId::from_record(record) {
            Some(ids::EventMetadata::EVENT_INFO) => carried.metadata.add_event(record.payload())?,
            Some(ids::EventMetadata::EVENT_MAP_INFO) => carried.metadata.add_map(record.payload())?,
            _ => return Ok(Observed::Nothing),
        };
        if let Some(guid) = added {
            self.carries(source, guid);
        }
        Ok(Observed::EventMetadata)
    }

    #[cold]
    fn observe_chunk(&mut self, record: &Record<'_>) -> Observed {
        if !is_manifest_chunk(record) {
            return Observed::Nothing;
        }
        let source = self.source_of(record);
        let Some(carried) = self.carried.get_mut(source) else { return Observed::ManifestChunk };
        let Some(manifest) = carried.gathered.add(record) else { return Observed::ManifestChunk };
        let EventSourceManifest { guid, process, number, text } = manifest;
        let is_new = text.is_some();
        let (provider, mut problems) = text.map_or((None, Vec::new()), |text| (text.provider, text.problems));
        if let Some(provider) = provider {
            let properties: usize = provider.events.iter().map(|event| 8 + event.properties.len()).sum();
            self.carried_properties = self.carried_properties.saturating_add(8 + properties);
            if self.carried_properties <= MAX_TRACE_PROPERTIES {
                let manifests = carried.manifests.entry(guid).or_default();
                manifests.distinct.push((number, Arc::new(Joined::new(provider))));
            } else {
                let kind = ProblemKind::TooMany("events in the manifests of this trace; this one is ignored");
                problems.push(Problem { line: 1, column: 1, kind });
            }
        }
        if let Some(manifests) = carried.manifests.get_mut(&guid)
            && let Some(place) = manifests.distinct.iter().position(|(known, _)| *known == number)
        {
            let is_sent = manifests.send(record, place);
            if is_new || is_sent {
                self.carries(source, guid);
            }
        }
        match is_new {
            true => Observed::Manifest { provider: guid, process, problems },
            false => Observed::ManifestChunk,
        }
    }

    /// Returns the EventSource manifests with missing chunks.
    pub fn incomplete_manifests(&self) -> Vec<IncompleteManifest> {
        self.carried.iter().flat_map(|carried| carried.gathered.clone().finish()).collect()
    }
}
