//! What a trace carries of schemas: event metadata of merged files, and the manifests of EventSources.

use etw_event::{Guid, Record, classes};

use super::Resolver;
use crate::event_metadata::{EventMetadata, EventMetadataError};
use crate::event_source::{IncompleteManifest, MANIFEST_EVENT_ID, is_manifest_chunk};
use crate::manifest::{Problem, ProblemKind};
use crate::{Provider, Providers};

/// Properties that the EventSource manifests of a trace may describe. Events share templates, so that a trace made for
/// it could ask for a hundred times its own size; real traces have some ten thousand.
const MAX_TRACE_PROPERTIES: usize = 1 << 20;

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

impl Resolver {
    /// Adds a provider that the trace itself describes (EventSource manifests).
    pub fn add_trace_provider(&mut self, provider: Provider) {
        let guid = provider.info.guid;
        self.trace.add(provider);
        self.forget(&guid);
    }

    /// Takes in the payload of an EventInfo event (class EventMetadata, opcode 0x20): a `TRACE_EVENT_INFO`.
    ///
    /// # Errors
    /// The blob is cut, or the trace holds too much of them.
    pub fn add_event_metadata(&mut self, blob: &[u8]) -> Result<(), EventMetadataError> {
        if let Some(guid) = self.metadata.add_event(blob)? {
            self.forget(&guid);
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
            self.forget(&guid);
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
}
