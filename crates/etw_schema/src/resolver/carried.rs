//! Schemas carried by a trace: event metadata of merged files, and EventSource manifests.

use etw_event::{Guid, Record, classes};

use super::Resolver;
use crate::event_metadata::{EventMetadata, EventMetadataError};
use crate::event_source::{IncompleteManifest, MANIFEST_EVENT_ID, is_manifest_chunk};
use crate::manifest::{Problem, ProblemKind};
use crate::{Provider, Providers};

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

impl Resolver {
    /// Adds a provider described by the trace itself (EventSource manifests).
    pub fn add_trace_provider(&mut self, provider: Provider) {
        let guid = provider.info.guid;
        self.trace.add(provider);
        self.forget(&guid);
    }

    /// Adds the payload of an EventInfo event (class EventMetadata, opcode 0x20): a `TRACE_EVENT_INFO`.
    ///
    /// # Errors
    ///
    /// Fails if the blob is truncated, or the trace's event metadata exceeds its limit.
    pub fn add_event_metadata(&mut self, blob: &[u8]) -> Result<(), EventMetadataError> {
        if let Some(guid) = self.metadata.add_event(blob)? {
            self.forget(&guid);
        }
        Ok(())
    }

    /// Adds the payload of an EventMapInfo event (class EventMetadata, opcode 0x21): a GUID, then an
    /// `EVENT_MAP_INFO`.
    ///
    /// # Errors
    ///
    /// Fails if the blob is truncated, or the trace's event metadata exceeds its limit.
    pub fn add_event_map(&mut self, payload: &[u8]) -> Result<(), EventMetadataError> {
        if let Some(guid) = self.metadata.add_map(payload)? {
            self.forget(&guid);
        }
        Ok(())
    }

    /// Adds the schema information in a record: event metadata of a merged trace, or chunks of EventSource manifests.
    /// Cheap for all other records. Metadata may follow the events it describes; to decode those, read the trace twice.
    ///
    /// # Errors
    ///
    /// Fails under the same conditions as [`Resolver::add_event_metadata`].
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

    /// Returns the EventSource manifests with missing chunks.
    pub fn incomplete_manifests(&self) -> Vec<IncompleteManifest> {
        self.manifests.clone().finish()
    }

    /// Returns the event metadata of the trace.
    pub fn event_metadata(&self) -> &EventMetadata {
        &self.metadata
    }

    /// Returns the providers described by the trace itself.
    pub fn trace_providers(&self) -> &Providers {
        &self.trace
    }
}
