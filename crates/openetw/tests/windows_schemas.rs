//! The schemas of Windows' own providers, compared with what real traces say and contain.
#![cfg(not(windows))]
#![cfg(feature = "windows-schemas")]

use std::collections::{BTreeMap, BTreeSet};

use etw_testkit::data;
use openetw::Trace;
use openetw::schema::{
    Decoding, EventSchema, Found, InType, Length, LocateErrorKind, Located, PropertyType, Resolver,
    SchemaSource,
};
use openetw::windows::WindowsSchemas;
use std::sync::Arc;

/// Events whose own metadata differs from the pack's layout for the build, and why.
const DIFFERENT: [(&str, u16, u8, &str); 3] = [
    (
        "Microsoft-Windows-Immersive-Shell",
        191,
        0,
        "Windows 8 is not among the releases; a later one added a field",
    ),
    ("Microsoft-Windows-Immersive-Shell", 192, 0, "the same"),
    ("Microsoft-Windows-PktMon", 66, 0, "lists lack the length 16; the address is the rest of the payload"),
];

/// Events whose payloads do not end where the layout for their build does, and why. What is left is shown as bytes.
const INEXACT: [(&str, u16, u8, &str); 5] = [
    ("Microsoft-Windows-DxgKrnl", 107, 0, "8 bytes more than any published layout of this version"),
    ("Microsoft-Windows-DxgKrnl", 108, 0, "the same"),
    ("Microsoft-Windows-DxgKrnl", 344, 0, "the same"),
    ("Microsoft-Windows-Immersive-Shell", 191, 0, "as above"),
    ("Microsoft-Windows-Immersive-Shell", 192, 0, "as above"),
];

/// Returns names, types, lengths and counts of the top-level properties; out-types are left out, since few sources of
/// the pack state them.
fn shape(schema: &EventSchema) -> Vec<String> {
    let top = schema.properties.iter().take(schema.top_level.into());
    top.map(|property| {
        let kind = match property.kind {
            PropertyType::Struct { .. } => "Struct".to_owned(),
            PropertyType::Value { in_type: InType::BINARY_TO_END, .. } => "Binary".to_owned(),
            PropertyType::Value { in_type, .. } => in_type.name().unwrap_or("?").to_owned(),
        };
        // A trace's metadata gives the size of integers as a length.
        let is_sized = matches!(kind.as_str(), "UnicodeString" | "AnsiString" | "Binary");
        let length = if is_sized { property.length } else { Length::Natural };
        format!("{kind} {} {length:?} {:?}", property.name, property.count)
    })
    .collect()
}

#[test]
fn layouts_equal_the_metadata_that_traces_carry() {
    let Some(files) = data::traces() else { return };
    let windows = WindowsSchemas::new().unwrap();
    let (mut compared, mut different) = (BTreeSet::new(), BTreeMap::new());
    for file in files {
        let mut trace = Trace::open_file(&file.path).unwrap();
        let build = trace.headers()[0].provider_version;
        trace
            .for_each_schema(|event| {
                let Ok(schema) = event.schema else { return };
                if !matches!(schema.schema.decoding, Decoding::EventMetadata | Decoding::EventSource) {
                    return;
                }
                let (guid, descriptor) = (event.record.provider_id(), event.record.descriptor());
                let Found::Event(packed) =
                    windows.event_of_build(&guid, descriptor.id, descriptor.version, build)
                else {
                    return;
                };
                let key = (schema.schema.provider.name.to_string(), descriptor.id, descriptor.version, build);
                if !compared.insert(key.clone()) {
                    return;
                }
                let (own, packed) = (shape(&schema.schema), shape(&packed));
                if own != packed {
                    different.insert(key, (own, packed));
                }
            })
            .unwrap();
    }
    println!("{} layouts compared", compared.len());
    for (key, (own, packed)) in &different {
        println!("{key:?}\n  trace {own:?}\n  pack  {packed:?}");
    }
    let found: Vec<_> =
        different.keys().map(|(name, id, version, _)| (name.as_str(), *id, *version)).collect();
    let expected: Vec<_> = DIFFERENT.iter().map(|(name, id, version, _)| (*name, *id, *version)).collect();
    assert_eq!(found, expected);
    assert!(compared.len() > 20, "{}", compared.len());
}

#[test]
fn payloads_end_where_the_pack_says() {
    let Some(files) = data::traces() else { return };
    let windows = WindowsSchemas::new().unwrap();
    let (mut exact, mut inferred) = (0u64, 0u64);
    let mut explained: BTreeMap<String, u64> = BTreeMap::new();
    let mut inexact = BTreeMap::new();
    for file in files {
        let mut trace = Trace::open_file(&file.path).unwrap();
        let mut resolver = Resolver::new();
        resolver.add_built_in(Arc::new(windows));
        resolver.set_builds(vec![trace.headers()[0].provider_version]);
        let mut located = Located::new();
        trace
            .for_each_record(|record| {
                if !record.kind().is_event_header() {
                    return;
                }
                let event = resolver.decode(record, &mut located);
                let Ok(properties) = &event.properties else { return };
                let Some(schema) = event.schema() else { return };
                // Tables that are built in go before the pack.
                let origin = &schema.provider.origin;
                if !(origin.contains("exported manifests") || origin.contains("lists of fields")) {
                    return;
                }
                match properties.error().map(|error| error.error.kind) {
                    Some(kind @ (LocateErrorKind::Inferred(_) | LocateErrorKind::Defect(_))) => {
                        let descriptor = record.descriptor();
                        let (id, version) = (descriptor.id, descriptor.version);
                        let label = format!("{} {id} {version}: {kind}", schema.provider.name);
                        *explained.entry(label).or_default() += 1;
                    }
                    None if properties.rest().is_empty() => {
                        exact += 1;
                        inferred += u64::from(schema.inferred.is_some());
                    }
                    _ => {
                        let descriptor = record.descriptor();
                        let name = schema.provider.name.to_string();
                        *inexact.entry((name, descriptor.id, descriptor.version)).or_insert(0u64) += 1;
                    }
                }
            })
            .unwrap();
    }
    println!("{exact} events end exactly, {inferred} of them by inferred lengths");
    println!("known in part: {explained:?}");
    println!("end elsewhere: {inexact:?}");
    let found: Vec<_> = inexact.keys().map(|(name, id, version)| (name.as_str(), *id, *version)).collect();
    let expected: Vec<_> = INEXACT.iter().map(|(name, id, version, _)| (*name, *id, *version)).collect();
    assert_eq!(found, expected);
    assert!(exact > 150_000, "{exact}");
}
