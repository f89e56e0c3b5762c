//! Descriptions of providers and their events as text and JSON.

use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Result;
use openetw::schema::{
    Count, EventSchema, InType, Length, MapKind, Property, PropertyType, Provider, ProviderInfo, ValueMap,
};
use openetw::windows::{Releases, WindowsSchemas};
use serde_json::{Map, Value, json};

#[cfg(any(target_os = "linux", windows))]
use crate::kernel_flags;

/// A provider with the events that one source describes, and the releases of Windows that have them.
#[derive(Debug, Clone)]
pub struct Described {
    /// The provider's names.
    pub info: Arc<ProviderInfo>,
    /// The events.
    pub events: Vec<DescribedEvent>,
}

/// One layout of an event.
#[derive(Debug, Clone)]
pub struct DescribedEvent {
    /// The schema.
    pub schema: Arc<EventSchema>,
    /// The releases of Windows with this layout; `None` if the event is not known to be one of Windows.
    pub releases: Option<Releases>,
}

impl From<&Provider> for Described {
    fn from(provider: &Provider) -> Described {
        let events = provider.events.iter();
        let events = events.map(|schema| DescribedEvent { schema: schema.clone(), releases: None });
        Described { info: provider.info.clone(), events: events.collect() }
    }
}

/// Selects events by id, or classic events by opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSelector {
    /// The id or opcode.
    pub id: u16,
    /// The version; `None` selects every version.
    pub version: Option<u8>,
}

impl FromStr for EventSelector {
    type Err = String;

    /// Parses `ID` or `ID.VERSION`.
    fn from_str(text: &str) -> Result<EventSelector, String> {
        let (id, version) = match text.split_once('.') {
            Some((id, version)) => (id, Some(version)),
            None => (text, None),
        };
        let invalid = || "expected an event id, or an id and a version: 7 or 7.2".to_owned();
        let version = version.map(str::parse).transpose().map_err(|_| invalid())?;
        Ok(EventSelector { id: id.parse().map_err(|_| invalid())?, version })
    }
}

/// Writes a provider as text: its names, and the selected events, or all events if `wanted` is empty.
///
/// # Errors
///
/// Never fails: writing to memory succeeds.
pub fn put_text(out: &mut Vec<u8>, provider: &Described, wanted: &[EventSelector]) -> Result<()> {
    let info = &provider.info;
    writeln!(out, "{} {}", info.name, info.guid)?;
    writeln!(out, "  {}: {}", info.decoding.name(), info.origin)?;
    if let Some((guid, name)) = &info.class_of {
        writeln!(out, "  class of {name} {guid}")?;
    }
    if let Some(guid) = info.control_guid {
        writeln!(out, "  enabled by {guid}")?;
    }
    #[cfg(any(target_os = "linux", windows))]
    if info.guid == openetw::classes::SYSTEM_TRACE {
        // Its keywords are the kernel flags, which have a table of their own.
        return kernel_flags::put_text(out);
    }
    if wanted.is_empty() {
        put_names(out, "Channels", info.channels.iter().map(|c| (c.value.to_string(), &c.name, &c.message)))?;
        put_names(out, "Levels", info.levels.iter().map(|l| (l.value.to_string(), &l.name, &l.message)))?;
        put_names(
            out,
            "Keywords",
            info.keywords.iter().map(|k| (format!("{:#018x}", k.mask), &k.name, &k.message)),
        )?;
        put_names(out, "Tasks", info.tasks.iter().map(|t| (t.value.to_string(), &t.name, &t.message)))?;
        put_names(out, "Opcodes", info.opcodes.iter().map(|o| (o.value.to_string(), &o.name, &o.message)))?;
    }
    let events: Vec<_> = provider.events.iter().filter(|event| is_wanted(&event.schema, wanted)).collect();
    if events.is_empty() {
        writeln!(out, "\n  no known event{}", if wanted.is_empty() { "" } else { " with these ids" })?;
        return Ok(());
    }
    writeln!(out, "\nEvents")?;
    for event in events {
        put_event(out, event)?;
    }
    let maps = match wanted {
        [] => info.maps.clone(),
        _ => used_maps(provider.events.iter().filter(|event| is_wanted(&event.schema, wanted))),
    };
    maps.iter().try_for_each(|map| put_map(out, map))
}

fn put_names<'a>(
    out: &mut Vec<u8>,
    title: &str,
    names: impl Iterator<Item = (String, &'a Arc<str>, &'a Option<Arc<str>>)>,
) -> Result<()> {
    for (index, (value, name, message)) in names.enumerate() {
        if index == 0 {
            writeln!(out, "\n{title}")?;
        }
        match message.as_deref().filter(|text| *text != &**name) {
            Some(text) => writeln!(out, "  {value:>6}  {name} ({})", text.trim())?,
            None => writeln!(out, "  {value:>6}  {name}")?,
        }
    }
    Ok(())
}

/// Returns the maps of events' fields, each once.
fn used_maps<'a>(events: impl Iterator<Item = &'a DescribedEvent>) -> Vec<Arc<ValueMap>> {
    let mut maps: Vec<Arc<ValueMap>> = Vec::new();
    for property in events.flat_map(|event| &event.schema.properties) {
        if let PropertyType::Value { map: Some(map), .. } = &property.kind
            && !maps.contains(map)
        {
            maps.push(map.clone());
        }
    }
    maps
}

fn put_event(out: &mut Vec<u8>, DescribedEvent { schema: event, releases }: &DescribedEvent) -> Result<()> {
    let d = &event.descriptor;
    match event.provider.class_of {
        Some(_) => write!(out, "  type {} version {}", d.opcode.0, d.version)?,
        None => write!(out, "  {} version {}", d.id, d.version)?,
    }
    write!(out, "  {}", event_label(event))?;
    if d.level.0 != 0 {
        let name = event.level_name.as_deref().or(d.level.standard_name()).unwrap_or_default();
        write!(out, "  level {} {}", d.level.0, name.strip_prefix("win:").unwrap_or(name))?;
    }
    if d.keyword.0 != 0 {
        write!(out, "  keywords {:#x} {}", d.keyword.0, event.keyword_names.join(" "))?;
    }
    if let Some(channel) = &event.channel_name {
        write!(out, "  channel {channel}")?;
    }
    writeln!(out)?;
    if let Some(releases) = releases {
        writeln!(out, "      Windows {}", releases_text(*releases))?;
    }
    if let Some((from, reason)) = inferred(event) {
        writeln!(out, "      inferred from {from} on: {reason}")?;
    }
    if let Some(message) = &event.message {
        writeln!(out, "      \"{}\"", message.trim_end().replace('\n', " ").replace('\r', ""))?;
    }
    let top_level = event.properties.get(..event.top_level.into()).unwrap_or_default();
    put_fields(out, event, top_level, 6)
}

/// Returns the event's names: its own, the task's and the opcode's.
pub(crate) fn event_label(event: &EventSchema) -> String {
    let parts = [&event.name, &event.task_name, &event.opcode_name].into_iter().flatten();
    let parts: Vec<&str> = parts.map(|part| part.strip_prefix("win:").unwrap_or(part)).collect();
    parts.join(" ")
}

/// Returns the first inferred property's name, and what is inferred.
fn inferred(event: &EventSchema) -> Option<(&str, String)> {
    let inferred = event.inferred?;
    let from =
        event.properties.get(usize::from(inferred.from)).map_or("the start", |property| &*property.name);
    Some((from, inferred.what.to_string()))
}

/// Returns the names of releases of Windows, in their order.
fn release_names(releases: Releases) -> Vec<&'static str> {
    let pack = WindowsSchemas::new().ok().map(|windows| windows.pack());
    let name = |number: usize| Some(pack?.releases().get(number)?.name.as_str());
    releases.numbers().filter_map(name).collect()
}

/// Formats releases of Windows: `10 1507 to 10 21H1, 11 24H2`.
pub(crate) fn releases_text(releases: Releases) -> String {
    let names = |from: usize, to: usize| {
        let mut part = Releases::default();
        [from, to].into_iter().for_each(|number| part.add(number));
        release_names(part).join(" to ")
    };
    let numbers: Vec<usize> = releases.numbers().collect();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let texts = runs.filter_map(|run| Some(names(*run.first()?, *run.last()?)));
    texts.collect::<Vec<_>>().join(", ")
}

/// Deeper nesting is not shown, since a schema may refer to itself.
const MAX_INDENT: usize = 6 + 4 * 8;

fn put_fields(out: &mut Vec<u8>, event: &EventSchema, fields: &[Property], indent: usize) -> Result<()> {
    for field in fields {
        write!(out, "{:indent$}{:<24} {}", "", field.name, type_text(event, field))?;
        if let PropertyType::Value { map: Some(map), .. } = &field.kind {
            write!(out, " map {}", map.name)?;
        }
        writeln!(out)?;
        if let Some(members) = members(event, field)
            && indent < MAX_INDENT
        {
            put_fields(out, event, members, indent + 4)?;
        }
    }
    Ok(())
}

pub(crate) fn members<'a>(event: &'a EventSchema, field: &Property) -> Option<&'a [Property]> {
    match field.kind {
        PropertyType::Struct { first, members } => {
            event.properties.get(usize::from(first)..usize::from(first) + usize::from(members))
        }
        PropertyType::Value { .. } => None,
    }
}

/// Formats a field's type: `UnicodeString[PathLength] as xs:string`.
pub(crate) fn type_text(event: &EventSchema, field: &Property) -> String {
    let name_of =
        |index: u16| event.properties.get(usize::from(index)).map_or("?", |property| &*property.name);
    let mut text = match &field.kind {
        PropertyType::Struct { .. } => "Struct".to_owned(),
        PropertyType::Value { in_type, .. } => {
            if *in_type == InType::UNKNOWN_EXTENT {
                return "unknown length or members; the fields from here on are not decoded".to_owned();
            }
            if *in_type == InType::UNKNOWN_STRING {
                return "string of unknown encoding; decoded where null-terminated strings fill the payload"
                    .to_owned();
            }
            in_type.name().map_or_else(|| format!("in-type {}", in_type.0), str::to_owned)
        }
    };
    match field.length {
        Length::Natural => {}
        Length::Fixed(length) => text += &format!("({length})"),
        Length::Property(index) => text += &format!("({})", name_of(index)),
    }
    match field.count {
        Count::One => {}
        Count::Fixed(count) => text += &format!("[{count}]"),
        Count::Property(index) => text += &format!("[{}]", name_of(index)),
        Count::Prefixed => text += "[counted]",
        Count::ToEnd => text += "[]",
    }
    if let PropertyType::Value { out_type, .. } = &field.kind
        && out_type.0 != 0
    {
        text += " as ";
        text += &out_type.name().map_or_else(|| out_type.0.to_string(), str::to_owned);
    }
    text
}

fn put_map(out: &mut Vec<u8>, map: &ValueMap) -> Result<()> {
    writeln!(out, "\nMap {} ({})", map.name, map_kind(map.kind))?;
    for entry in &map.entries {
        match map.kind {
            MapKind::Bits => writeln!(out, "  {:>#10x}  {}", entry.value, entry.text)?,
            _ => writeln!(out, "  {:>10}  {}", entry.value, entry.text)?,
        }
    }
    Ok(())
}

fn map_kind(kind: MapKind) -> &'static str {
    match kind {
        MapKind::Value => "values",
        MapKind::Bits => "bit masks",
        MapKind::BitPositions => "bit positions",
    }
}

/// Returns a provider as JSON, with the selected events, or all events if `wanted` is empty.
pub fn to_json(provider: &Described, wanted: &[EventSelector]) -> Value {
    let info = &provider.info;
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !empty {
            object.insert(name.to_owned(), value);
        }
    };
    let named = |value: Value, name: &str, message: &Option<Arc<str>>| match message {
        Some(message) => json!({"Value": value, "Name": name, "Message": &**message}),
        None => json!({"Value": value, "Name": name}),
    };
    put("Name", json!(&*info.name));
    put("Guid", json!(info.guid.to_string()));
    put("Decoding", json!(info.decoding.name()));
    put("Origin", json!(&*info.origin));
    put("ControlGuid", info.control_guid.map(|guid| guid.to_string()).into());
    if let Some((guid, name)) = &info.class_of {
        put("ClassOf", json!({"Guid": guid.to_string(), "Name": &**name}));
    }
    put("Channels", info.channels.iter().map(|c| named(c.value.into(), &c.name, &c.message)).collect());
    put("Levels", info.levels.iter().map(|l| named(l.value.into(), &l.name, &l.message)).collect());
    let mask = |mask: u64| json!(format!("{mask:#x}"));
    put("Keywords", info.keywords.iter().map(|k| named(mask(k.mask), &k.name, &k.message)).collect());
    put("Tasks", info.tasks.iter().map(|t| named(t.value.into(), &t.name, &t.message)).collect());
    put("Opcodes", info.opcodes.iter().map(|o| named(o.value.into(), &o.name, &o.message)).collect());
    let events = provider.events.iter().filter(|event| is_wanted(&event.schema, wanted));
    put("Events", events.map(event_json).collect());
    put("Maps", info.maps.iter().map(|map| map_json(map)).collect());
    #[cfg(any(target_os = "linux", windows))]
    if info.guid == openetw::classes::SYSTEM_TRACE {
        put("Flags", kernel_flags::flags_json());
        put("Groups", kernel_flags::groups_json());
    }
    Value::Object(object)
}

fn event_json(DescribedEvent { schema: event, releases }: &DescribedEvent) -> Value {
    let d = &event.descriptor;
    let mut object = Map::new();
    let numbers = [
        ("EventID", u64::from(d.id)),
        ("Version", d.version.into()),
        ("Channel", d.channel.into()),
        ("Level", d.level.0.into()),
        ("Opcode", d.opcode.0.into()),
        ("Task", d.task.into()),
    ];
    for (name, number) in numbers {
        object.insert(name.to_owned(), number.into());
    }
    object.insert("Keywords".to_owned(), json!({"Mask": format!("{:#x}", d.keyword.0), "Name": event.keyword_names.iter().map(|name| &**name).collect::<Vec<&str>>()}));
    let texts = [
        ("Name", &event.name),
        ("TaskName", &event.task_name),
        ("OpcodeName", &event.opcode_name),
        ("LevelName", &event.level_name),
        ("ChannelName", &event.channel_name),
        ("Message", &event.message),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            object.insert(name.to_owned(), json!(&**text));
        }
    }
    let top_level = event.properties.get(..event.top_level.into()).unwrap_or_default();
    object.insert("Fields".to_owned(), fields_json(event, top_level, 0));
    if let Some(releases) = releases {
        object.insert("Releases".to_owned(), json!(release_names(*releases)));
    }
    if let Some((from, reason)) = inferred(event) {
        object.insert("Inferred".to_owned(), json!({"From": from, "Reason": reason}));
    }
    Value::Object(object)
}

fn fields_json(event: &EventSchema, fields: &[Property], depth: usize) -> Value {
    let field_json = |field: &Property| {
        let mut object = Map::new();
        object.insert("Name".to_owned(), json!(&*field.name));
        object.insert("Type".to_owned(), type_text(event, field).into());
        if let PropertyType::Value { in_type, map, .. } = &field.kind {
            if *in_type == InType::UNKNOWN_EXTENT {
                object.insert("Unknown".to_owned(), true.into());
            }
            if let Some(map) = map {
                object.insert("Map".to_owned(), json!(&*map.name));
            }
        }
        if let Some(members) = members(event, field)
            && depth < 8
        {
            object.insert("Fields".to_owned(), fields_json(event, members, depth + 1));
        }
        Value::Object(object)
    };
    fields.iter().map(field_json).collect()
}

fn map_json(map: &ValueMap) -> Value {
    let entries: Vec<Value> =
        map.entries.iter().map(|entry| json!({"Value": entry.value, "Text": &*entry.text})).collect();
    json!({"Name": &*map.name, "Kind": map_kind(map.kind), "Entries": entries})
}

/// Returns whether an event is selected: by id, or for classic events by opcode.
fn is_wanted(event: &EventSchema, wanted: &[EventSelector]) -> bool {
    let id = match event.provider.class_of {
        Some(_) => event.descriptor.opcode.0.into(),
        None => event.descriptor.id,
    };
    let is_it = |selector: &EventSelector| {
        selector.id == id && selector.version.is_none_or(|version| version == event.descriptor.version)
    };
    wanted.is_empty() || wanted.iter().any(is_it)
}
