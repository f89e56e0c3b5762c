//! Manifests that .NET's EventSource writes into the trace, split into chunks and sent as events.
//!
//! Each such event has id 0xFFFE and this payload:
//!
//! | offset | type | what |
//! |---|---|---|
//! | 0 | u8 | format: 1, plain XML |
//! | 1 | u8 | major version: 1 |
//! | 2 | u8 | minor version |
//! | 3 | u8 | magic: 0x5B |
//! | 4 | u16 | number of chunks |
//! | 6 | u16 | number of this chunk, from 0 |
//! | 8 | | part of the XML in UTF-8, at most 0xFF00 bytes |
//!
//! Source: `ManifestEnvelope` in .NET's `EventSource.cs`. Observed: DynamicEvents.etl, net.4.5.2.x64.etl.
//!
//! An EventSource writes its manifest when a session enables it and again when the session ends. A trace may
//! therefore contain the same manifest several times, from several processes, and after the events it describes.
//! Processes with different versions of a program send different manifests of one provider.
//!
//! ```
//! use etw_event::Guid;
//! use etw_schema::event_source::EventSourceManifests;
//!
//! let xml: &[u8] = br#"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"/>"#;
//! let mut manifests = EventSourceManifests::new();
//! // The first of two chunks.
//! let chunk = [&[1, 1, 0, 0x5B, 2, 0, 0, 0][..], xml].concat();
//! assert!(manifests.add_chunk(Guid::from_provider_name("MyCompany.MyApp"), 4711, &chunk).is_none());
//! assert_eq!(manifests.finish().len(), 1);
//! ```

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, hash_map};
use std::hash::{DefaultHasher, Hash, Hasher};

use etw_event::{Fields, Guid, Record};

use crate::manifest::{self, Problem};
use crate::{Decoding, Provider};

/// Id of the events that carry manifests.
pub const MANIFEST_EVENT_ID: u16 = 0xFFFE;

/// Assembles manifests from the chunks in the records of a trace.
///
/// Incomplete manifests use at most 32 MB; beyond that the oldest is discarded.
#[derive(Debug, Clone, Default)]
pub struct EventSourceManifests {
    /// By provider and process.
    gathering: HashMap<(Guid, u32), Gathering>,
    /// The keys of incomplete manifests, by the number of their first chunks.
    by_age: BTreeMap<u64, (Guid, u32)>,
    /// Numbers of the manifests already read, by a hash over provider and text.
    seen: HashMap<u64, u32>,
    incomplete: Vec<IncompleteManifest>,
    bytes: usize,
    /// Counts chunks, to find the oldest manifest.
    begun: u64,
}

/// A complete manifest.
#[derive(Debug)]
pub struct EventSourceManifest {
    /// GUID of the provider that wrote it.
    pub guid: Guid,
    /// The process that wrote it.
    pub process: u32,
    /// The number of its text, from 0: equal texts have one number.
    pub number: u32,
    /// What it says; `None` if the same text was complete before.
    pub text: Option<ManifestText>,
}

/// What a manifest says.
#[derive(Debug)]
pub struct ManifestText {
    /// The provider; `None` if the text does not describe the provider that wrote it.
    pub provider: Option<Provider>,
    /// The parts of the text that could not be read.
    pub problems: Vec<Problem>,
}

/// A manifest with missing chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncompleteManifest {
    /// The provider.
    pub guid: Guid,
    /// The process that wrote it.
    pub process: u32,
    /// The number of chunks found.
    pub chunks: usize,
    /// The number of chunks expected.
    pub of: u16,
}

#[derive(Debug, Clone)]
struct Gathering {
    of: u16,
    begun: u64,
    chunks: BTreeMap<u16, Box<[u8]>>,
}

/// Limit of the bytes held in incomplete manifests.
const MAX_GATHERING: usize = 32 << 20;
/// Estimated cost of a chunk or an incomplete manifest, in addition to its bytes.
const OVERHEAD: usize = 128;
/// Limit of the number of incomplete manifests reported.
const MAX_INCOMPLETE: usize = 1000;
/// Length of the header before the XML.
const ENVELOPE_LEN: usize = 8;

/// Returns whether a record is a chunk of a manifest.
#[inline]
pub fn is_manifest_chunk(record: &Record<'_>) -> bool {
    record.descriptor().id == MANIFEST_EVENT_ID && envelope(record.payload()).is_some()
}

impl EventSourceManifests {
    /// Creates an empty collector.
    pub fn new() -> EventSourceManifests {
        EventSourceManifests::default()
    }

    /// Adds a record. Returns the manifest if the record completes one.
    pub fn add(&mut self, record: &Record<'_>) -> Option<EventSourceManifest> {
        if record.descriptor().id != MANIFEST_EVENT_ID {
            return None;
        }
        self.add_chunk(record.provider_id(), record.process_id().unwrap_or(0), record.payload())
    }

    /// Adds the payload of a manifest event; ignores any other payload. Returns as [`EventSourceManifests::add`].
    pub fn add_chunk(&mut self, guid: Guid, process: u32, payload: &[u8]) -> Option<EventSourceManifest> {
        let (of, number, xml) = envelope(payload)?;
        let key = (guid, process);
        let other = self.gathering.get(&key).is_some_and(|known| {
            known.of != of || known.chunks.get(&number).is_some_and(|known| **known != *xml)
        });
        if other {
            // A different version of the manifest starts before the last one was complete.
            self.give_up(key);
        }
        self.begun += 1;
        let begun = self.begun;
        let (bytes, by_age) = (&mut self.bytes, &mut self.by_age);
        let gathering = self.gathering.entry(key).or_insert_with(|| {
            *bytes += OVERHEAD;
            by_age.insert(begun, key);
            Gathering { of, begun, chunks: BTreeMap::new() }
        });
        if let Entry::Vacant(place) = gathering.chunks.entry(number) {
            self.bytes += xml.len() + OVERHEAD;
            place.insert(xml.into());
        }
        if gathering.chunks.len() < usize::from(of) {
            self.make_room();
            return None;
        }
        let text = self.remove(key).map(|gathering| {
            let chunks: Vec<Box<[u8]>> = gathering.chunks.into_values().collect();
            chunks.concat()
        })?;
        let mut hasher = DefaultHasher::new();
        (guid, &text).hash(&mut hasher);
        let next = u32::try_from(self.seen.len()).unwrap_or(u32::MAX);
        match self.seen.entry(hasher.finish()) {
            hash_map::Entry::Occupied(known) => {
                Some(EventSourceManifest { guid, process, number: *known.get(), text: None })
            }
            hash_map::Entry::Vacant(place) => {
                place.insert(next);
                Some(EventSourceManifest { guid, process, number: next, text: Some(read(guid, &text)) })
            }
        }
    }

    /// Returns the manifests that are still incomplete or were discarded, oldest first.
    pub fn finish(mut self) -> Vec<IncompleteManifest> {
        while let Some((_, key)) = self.by_age.first_key_value() {
            self.give_up(*key);
        }
        self.incomplete
    }

    fn make_room(&mut self) {
        while self.bytes > MAX_GATHERING
            && let Some((_, key)) = self.by_age.first_key_value()
        {
            self.give_up(*key);
        }
    }

    fn give_up(&mut self, key: (Guid, u32)) {
        if let Some(gathering) = self.remove(key)
            && self.incomplete.len() < MAX_INCOMPLETE
        {
            let (guid, process) = key;
            let (chunks, of) = (gathering.chunks.len(), gathering.of);
            self.incomplete.push(IncompleteManifest { guid, process, chunks, of });
        }
    }

    fn remove(&mut self, key: (Guid, u32)) -> Option<Gathering> {
        let gathering = self.gathering.remove(&key)?;
        self.by_age.remove(&gathering.begun);
        let bytes: usize = gathering.chunks.values().map(|chunk| chunk.len() + OVERHEAD).sum();
        self.bytes = self.bytes.saturating_sub(bytes + OVERHEAD);
        Some(gathering)
    }
}

/// Returns the number of chunks, the number of this chunk, and its text.
fn envelope(payload: &[u8]) -> Option<(u16, u16, &[u8])> {
    const FORMAT_XML: u8 = 1;
    const MAGIC: u8 = 0x5B;
    if payload.u8_at(0)? != FORMAT_XML || payload.u8_at(3)? != MAGIC {
        return None;
    }
    let (of, number) = (payload.u16_at(4)?, payload.u16_at(6)?);
    (number < of).then_some((of, number, payload.get(ENVELOPE_LEN..)?))
}

fn read(guid: Guid, text: &[u8]) -> ManifestText {
    let manifest = manifest::read_as(text, "EventSource manifest in the trace", Decoding::EventSource);
    let provider = manifest.providers.into_iter().find(|provider| provider.info.guid == guid);
    ManifestText { provider, problems: manifest.problems }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: Guid = Guid::from_u128(0x67883bbc_d592_4d02_8e29_66907fcb07d6);

    fn text(event: u16) -> String {
        format!(
            "<instrumentationManifest><instrumentation><events><provider name=\"P\" guid=\"{GUID}\">\
             <events><event value=\"{event}\" symbol=\"E\"/></events></provider></events></instrumentation>\
             </instrumentationManifest>"
        )
    }

    fn chunks(text: &str, of: u16) -> Vec<Vec<u8>> {
        let size = text.len().div_ceil(usize::from(of));
        let chunk = |(number, part): (usize, &[u8])| {
            let mut bytes = vec![1, 1, 0, 0x5B];
            bytes.extend(of.to_le_bytes());
            bytes.extend(u16::try_from(number).unwrap().to_le_bytes());
            bytes.extend(part);
            bytes
        };
        text.as_bytes().chunks(size).enumerate().map(chunk).collect()
    }

    fn id(manifest: Option<EventSourceManifest>) -> u16 {
        manifest.unwrap().text.unwrap().provider.unwrap().events[0].descriptor.id
    }

    #[test]
    fn chunks_in_any_order_and_only_once() {
        let mut manifests = EventSourceManifests::new();
        let chunks = chunks(&text(7), 3);
        assert!(manifests.add_chunk(GUID, 1, &chunks[2]).is_none());
        assert!(manifests.add_chunk(GUID, 1, &chunks[0]).is_none());
        assert!(manifests.add_chunk(GUID, 1, &chunks[0]).is_none());
        assert!(manifests.add_chunk(GUID, 2, &chunks[1]).is_none(), "of another process");
        assert_eq!(id(manifests.add_chunk(GUID, 1, &chunks[1])), 7);
        let again: Vec<_> = chunks.iter().filter_map(|chunk| manifests.add_chunk(GUID, 1, chunk)).collect();
        assert!(matches!(*again, [EventSourceManifest { number: 0, text: None, .. }]), "known already");
        assert_eq!(manifests.bytes, OVERHEAD * 2 + chunks[1].len() - ENVELOPE_LEN);
        let rest = manifests.finish();
        assert_eq!(rest, [IncompleteManifest { guid: GUID, process: 2, chunks: 1, of: 3 }]);
    }

    #[test]
    fn another_version_starts_before_the_first_is_complete() {
        let mut manifests = EventSourceManifests::new();
        assert!(manifests.add_chunk(GUID, 1, &chunks(&text(1), 2)[0]).is_none());
        let other = chunks(&text(22), 3);
        for chunk in &other[..2] {
            assert!(manifests.add_chunk(GUID, 1, chunk).is_none());
        }
        assert_eq!(id(manifests.add_chunk(GUID, 1, &other[2])), 22);
        assert_eq!(manifests.finish().len(), 1);
    }

    #[test]
    fn other_payloads_are_ignored() {
        let mut manifests = EventSourceManifests::new();
        for payload in [&[][..], &[1, 1, 0, 0x5B], &[1, 1, 0, 0x5B, 0, 0, 0, 0], &[2, 1, 0, 0x5B, 1, 0, 0, 0]]
        {
            assert!(manifests.add_chunk(GUID, 1, payload).is_none());
        }
        assert!(manifests.finish().is_empty());
        // A chunk that describes another provider.
        let mut manifests = EventSourceManifests::new();
        let wrong = manifests.add_chunk(Guid::ZERO, 1, &chunks(&text(1), 1)[0]).unwrap();
        assert!(wrong.text.unwrap().provider.is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let mut manifests = EventSourceManifests::new();
        let mut chunk = vec![1, 1, 0, 0x5B, 0xFF, 0xFF, 0, 0];
        chunk.resize(0xFF00, b' ');
        for process in 0..2000 {
            assert!(manifests.add_chunk(GUID, process, &chunk).is_none());
            assert!(manifests.bytes <= MAX_GATHERING);
        }
        assert_eq!(manifests.finish().len(), MAX_INCOMPLETE);
    }
}
