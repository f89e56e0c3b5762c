//! The encoding of a provider as one record of the store.
//!
//! Numbers are LEB128. A record is a table of strings (count, then length and UTF-8 of each), followed by the
//! provider's names, maps and events. Strings are referred to by number plus 1; 0 means no string. Every item takes
//! at least one byte, so no valid count exceeds the bytes left in the record.

use std::collections::HashMap;
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode};

use crate::{
    ChannelName, Count, Decoding, EventSchema, InType, KeywordName, Length, MapEntry, MapKind, MessageStyle,
    OpcodeName, OutType, Property, PropertyType, Provider, ProviderInfo, TaskName, ValueMap, ValueName,
};

const DECODINGS: [Decoding; 8] = [
    Decoding::TraceLogging,
    Decoding::EventMetadata,
    Decoding::EventSource,
    Decoding::Manifest,
    Decoding::WevtTemplate,
    Decoding::Mof,
    Decoding::Wpp,
    Decoding::BuiltIn,
];
const MAP_KINDS: [MapKind; 3] = [MapKind::Value, MapKind::Bits, MapKind::BitPositions];

/// Returns the number of a decoding in records and in the index.
pub(super) fn decoding_number(decoding: Decoding) -> u8 {
    DECODINGS
        .iter()
        .position(|known| *known == decoding)
        .and_then(|at| u8::try_from(at).ok())
        .unwrap_or(u8::MAX)
}

/// The inverse of [`decoding_number`].
pub(super) fn decoding(number: u8) -> Option<Decoding> {
    DECODINGS.get(usize::from(number)).copied()
}

/// Encodes a provider.
pub(super) fn encode(provider: &Provider) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.provider(provider);
    let mut record = Vec::new();
    number(&mut record, writer.strings.len() as u64);
    for string in &writer.strings {
        number(&mut record, string.len() as u64);
        record.extend(string.as_bytes());
    }
    record.extend(writer.out);
    record
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[derive(Default)]
struct Writer<'a> {
    out: Vec<u8>,
    strings: Vec<&'a str>,
    known: HashMap<&'a str, u64>,
    /// Numbers of the maps already written, by address.
    maps: HashMap<*const ValueMap, u64>,
}

impl<'a> Writer<'a> {
    fn number(&mut self, value: impl Into<u64>) {
        number(&mut self.out, value.into());
    }

    fn count(&mut self, len: usize) {
        self.number(len as u64);
    }

    fn guid(&mut self, guid: Option<&Guid>) {
        self.number(u8::from(guid.is_some()));
        if let Some(guid) = guid {
            self.out.extend(guid.to_bytes());
        }
    }

    fn string(&mut self, text: &'a str) {
        let next = self.strings.len() as u64 + 1;
        let number = *self.known.entry(text).or_insert(next);
        if number == next {
            self.strings.push(text);
        }
        self.number(number);
    }

    fn optional(&mut self, text: &'a Option<Arc<str>>) {
        match text {
            Some(text) => self.string(text),
            None => self.number(0u8),
        }
    }

    fn provider(&mut self, provider: &'a Provider) {
        let info = &*provider.info;
        self.guid(Some(&info.guid));
        self.string(&info.name);
        self.number(decoding_number(info.decoding));
        self.guid(info.control_guid.as_ref());
        self.string(&info.origin);
        self.guid(info.class_of.as_ref().map(|(guid, _)| guid));
        if let Some((_, name)) = &info.class_of {
            self.string(name);
        }
        self.count(info.channels.len());
        for channel in &info.channels {
            self.number(channel.value);
            self.string(&channel.name);
            self.optional(&channel.message);
        }
        self.count(info.levels.len());
        for level in &info.levels {
            self.number(level.value);
            self.string(&level.name);
            self.optional(&level.message);
        }
        self.count(info.tasks.len());
        for task in &info.tasks {
            self.number(task.value);
            self.string(&task.name);
            self.optional(&task.message);
            self.guid(task.event_guid.as_ref());
        }
        self.count(info.opcodes.len());
        for opcode in &info.opcodes {
            self.number(opcode.value);
            self.number(opcode.task.map_or(0, |task| u32::from(task) + 1));
            self.string(&opcode.name);
            self.optional(&opcode.message);
        }
        self.count(info.keywords.len());
        for keyword in &info.keywords {
            self.number(keyword.mask);
            self.string(&keyword.name);
            self.optional(&keyword.message);
        }
        self.maps(provider);
        self.count(provider.events.len());
        for event in &provider.events {
            self.event(event);
        }
    }

    /// Writes the maps of the provider, then those used only by properties.
    fn maps(&mut self, provider: &'a Provider) {
        let mut maps: Vec<&'a Arc<ValueMap>> = Vec::new();
        let mut add = |map: &'a Arc<ValueMap>, maps: &mut Vec<&'a Arc<ValueMap>>| {
            let next = maps.len() as u64;
            if *self.maps.entry(Arc::as_ptr(map)).or_insert(next) == next {
                maps.push(map);
            }
        };
        for map in &provider.info.maps {
            add(map, &mut maps);
        }
        let listed = maps.len();
        for property in provider.events.iter().flat_map(|event| &event.properties) {
            if let PropertyType::Value { map: Some(map), .. } = &property.kind {
                add(map, &mut maps);
            }
        }
        self.count(listed);
        self.count(maps.len());
        for map in maps {
            self.string(&map.name);
            let kind = MAP_KINDS.iter().position(|kind| *kind == map.kind);
            self.count(kind.unwrap_or(0));
            self.count(map.entries.len());
            for entry in &map.entries {
                self.number(entry.value);
                self.string(&entry.text);
            }
        }
    }

    fn event(&mut self, event: &'a EventSchema) {
        let descriptor = &event.descriptor;
        self.number(decoding_number(event.decoding));
        self.number(descriptor.id);
        for value in [descriptor.version, descriptor.channel, descriptor.level.0, descriptor.opcode.0] {
            self.out.push(value);
        }
        self.number(descriptor.task);
        self.number(descriptor.keyword.0);
        let names =
            [&event.name, &event.task_name, &event.opcode_name, &event.level_name, &event.channel_name];
        for name in names {
            self.optional(name);
        }
        self.count(event.keyword_names.len());
        for name in &event.keyword_names {
            self.string(name);
        }
        self.optional(&event.message);
        let wpp = u8::from(event.message_style == MessageStyle::Wpp);
        self.number(wpp | u8::from(event.user_data) << 1);
        self.number(event.top_level);
        self.count(event.properties.len());
        for property in &event.properties {
            self.property(property);
        }
    }

    fn property(&mut self, property: &'a Property) {
        self.string(&property.name);
        match &property.kind {
            PropertyType::Struct { first, members } => {
                self.number(0u8);
                self.number(*first);
                self.number(*members);
            }
            PropertyType::Value { in_type, out_type, map } => {
                self.number(1u8);
                self.number(in_type.0);
                self.number(out_type.0);
                let map = map.as_ref().and_then(|map| self.maps.get(&Arc::as_ptr(map)).copied());
                self.number(map.map_or(0, |map| map + 1));
            }
        }
        let (kind, value) = match property.length {
            Length::Natural => (0u8, 0),
            Length::Fixed(length) => (1, length),
            Length::Property(index) => (2, index),
        };
        self.number(kind);
        self.number(value);
        let (kind, value) = match property.count {
            Count::One => (0u8, 0),
            Count::Fixed(count) => (1, count),
            Count::Property(index) => (2, index),
            Count::Prefixed => (3, 0),
            Count::ToEnd => (4, 0),
        };
        self.number(kind);
        self.number(value);
        self.number(property.tags);
    }
}

/// Decodes a provider. Returns `None` if the bytes are not a valid record.
pub(super) fn decode(bytes: &[u8]) -> Option<Provider> {
    let mut reader = Reader { rest: bytes, strings: Vec::new(), maps: Vec::new() };
    for _ in 0..reader.count()? {
        let len = reader.count()?;
        let (text, rest) = reader.rest.split_at_checked(len)?;
        reader.rest = rest;
        reader.strings.push(std::str::from_utf8(text).ok()?.into());
    }
    let provider = reader.provider()?;
    reader.rest.is_empty().then_some(provider)
}

struct Reader<'a> {
    rest: &'a [u8],
    strings: Vec<Arc<str>>,
    maps: Vec<Arc<ValueMap>>,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return T::try_from(value).ok();
            }
        }
        None
    }

    /// Reads a count of items that each take at least one byte.
    fn count(&mut self) -> Option<usize> {
        let count: usize = self.number()?;
        (count <= self.rest.len()).then_some(count)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.count()?).map(|_| item(self)).collect()
    }

    fn guid(&mut self) -> Option<Option<Guid>> {
        if self.number::<u8>()? == 0 {
            return Some(None);
        }
        let (bytes, rest) = self.rest.split_first_chunk::<16>()?;
        self.rest = rest;
        Some(Some(Guid::from_bytes(*bytes)))
    }

    fn optional(&mut self) -> Option<Option<Arc<str>>> {
        match self.number::<usize>()?.checked_sub(1) {
            Some(index) => Some(Some(self.strings.get(index)?.clone())),
            None => Some(None),
        }
    }

    fn string(&mut self) -> Option<Arc<str>> {
        self.optional()?
    }

    fn decoding(&mut self) -> Option<Decoding> {
        decoding(self.number()?)
    }

    fn provider(&mut self) -> Option<Provider> {
        let mut info = ProviderInfo::new(self.guid()??, "", Decoding::Manifest, "");
        info.name = self.string()?;
        info.decoding = self.decoding()?;
        info.control_guid = self.guid()?;
        info.origin = self.string()?;
        info.class_of = match self.guid()? {
            Some(guid) => Some((guid, self.string()?)),
            None => None,
        };
        info.channels = self.list(|reader| {
            Some(ChannelName { value: reader.number()?, name: reader.string()?, message: reader.optional()? })
        })?;
        info.levels = self.list(|reader| {
            Some(ValueName { value: reader.number()?, name: reader.string()?, message: reader.optional()? })
        })?;
        info.tasks = self.list(|reader| {
            let (value, name, message) = (reader.number()?, reader.string()?, reader.optional()?);
            Some(TaskName { value, name, message, event_guid: reader.guid()? })
        })?;
        info.opcodes = self.list(|reader| {
            let value = reader.number()?;
            let task = match reader.number::<u32>()?.checked_sub(1) {
                Some(task) => Some(u16::try_from(task).ok()?),
                None => None,
            };
            Some(OpcodeName { value, task, name: reader.string()?, message: reader.optional()? })
        })?;
        info.keywords = self.list(|reader| {
            Some(KeywordName { mask: reader.number()?, name: reader.string()?, message: reader.optional()? })
        })?;
        let listed: usize = self.number()?;
        self.maps = self.list(|reader| {
            let name = reader.string()?;
            let kind = *MAP_KINDS.get(reader.number::<usize>()?)?;
            let entries =
                reader.list(|reader| Some(MapEntry { value: reader.number()?, text: reader.string()? }))?;
            Some(Arc::new(ValueMap { name, kind, entries }))
        })?;
        info.maps = self.maps.get(..listed)?.to_vec();
        let info = Arc::new(info);
        let events = self.list(|reader| reader.event(&info).map(Arc::new))?;
        Some(Provider { info, events })
    }

    fn event(&mut self, info: &Arc<ProviderInfo>) -> Option<EventSchema> {
        let decoding = self.decoding()?;
        let descriptor = EventDescriptor {
            id: self.number()?,
            version: self.byte()?,
            channel: self.byte()?,
            level: Level(self.byte()?),
            opcode: Opcode(self.byte()?),
            task: self.number()?,
            keyword: Keyword(self.number()?),
        };
        let mut event = EventSchema::new(info.clone(), descriptor);
        event.decoding = decoding;
        event.name = self.optional()?;
        event.task_name = self.optional()?;
        event.opcode_name = self.optional()?;
        event.level_name = self.optional()?;
        event.channel_name = self.optional()?;
        event.keyword_names = self.list(Reader::string)?;
        event.message = self.optional()?;
        let flags: u8 = self.number()?;
        event.message_style = if flags & 1 != 0 { MessageStyle::Wpp } else { MessageStyle::FormatMessage };
        event.user_data = flags & 2 != 0;
        event.top_level = self.number()?;
        event.properties = self.list(Reader::property)?;
        (usize::from(event.top_level) <= event.properties.len()).then_some(event)
    }

    fn property(&mut self) -> Option<Property> {
        let name = self.string()?;
        let kind = match self.number::<u8>()? {
            0 => PropertyType::Struct { first: self.number()?, members: self.number()? },
            1 => PropertyType::Value {
                in_type: InType(self.number()?),
                out_type: OutType(self.number()?),
                map: match self.number::<usize>()?.checked_sub(1) {
                    Some(index) => Some(self.maps.get(index)?.clone()),
                    None => None,
                },
            },
            _ => return None,
        };
        let length = match (self.number::<u8>()?, self.number()?) {
            (0, _) => Length::Natural,
            (1, length) => Length::Fixed(length),
            (2, index) => Length::Property(index),
            _ => return None,
        };
        let count = match (self.number::<u8>()?, self.number()?) {
            (0, _) => Count::One,
            (1, count) => Count::Fixed(count),
            (2, index) => Count::Property(index),
            (3, _) => Count::Prefixed,
            (4, _) => Count::ToEnd,
            _ => return None,
        };
        Some(Property { name, kind, length, count, tags: self.number()? })
    }
}
