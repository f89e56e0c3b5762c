//! Encodes schemas as event metadata, so that the events of a recording can be decoded elsewhere.

use std::sync::Arc;

use etw_event::{EventDescriptor, Guid};

use super::HEADER;
use crate::manifest::winmeta;
use crate::{Count, EventSchema, InType, Length, MapKind, OpcodeName, PropertyType, ValueMap};

/// Encodes a schema as the payload of an EventInfo event (class EventMetadata, opcode 0x20): a `TRACE_EVENT_INFO`.
/// Returns `None` for arrays that the format cannot express, which manifests do not have, and for properties whose extent
/// is not known.
pub fn encode_event(schema: &EventSchema) -> Option<Vec<u8>> {
    let mut blob = Blob { bytes: vec![0; HEADER + 24 * schema.properties.len()] };
    let descriptor = schema.descriptor;
    blob.put(0x00, &schema.provider.guid.to_bytes());
    blob.put(0x20, &descriptor.id.to_le_bytes());
    let small = [descriptor.version, descriptor.channel, descriptor.level.0, descriptor.opcode.0];
    blob.put(0x22, &small);
    blob.put(0x26, &descriptor.task.to_le_bytes());
    blob.put(0x28, &descriptor.keyword.0.to_le_bytes());
    blob.put_text(0x34, Some(&schema.provider.name));
    blob.put_text(0x38, schema.level_name.as_ref());
    blob.put_text(0x3C, schema.channel_name.as_ref());
    if !schema.keyword_names.is_empty() {
        blob.put_offset(0x40);
        schema.keyword_names.iter().for_each(|name| blob.append_text(name));
        blob.append_text("");
    }
    blob.put_text(0x44, schema.task_name.as_ref());
    blob.put_text(0x48, schema.opcode_name.as_ref());
    blob.put_text(0x4C, schema.message.as_ref());
    blob.put_text(0x5C, schema.name.as_ref());
    blob.put(0x64, &u32::try_from(schema.properties.len()).ok()?.to_le_bytes());
    blob.put(0x68, &u32::from(schema.top_level).to_le_bytes());
    blob.put(0x6C, &(2 * u32::from(schema.user_data)).to_le_bytes());
    for (property, entry) in schema.properties.iter().zip((HEADER..).step_by(24)) {
        let mut flags = 0u32;
        match &property.kind {
            PropertyType::Struct { first, members } => {
                flags |= 0x01;
                blob.put(entry + 8, &first.to_le_bytes());
                blob.put(entry + 10, &members.to_le_bytes());
            }
            PropertyType::Value { in_type: InType::UNKNOWN_EXTENT | InType::UNKNOWN_STRING, .. } => {
                return None;
            }
            PropertyType::Value { in_type, out_type, map } => {
                blob.put(entry + 8, &in_type.0.to_le_bytes());
                blob.put(entry + 10, &out_type.0.to_le_bytes());
                blob.put_text(entry + 12, map.as_ref().map(|map| &map.name));
            }
        }
        let count = match property.count {
            Count::One => 1,
            Count::Fixed(count) => {
                flags |= 0x20;
                count
            }
            Count::Property(index) => {
                flags |= 0x04;
                index
            }
            Count::Prefixed | Count::ToEnd => return None,
        };
        let length = match property.length {
            Length::Natural => 0,
            Length::Fixed(length) => {
                flags |= 0x10;
                length
            }
            Length::Property(index) => {
                flags |= 0x02;
                index
            }
        };
        if property.tags != 0 {
            flags |= 0x40;
            blob.put(entry + 0x14, &property.tags.to_le_bytes());
        }
        blob.put(entry, &flags.to_le_bytes());
        blob.put_text(entry + 4, Some(&property.name));
        blob.put(entry + 0x10, &count.to_le_bytes());
        blob.put(entry + 0x12, &length.to_le_bytes());
    }
    Some(blob.bytes)
}

/// Encodes a map as the payload of an EventMapInfo event (opcode 0x21): the provider's GUID, then an `EVENT_MAP_INFO`.
/// Returns `None` if a value needs more than the format's 32 bits.
pub fn encode_map(provider: &Guid, map: &ValueMap) -> Option<Vec<u8>> {
    let mut blob = Blob { bytes: vec![0; 0x10 + 8 * map.entries.len()] };
    let flags: u32 = match map.kind {
        MapKind::Value => 1,
        MapKind::Bits => 2,
        MapKind::BitPositions => 0x10,
    };
    blob.put_text(0, Some(&map.name));
    blob.put(4, &flags.to_le_bytes());
    blob.put(8, &u32::try_from(map.entries.len()).ok()?.to_le_bytes());
    for (entry, at) in map.entries.iter().zip((0x10..).step_by(8)) {
        blob.put_text(at, Some(&entry.text));
        blob.put(at + 4, &u32::try_from(entry.value).ok()?.to_le_bytes());
    }
    Some([&provider.to_bytes()[..], &blob.bytes].concat())
}

/// Returns the schema that the merge step writes for one event: with the event's own descriptor and its names, because
/// the provider's lists of names are not written.
pub fn schema_of_event(schema: &EventSchema, descriptor: &EventDescriptor) -> EventSchema {
    let info = &schema.provider;
    let old = &schema.descriptor;
    let mut own = EventSchema { descriptor: *descriptor, ..schema.clone() };
    if old.level != descriptor.level || schema.level_name.is_none() {
        let listed = info.levels.iter().find(|entry| entry.value == u16::from(descriptor.level.0));
        own.level_name = listed.map(|entry| shown(&entry.name, entry.message.as_ref()));
    }
    if old.channel != descriptor.channel || schema.channel_name.is_none() {
        let listed = info.channels.iter().find(|entry| entry.value == descriptor.channel);
        own.channel_name = listed.map(|entry| entry.name.clone());
    }
    if schema.task_name.is_none() && descriptor.task != 0 {
        let listed = info.tasks.iter().find(|entry| entry.value == descriptor.task);
        own.task_name = listed.map(|entry| shown(&entry.name, entry.message.as_ref()));
    }
    if old.opcode != descriptor.opcode || schema.opcode_name.is_none() {
        let of = |task| move |entry: &&OpcodeName| entry.value == descriptor.opcode.0 && entry.task == task;
        let opcodes = || info.opcodes.iter();
        let listed = opcodes().find(of(Some(descriptor.task))).or_else(|| opcodes().find(of(None)));
        own.opcode_name = listed.map(|entry| shown(&entry.name, entry.message.as_ref()));
    }
    if old.keyword != descriptor.keyword || schema.keyword_names.is_empty() {
        let keywords = info.keywords.iter().map(|entry| (entry.mask, entry.name.clone()));
        let all = keywords.chain(winmeta::KEYWORDS.iter().map(|(name, mask)| (*mask, Arc::from(*name))));
        let is_set = |mask: u64| mask != 0 && descriptor.keyword.0 & mask == mask;
        own.keyword_names = all.filter(|(mask, _)| is_set(*mask)).map(|(_, name)| name).collect();
    }
    own
}

/// Returns the localized text of a name, or else the name.
fn shown(name: &Arc<str>, message: Option<&Arc<str>>) -> Arc<str> {
    message.filter(|text| !text.trim().is_empty()).unwrap_or(name).clone()
}

struct Blob {
    bytes: Vec<u8>,
}

impl Blob {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(at..at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    /// Writes the current end of the blob as an offset at `at`; past 4 GiB 0, which means no text.
    fn put_offset(&mut self, at: usize) {
        let offset = u32::try_from(self.bytes.len()).unwrap_or(0);
        self.put(at, &offset.to_le_bytes());
    }

    /// Appends a text and writes its offset. Absent and empty texts have no offset.
    fn put_text(&mut self, at: usize, text: Option<&Arc<str>>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.put_offset(at);
            self.append_text(text);
        }
    }

    fn append_text(&mut self, text: &str) {
        self.bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::{parse_event, parse_map};
    use super::*;
    use crate::{Decoding, builtin};

    #[test]
    fn what_is_encoded_is_read_back() {
        let (mut events, mut maps) = (0, 0);
        for entry in builtin::providers() {
            let Some(provider) = builtin::BuiltIn.provider(&entry.guid) else { continue };
            for event in provider.events.iter().filter(|event| event.decoding == Decoding::BuiltIn) {
                let mut known = HashMap::new();
                for property in &event.properties {
                    let PropertyType::Value { map: Some(map), .. } = &property.kind else { continue };
                    let Some(bytes) = encode_map(&entry.guid, map) else { continue };
                    let read = parse_map(&bytes[16..]).unwrap();
                    assert_eq!(read, **map);
                    known.insert(read.name.clone(), Arc::new(read));
                    maps += 1;
                }
                let Some(bytes) = encode_event(event) else { continue };
                let read = parse_event(&bytes, &known).unwrap();
                assert_eq!(read.provider.guid, event.provider.guid);
                assert_eq!(read.descriptor, event.descriptor);
                let names = |event: &EventSchema| {
                    (
                        event.name.clone(),
                        event.task_name.clone(),
                        event.opcode_name.clone(),
                        event.message.clone(),
                    )
                };
                assert_eq!(names(&read), names(event));
                assert_eq!(read.keyword_names, event.keyword_names);
                assert_eq!((read.top_level, read.user_data), (event.top_level, event.user_data));
                assert_eq!(read.properties, event.properties);
                events += 1;
            }
        }
        assert!(events > 100 && maps > 10, "{events} events, {maps} maps");
    }
}
