//! Descriptions of providers and their events as text and JSON.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use openetw::schema::{Count, EventSchema, Length, MapKind, Property, PropertyType, Provider, ValueMap};
use serde_json::{Map, Value, json};

#[cfg(target_os = "linux")]
use crate::kernel_flags;

/// Writes a provider as text: its names, and the events with these ids, or all events if `ids` is empty.
///
/// Events of classic classes have opcodes in place of ids.
///
/// # Errors
///
/// Never fails: writing to memory succeeds.
pub fn put_text(out: &mut Vec<u8>, provider: &Provider, ids: &[u16]) -> Result<()> {
    let info = &provider.info;
    writeln!(out, "{} {}", info.name, info.guid)?;
    writeln!(out, "  {}: {}", info.decoding.name(), info.origin)?;
    if let Some((guid, name)) = &info.class_of {
        writeln!(out, "  class of {name} {guid}")?;
    }
    if let Some(guid) = info.control_guid {
        writeln!(out, "  enabled by {guid}")?;
    }
    #[cfg(target_os = "linux")]
    if info.guid == openetw::classes::SYSTEM_TRACE {
        // Its keywords are the kernel flags, which have a table of their own.
        return kernel_flags::put_text(out);
    }
    if ids.is_empty() {
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
    let events: Vec<_> = provider.events.iter().filter(|event| is_wanted(event, ids)).collect();
    if events.is_empty() {
        writeln!(out, "\n  no known event{}", if ids.is_empty() { "" } else { " with these ids" })?;
        return Ok(());
    }
    writeln!(out, "\nEvents")?;
    for event in events {
        put_event(out, event)?;
    }
    if ids.is_empty() {
        for map in &info.maps {
            put_map(out, map)?;
        }
    }
    Ok(())
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

fn put_event(out: &mut Vec<u8>, event: &EventSchema) -> Result<()> {
    let d = &event.descriptor;
    match event.provider.class_of {
        Some(_) => write!(out, "  type {} version {}", d.opcode.0, d.version)?,
        None => write!(out, "  {} version {}", d.id, d.version)?,
    }
    let parts = [&event.name, &event.task_name, &event.opcode_name].into_iter().flatten();
    let parts: Vec<&str> = parts.map(|part| part.strip_prefix("win:").unwrap_or(part)).collect();
    write!(out, "  {}", parts.join(" "))?;
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
    if let Some(message) = &event.message {
        writeln!(out, "      \"{}\"", message.trim_end().replace('\n', " ").replace('\r', ""))?;
    }
    let top_level = event.properties.get(..event.top_level.into()).unwrap_or_default();
    put_fields(out, event, top_level, 6)
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

fn members<'a>(event: &'a EventSchema, field: &Property) -> Option<&'a [Property]> {
    match field.kind {
        PropertyType::Struct { first, members } => {
            event.properties.get(usize::from(first)..usize::from(first) + usize::from(members))
        }
        PropertyType::Value { .. } => None,
    }
}

/// Formats a field's type: `UnicodeString[PathLength] as xs:string`.
fn type_text(event: &EventSchema, field: &Property) -> String {
    let name_of =
        |index: u16| event.properties.get(usize::from(index)).map_or("?", |property| &*property.name);
    let mut text = match &field.kind {
        PropertyType::Struct { .. } => "Struct".to_owned(),
        PropertyType::Value { in_type, .. } => {
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

/// Returns a provider as JSON, with the events with these ids, or all events if `ids` is empty.
pub fn to_json(provider: &Provider, ids: &[u16]) -> Value {
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
    let events = provider.events.iter().filter(|event| is_wanted(event, ids));
    put("Events", events.map(|event| event_json(event)).collect());
    put("Maps", info.maps.iter().map(|map| map_json(map)).collect());
    #[cfg(target_os = "linux")]
    if info.guid == openetw::classes::SYSTEM_TRACE {
        put("Flags", kernel_flags::flags_json());
        put("Groups", kernel_flags::groups_json());
    }
    Value::Object(object)
}

fn event_json(event: &EventSchema) -> Value {
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
    Value::Object(object)
}

fn fields_json(event: &EventSchema, fields: &[Property], depth: usize) -> Value {
    let field_json = |field: &Property| {
        let mut object = Map::new();
        object.insert("Name".to_owned(), json!(&*field.name));
        object.insert("Type".to_owned(), type_text(event, field).into());
        if let PropertyType::Value { map: Some(map), .. } = &field.kind {
            object.insert("Map".to_owned(), json!(&*map.name));
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

/// Returns whether `ids` selects an event: by id, or for classic events by opcode.
fn is_wanted(event: &EventSchema, ids: &[u16]) -> bool {
    let id = match event.provider.class_of {
        Some(_) => event.descriptor.opcode.0.into(),
        None => event.descriptor.id,
    };
    ids.is_empty() || ids.contains(&id)
}
