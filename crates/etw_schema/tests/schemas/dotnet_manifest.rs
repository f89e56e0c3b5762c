//! The built-in providers of .NET against the published manifest of the runtimes: every event and version, with its
//! names, fields, types, lengths, counts and maps, and every keyword and task.

use etw_schema::builtin::BuiltIn;
use etw_schema::{
    Count, EventSchema, InType, Length, MapEntry, OpcodeName, OutType, Property, PropertyType, Provider,
    ValueMap, manifest,
};

/// Events that differ from the manifest on purpose: the frames of a stack, which a manifest cannot describe, are
/// counted by a field; a layout that the manifest lacks is taken from a trace; another has a field that runtimes write.
const DIFFERENT: [(&str, u16, u8); 6] = [
    ("Microsoft-Windows-DotNETRuntime", 72, 0),
    ("Microsoft-Windows-DotNETRuntime", 82, 0),
    ("Microsoft-Windows-DotNETRuntimeRundown", 0, 0),
    ("Microsoft-Windows-DotNETRuntimeStress", 1, 0),
    ("Microsoft-Windows-DotNETRuntimePrivate", 4, 2),
    ("Microsoft-Windows-DotNETRuntimePrivate", 151, 0),
];

/// Value of `GCRootKindMap` that runtimes have named anew since the manifest.
const RENAMED: (&str, u64) = ("GCRootKindMap", 3);

/// Returns what the two descriptions of a provider differ in, one line each.
fn differences(published: &Provider, ours: &Provider) -> Vec<String> {
    let mut found = Vec::new();
    let name = &published.info.name;
    for keyword in &published.info.keywords {
        let key = (keyword.mask, &keyword.name);
        if !ours.info.keywords.iter().any(|other| (other.mask, &other.name) == key) {
            found.push(format!("{name}: keyword {:x} {}", keyword.mask, keyword.name));
        }
    }
    for task in &published.info.tasks {
        let text = task.message.as_ref().unwrap_or(&task.name);
        if !ours.info.tasks.iter().any(|other| (other.value, &other.name) == (task.value, text)) {
            found.push(format!("{name}: task {} {text}", task.value));
        }
    }
    for map in &published.info.maps {
        if !ours.info.maps.iter().any(|other| has_entries_of(other, map)) {
            found.push(format!("{name}: map {map:?}"));
        }
    }
    for event in &published.events {
        let (id, version) = (event.descriptor.id, event.descriptor.version);
        let ours = ours.events.iter().map(|event| (event.descriptor, event));
        let ours = ours.filter(|(other, _)| (other.id, other.version) == (id, version));
        let ours: Vec<_> = ours.map(|(_, event)| row(event, false)).collect();
        let published = row(event, true);
        if (ours != [published.clone()]) != DIFFERENT.contains(&(name, id, version)) {
            found.push(format!("{name} {id}.{version}:\n  published {published}\n  ours      {ours:?}"));
        }
    }
    found
}

/// Returns whether a map has every entry of a published one.
fn has_entries_of(map: &ValueMap, published: &ValueMap) -> bool {
    let is_there = |entry: &MapEntry| map.entries.contains(entry) || RENAMED == (&*map.name, entry.value);
    (&map.name, map.kind) == (&published.name, published.kind) && published.entries.iter().all(is_there)
}

/// Returns an event as one line: descriptor, names and fields. Windows shows tasks and opcodes by their messages.
fn row(event: &EventSchema, is_published: bool) -> String {
    let descriptor = event.descriptor;
    let (task, opcode, level) = (descriptor.task, descriptor.opcode.0, descriptor.level.0);
    let (mut task_name, mut opcode_name) = (event.task_name.clone(), event.opcode_name.clone());
    if is_published {
        let tasks = event.provider.tasks.iter().find(|other| Some(&other.name) == task_name.as_ref());
        task_name = tasks.and_then(|task| task.message.clone()).or(task_name);
        let is_ours = |other: &&OpcodeName| {
            (other.value, Some(&other.name)) == (opcode, opcode_name.as_ref())
                && other.task.is_none_or(|other| other == task)
        };
        let opcodes = event.provider.opcodes.iter().find(is_ours);
        opcode_name = opcodes.and_then(|opcode| opcode.message.clone()).or(opcode_name);
    }
    let mut keywords = event.keyword_names.clone();
    keywords.sort();
    let top_level = &event.properties[..usize::from(event.top_level)];
    let fields: Vec<_> = top_level.iter().map(|field| field_text(event, field)).collect();
    format!(
        "{:?} | task {task} {task_name:?} opcode {opcode} {opcode_name:?} level {level} {:?} keywords {:x} {:?} | {}",
        event.name,
        event.level_name,
        descriptor.keyword.0,
        keywords,
        fields.join("; ")
    )
}

fn field_text(event: &EventSchema, field: &Property) -> String {
    let kind = match &field.kind {
        PropertyType::Value { in_type, out_type, map } => {
            let out_type = if *out_type == OutType::NULL { default_out_type(*in_type) } else { *out_type };
            let map = map.as_ref().map(|map| format!(" ={}", map.name)).unwrap_or_default();
            format!("{}:{}{map}", in_type.name().unwrap_or("?"), out_type.name().unwrap_or("?"))
        }
        PropertyType::Struct { first, members } => {
            let members = &event.properties[usize::from(*first)..usize::from(*first + *members)];
            let members: Vec<_> = members.iter().map(|member| field_text(event, member)).collect();
            format!("{{ {} }}", members.join("; "))
        }
    };
    let named = |index: u16| event.properties[usize::from(index)].name.to_string();
    let length = match field.length {
        Length::Natural => String::new(),
        Length::Fixed(length) => format!("({length})"),
        Length::Property(index) => format!("({})", named(index)),
    };
    let count = match field.count {
        Count::One => String::new(),
        Count::Fixed(count) => format!("[{count}]"),
        Count::Property(index) => format!("[{}]", named(index)),
        other => format!("[{other:?}]"),
    };
    format!("{} {kind}{length}{count}", field.name)
}

/// Returns the out-type that a manifest's `inType` has if none is given (winmeta.xml).
fn default_out_type(in_type: InType) -> OutType {
    match in_type {
        InType::UNICODE_STRING | InType::ANSI_STRING => OutType::STRING,
        InType::INT8 => OutType::BYTE,
        InType::UINT8 => OutType::UNSIGNED_BYTE,
        InType::INT16 => OutType::SHORT,
        InType::UINT16 => OutType::UNSIGNED_SHORT,
        InType::INT32 => OutType::INT,
        InType::UINT32 => OutType::UNSIGNED_INT,
        InType::INT64 => OutType::LONG,
        InType::UINT64 => OutType::UNSIGNED_LONG,
        InType::FLOAT => OutType::FLOAT,
        InType::DOUBLE => OutType::DOUBLE,
        InType::BOOLEAN => OutType::BOOLEAN,
        InType::GUID => OutType::GUID,
        InType::POINTER | InType::HEX_INT64 => OutType::HEX_INT64,
        InType::HEX_INT32 => OutType::HEX_INT32,
        InType::BINARY => OutType::HEX_BINARY,
        _ => OutType::NULL,
    }
}

#[test]
fn the_published_manifest_is_built_in() {
    let Some(folder) = etw_testkit::data::data_dir() else { return };
    let text = std::fs::read(folder.join("manifests/microsoft-perfview/ClrEtwAll.man")).unwrap();
    let published = manifest::read(&text, "ClrEtwAll.man");
    assert_eq!(published.problems, []);
    assert_eq!(published.providers.len(), 4);
    let mut found = Vec::new();
    for provider in &published.providers {
        let ours = BuiltIn.provider(&provider.info.guid).unwrap();
        assert_eq!(ours.info.name, provider.info.name);
        found.extend(differences(provider, &ours));
    }
    println!("{}", found.join("\n"));
    assert!(found.is_empty(), "{} differences", found.len());
}
