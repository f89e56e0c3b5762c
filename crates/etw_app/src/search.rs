//! Searches the names of everything that events can have: providers, events, fields, keywords and maps.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use openetw::Guid;
use openetw::schema::{EventSchema, PropertyType, Provider, ProviderInfo, ValueMap};
use openetw::windows::{Pack, PackError, Words};
use serde_json::{Map, Value, json};

use crate::description::{event_label, type_text};
use crate::schemas::Schemas;

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A provider, or a class of classic events.
    Provider,
    /// An event: its symbol, task or opcode.
    Event,
    /// A field of an event.
    Field,
    /// A keyword of a provider.
    Keyword,
    /// A map of values to texts, or one of its texts.
    Map,
}

impl Kind {
    /// Returns the name in the output.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Provider => "provider",
            Kind::Event => "event",
            Kind::Field => "field",
            Kind::Keyword => "keyword",
            Kind::Map => "map",
        }
    }
}

/// Things that a search found, sorted by kind, provider and event.
#[derive(Debug, Default)]
pub struct Found(BTreeMap<Thing, BTreeSet<u8>>);

/// Something with a name. Versions of an event with an equal field are one thing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Thing {
    kind: Kind,
    provider: Arc<str>,
    guid: Guid,
    event: Option<FoundEvent>,
    /// Name of the map, if a text of it was found.
    map: Option<Arc<str>>,
    name: Arc<str>,
    /// The type, mask or value.
    detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FoundEvent {
    /// The id, or the opcode of a classic event.
    id: u16,
    is_classic: bool,
    label: Arc<str>,
}

/// Finds everything of these kinds, or of all kinds if there are none, whose names contain every word. At least one word
/// is in the thing's own name; the others may be in the names of its event, provider or map.
///
/// # Errors
///
/// Fails if the store cannot be read, or the built-in schemas are damaged.
pub fn search(schemas: &Schemas, text: &str, kinds: &[Kind]) -> Result<Found> {
    let words = Words::new(text);
    let mut found = Found::default();
    if let Some(pack) = schemas.pack() {
        let search = Search { words: &words, kinds };
        // Providers with similar names are packed together, so each thread unpacks groups of its own.
        let mut order: Vec<usize> = (0..pack.providers().len()).collect();
        order.sort_by_cached_key(|at| pack.providers().get(*at).map(|listed| listed.name.to_lowercase()));
        let (first, second) = order.split_at(order.len() / 2);
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| search.pack(pack, second));
            let own = search.pack(pack, first);
            // A thread that panicked has printed why.
            (own, other.join().unwrap_or_else(|_| Ok(Found::default())))
        });
        found = both.0?;
        found.0.extend(both.1?.0);
    }
    for provider in schemas.outside_windows()? {
        let events = provider.events.iter().map(|event| &**event);
        Search { words: &words, kinds }.provider(&provider.info, events, &mut found);
    }
    Ok(found)
}

/// Finds everything of one provider, as [`search`].
pub fn search_provider(provider: &Provider, text: &str, kinds: &[Kind]) -> Found {
    let mut found = Found::default();
    let events = provider.events.iter().map(|event| &**event);
    Search { words: &Words::new(text), kinds }.provider(&provider.info, events, &mut found);
    found
}

impl Found {
    /// Writes a table.
    ///
    /// # Errors
    ///
    /// Never fails: writing to memory succeeds.
    pub fn put_text(&self, out: &mut Vec<u8>) -> Result<()> {
        let rows: Vec<[String; 5]> = self.0.iter().map(|(thing, versions)| thing.row(versions)).collect();
        let mut widths = [0; 5];
        for row in &rows {
            widths.iter_mut().zip(row).for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
        }
        for row in &rows {
            let cells = row.iter().zip(widths).filter(|(_, width)| *width > 0);
            let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }

    /// Writes one JSON object per line.
    ///
    /// # Errors
    ///
    /// Never fails: writing to memory succeeds.
    pub fn put_json(&self, out: &mut Vec<u8>) -> Result<()> {
        self.0.iter().try_for_each(|(thing, versions)| writeln!(out, "{}", thing.json(versions)))?;
        Ok(())
    }

    /// Returns the number of things.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Thing {
    fn row(&self, versions: &BTreeSet<u8>) -> [String; 5] {
        let mut event = String::new();
        if let Some(found) = &self.event {
            let versions: Vec<String> = versions.iter().map(u8::to_string).collect();
            let id = if found.is_classic { "type " } else { "" };
            event = format!("{id}{} version {}", found.id, versions.join(","));
            if self.kind == Kind::Field {
                event = format!("{event} {}", found.label);
            }
        }
        let name = match &self.map {
            Some(map) => format!("{map}: {}", self.name),
            None => self.name.to_string(),
        };
        let detail = if self.kind == Kind::Provider { self.guid.to_string() } else { self.detail.clone() };
        let provider = if self.kind == Kind::Provider { String::new() } else { self.provider.to_string() };
        [self.kind.name().to_owned(), provider, event.trim_end().to_owned(), name, detail]
    }

    fn json(&self, versions: &BTreeSet<u8>) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("Kind", self.kind.name().into());
        put("Provider", json!(&*self.provider));
        put("Guid", self.guid.to_string().into());
        if let Some(event) = &self.event {
            put(if event.is_classic { "Opcode" } else { "EventID" }, event.id.into());
            put("Versions", json!(versions));
            put("Event", json!(&*event.label));
        }
        match self.kind {
            Kind::Provider | Kind::Event => {}
            Kind::Field => {
                put("Field", json!(&*self.name));
                put("Type", json!(self.detail));
            }
            Kind::Keyword => {
                put("Keyword", json!(&*self.name));
                put("Mask", json!(self.detail));
            }
            Kind::Map => match &self.map {
                Some(map) => {
                    put("Map", json!(&**map));
                    put("Text", json!(&*self.name));
                    put("Value", json!(self.detail));
                }
                None => {
                    put("Map", json!(&*self.name));
                }
            },
        }
        Value::Object(object)
    }
}

#[derive(Clone, Copy)]
struct Search<'a> {
    words: &'a Words,
    kinds: &'a [Kind],
}

impl Search<'_> {
    /// Searches the providers of the pack with these numbers.
    fn pack(self, pack: &Pack<'_>, numbers: &[usize]) -> Result<Found, PackError> {
        let mut found = Found::default();
        for number in numbers {
            if pack.may_contain(*number, self.words)? {
                let block = pack.block_at(*number)?;
                self.provider(block.info(), block.layouts().map(|layout| layout.schema), &mut found);
            }
        }
        Ok(found)
    }

    fn wants(self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    fn provider<E: std::borrow::Borrow<EventSchema>>(
        self,
        info: &ProviderInfo,
        events: impl Iterator<Item = E>,
        found: &mut Found,
    ) {
        let thing = |kind, name: &Arc<str>, detail| Thing {
            kind,
            provider: info.name.clone(),
            guid: info.guid,
            event: None,
            map: None,
            name: name.clone(),
            detail,
        };
        let mut put = |thing, version: Option<u8>| found.0.entry(thing).or_default().extend(version);
        if self.wants(Kind::Provider) && self.words.found(&[&info.name], &[]) {
            put(thing(Kind::Provider, &info.name, String::new()), None);
        }
        if self.wants(Kind::Keyword) {
            for keyword in info.keywords.iter().filter(|k| self.words.found(&[&k.name], &[&info.name])) {
                put(thing(Kind::Keyword, &keyword.name, format!("{:#x}", keyword.mask)), None);
            }
        }
        let mut maps: HashSet<*const ValueMap> = HashSet::new();
        let mut put_map = |map: &Arc<ValueMap>, put: &mut dyn FnMut(Thing, Option<u8>)| {
            if !self.wants(Kind::Map) || !maps.insert(Arc::as_ptr(map)) {
                return;
            }
            if self.words.found(&[&map.name], &[&info.name]) {
                put(thing(Kind::Map, &map.name, String::new()), None);
            }
            for entry in map.entries.iter().filter(|e| self.words.found(&[&e.text], &[&map.name, &info.name]))
            {
                let text = thing(Kind::Map, &entry.text, entry.value.to_string());
                put(Thing { map: Some(map.name.clone()), ..text }, None);
            }
        };
        info.maps.iter().for_each(|map| put_map(map, &mut put));
        if !(self.wants(Kind::Event) || self.wants(Kind::Field) || self.wants(Kind::Map)) {
            return;
        }
        for event in events {
            let event: &EventSchema = event.borrow();
            let names = [&event.name, &event.task_name, &event.opcode_name];
            let [name, task, opcode] = names.map(|name| name.as_deref().unwrap_or_default());
            let of_event = |thing: Thing| {
                let d = &event.descriptor;
                let is_classic = info.class_of.is_some();
                let id = if is_classic { d.opcode.0.into() } else { d.id };
                Thing {
                    event: Some(FoundEvent { id, is_classic, label: event_label(event).into() }),
                    ..thing
                }
            };
            let version = Some(event.descriptor.version);
            if self.wants(Kind::Event) && self.words.found(&[name, task, opcode], &[&info.name]) {
                put(of_event(thing(Kind::Event, &event_label(event).into(), String::new())), version);
            }
            for property in &event.properties {
                if let PropertyType::Value { map: Some(map), .. } = &property.kind {
                    put_map(map, &mut put);
                }
                if self.wants(Kind::Field)
                    && self.words.found(&[&property.name], &[name, task, opcode, &info.name])
                {
                    let kind = type_text(event, property);
                    put(of_event(thing(Kind::Field, &property.name, kind)), version);
                }
            }
        }
    }
}
