//! The blocks of a `WEVT_TEMPLATE` resource that events refer to: names, maps, templates.

use std::collections::HashMap;
use std::sync::Arc;

use etw_event::Fields;

use super::messages::MessageTable;
use super::{Wevt, WevtProblem, utf16};
use crate::{Count, InType, Length, MapEntry, MapKind, OutType, Property, PropertyType, ValueMap};

/// Limit of the problems reported.
const MAX_PROBLEMS: usize = 1000;
/// Windows allows names of 255 characters.
pub(super) const MAX_NAME_BYTES: usize = 2048;
/// Limit of items in a template.
const MAX_ITEMS: usize = 1024;

/// The payload of events: properties, and the number of top-level ones.
pub(super) struct Template {
    pub(super) properties: Vec<Property>,
    pub(super) top_level: u16,
    pub(super) user_data: bool,
}

/// A resource being read. Blocks referred to by offset are read once and shared.
pub(super) struct Reader<'a, 'b> {
    pub(super) bytes: &'a [u8],
    pub(super) messages: &'b mut MessageTable<'a>,
    pub(super) wevt: &'b mut Wevt,
    names: HashMap<u32, Option<Arc<str>>>,
    maps: HashMap<u32, Option<Arc<ValueMap>>>,
    templates: HashMap<u32, Option<Arc<Template>>>,
    /// Entries of tables and maps that may still be read. Each takes at least 8 bytes, and blocks of a valid resource
    /// do not overlap.
    entries: usize,
    /// Properties that may still be created. Events share templates.
    properties: usize,
}

impl<'a, 'b> Reader<'a, 'b> {
    pub(super) fn new(
        bytes: &'a [u8],
        messages: &'b mut MessageTable<'a>,
        wevt: &'b mut Wevt,
    ) -> Reader<'a, 'b> {
        Reader {
            bytes,
            messages,
            wevt,
            names: HashMap::new(),
            maps: HashMap::new(),
            templates: HashMap::new(),
            entries: 64 + bytes.len() / 8,
            properties: 65_536 + bytes.len(),
        }
    }

    pub(super) fn problem(&mut self, offset: usize, what: &'static str) {
        if self.wevt.problems.len() < MAX_PROBLEMS {
            self.wevt.problems.push(WevtProblem { offset, what });
        }
    }

    /// Returns whether another entry may be read.
    pub(super) fn take_entry(&mut self, offset: usize) -> bool {
        let left = self.entries.checked_sub(1);
        if left.is_none() {
            self.problem(offset, "more entries than the resource has room for");
        }
        self.entries = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns whether a schema may have this many properties.
    pub(super) fn take_properties(&mut self, count: usize, offset: usize) -> bool {
        let left = self.properties.checked_sub(count);
        if left.is_none() {
            self.problem(offset, "more properties than the resource justifies");
        }
        self.properties = left.unwrap_or(0);
        left.is_some()
    }

    /// Reads a name: u32 size including itself, then UTF-16.
    pub(super) fn name(&mut self, offset: u32) -> Option<Arc<str>> {
        if offset == 0 {
            return None;
        }
        if let Some(known) = self.names.get(&offset) {
            return known.clone();
        }
        let at = offset as usize;
        let size = self.bytes.u32_at(at).map_or(0, |size| size as usize);
        let end = at.checked_add(size.clamp(4, MAX_NAME_BYTES));
        let name = end.and_then(|end| self.bytes.get(at + 4..end)).map(|text| Arc::from(utf16(text)));
        if name.is_none() {
            self.problem(at, "a name is outside the resource");
        }
        self.names.insert(offset, name.clone());
        name
    }

    /// Returns the text of a message id; -1 means no message.
    pub(super) fn message(&mut self, id: u32) -> Option<Arc<str>> {
        if id == u32::MAX { None } else { self.messages.text(id) }
    }

    /// Reads a value or bit map: signature, size, name, flags, count, then value and message id of each entry. Entries
    /// without a text are omitted, so that their values are shown as numbers.
    pub(super) fn map(&mut self, offset: u32) -> Option<Arc<ValueMap>> {
        if offset == 0 {
            return None;
        }
        if let Some(known) = self.maps.get(&offset) {
            return known.clone();
        }
        let map = self.read_map(offset as usize).map(Arc::new);
        if map.is_none() {
            self.problem(offset as usize, "expected a map");
        }
        self.maps.insert(offset, map.clone());
        map
    }

    fn read_map(&mut self, at: usize) -> Option<ValueMap> {
        let kind = match &self.bytes.array_at::<4>(at)? {
            b"VMAP" => MapKind::Value,
            b"BMAP" => MapKind::Bits,
            _ => return None,
        };
        let name = self.bytes.u32_at(at + 8)?;
        let name = self.name(name).unwrap_or_default();
        let mut entries = Vec::new();
        for index in 0..self.bytes.u32_at(at + 16)? as usize {
            let entry = at + 20 + 8 * index;
            let (Some(value), Some(message)) = (self.bytes.u32_at(entry), self.bytes.u32_at(entry + 4))
            else {
                self.problem(entry, "a map is cut short");
                break;
            };
            if !self.take_entry(entry) {
                break;
            }
            if let Some(text) = self.message(message) {
                entries.push(MapEntry { value: value.into(), text });
            }
        }
        Some(ValueMap { name, kind, entries })
    }

    /// Reads a template: signature, size, count of top-level items, count of all items, offset of the items, kind,
    /// GUID, binary XML, items, names.
    pub(super) fn template(&mut self, offset: u32) -> Option<Arc<Template>> {
        if offset == 0 {
            return None;
        }
        if let Some(known) = self.templates.get(&offset) {
            return known.clone();
        }
        let template = self.read_template(offset as usize).map(Arc::new);
        if template.is_none() {
            self.problem(offset as usize, "expected a template");
        }
        self.templates.insert(offset, template.clone());
        template
    }

    fn read_template(&mut self, at: usize) -> Option<Template> {
        const USER_DATA: u32 = 2;
        if &self.bytes.array_at::<4>(at)? != b"TEMP" {
            return None;
        }
        let top_level = self.bytes.u32_at(at + 8)? as usize;
        let count = top_level.max(self.bytes.u32_at(at + 12)? as usize);
        let items = self.bytes.u32_at(at + 16)? as usize;
        let user_data = self.bytes.u32_at(at + 20)? == USER_DATA;
        let mut properties = Vec::new();
        for index in 0..count.min(MAX_ITEMS) {
            let item = items + 20 * index;
            if !self.take_properties(1, item) {
                break;
            }
            let Some(property) = self.item(item, count) else {
                self.problem(
                    item,
                    "a template item is cut short or refers to no item; the template ends before it",
                );
                break;
            };
            properties.push(property);
        }
        let top_level = top_level.min(properties.len());
        // A struct with members lost to damage cannot be located, nor anything after it.
        let complete = |property: &Property| match property.kind {
            PropertyType::Struct { first, members } => {
                usize::from(first) + usize::from(members) <= properties.len()
                    && usize::from(first) >= top_level
            }
            PropertyType::Value { .. } => true,
        };
        let good = properties.iter().take(top_level).take_while(|property| complete(property)).count();
        if good < top_level {
            self.problem(items, "a struct lacks members; the template ends before it");
        }
        if good < top_level
            || (top_level < properties.len() && !properties.iter().skip(top_level).all(complete))
        {
            // Only items before the first struct keep their indices.
            let plain = |property: &Property| matches!(property.kind, PropertyType::Value { .. });
            let kept = properties.iter().take(good).take_while(|property| plain(property)).count();
            properties.truncate(kept);
            return Some(Template { properties, top_level: u16::try_from(kept).ok()?, user_data });
        }
        Some(Template { properties, top_level: u16::try_from(top_level).ok()?, user_data })
    }

    /// Reads one item of 20 bytes: u32 flags, in-type and out-type (struct: first member and count of members), map,
    /// u16 count, u16 length, name.
    fn item(&mut self, at: usize, items: usize) -> Option<Property> {
        const STRUCT: u32 = 1;
        const FIXED_LENGTH: u32 = 2;
        const LENGTH_OF_ITEM: u32 = 4;
        const FIXED_COUNT: u32 = 8;
        const COUNT_OF_ITEM: u32 = 0x10;
        let bytes = self.bytes;
        let flags = bytes.u32_at(at)?;
        let (count, length) = (bytes.u16_at(at + 12)?, bytes.u16_at(at + 14)?);
        let name = self.name(bytes.u32_at(at + 16)?).unwrap_or_default();
        let kind = if flags & STRUCT != 0 {
            PropertyType::Struct { first: bytes.u16_at(at + 4)?, members: bytes.u16_at(at + 6)? }
        } else {
            PropertyType::Value {
                in_type: InType(bytes.u8_at(at + 4)?.into()),
                out_type: OutType(bytes.u8_at(at + 5)?.into()),
                map: self.map(bytes.u32_at(at + 8)?),
            }
        };
        let in_range = |index: u16| (usize::from(index) < items).then_some(index);
        let length = if flags & LENGTH_OF_ITEM != 0 {
            Length::Property(in_range(length)?)
        } else if length != 0 && (flags & FIXED_LENGTH != 0 || !has_own_length(&kind)) {
            Length::Fixed(length)
        } else {
            Length::Natural
        };
        let count = if flags & COUNT_OF_ITEM != 0 {
            Count::Property(in_range(count)?)
        } else if flags & FIXED_COUNT != 0 || count > 1 {
            Count::Fixed(count)
        } else {
            Count::One
        };
        Some(Property { name, kind, length, count, tags: 0 })
    }
}

/// Returns whether the type determines the length of values, so that the item's length is ignored.
fn has_own_length(kind: &PropertyType) -> bool {
    match kind {
        PropertyType::Value { in_type, .. } => {
            !matches!(*in_type, InType::UNICODE_STRING | InType::ANSI_STRING | InType::BINARY)
        }
        PropertyType::Struct { .. } => true,
    }
}
