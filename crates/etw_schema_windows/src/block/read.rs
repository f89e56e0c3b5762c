//! Reads blocks, and makes events' schemas.

use std::ops::Range;
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode};
use etw_schema::{
    ChannelName, Count, Decoding, EventSchema, InType, Inference, Inferred, KeywordName, Length, MapEntry,
    MapKind, OpcodeName, OutType, Property, PropertyType, ProviderInfo, TaskName, ValueMap, ValueName,
};

use super::{Block, Row, builds};
use crate::release::{Release, Releases};
use crate::varint::Reader;

impl Block {
    /// Reads the block at a place of an unpacked group. Returns `None` if it is not valid.
    pub(crate) fn read(bytes: Arc<[u8]>, place: Range<usize>, releases: &[Release]) -> Option<Block> {
        let block = bytes.get(place)?;
        let base = block.as_ptr().addr() - bytes.as_ptr().addr();
        let mut reader = Reader { rest: block };
        // The offset of what was taken last.
        let offset = |reader: &Reader<'_>| (base + block.len() - reader.rest.len()) as u32;
        let mut strings = Vec::new();
        for _ in 0..reader.count()? {
            let len = reader.text()?.len() as u32;
            let end = offset(&reader);
            strings.push(end - len..end);
        }
        let names = Strings { bytes: &bytes, strings: &strings };
        let (mut info, listed) = names.info(&mut reader)?;
        let mut maps = Vec::new();
        for _ in 0..reader.count()? {
            maps.push(Arc::new(names.map(&mut Reader { rest: reader.bytes()? })?));
        }
        info.maps = maps.get(..listed)?.to_vec();
        let mut templates = Vec::new();
        for _ in 0..reader.count()? {
            let len = reader.bytes()?.len() as u32;
            templates.push(offset(&reader) - len);
        }
        let mut keyword_lists = Vec::new();
        for _ in 0..reader.count()? {
            let count = reader.count()?;
            keyword_lists.push(reader.column(count)?);
        }
        let rows = rows(&mut reader)?;
        reader.rest.is_empty().then_some(())?;
        let builds = builds(releases);
        let block =
            Block { strings, info: Arc::new(info), maps, templates, keyword_lists, rows, builds, bytes };
        block.rows.iter().all(|row| block.template(row.template).is_some()).then_some(block)
    }

    /// Makes the schema of a layout.
    pub(super) fn schema(&self, row: &Row) -> EventSchema {
        let names = Strings { bytes: &self.bytes, strings: &self.strings };
        let mut schema = EventSchema::new(self.info.clone(), row.descriptor);
        // `read` checked that every template is valid.
        if let Some((top_level, properties)) = self.template(row.template) {
            schema.top_level = top_level;
            schema.properties = properties;
        }
        let name = |number: u32| names.get(number.checked_sub(1)?);
        schema.name = name(row.name);
        schema.task_name = name(row.task);
        schema.opcode_name = name(row.opcode);
        schema.level_name = name(row.level);
        schema.channel_name = name(row.channel);
        let keywords = self.keyword_lists.get(row.keywords as usize);
        schema.keyword_names = keywords.into_iter().flatten().filter_map(|name| names.get(*name)).collect();
        schema.inferred = row.inferred;
        schema
    }

    fn template(&self, number: u32) -> Option<(u16, Vec<Property>)> {
        let names = Strings { bytes: &self.bytes, strings: &self.strings };
        let start = *self.templates.get(number as usize)? as usize;
        let mut reader = Reader { rest: self.bytes.get(start..)? };
        let top_level = reader.number()?;
        let count = reader.count()?;
        let properties: Vec<Property> =
            (0..count).map(|_| names.property(&mut reader, &self.maps)).collect::<Option<_>>()?;
        (usize::from(top_level) <= properties.len()).then_some((top_level, properties))
    }
}

fn rows(reader: &mut Reader<'_>) -> Option<Vec<Row>> {
    let count = reader.count()?;
    let ids: Vec<u16> = reader.column(count)?;
    let bytes: [Vec<u8>; 4] = {
        let mut column = || reader.column(count);
        [column()?, column()?, column()?, column()?]
    };
    let tasks: Vec<u16> = reader.column(count)?;
    let keywords: Vec<u64> = reader.column(count)?;
    let mut numbers: [Vec<u32>; 8] = Default::default();
    for column in &mut numbers {
        *column = reader.column(count)?;
    }
    let inferred: Vec<u32> = reader.column(count)?;
    let [versions, opcodes, channels, levels] = bytes;
    let [releases, templates, lists, names, task_names, opcode_names, level_names, channel_names] = numbers;
    let mut id = 0u16;
    let mut rows = Vec::with_capacity(count);
    for at in 0..count {
        id = id.wrapping_add(ids[at]);
        rows.push(Row {
            descriptor: EventDescriptor {
                id,
                version: versions[at],
                channel: channels[at],
                level: Level(levels[at]),
                opcode: Opcode(opcodes[at]),
                task: tasks[at],
                keyword: Keyword(keywords[at]),
            },
            releases: Releases(releases[at]),
            template: templates[at],
            keywords: lists[at],
            name: names[at],
            task: task_names[at],
            opcode: opcode_names[at],
            level: level_names[at],
            channel: channel_names[at],
            inferred: match (inferred[at] >> 2, inferred[at] & 3) {
                (_, 0) => None,
                (from, 1) => Some(Inferred { from: from.try_into().ok()?, what: Inference::Length }),
                (from, 2) => Some(Inferred { from: from.try_into().ok()?, what: Inference::Type }),
                _ => return None,
            },
        });
    }
    rows.is_sorted_by_key(|row| (row.descriptor.id, row.descriptor.version)).then_some(rows)
}

/// The strings of a block.
struct Strings<'a> {
    bytes: &'a [u8],
    strings: &'a [Range<u32>],
}

impl Strings<'_> {
    fn get(&self, number: u32) -> Option<Arc<str>> {
        let Range { start, end } = *self.strings.get(number as usize)?;
        std::str::from_utf8(self.bytes.get(start as usize..end as usize)?).ok().map(Arc::from)
    }

    fn next(&self, reader: &mut Reader<'_>) -> Option<Arc<str>> {
        self.get(reader.number()?)
    }

    fn list<T>(
        &self,
        reader: &mut Reader<'_>,
        item: impl Fn(&mut Reader<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        (0..reader.count()?).map(|_| item(reader)).collect()
    }

    /// Reads the names of the provider, and how many of the maps that follow belong to it.
    fn info(&self, reader: &mut Reader<'_>) -> Option<(ProviderInfo, usize)> {
        let guid = |reader: &mut Reader<'_>| Some(Guid::from_bytes(*reader.take(16)?.first_chunk()?));
        let mut info = ProviderInfo::new(guid(reader)?, "", Decoding::BuiltIn, "");
        info.name = self.next(reader)?;
        info.origin = self.next(reader)?;
        if let Some(owner) = reader.number::<u32>()?.checked_sub(1) {
            info.class_of = Some((guid(reader)?, self.get(owner)?));
        }
        info.channels = self.list(reader, |reader| {
            Some(ChannelName { value: reader.number()?, name: self.next(reader)?, message: None })
        })?;
        info.levels = self.list(reader, |reader| {
            Some(ValueName { value: reader.number()?, name: self.next(reader)?, message: None })
        })?;
        info.tasks = self.list(reader, |reader| {
            let (value, name) = (reader.number()?, self.next(reader)?);
            Some(TaskName { value, name, message: None, event_guid: None })
        })?;
        info.opcodes = self.list(reader, |reader| {
            let (value, task) = (reader.number()?, reader.number::<u32>()?);
            let task = task.checked_sub(1).map(u16::try_from).transpose().ok()?;
            Some(OpcodeName { value, task, name: self.next(reader)?, message: None })
        })?;
        info.keywords = self.list(reader, |reader| {
            Some(KeywordName { mask: reader.number()?, name: self.next(reader)?, message: None })
        })?;
        Some((info, reader.number()?))
    }

    fn map(&self, reader: &mut Reader<'_>) -> Option<ValueMap> {
        let name = self.next(reader)?;
        let kind = match reader.number::<u8>()? {
            0 => MapKind::Value,
            1 => MapKind::Bits,
            2 => MapKind::BitPositions,
            _ => return None,
        };
        let entries =
            self.list(reader, |reader| Some(MapEntry { value: reader.number()?, text: self.next(reader)? }))?;
        Some(ValueMap { name, kind, entries })
    }

    fn property(&self, reader: &mut Reader<'_>, maps: &[Arc<ValueMap>]) -> Option<Property> {
        let name = self.next(reader)?;
        let in_type = reader.number::<u32>()?;
        let flags = reader.number::<u8>()?;
        let kind = match in_type.checked_sub(1) {
            None => PropertyType::Struct { first: reader.number()?, members: reader.number()? },
            Some(in_type) => PropertyType::Value {
                in_type: InType(in_type.try_into().ok()?),
                out_type: OutType(if flags & 1 != 0 { reader.number()? } else { 0 }),
                map: match flags & 2 != 0 {
                    true => Some(maps.get(reader.number::<usize>()?)?.clone()),
                    false => None,
                },
            },
        };
        let length = match flags >> 2 & 3 {
            0 => Length::Natural,
            1 => Length::Fixed(reader.number()?),
            2 => Length::Property(reader.number()?),
            _ => return None,
        };
        let count = match flags >> 4 {
            0 => Count::One,
            1 => Count::Fixed(reader.number()?),
            2 => Count::Property(reader.number()?),
            3 => Count::Prefixed,
            4 => Count::ToEnd,
            _ => return None,
        };
        Some(Property { name, kind, length, count, tags: 0 })
    }
}
