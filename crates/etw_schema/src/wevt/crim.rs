//! The `WEVT_TEMPLATE` resource: providers, their tables and their events.
//!
//! All offsets count from its start, the signature `CRIM`. All integers are little-endian.
//! Observed: the compiled manifests of MSO-Scripts, twapi and plaso, which are published with their manifests.

use std::collections::HashMap;
use std::sync::Arc;

use etw_event::{EventDescriptor, Fields, Keyword, Level, Opcode};

use super::blocks::{MAX_NAME_BYTES, Reader};
use super::messages::MessageTable;
use super::{Wevt, utf16};
use crate::manifest::winmeta;
use crate::{
    ChannelName, Decoding, EventSchema, KeywordName, OpcodeName, Provider, ProviderInfo, TaskName, ValueName,
};

/// Reads a resource and adds its providers.
pub(super) fn read<'a>(bytes: &'a [u8], messages: &mut MessageTable<'a>, origin: &str, wevt: &mut Wevt) {
    let mut reader = Reader::new(bytes, messages, wevt);
    let (Some(b"CRIM"), Some(count)) = (bytes.first_chunk::<4>(), bytes.u32_at(12)) else {
        return reader.problem(0, "no compiled manifest: the signature CRIM is missing");
    };
    for index in 0..count as usize {
        let at = 16 + 20 * index;
        let (Some(guid), Some(offset)) = (bytes.guid_at(at), bytes.u32_at(at + 16)) else {
            return reader.problem(at, "the list of providers is cut short");
        };
        if !reader.take_entry(at) {
            return;
        }
        let mut info = ProviderInfo::new(guid, "", Decoding::WevtTemplate, origin);
        if let Some(provider) = Tables::default().provider(&mut reader, offset as usize, &mut info) {
            reader.wevt.providers.push(provider);
        } else {
            reader.problem(offset as usize, "expected a provider");
        }
    }
}

/// Names by the offsets of their entries; events refer to these offsets.
#[derive(Default)]
struct Tables {
    channels: HashMap<u32, Arc<str>>,
    levels: HashMap<u32, Arc<str>>,
    tasks: HashMap<u32, Arc<str>>,
    opcodes: HashMap<u32, Arc<str>>,
    keywords: HashMap<u32, Arc<str>>,
}

impl Tables {
    fn provider(
        mut self,
        reader: &mut Reader<'_, '_>,
        at: usize,
        info: &mut ProviderInfo,
    ) -> Option<Provider> {
        if &reader.bytes.array_at::<4>(at)? != b"WEVT" {
            return None;
        }
        let mut events_at = None;
        for index in 0..reader.bytes.u32_at(at + 12)? as usize {
            // Each element is a type and an offset; the signature at the offset gives the kind.
            let Some(element) = reader.bytes.u32_at(at + 16 + 8 * index + 4).map(|at| at as usize) else {
                reader.problem(at, "the list of a provider's tables is cut short");
                break;
            };
            if !reader.take_entry(element) {
                break;
            }
            match reader.bytes.array_at::<4>(element).as_ref() {
                Some(b"CHAN") => self.channels(reader, element, info),
                Some(b"LEVL") => self.levels(reader, element, info),
                Some(b"TASK") => self.tasks(reader, element, info),
                Some(b"OPCO") => self.opcodes(reader, element, info),
                Some(b"KEYW") => self.keywords(reader, element, info),
                Some(b"MAPS") => maps(reader, element, info),
                Some(b"PRVA") => attributes(reader, element, info),
                Some(b"EVNT") => events_at = Some(element),
                // Templates are read through the events. Nothing in event attributes is used.
                Some(b"TTBL" | b"EVTA") => {}
                _ => reader.problem(element, "a table of unknown kind"),
            }
        }
        if info.name.is_empty() {
            info.name = info.guid.to_string().into();
        }
        let info = Arc::new(info.clone());
        let events = events_at.map_or_else(Vec::new, |at| self.events(reader, at, &info));
        Some(Provider { info, events })
    }

    fn channels(&mut self, reader: &mut Reader<'_, '_>, at: usize, info: &mut ProviderInfo) {
        each(reader, at, 12, 16, |reader, entry, bytes| {
            let name = reader.name(bytes.u32_at(4)?)?;
            let message = reader.message(bytes.u32_at(12)?);
            self.channels.insert(entry, name.clone());
            info.channels.push(ChannelName { value: u8::try_from(bytes.u32_at(8)?).ok()?, name, message });
            Some(())
        });
    }

    fn levels(&mut self, reader: &mut Reader<'_, '_>, at: usize, info: &mut ProviderInfo) {
        each(reader, at, 12, 12, |reader, entry, bytes| {
            let value = u16::try_from(bytes.u32_at(0)?).ok()?;
            let message = reader.message(bytes.u32_at(4)?);
            let name = reader.name(bytes.u32_at(8)?)?;
            let shown = u8::try_from(value).map_or(&*name, |value| winmeta::shown_level(value, &name));
            self.levels.insert(entry, shown.into());
            info.levels.push(ValueName { value, name, message });
            Some(())
        });
    }

    fn tasks(&mut self, reader: &mut Reader<'_, '_>, at: usize, info: &mut ProviderInfo) {
        each(reader, at, 12, 28, |reader, entry, bytes| {
            let value = u16::try_from(bytes.u32_at(0)?).ok()?;
            let message = reader.message(bytes.u32_at(4)?);
            let event_guid = bytes.guid_at(8).filter(|guid| !guid.is_zero());
            let name = reader.name(bytes.u32_at(24)?)?;
            self.tasks.insert(entry, name.clone());
            info.tasks.push(TaskName { value, name, message, event_guid });
            Some(())
        });
    }

    fn opcodes(&mut self, reader: &mut Reader<'_, '_>, at: usize, info: &mut ProviderInfo) {
        each(reader, at, 12, 12, |reader, entry, bytes| {
            // The only task that has the opcode, then the opcode.
            let task = Some(bytes.u16_at(0)?).filter(|task| *task != 0);
            let value = u8::try_from(bytes.u16_at(2)?).ok()?;
            let message = reader.message(bytes.u32_at(4)?);
            let name = reader.name(bytes.u32_at(8)?)?;
            self.opcodes.insert(entry, winmeta::shown_opcode(value, &name).into());
            info.opcodes.push(OpcodeName { value, task, name, message });
            Some(())
        });
    }

    fn keywords(&mut self, reader: &mut Reader<'_, '_>, at: usize, info: &mut ProviderInfo) {
        each(reader, at, 12, 16, |reader, entry, bytes| {
            let mask = bytes.u64_at(0)?;
            let message = reader.message(bytes.u32_at(8)?);
            let name = reader.name(bytes.u32_at(12)?)?;
            self.keywords.insert(entry, name.clone());
            info.keywords.push(KeywordName { mask, name, message });
            Some(())
        });
    }

    fn events(
        &self,
        reader: &mut Reader<'_, '_>,
        at: usize,
        info: &Arc<ProviderInfo>,
    ) -> Vec<Arc<EventSchema>> {
        let mut events = Vec::new();
        each(reader, at, 16, 48, |reader, entry, bytes| {
            let descriptor = EventDescriptor {
                id: bytes.u16_at(0)?,
                version: bytes.u8_at(2)?,
                channel: bytes.u8_at(3)?,
                level: Level(bytes.u8_at(4)?),
                opcode: Opcode(bytes.u8_at(5)?),
                task: bytes.u16_at(6)?,
                keyword: Keyword(bytes.u64_at(8)?),
            };
            let mut schema = EventSchema::new(info.clone(), descriptor);
            schema.message = reader.message(bytes.u32_at(0x10)?);
            schema.opcode_name = self.opcodes.get(&bytes.u32_at(0x18)?).cloned();
            schema.level_name = self.levels.get(&bytes.u32_at(0x1C)?).cloned();
            schema.task_name = self.tasks.get(&bytes.u32_at(0x20)?).cloned();
            schema.channel_name = self.channels.get(&bytes.u32_at(0x2C)?).cloned();
            schema.name = match (&schema.task_name, &schema.opcode_name) {
                (Some(task), Some(opcode)) if descriptor.opcode != Opcode::INFO => {
                    Some(format!("{task}/{opcode}").into())
                }
                (task, _) => task.clone(),
            };
            // A mask has 64 bits, so an event has at most 64 keywords.
            for index in 0..bytes.u32_at(0x24)?.min(64) as usize {
                let keyword = (bytes.u32_at(0x28)? as usize).checked_add(4 * index)?;
                let name = reader.bytes.u32_at(keyword).and_then(|keyword| self.keywords.get(&keyword));
                match name {
                    Some(name) => schema.keyword_names.push(name.clone()),
                    None => reader.problem(keyword, "an event's keyword is not in the table"),
                }
            }
            if let Some(template) = reader.template(bytes.u32_at(0x14)?)
                && reader.take_properties(template.properties.len(), entry as usize)
            {
                schema.properties.clone_from(&template.properties);
                schema.top_level = template.top_level;
                schema.user_data = template.user_data;
            }
            events.push(Arc::new(schema));
            Some(())
        });
        events
    }
}

/// Reads the entries of a table: the count is at offset 8, the entries of `size` bytes start at `first`.
fn each<'a>(
    reader: &mut Reader<'a, '_>,
    at: usize,
    first: usize,
    size: usize,
    mut read: impl FnMut(&mut Reader<'a, '_>, u32, &'a [u8]) -> Option<()>,
) {
    let bytes = reader.bytes;
    for index in 0..bytes.u32_at(at + 8).unwrap_or(0) as usize {
        let entry = at + first + size * index;
        let (Some(fields), Ok(offset)) = (bytes.get(entry..entry + size), u32::try_from(entry)) else {
            return reader.problem(entry, "a table is cut short");
        };
        if !reader.take_entry(entry) {
            return;
        }
        if read(reader, offset, fields).is_none() {
            reader.problem(entry, "a table entry is invalid");
        }
    }
}

/// Reads the list of maps: their offsets. Maps used only by templates are not listed.
fn maps(reader: &mut Reader<'_, '_>, at: usize, info: &mut ProviderInfo) {
    each(reader, at, 12, 4, |reader, _, bytes| {
        info.maps.push(reader.map(bytes.u32_at(0)?)?);
        Some(())
    });
}

/// Reads the provider's attributes: a number that selects the attribute, and the offset of its text. The text has no
/// size before it, unlike names in the tables.
fn attributes(reader: &mut Reader<'_, '_>, at: usize, info: &mut ProviderInfo) {
    // Observed: MSO-Scripts' MsoEtwDQ.res, twapi_eventsTEMP.BIN.
    const NAME: u32 = 0x1000_0001;
    each(reader, at, 12, 8, |reader, _, bytes| {
        if bytes.u32_at(0)? == NAME {
            let text = reader.bytes.get(bytes.u32_at(4)? as usize..)?;
            info.name = utf16(text.get(..MAX_NAME_BYTES).unwrap_or(text)).into();
        }
        Some(())
    });
}
