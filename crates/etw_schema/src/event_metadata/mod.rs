//! Event metadata written into a trace by the merge step: `TRACE_EVENT_INFO` and `EVENT_MAP_INFO` blobs.
//!
//! Source: `tdh.h`; verified on every blob of the real merged traces. Offsets count from the blob's start. Strings are
//! UTF-16 with NUL. Strings from message tables end with a space, which is removed.
//!
//! ```
//! use etw_event::Guid;
//! use etw_schema::event_metadata::EventMetadata;
//!
//! let mut metadata = EventMetadata::default();
//! // A truncated blob is an error and adds nothing.
//! assert!(metadata.add_event(&[0; 16]).is_err());
//! assert!(metadata.event(&Guid::ZERO, 1, 0).is_none());
//! ```

mod encode;

use std::collections::HashMap;
use std::sync::Arc;

use etw_event::{EventDescriptor, Fields, Guid, Keyword, Level, Opcode};

use crate::{
    Count, Decoding, EventSchema, InType, Length, MapEntry, MapKind, OutType, Property, PropertyType,
    ProviderInfo, ValueMap, text,
};

pub use encode::{encode_event, encode_map, schema_of_event};

/// The error of reading event metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventMetadataError {
    /// The blob ends within a part.
    #[error("the blob of {len} bytes ends within {part}")]
    Cut {
        /// Bytes of the blob.
        len: usize,
        /// Name of the part.
        part: &'static str,
    },
    /// The trace contains more metadata than is kept.
    #[error("the trace contains more than {MAX_METADATA_BYTES} bytes of event metadata; the rest is ignored")]
    TooMuch,
}

/// Limit in bytes of the event metadata kept for one trace.
pub const MAX_METADATA_BYTES: usize = 24 << 20;

/// Limit of the different blobs kept for one event; the latest are.
const MAX_LAYOUTS: usize = 16;

/// Bytes of a `TRACE_EVENT_INFO` before its properties.
const HEADER: usize = 0x70;

/// The event metadata of a trace, by provider, id and version. Blobs are parsed on access.
#[derive(Debug, Clone, Default)]
pub struct EventMetadata {
    providers: HashMap<Guid, OfProvider>,
    bytes: usize,
}

#[derive(Debug, Clone, Default)]
struct OfProvider {
    name: Arc<str>,
    /// The blobs of each event, the latest last. Traces of several machines may be merged to one.
    events: HashMap<Key, Vec<Arc<[u8]>>>,
    maps: HashMap<Arc<str>, Arc<ValueMap>>,
}

/// The key of an event: `id` and `version`, or opcode and version for classic events (Wbem).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    id: u16,
    version: u8,
    opcode: Option<u8>,
}

impl EventMetadata {
    /// Adds the payload of an EventInfo event (opcode 0x20). Returns the GUID of the provider it describes, or `None`
    /// if it was added before.
    ///
    /// # Errors
    ///
    /// Fails if the blob is truncated, or the metadata exceeds [`MAX_METADATA_BYTES`].
    pub fn add_event(&mut self, blob: &[u8]) -> Result<Option<Guid>, EventMetadataError> {
        let cut = EventMetadataError::Cut { len: blob.len(), part: "its header" };
        let header = blob.get(..HEADER).ok_or(cut)?;
        let descriptor = descriptor_at(header, 0x20).ok_or(cut)?;
        let is_classic = header.u32_at(0x30) == Some(1);
        let event_guid = header.guid_at(0x10).unwrap_or_default();
        // A classic event's class is the second GUID.
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
        let known = provider.events.get(&key).map_or(&[][..], Vec::as_slice);
        if known.iter().any(|known| **known == *blob) {
            return Ok(None);
        }
        if self.bytes + blob.len() > MAX_METADATA_BYTES {
            return Err(EventMetadataError::TooMuch);
        }
        if provider.name.is_empty()
            && let Some(name) = Strings::new(blob).field(0x34)
        {
            provider.name = name;
        }
        let blobs = provider.events.entry(key).or_default();
        if blobs.len() >= MAX_LAYOUTS {
            self.bytes -= blobs.remove(0).len();
        }
        self.bytes += blob.len();
        blobs.push(blob.into());
        Ok(Some(guid))
    }

    /// Adds the payload of an EventMapInfo event (opcode 0x21): the provider's GUID, then the map. Returns the GUID, or
    /// `None` if the map was added before.
    ///
    /// # Errors
    ///
    /// Fails if the blob is truncated, or the metadata exceeds [`MAX_METADATA_BYTES`].
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

    /// Returns the name of a provider with metadata.
    pub fn provider_name(&self, provider: &Guid) -> Option<&Arc<str>> {
        self.providers.get(provider).map(|provider| &provider.name)
    }

    /// Returns the schema of a manifest event, with the maps added so far; the latest if there are several.
    pub fn event(&self, provider: &Guid, id: u16, version: u8) -> Option<EventSchema> {
        self.blobs(provider, &Key { id, version, opcode: None }).next()
    }

    /// Returns the schemas of a manifest event, the latest first.
    pub(crate) fn layouts(&self, provider: &Guid, id: u16, version: u8) -> Vec<Arc<EventSchema>> {
        self.blobs(provider, &Key { id, version, opcode: None }).map(Arc::new).collect()
    }

    /// Returns the schemas of a classic event, the latest first.
    pub(crate) fn classic_layouts(&self, class: &Guid, opcode: u8, version: u8) -> Vec<Arc<EventSchema>> {
        self.blobs(class, &Key { id: 0, version, opcode: Some(opcode) }).map(Arc::new).collect()
    }

    fn blobs(&self, guid: &Guid, key: &Key) -> impl Iterator<Item = EventSchema> {
        self.providers.get(guid).into_iter().flat_map(|of| {
            let blobs = of.events.get(key).into_iter().flatten().rev();
            blobs.filter_map(|blob| parse_event(blob, &of.maps).ok())
        })
    }

    /// Returns the schema of a classic event.
    pub fn classic_event(&self, class: &Guid, opcode: u8, version: u8) -> Option<EventSchema> {
        self.blobs(class, &Key { id: 0, version, opcode: Some(opcode) }).next()
    }

    /// Returns the number of events with metadata.
    pub fn len(&self) -> usize {
        self.providers.values().map(|provider| provider.events.len()).sum()
    }

    /// Returns whether no event has metadata.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether any version of an event has metadata.
    pub(crate) fn has_id(&self, provider: &Guid, id: u16) -> bool {
        let has = |of: &OfProvider, version| of.events.contains_key(&Key { id, version, opcode: None });
        self.providers.get(provider).is_some_and(|of| (0..=u8::MAX).any(|version| has(of, version)))
    }
}

/// Parses a `TRACE_EVENT_INFO` blob. Properties refer to maps by name.
///
/// # Errors
///
/// Fails if the blob is shorter than its header. Invalid names are omitted; the first invalid property ends the list.
pub fn parse_event(
    blob: &[u8],
    maps: &HashMap<Arc<str>, Arc<ValueMap>>,
) -> Result<EventSchema, EventMetadataError> {
    let cut = EventMetadataError::Cut { len: blob.len(), part: "its header" };
    let header = blob.get(..HEADER).ok_or(cut)?;
    let mut strings = Strings::new(blob);
    let guid = header.guid_at(0).unwrap_or_default();
    let provider_name = strings.field(0x34).unwrap_or_default();
    let origin = "event metadata in the trace";
    let info = ProviderInfo::new(guid, &provider_name, Decoding::EventMetadata, origin);
    let mut schema = EventSchema::new(Arc::new(info), descriptor_at(header, 0x20).ok_or(cut)?);
    schema.level_name = strings.field(0x38);
    schema.channel_name = strings.field(0x3C);
    schema.keyword_names = strings.multi(header.u32_at(0x40).unwrap_or(0));
    schema.task_name = strings.field(0x44);
    schema.opcode_name = strings.field(0x48);
    schema.message = strings.field(0x4C);
    // These fields have a different meaning in classic and WPP blobs.
    if header.u32_at(0x30) == Some(0) {
        schema.name = strings.field(0x5C);
    }
    schema.user_data = header.u32_at(0x6C).unwrap_or(0) & 2 != 0;
    let count = header.u32_at(0x64).unwrap_or(0) as usize;
    let entries = blob.get(HEADER..).unwrap_or_default().chunks_exact(24).take(count.min(u16::MAX.into()));
    schema.properties = entries.map(|entry| property(&mut strings, entry, maps)).collect();
    let top_level = header.u32_at(0x68).unwrap_or(0) as usize;
    schema.top_level = u16::try_from(top_level.min(schema.properties.len())).unwrap_or(u16::MAX);
    Ok(schema)
}

/// Parses an `EVENT_MAP_INFO` blob.
///
/// # Errors
///
/// Fails if the blob is shorter than its header. The first invalid entry ends the list.
pub fn parse_map(blob: &[u8]) -> Result<ValueMap, EventMetadataError> {
    let cut = EventMetadataError::Cut { len: blob.len(), part: "its header" };
    let flags = blob.u32_at(4).ok_or(cut)?;
    let count = blob.u32_at(8).ok_or(cut)? as usize;
    let entries = blob.get(0x10..).ok_or(cut)?.chunks_exact(8).take(count);
    let kind = match flags {
        // Bit maps of manifests hold masks; those of Wbem (with Flag) hold bit positions.
        _ if flags & 2 != 0 => MapKind::Bits,
        _ if flags & 0x30 != 0 => MapKind::BitPositions,
        _ => MapKind::Value,
    };
    let mut strings = Strings::new(blob);
    let name = strings.field(0).unwrap_or_default();
    let entries = entries.filter_map(|entry| {
        let text = strings.at(entry.u32_at(0)?)?;
        Some(MapEntry { value: entry.u32_at(4)?.into(), text })
    });
    Ok(ValueMap { name, kind, entries: entries.collect() })
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

fn property(strings: &mut Strings<'_>, entry: &[u8], maps: &HashMap<Arc<str>, Arc<ValueMap>>) -> Property {
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
        let map = if flags & CUSTOM_SCHEMA == 0 { strings.at(entry.u32_at(12).unwrap_or(0)) } else { None };
        let map = map.and_then(|name| maps.get(&name).cloned());
        PropertyType::Value { in_type: InType(word(8)), out_type: OutType(word(10)), map }
    };
    Property {
        name: strings.at(entry.u32_at(4).unwrap_or(0)).unwrap_or_default(),
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

/// The strings of a blob, each read once. Their total is limited to twice the blob, which only overlapping strings can
/// exceed.
struct Strings<'a> {
    blob: &'a [u8],
    known: HashMap<u32, Option<Arc<str>>>,
    /// Bytes left for strings.
    left: usize,
}

impl<'a> Strings<'a> {
    fn new(blob: &'a [u8]) -> Strings<'a> {
        Strings { blob, known: HashMap::new(), left: 2 * blob.len() }
    }

    /// Returns the string whose offset is at `offset` of the header, or `None` if it is absent, empty or invalid.
    fn field(&mut self, offset: usize) -> Option<Arc<str>> {
        self.at(self.blob.u32_at(offset)?)
    }

    /// Returns the string at an offset, without trailing spaces. Offset 0 means no string.
    fn at(&mut self, offset: u32) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(&offset) {
            return known.clone();
        }
        let raw = self.raw(offset);
        let text = raw.as_ref().map_or("", |(text, _)| text.trim_end_matches([' ', '\0']));
        let string = (!text.is_empty()).then(|| Arc::from(text));
        self.known.insert(offset, string.clone());
        string
    }

    /// Returns consecutive strings up to an empty one.
    fn multi(&mut self, mut offset: u32) -> Vec<Arc<str>> {
        let mut strings = Vec::new();
        while let Some((text, len)) = self.raw(offset).filter(|(text, _)| !text.is_empty()) {
            strings.push(text.trim_end().into());
            offset = offset.saturating_add(u32::try_from(len + 2).unwrap_or(u32::MAX));
        }
        strings
    }

    /// Returns the text at an offset and its length in bytes.
    fn raw(&mut self, offset: u32) -> Option<(String, usize)> {
        if offset == 0 {
            return None;
        }
        let bytes = text::until_nul16(self.blob.get(offset as usize..)?);
        self.left = self.left.checked_sub(bytes.len())?;
        let mut text = String::with_capacity(bytes.len() / 2);
        text::write_utf16(&mut text, bytes);
        Some((text, bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A blob under construction: a fixed part, followed by strings.
    struct Blob {
        bytes: Vec<u8>,
    }

    impl Blob {
        fn put(&mut self, offset: usize, bytes: &[u8]) {
            self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        }

        fn string(&mut self, offset: usize, text: &str) {
            let at = self.bytes.len() as u32;
            self.put(offset, &at.to_le_bytes());
            self.bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
    }

    /// Builds event 7 version 2 of a provider: a mapped integer, an array counted by it, and a struct of one string.
    fn event() -> Vec<u8> {
        let mut blob = Blob { bytes: vec![0; HEADER + 4 * 24] };
        blob.put(0, &[5; 16]);
        blob.put(0x20, &[7, 0, 2, 16, 4, 1, 3, 0, 0x11]);
        blob.string(0x34, "Provider ");
        blob.string(0x38, "win:Informational ");
        blob.string(0x3C, "Provider/Operational");
        blob.string(0x40, "KeyA \0KeyB \0");
        blob.string(0x44, "Task ");
        blob.string(0x4C, "Says %1 ");
        blob.put(0x64, &[4]);
        blob.put(0x68, &[3]);
        let entries: [(u32, [u16; 2], u16, u16); 4] =
            [(0, [8, 0], 1, 0), (4, [6, 22], 0, 0), (1, [3, 1], 1, 0), (2, [2, 0], 1, 0)];
        for (index, (flags, types, count, length)) in entries.into_iter().enumerate() {
            let at = HEADER + 24 * index;
            blob.put(at, &flags.to_le_bytes());
            blob.string(at + 4, ["kind", "ports", "inner", "text"][index]);
            blob.put(at + 8, &types[0].to_le_bytes());
            blob.put(at + 10, &types[1].to_le_bytes());
            blob.put(at + 16, &count.to_le_bytes());
            blob.put(at + 18, &length.to_le_bytes());
        }
        blob.string(HEADER + 12, "Kinds");
        blob.bytes
    }

    fn map(flag: u8) -> Vec<u8> {
        let mut blob = Blob { bytes: vec![0; 0x10 + 16] };
        blob.string(0, "Kinds");
        blob.put(4, &[flag]);
        blob.put(8, &[2]);
        blob.string(0x10, "static ");
        blob.put(0x14, &[1]);
        blob.string(0x18, "dynamic ");
        blob.put(0x1C, &[2]);
        blob.bytes
    }

    #[test]
    fn a_blob_becomes_a_schema_and_maps_may_come_later() {
        let guid = Guid::from_bytes([5; 16]);
        let mut metadata = EventMetadata::default();
        assert_eq!(metadata.add_event(&event()), Ok(Some(guid)));
        assert_eq!(metadata.add_event(&event()), Ok(None), "known already");
        let schema = metadata.event(&guid, 7, 2).unwrap();
        assert_eq!(metadata.event(&guid, 7, 1), None);
        assert_eq!((&*schema.provider.name, schema.top_level), ("Provider", 3));
        assert_eq!(schema.level_name.as_deref(), Some("win:Informational"));
        assert_eq!(schema.channel_name.as_deref(), Some("Provider/Operational"));
        assert_eq!((schema.task_name.as_deref(), schema.opcode_name.as_deref()), (Some("Task"), None));
        let keywords: Vec<&str> = schema.keyword_names.iter().map(|name| &**name).collect();
        assert_eq!(
            (keywords.as_slice(), schema.message.as_deref()),
            (["KeyA", "KeyB"].as_slice(), Some("Says %1"))
        );
        let descriptor = schema.descriptor;
        assert_eq!((descriptor.channel, descriptor.level, descriptor.task), (16, Level(4), 3));
        let kind = |schema: &EventSchema, index: usize| schema.properties[index].kind.clone();
        let plain = |in_type, out_type| PropertyType::Value { in_type, out_type, map: None };
        assert_eq!(kind(&schema, 0), plain(InType::UINT32, OutType::NULL));
        assert_eq!(kind(&schema, 1), plain(InType::UINT16, OutType::PORT));
        assert_eq!(schema.properties[1].count, Count::Property(0));
        assert_eq!(kind(&schema, 2), PropertyType::Struct { first: 3, members: 1 });
        assert_eq!(schema.properties[3].length, Length::Property(0));
        let payload = [&[5; 16][..], &map(1)].concat();
        assert_eq!(metadata.add_map(&payload), Ok(Some(guid)));
        assert_eq!(metadata.add_map(&payload), Ok(None));
        let schema = metadata.event(&guid, 7, 2).unwrap();
        let PropertyType::Value { map: Some(map), .. } = kind(&schema, 0) else { panic!("no map") };
        let entries: Vec<(u64, &str)> = map.entries.iter().map(|entry| (entry.value, &*entry.text)).collect();
        assert_eq!((map.kind, entries), (MapKind::Value, vec![(1, "static"), (2, "dynamic")]));
    }

    #[test]
    fn kinds_of_maps() {
        for (flag, kind) in
            [(1, MapKind::Value), (2, MapKind::Bits), (8, MapKind::Value), (0x10, MapKind::BitPositions)]
        {
            assert_eq!(parse_map(&map(flag)).unwrap().kind, kind, "{flag}");
        }
    }

    #[test]
    fn strings_that_overlap_are_not_read_again_and_again() {
        let mut blob = vec![0; 0x10];
        blob[8..12].copy_from_slice(&2000u32.to_le_bytes());
        for index in 0..2000u32 {
            blob.extend((0x10 + 8 * 2000 + 2 * index).to_le_bytes());
            blob.extend(index.to_le_bytes());
        }
        blob.resize(60_000, b'x');
        let map = parse_map(&blob).unwrap();
        let texts: usize = map.entries.iter().map(|entry| entry.text.len()).sum();
        // Twice the blob; two bytes become at most three.
        assert!((1..=3 * blob.len()).contains(&texts), "{texts} bytes of text");
    }

    #[test]
    fn broken_blobs_give_what_fits() {
        let (event, map) = (event(), map(2));
        for len in 0..event.len() {
            assert_eq!(parse_event(&event[..len], &HashMap::new()).is_ok(), len >= HEADER);
        }
        for len in 0..map.len() {
            assert_eq!(parse_map(&map[..len]).is_ok(), len >= 0x10);
        }
        // Sets every byte of the fixed parts to the extremes, so that each offset and count is wrong once.
        for at in 0..HEADER + 4 * 24 {
            for byte in [0, 1, 0x7F, 0xFF] {
                let mut broken = event.clone();
                broken[at] = byte;
                let schema = parse_event(&broken, &HashMap::new()).unwrap();
                let _ = crate::CompiledSchema::new(Arc::new(schema));
            }
        }
    }
}
