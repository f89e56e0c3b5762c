//! Event metadata that the merge step puts into a trace: `TRACE_EVENT_INFO` and `EVENT_MAP_INFO` blobs.
//!
//! Source: `tdh.h`; checked on every blob of the real merged traces. Offsets are from the blob's start; strings are
//! UTF-16 with NUL, those from message tables end with a space, which is cut.

use std::collections::HashMap;
use std::sync::Arc;

use etw_event::{EventDescriptor, Fields, Guid, Keyword, Level, Opcode};

use crate::{
    Count, Decoding, EventSchema, InType, Length, MapEntry, MapKind, OutType, Property, PropertyType,
    ProviderInfo, ValueMap, text,
};

/// Why bytes are no event metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventMetadataError {
    /// The blob ends within a part.
    #[error("the blob of {len} bytes ends within {part}")]
    Cut {
        /// Bytes of the blob.
        len: usize,
        /// Which part.
        part: &'static str,
    },
    /// The trace holds more metadata than is kept.
    #[error(
        "the trace holds more than {MAX_METADATA_BYTES} bytes of event metadata; what comes after is ignored"
    )]
    TooMuch,
}

/// Bytes of event metadata that are kept of one trace.
pub const MAX_METADATA_BYTES: usize = 24 << 20;

/// Bytes of a `TRACE_EVENT_INFO` before its properties.
const HEADER: usize = 0x70;

/// The event metadata of a trace, by provider, id and version. Blobs are parsed when they are asked for.
#[derive(Debug, Clone, Default)]
pub struct EventMetadata {
    providers: HashMap<Guid, OfProvider>,
    bytes: usize,
}

#[derive(Debug, Clone, Default)]
struct OfProvider {
    name: Arc<str>,
    events: HashMap<Key, Arc<[u8]>>,
    maps: HashMap<Arc<str>, Arc<ValueMap>>,
}

/// What an event is found by: `id` and `version`; for classic events (Wbem) opcode and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    id: u16,
    version: u8,
    opcode: Option<u8>,
}

impl EventMetadata {
    /// Takes in the payload of an EventInfo event (opcode 0x20). The GUID whose events it describes; `None` if it is
    /// known already.
    ///
    /// # Errors
    /// The blob is cut, or there is too much of them.
    pub fn add_event(&mut self, blob: &[u8]) -> Result<Option<Guid>, EventMetadataError> {
        let cut = EventMetadataError::Cut { len: blob.len(), part: "its header" };
        let header = blob.get(..HEADER).ok_or(cut)?;
        let descriptor = descriptor_at(header, 0x20).ok_or(cut)?;
        let is_classic = header.u32_at(0x30) == Some(1);
        let event_guid = header.guid_at(0x10).unwrap_or_default();
        // A classic event's class stands in the second GUID.
        let guid = if is_classic && !event_guid.is_zero() {
            event_guid
        } else {
            header.guid_at(0).unwrap_or_default()
        };
        let key = if is_classic {
            Key { id: 0, version: descriptor.version, opcode: Some(descriptor.opcode.0) }
        } else {
            Key { id: descriptor.id, version: descriptor.version, opcode: None }
        };
        let provider = self.providers.entry(guid).or_default();
        if provider.events.get(&key).is_some_and(|known| **known == *blob) {
            return Ok(None);
        }
        if self.bytes + blob.len() > MAX_METADATA_BYTES {
            return Err(EventMetadataError::TooMuch);
        }
        self.bytes += blob.len();
        if provider.name.is_empty()
            && let Some(name) = string_field(blob, 0x34)
        {
            provider.name = name;
        }
        provider.events.insert(key, blob.into());
        Ok(Some(guid))
    }

    /// Takes in the payload of an EventMapInfo event (opcode 0x21): the provider's GUID, then the map. The GUID;
    /// `None` if the map is known already.
    ///
    /// # Errors
    /// The blob is cut, or there is too much of them.
    pub fn add_map(&mut self, payload: &[u8]) -> Result<Option<Guid>, EventMetadataError> {
        let cut = EventMetadataError::Cut { len: payload.len(), part: "its header" };
        let guid = payload.guid_at(0).ok_or(cut)?;
        let map = parse_map(payload.get(16..).ok_or(cut)?)?;
        let provider = self.providers.entry(guid).or_default();
        if provider.maps.get(&map.name).is_some_and(|known| **known == map) {
            return Ok(None);
        }
        if self.bytes + payload.len() > MAX_METADATA_BYTES {
            return Err(EventMetadataError::TooMuch);
        }
        self.bytes += payload.len();
        provider.maps.insert(map.name.clone(), Arc::new(map));
        Ok(Some(guid))
    }

    /// Name of a provider of which there is metadata.
    pub fn provider_name(&self, provider: &Guid) -> Option<&Arc<str>> {
        self.providers.get(provider).map(|provider| &provider.name)
    }

    /// The schema of a manifest event, with the maps that are known by now.
    pub fn event(&self, provider: &Guid, id: u16, version: u8) -> Option<EventSchema> {
        let of = self.providers.get(provider)?;
        let blob = of.events.get(&Key { id, version, opcode: None })?;
        parse_event(blob, &of.maps).ok()
    }

    /// The schema of a classic event.
    pub fn classic_event(&self, class: &Guid, opcode: u8, version: u8) -> Option<EventSchema> {
        let of = self.providers.get(class)?;
        let blob = of.events.get(&Key { id: 0, version, opcode: Some(opcode) })?;
        parse_event(blob, &of.maps).ok()
    }

    /// How many events there is metadata of.
    pub fn len(&self) -> usize {
        self.providers.values().map(|provider| provider.events.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Versions of an event of which there is metadata.
    pub(crate) fn has_id(&self, provider: &Guid, id: u16) -> bool {
        self.providers.get(provider).is_some_and(|of| of.events.keys().any(|key| key.id == id))
    }
}

/// Reads a `TRACE_EVENT_INFO` blob. Maps are joined by their name.
///
/// # Errors
/// The blob ends within its header. Names that do not fit are left out; properties that do not fit end the list.
pub fn parse_event(
    blob: &[u8],
    maps: &HashMap<Arc<str>, Arc<ValueMap>>,
) -> Result<EventSchema, EventMetadataError> {
    let cut = EventMetadataError::Cut { len: blob.len(), part: "its header" };
    let header = blob.get(..HEADER).ok_or(cut)?;
    let guid = header.guid_at(0).unwrap_or_default();
    let provider_name = string_field(blob, 0x34).unwrap_or_default();
    let origin = "event metadata in the trace";
    let info = ProviderInfo::new(guid, &provider_name, Decoding::EventMetadata, origin);
    let mut schema = EventSchema::new(Arc::new(info), descriptor_at(header, 0x20).ok_or(cut)?);
    schema.level_name = string_field(blob, 0x38);
    schema.channel_name = string_field(blob, 0x3C);
    schema.keyword_names = multi_string(blob, header.u32_at(0x40).unwrap_or(0));
    schema.task_name = string_field(blob, 0x44);
    schema.opcode_name = string_field(blob, 0x48);
    schema.message = string_field(blob, 0x4C);
    // Classic and WPP blobs have another meaning here.
    if header.u32_at(0x30) == Some(0) {
        schema.name = string_field(blob, 0x5C);
    }
    schema.user_data = header.u32_at(0x6C).unwrap_or(0) & 2 != 0;
    let count = header.u32_at(0x64).unwrap_or(0) as usize;
    let entries = blob.get(HEADER..).unwrap_or_default().chunks_exact(24).take(count.min(u16::MAX.into()));
    schema.properties = entries.map(|entry| property(blob, entry, maps)).collect();
    let top_level = header.u32_at(0x68).unwrap_or(0) as usize;
    schema.top_level = top_level.min(schema.properties.len()) as u16;
    Ok(schema)
}

/// Reads an `EVENT_MAP_INFO` blob.
///
/// # Errors
/// The blob ends within its header. Entries that do not fit end the list.
pub fn parse_map(blob: &[u8]) -> Result<ValueMap, EventMetadataError> {
    let cut = EventMetadataError::Cut { len: blob.len(), part: "its header" };
    let flags = blob.u32_at(4).ok_or(cut)?;
    let count = blob.u32_at(8).ok_or(cut)? as usize;
    let entries = blob.get(0x10..).ok_or(cut)?.chunks_exact(8).take(count);
    let kind = match flags {
        // Manifest bit maps hold masks, Wbem's (with Flag) bit positions.
        _ if flags & 2 != 0 => MapKind::Bits,
        _ if flags & 0x30 != 0 => MapKind::BitPositions,
        _ => MapKind::Value,
    };
    let entries = entries.filter_map(|entry| {
        let text = string(blob, entry.u32_at(0)?)?;
        Some(MapEntry { value: entry.u32_at(4)?.into(), text })
    });
    Ok(ValueMap { name: string_field(blob, 0).unwrap_or_default(), kind, entries: entries.collect() })
}

fn descriptor_at(bytes: &[u8], offset: usize) -> Option<EventDescriptor> {
    Some(EventDescriptor {
        id: bytes.u16_at(offset)?,
        version: bytes.u8_at(offset + 2)?,
        channel: bytes.u8_at(offset + 3)?,
        level: Level(bytes.u8_at(offset + 4)?),
        opcode: Opcode(bytes.u8_at(offset + 5)?),
        task: bytes.u16_at(offset + 6)?,
        keyword: Keyword(bytes.u64_at(offset + 8)?),
    })
}

fn property(blob: &[u8], entry: &[u8], maps: &HashMap<Arc<str>, Arc<ValueMap>>) -> Property {
    const STRUCT: u32 = 0x01;
    const PARAM_LENGTH: u32 = 0x02;
    const PARAM_COUNT: u32 = 0x04;
    const FIXED_LENGTH: u32 = 0x10;
    const FIXED_COUNT: u32 = 0x20;
    const HAS_TAGS: u32 = 0x40;
    const CUSTOM_SCHEMA: u32 = 0x80;
    let flags = entry.u32_at(0).unwrap_or(0);
    let word = |offset: usize| entry.u16_at(offset).unwrap_or(0);
    let (count, length) = (word(0x10), word(0x12));
    let kind = if flags & STRUCT != 0 {
        PropertyType::Struct { first: word(8), members: word(10) }
    } else {
        let map = if flags & CUSTOM_SCHEMA == 0 { string(blob, entry.u32_at(12).unwrap_or(0)) } else { None };
        let map = map.and_then(|name| maps.get(&name).cloned());
        PropertyType::Value { in_type: InType(word(8)), out_type: OutType(word(10)), map }
    };
    Property {
        name: string(blob, entry.u32_at(4).unwrap_or(0)).unwrap_or_default(),
        kind,
        length: if flags & PARAM_LENGTH != 0 {
            Length::Property(length)
        } else if length != 0 || flags & FIXED_LENGTH != 0 {
            Length::Fixed(length)
        } else {
            Length::Natural
        },
        count: if flags & PARAM_COUNT != 0 {
            Count::Property(count)
        } else if flags & FIXED_COUNT != 0 || count > 1 {
            Count::Fixed(count)
        } else {
            Count::One
        },
        tags: if flags & HAS_TAGS != 0 { entry.u32_at(0x14).unwrap_or(0) & 0x0FFF_FFFF } else { 0 },
    }
}

/// The string whose offset stands at `offset` of the header; `None` if it is absent, empty, or does not fit.
fn string_field(blob: &[u8], offset: usize) -> Option<Arc<str>> {
    string(blob, blob.u32_at(offset)?)
}

/// The string at an offset, without spaces at its end; offset 0 is none.
fn string(blob: &[u8], offset: u32) -> Option<Arc<str>> {
    let (text, _) = raw_string(blob, offset)?;
    let text = text.trim_end_matches([' ', '\0']);
    if text.is_empty() { None } else { Some(text.into()) }
}

/// Strings one behind the other up to an empty one.
fn multi_string(blob: &[u8], mut offset: u32) -> Vec<Arc<str>> {
    let mut strings = Vec::new();
    while let Some((text, len)) = raw_string(blob, offset).filter(|(text, _)| !text.is_empty()) {
        strings.push(text.trim_end().into());
        offset = offset.saturating_add(len as u32 + 2);
    }
    strings
}

/// The text at an offset and its length in bytes.
fn raw_string(blob: &[u8], offset: u32) -> Option<(String, usize)> {
    if offset == 0 {
        return None;
    }
    let bytes = text::until_nul16(blob.get(offset as usize..)?);
    let mut text = String::with_capacity(bytes.len() / 2);
    text::write_utf16(&mut text, bytes);
    Some((text, bytes.len()))
}
