//! Writes blocks.

use etw_schema::{
    Count, EventSchema, Inference, Length, MapKind, Property, PropertyType, ProviderInfo, ValueMap,
};

use super::{Block, EventLayout};
use crate::varint::{Interned, put, put_bytes};

impl Block {
    /// Encodes a provider with its layouts.
    pub(crate) fn write(info: &ProviderInfo, layouts: &[EventLayout]) -> Vec<u8> {
        let mut layouts: Vec<&EventLayout> = layouts.iter().collect();
        layouts.sort_by_key(|layout| {
            let descriptor = &layout.schema.descriptor;
            let first = layout.releases.numbers().next();
            (descriptor.id, descriptor.version, descriptor.opcode, first, layout.releases.0)
        });
        let mut writer = Writer {
            out: Vec::new(),
            strings: Interned::new(),
            maps: Interned::new(),
            templates: Interned::new(),
            keyword_lists: Interned::new(),
        };
        writer.info(info);
        let columns = writer.columns(&layouts);
        let mut block = Vec::new();
        let Writer { out, strings, maps, templates, keyword_lists } = writer;
        put(&mut block, strings.values.len() as u64);
        for string in &strings.values {
            put_bytes(&mut block, string.as_bytes());
        }
        block.extend(out);
        for lists in [maps.values, templates.values] {
            put(&mut block, lists.len() as u64);
            for list in lists {
                put_bytes(&mut block, &list);
            }
        }
        put(&mut block, keyword_lists.values.len() as u64);
        for list in &keyword_lists.values {
            put(&mut block, list.len() as u64);
            list.iter().for_each(|name| put(&mut block, u64::from(*name)));
        }
        put(&mut block, layouts.len() as u64);
        block.extend(columns);
        block
    }
}

struct Writer {
    out: Vec<u8>,
    strings: Interned<String>,
    /// Encoded maps and lists of properties.
    maps: Interned<Vec<u8>>,
    templates: Interned<Vec<u8>>,
    keyword_lists: Interned<Vec<u32>>,
}

impl Writer {
    fn text(&mut self, text: &str) -> u64 {
        self.strings.number(&text.to_owned()).into()
    }

    /// Returns the number of an optional string plus 1.
    fn optional<S: AsRef<str>>(&mut self, text: Option<&S>) -> u64 {
        text.map_or(0, |text| self.text(text.as_ref()) + 1)
    }

    fn values<'a, T: 'a>(&mut self, values: &'a [T], parts: impl Fn(&'a T) -> (u64, Option<u64>, &'a str)) {
        put(&mut self.out, values.len() as u64);
        for value in values {
            let (value, second, name) = parts(value);
            put(&mut self.out, value);
            second.into_iter().for_each(|second| put(&mut self.out, second));
            let name = self.text(name);
            put(&mut self.out, name);
        }
    }

    fn info(&mut self, info: &ProviderInfo) {
        self.out.extend(info.guid.to_bytes());
        for name in [&info.name, &info.origin] {
            let name = self.text(name);
            put(&mut self.out, name);
        }
        let owner = self.optional(info.class_of.as_ref().map(|(_, name)| name));
        put(&mut self.out, owner);
        if let Some((guid, _)) = &info.class_of {
            self.out.extend(guid.to_bytes());
        }
        self.values(&info.channels, |channel| (channel.value.into(), None, &channel.name));
        self.values(&info.levels, |level| (level.value.into(), None, &level.name));
        self.values(&info.tasks, |task| (task.value.into(), None, &task.name));
        self.values(&info.opcodes, |opcode| {
            let task = opcode.task.map_or(0, |task| u64::from(task) + 1);
            (opcode.value.into(), Some(task), &opcode.name)
        });
        self.values(&info.keywords, |keyword| (keyword.mask, None, &keyword.name));
        for map in &info.maps {
            self.map(map);
        }
        put(&mut self.out, self.maps.values.len() as u64);
    }

    fn map(&mut self, map: &ValueMap) -> u64 {
        let mut bytes = Vec::new();
        put(&mut bytes, self.text(&map.name));
        let kind = match map.kind {
            MapKind::Value => 0,
            MapKind::Bits => 1,
            MapKind::BitPositions => 2,
        };
        put(&mut bytes, kind);
        put(&mut bytes, map.entries.len() as u64);
        for entry in &map.entries {
            put(&mut bytes, entry.value);
            put(&mut bytes, self.text(&entry.text));
        }
        self.maps.number(&bytes).into()
    }

    fn template(&mut self, schema: &EventSchema) -> u64 {
        let mut bytes = Vec::new();
        put(&mut bytes, schema.top_level.into());
        put(&mut bytes, schema.properties.len() as u64);
        for property in &schema.properties {
            self.property(&mut bytes, property);
        }
        self.templates.number(&bytes).into()
    }

    /// A property is its name, its type and a byte that says what follows: bit 0 an out-type, bit 1 a map, bits 2 and 3
    /// the kind of length, bits 4 to 6 the kind of count.
    fn property(&mut self, bytes: &mut Vec<u8>, property: &Property) {
        put(bytes, self.text(&property.name));
        let (length, length_value) = match property.length {
            Length::Natural => (0, None),
            Length::Fixed(length) => (1, Some(length)),
            Length::Property(index) => (2, Some(index)),
        };
        let (count, count_value) = match property.count {
            Count::One => (0, None),
            Count::Fixed(count) => (1, Some(count)),
            Count::Property(index) => (2, Some(index)),
            Count::Prefixed => (3, None),
            Count::ToEnd => (4, None),
        };
        let flags = length << 2 | count << 4;
        match &property.kind {
            PropertyType::Struct { first, members } => {
                put(bytes, 0);
                put(bytes, flags);
                put(bytes, (*first).into());
                put(bytes, (*members).into());
            }
            PropertyType::Value { in_type, out_type, map } => {
                put(bytes, u64::from(in_type.0) + 1);
                put(bytes, flags | u64::from(out_type.0 != 0) | u64::from(map.is_some()) << 1);
                if out_type.0 != 0 {
                    put(bytes, out_type.0.into());
                }
                if let Some(map) = map {
                    let map = self.map(map);
                    put(bytes, map);
                }
            }
        }
        length_value.into_iter().chain(count_value).for_each(|value| put(bytes, value.into()));
    }

    fn columns(&mut self, layouts: &[&EventLayout]) -> Vec<u8> {
        let mut columns = vec![Vec::new(); 16];
        let mut last_id = 0;
        for EventLayout { schema, releases } in layouts.iter().copied() {
            let descriptor = &schema.descriptor;
            let keywords: Vec<u32> =
                schema.keyword_names.iter().map(|name| self.strings.number(&name.to_string())).collect();
            let (from, what) = match schema.inferred {
                None => (0, 0),
                Some(inferred) => (
                    u64::from(inferred.from),
                    match inferred.what {
                        Inference::Length => 1,
                        Inference::Type => 2,
                        // Versions are inferred when an event is looked up.
                        _ => 0,
                    },
                ),
            };
            let values = [
                u64::from(descriptor.id.wrapping_sub(last_id)),
                descriptor.version.into(),
                descriptor.opcode.0.into(),
                descriptor.channel.into(),
                descriptor.level.0.into(),
                descriptor.task.into(),
                descriptor.keyword.0,
                releases.0.into(),
                self.template(schema),
                u64::from(self.keyword_lists.number(&keywords)),
                self.optional(schema.name.as_ref()),
                self.optional(schema.task_name.as_ref()),
                self.optional(schema.opcode_name.as_ref()),
                self.optional(schema.level_name.as_ref()),
                self.optional(schema.channel_name.as_ref()),
                from << 2 | what,
            ];
            last_id = descriptor.id;
            columns.iter_mut().zip(values).for_each(|(column, value)| put(column, value));
        }
        columns.concat()
    }
}
