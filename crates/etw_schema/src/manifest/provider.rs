//! The `provider` element of a manifest: its lists and events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode};

use super::document::{Document, Element};
use super::strings::Strings;
use super::template::{self, Template};
use super::{ProblemKind, cut, winmeta};
use crate::{
    ChannelName, Decoding, EventSchema, KeywordName, MapEntry, MapKind, OpcodeName, Provider, ProviderInfo,
    TaskName, ValueMap, ValueName,
};

/// The problems found so far, with byte offsets in the text.
#[derive(Debug, Default)]
pub struct Problems {
    pub(super) found: Vec<(usize, ProblemKind)>,
}

/// Limit of the problems reported.
const MAX_PROBLEMS: usize = 1000;

impl Problems {
    /// Adds a problem at an offset, unless there are a thousand already.
    pub fn add(&mut self, at: usize, kind: ProblemKind) {
        if self.found.len() < MAX_PROBLEMS {
            self.found.push((at, kind));
        }
    }

    pub(super) fn unknown(&mut self, at: usize, what: &'static str, name: &str) {
        self.add(at, ProblemKind::Unknown { what, name: cut(name) });
    }

    pub(super) fn invalid(&mut self, element: &Element, attribute: &'static str, found: &str) {
        let element_name = element.name;
        self.add(element.at, ProblemKind::Invalid { element: element_name, attribute, found: cut(found) });
    }
}

/// Parses an unsigned number, decimal or `0x…`.
pub fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let text = text.trim();
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = match hex {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
        Some(_) => return None,
        None if text.starts_with('+') => return None,
        None => text.parse(),
    };
    T::try_from(value.ok()?).ok()
}

/// The state shared by all providers of a file.
pub(super) struct Context<'a, 'b> {
    pub(super) document: &'a Document,
    pub(super) strings: &'b mut Strings<'a>,
    pub(super) problems: &'b mut Problems,
    pub(super) decoding: Decoding,
    pub(super) origin: &'b str,
    /// Number of properties that may still be created. Events share templates, so a short text could require many.
    pub(super) budget: &'b mut usize,
}

/// Reads the provider at an element. Reports a problem and returns `None` if it is invalid.
pub(super) fn read(context: &mut Context<'_, '_>, at: usize, element: &Element) -> Option<Provider> {
    let missing = |attribute| ProblemKind::Missing { element: "provider", attribute };
    let Some(written) = element.attribute("guid") else {
        context.problems.add(element.at, missing("guid"));
        return None;
    };
    let Ok(guid) = written.parse::<Guid>() else {
        context.problems.invalid(element, "guid", written);
        return None;
    };
    let name = element.attribute("name").or(element.attribute("symbol"));
    if name.is_none() {
        context.problems.add(element.at, missing("name"));
    }
    let mut info = ProviderInfo::new(guid, name.unwrap_or_default(), context.decoding, context.origin);
    let control = element.attribute("controlGuid").or(element.attribute("controlGUID"));
    info.control_guid = control.and_then(|written| {
        let guid = written.parse().ok();
        if guid.is_none() {
            context.problems.invalid(element, "controlGuid", written);
        }
        guid
    });
    let mut lists = Lists::default();
    lists.channels(context, at, &mut info);
    lists.levels(context, at, &mut info);
    lists.tasks_and_opcodes(context, at, &mut info);
    lists.keywords(context, at, &mut info);
    lists.maps(context, at, &mut info);
    for (index, template) in context.document.listed(at, "templates") {
        if let Some(tid) = template.attribute("tid").filter(|_| template.name == "template") {
            let read = template::read(context.document, index, &lists.maps, context.problems);
            if lists.templates.insert(tid, read).is_some() {
                context
                    .problems
                    .add(template.at, ProblemKind::Duplicate { what: "template", name: cut(tid) });
            }
        }
    }
    let info = Arc::new(info);
    let mut events = Vec::new();
    let mut keys = HashSet::new();
    for (_, event) in context.document.listed(at, "events") {
        if event.name == "event"
            && let Some(schema) = lists.event(context, event, &info, &mut keys)
        {
            events.push(Arc::new(schema));
        }
    }
    Some(Provider { info, events })
}

#[derive(Clone)]
struct Named<V> {
    value: V,
    name: Arc<str>,
}

/// The definitions that events refer to by name.
#[derive(Default)]
struct Lists<'a> {
    /// By `chid` and by name, with the channel's keyword bit.
    channels: HashMap<&'a str, (Named<u8>, u64)>,
    levels: HashMap<&'a str, Named<u8>>,
    tasks: HashMap<&'a str, Named<u16>>,
    /// By the task's value, for a task's opcode, and name.
    opcodes: HashMap<(Option<u16>, &'a str), Named<u8>>,
    keywords: HashMap<&'a str, Named<u64>>,
    maps: HashMap<&'a str, Arc<ValueMap>>,
    templates: HashMap<&'a str, Template>,
}

/// The first channel value available to providers.
const FIRST_OWN_CHANNEL: u8 = 16;

impl<'a> Lists<'a> {
    fn channels(&mut self, context: &mut Context<'a, '_>, at: usize, info: &mut ProviderInfo) {
        let mut next = FIRST_OWN_CHANNEL;
        for (position, (_, channel)) in context.document.listed(at, "channels").enumerate() {
            let Some(name) = channel.attribute("name").or(channel.attribute("chid")) else {
                context.missing(channel, "name");
                continue;
            };
            let standard = if channel.name == "importChannel" { winmeta::channel(name) } else { None };
            let value = context.value(channel, "value").or(standard).unwrap_or_else(|| {
                let value = next;
                next = next.saturating_add(1);
                value
            });
            // The message compiler assigns keyword bits to channels from the top down, in order.
            let bit = u32::try_from(position).ok().and_then(|position| (1u64 << 63).checked_shr(position));
            let name: Arc<str> = name.into();
            let named = (Named { value, name: name.clone() }, bit.unwrap_or(0));
            for key in [channel.attribute("chid"), channel.attribute("name")].into_iter().flatten() {
                self.channels.entry(key).or_insert_with(|| named.clone());
            }
            info.channels.push(ChannelName { value, name, message: context.message(channel) });
        }
    }

    fn levels(&mut self, context: &mut Context<'a, '_>, at: usize, info: &mut ProviderInfo) {
        for (_, level) in context.document.listed(at, "levels") {
            let Some((name, value)) = context.named::<u8>(level, "value") else { continue };
            self.levels
                .insert(level.attribute("name").unwrap_or_default(), Named { value, name: name.clone() });
            info.levels.push(ValueName { value: value.into(), name, message: context.message(level) });
        }
    }

    fn tasks_and_opcodes(&mut self, context: &mut Context<'a, '_>, at: usize, info: &mut ProviderInfo) {
        for (_, opcode) in context.document.listed(at, "opcodes") {
            self.opcode(context, opcode, None, info);
        }
        for (index, task) in context.document.listed(at, "tasks") {
            let Some((name, value)) = context.named::<u16>(task, "value") else { continue };
            let key = task.attribute("name").unwrap_or_default();
            self.tasks.insert(key, Named { value, name: name.clone() });
            let event_guid = task.attribute("eventGUID").and_then(|written| {
                let guid = written.parse::<Guid>().ok();
                if guid.is_none() {
                    context.problems.invalid(task, "eventGUID", written);
                }
                guid.filter(|guid| !guid.is_zero())
            });
            info.tasks.push(TaskName { value, name, message: context.message(task), event_guid });
            for (_, opcode) in context.document.listed(index, "opcodes") {
                self.opcode(context, opcode, Some(value), info);
            }
        }
    }

    fn opcode(
        &mut self,
        context: &mut Context<'a, '_>,
        opcode: &'a Element,
        task: Option<u16>,
        info: &mut ProviderInfo,
    ) {
        let Some((name, value)) = context.named::<u8>(opcode, "value") else { return };
        let key = (task, opcode.attribute("name").unwrap_or_default());
        self.opcodes.insert(key, Named { value, name: name.clone() });
        let message = context.message(opcode);
        info.opcodes.push(OpcodeName { value, task, name, message });
    }

    fn keywords(&mut self, context: &mut Context<'a, '_>, at: usize, info: &mut ProviderInfo) {
        for (_, keyword) in context.document.listed(at, "keywords") {
            let Some((name, mask)) = context.named::<u64>(keyword, "mask") else { continue };
            let key = keyword.attribute("name").unwrap_or_default();
            self.keywords.insert(key, Named { value: mask, name: name.clone() });
            info.keywords.push(KeywordName { mask, name, message: context.message(keyword) });
        }
    }

    fn maps(&mut self, context: &mut Context<'a, '_>, at: usize, info: &mut ProviderInfo) {
        for (index, map) in context.document.listed(at, "maps") {
            let kind = match map.name {
                "valueMap" => MapKind::Value,
                "bitMap" => MapKind::Bits,
                // A patternMap matches text, so no event value is looked up in it.
                _ => continue,
            };
            let Some(name) = map.attribute("name") else {
                context.missing(map, "name");
                continue;
            };
            let mut entries = Vec::new();
            for (_, entry) in context.document.children(index).filter(|(_, child)| child.name == "map") {
                let Some(written) = entry.attribute("value") else {
                    context.missing(entry, "value");
                    continue;
                };
                let Some(value) = map_value(written) else {
                    context.problems.invalid(entry, "value", written);
                    continue;
                };
                let text = context.message(entry).or_else(|| entry.attribute("name").map(Arc::from));
                entries.push(MapEntry { value, text: text.unwrap_or_else(|| written.into()) });
            }
            let map = Arc::new(ValueMap { name: name.into(), kind, entries });
            self.maps.insert(name, map.clone());
            info.maps.push(map);
        }
    }

    fn event(
        &self,
        context: &mut Context<'a, '_>,
        event: &'a Element,
        info: &Arc<ProviderInfo>,
        keys: &mut HashSet<(u16, u8)>,
    ) -> Option<EventSchema> {
        let Some(written) = event.attribute("value") else {
            context.missing(event, "value");
            return None;
        };
        let Some(id) = number::<u16>(written) else {
            context.problems.invalid(event, "value", written);
            return None;
        };
        let version = context.value::<u8>(event, "version").unwrap_or(0);
        if !keys.insert((id, version)) {
            let name = format!("{id} version {version}");
            context.problems.add(event.at, ProblemKind::Duplicate { what: "event", name });
            return None;
        }
        let descriptor = EventDescriptor { id, version, ..Default::default() };
        let mut schema = EventSchema::new(info.clone(), descriptor);
        schema.name = event.attribute("name").or(event.attribute("symbol")).map(Arc::from);
        if let Some(name) = event.attribute("level") {
            self.set_level(context, event, name, &mut schema);
        }
        if let Some(name) = event.attribute("task") {
            self.set_task(context, event, name, &mut schema);
        }
        if let Some(name) = event.attribute("opcode") {
            self.set_opcode(context, event, name, &mut schema);
        }
        let mut mask = 0;
        if let Some(name) = event.attribute("channel") {
            match self.channels.get(name) {
                Some((channel, bit)) => {
                    schema.descriptor.channel = channel.value;
                    schema.channel_name = Some(channel.name.clone());
                    mask |= bit;
                }
                None => context.problems.unknown(event.at, "channel", name),
            }
        }
        for name in event.attribute("keywords").unwrap_or_default().split_whitespace() {
            if let Some(keyword) = self.keywords.get(name) {
                mask |= keyword.value;
                schema.keyword_names.push(keyword.name.clone());
            } else if let Some(standard) = winmeta::keyword(name) {
                mask |= standard;
                schema.keyword_names.push(name.into());
            } else {
                context.problems.unknown(event.at, "keyword", name);
            }
        }
        schema.descriptor.keyword = Keyword(mask);
        schema.message = context.message(event);
        if let Some(tid) = event.attribute("template").filter(|tid| !tid.is_empty()) {
            match self.templates.get(tid) {
                Some(template) => context.set_template(event, template, &mut schema),
                None => context.problems.unknown(event.at, "template", tid),
            }
        }
        Some(schema)
    }

    fn set_level(
        &self,
        context: &mut Context<'_, '_>,
        event: &Element,
        name: &str,
        schema: &mut EventSchema,
    ) {
        if let Some(level) = self.levels.get(name) {
            schema.descriptor.level = Level(level.value);
            schema.level_name = Some(shown(&level.name, winmeta::shown_level(level.value, name)));
        } else if let Some(value) = winmeta::level(name) {
            schema.descriptor.level = Level(value);
            schema.level_name = Some(winmeta::shown_level(value, name).into());
        } else {
            context.problems.unknown(event.at, "level", name);
        }
    }

    fn set_task(&self, context: &mut Context<'_, '_>, event: &Element, name: &str, schema: &mut EventSchema) {
        if let Some(task) = self.tasks.get(name) {
            schema.descriptor.task = task.value;
            schema.task_name = Some(task.name.clone());
        } else if let Some(value) = name.strip_prefix("task_").and_then(number::<u16>) {
            // Exported manifests refer to task 0 by number.
            schema.descriptor.task = value;
            let listed = schema.provider.tasks.iter().find(|task| task.value == value);
            schema.task_name = listed.map(|task| task.name.clone());
        } else if name != "win:None" {
            context.problems.unknown(event.at, "task", name);
        }
    }

    fn set_opcode(
        &self,
        context: &mut Context<'_, '_>,
        event: &Element,
        name: &str,
        schema: &mut EventSchema,
    ) {
        let task = event.attribute("task").map(|_| schema.descriptor.task);
        let found = self.opcodes.get(&(task, name)).or_else(|| self.opcodes.get(&(None, name)));
        if let Some(opcode) = found {
            schema.descriptor.opcode = Opcode(opcode.value);
            schema.opcode_name = Some(shown(&opcode.name, winmeta::shown_opcode(opcode.value, name)));
            return;
        }
        let standard = winmeta::opcode(name).map(|value| (name, value));
        if let Some((name, value)) = standard.or_else(|| exported_opcode(name, schema.descriptor.task)) {
            schema.descriptor.opcode = Opcode(value);
            schema.opcode_name = Some(winmeta::shown_opcode(value, name).into());
        } else {
            context.problems.unknown(event.at, "opcode", name);
        }
    }
}

impl Context<'_, '_> {
    fn missing(&mut self, element: &Element, attribute: &'static str) {
        self.problems.add(element.at, ProblemKind::Missing { element: element.name, attribute });
    }

    /// Parses an optional number. An invalid one is reported and treated as absent.
    fn value<T: TryFrom<u64>>(&mut self, element: &Element, attribute: &'static str) -> Option<T> {
        let written = element.attribute(attribute)?;
        let value = number(written);
        if value.is_none() {
            self.problems.invalid(element, attribute, written);
        }
        value
    }

    /// Returns name and value of a list entry, both of which are required.
    fn named<T: TryFrom<u64>>(
        &mut self,
        element: &Element,
        attribute: &'static str,
    ) -> Option<(Arc<str>, T)> {
        let Some(name) = element.attribute("name") else {
            self.missing(element, "name");
            return None;
        };
        if element.attribute(attribute).is_none() {
            self.missing(element, attribute);
        }
        Some((name.into(), self.value(element, attribute)?))
    }

    fn message(&mut self, element: &Element) -> Option<Arc<str>> {
        self.strings.resolve(element.at, element.text("message")?, self.problems)
    }

    fn set_template(&mut self, event: &Element, template: &Template, schema: &mut EventSchema) {
        match self.budget.checked_sub(template.properties.len()) {
            Some(left) => *self.budget = left,
            None => return self.problems.add(event.at, ProblemKind::TooMany("properties")),
        }
        schema.properties.clone_from(&template.properties);
        schema.top_level = template.top_level;
        schema.user_data = template.user_data;
    }
}

fn shown(name: &Arc<str>, shown: &str) -> Arc<str> {
    if &**name == shown { name.clone() } else { shown.into() }
}

/// Parses `name_task_opcode`, with which exported manifests distinguish opcodes of equal names: `win:Start_8_1`.
fn exported_opcode(name: &str, task: u16) -> Option<(&str, u8)> {
    let (rest, value) = name.rsplit_once('_')?;
    let (rest, of_task) = rest.rsplit_once('_')?;
    (number::<u16>(of_task)? == task).then_some(())?;
    Some((rest, number(value)?))
}

/// Parses the value of a map entry: 32 bits in Windows. EventSource also writes negative enum values.
fn map_value(written: &str) -> Option<u64> {
    match written.strip_prefix('-') {
        Some(positive) => Some(u64::from(number::<u32>(positive)?.wrapping_neg())),
        None => number(written),
    }
}
