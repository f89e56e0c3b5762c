//! Fuzz bodies for the sources of schemas. Parsed schemas are also compiled, because layouts must handle them.

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::Arc;

use etw_event::{EventDescriptor, Fields, Guid, PointerSize};
use etw_schema::event_source::EventSourceManifests;
use etw_schema::text::write_mapped;
use etw_schema::tracelogging::{self, ProviderTraits};
use etw_schema::wpp::WppReader;
use etw_schema::{
    CompiledSchema, Decoding, EventSchema, PropertyType, Provider, ProviderInfo, ValueMap, event_metadata,
    manifest, mof, publishers as publisher_list, wevt,
};

use super::decoder::show;

/// An instrumentation manifest.
pub fn manifest(bytes: &[u8]) {
    let manifest = manifest::read(bytes, "fuzz");
    for problem in &manifest.problems {
        black_box(problem.to_string());
    }
    check(&manifest.providers, bytes.len());
}

/// A file with compiled manifests, and itself as its satellite.
pub fn compiled_manifest(bytes: &[u8]) {
    black_box(wevt::may_have_templates(bytes));
    if let Ok(Some(range)) = wevt::resource_range(bytes) {
        let start = bytes.get(usize::try_from(range.start).unwrap_or(usize::MAX)..).unwrap_or_default();
        black_box(wevt::may_have_templates(start));
    }
    let Ok(wevt) = wevt::read(bytes, Some(bytes), "fuzz") else { return };
    for problem in &wevt.problems {
        black_box(problem.to_string());
    }
    check(&wevt.providers, bytes.len());
}

/// Reads a sequence of payloads of manifest events, each after its length in 16 bits.
pub fn event_source(mut bytes: &[u8]) {
    let len_bytes = bytes.len();
    let mut manifests = EventSourceManifests::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let (payload, rest) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
        if let Some(text) = manifests.add_chunk(Guid::ZERO, 1, payload).and_then(|manifest| manifest.text) {
            check(text.provider.as_slice(), len_bytes);
        }
        bytes = rest;
    }
    black_box(manifests.finish());
}

/// A MOF text.
pub fn mof(bytes: &[u8]) {
    let mof = mof::parse_bytes(bytes, "fuzz");
    for problem in &mof.problems {
        black_box(problem.to_string());
    }
    check(&mof.providers, bytes.len());
}

/// A TMF text.
pub fn tmf(bytes: &[u8]) {
    let mut reader = WppReader::default();
    reader.add_tmf(bytes, "fuzz");
    wpp(reader, bytes.len());
}

/// A PDB file.
pub fn pdb(bytes: &[u8]) {
    let mut reader = WppReader::default();
    if let Err(error) = reader.add_pdb(bytes, "fuzz") {
        black_box(error.to_string());
    }
    wpp(reader, bytes.len());
}

/// A registry hive with a list of publishers.
pub fn publishers(bytes: &[u8]) {
    match publisher_list::read(bytes) {
        Ok(read) => {
            let texts = |publisher: &publisher_list::Publisher| {
                let files = [&publisher.resource_file, &publisher.message_file];
                publisher.name.len() + files.into_iter().flatten().map(String::len).sum::<usize>()
            };
            let weight: usize = read.publishers.iter().map(texts).sum();
            assert!(weight <= bytes.len(), "{weight} bytes of publishers from {}", bytes.len());
            for problem in &read.problems {
                black_box(problem.to_string());
            }
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

fn wpp(reader: WppReader, len_bytes: usize) {
    for problem in reader.problems() {
        black_box(problem.to_string());
    }
    check(&reader.finish(), len_bytes);
}

/// TraceLogging metadata of an event, then its payload; and the same bytes as a provider's traits.
pub fn trace_logging(bytes: &[u8]) {
    black_box(ProviderTraits::parse(bytes).map_err(|error| error.to_string())).ok();
    let info = Arc::new(ProviderInfo::new(Guid::ZERO, "Fuzz", Decoding::TraceLogging, "fuzz"));
    match tracelogging::parse_event(bytes, info, EventDescriptor::default()) {
        Ok(schema) => {
            let size = bytes.u16_at(0).map_or(0, usize::from);
            check_and_show(schema, size, bytes.get(size..).unwrap_or_default());
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

/// A `TRACE_EVENT_INFO` blob, which is then the payload, too.
pub fn event_metadata(bytes: &[u8]) {
    match event_metadata::parse_event(bytes, &HashMap::new()) {
        Ok(schema) => check_and_show(schema, bytes.len(), bytes),
        Err(error) => drop(black_box(error.to_string())),
    }
}

/// An `EVENT_MAP_INFO` blob.
pub fn event_map(bytes: &[u8]) {
    match event_metadata::parse_map(bytes) {
        Ok(map) => {
            let weight: usize = map.entries.iter().map(|entry| 40 + entry.text.len()).sum();
            assert!(weight < (1 << 20) + 64 * bytes.len(), "{weight} bytes of a map from {}", bytes.len());
            let mut text = String::new();
            for bits in [0, 1, 3, u64::MAX] {
                black_box(write_mapped(&mut text, &map, bits));
            }
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

fn check_and_show(schema: EventSchema, len_bytes: usize, payload: &[u8]) {
    let event = Arc::new(schema);
    check(&[Provider { info: event.provider.clone(), events: vec![event.clone()] }], len_bytes);
    show(&CompiledSchema::new(event), payload, PointerSize::Eight);
}

/// Checks that the result of `len_bytes` bytes has a proportionate size, that layouts handle it, and that it can be
/// written as a manifest and read again.
pub(crate) fn check(providers: &[Provider], len_bytes: usize) {
    let mut seen = HashSet::new();
    let weight: usize = providers.iter().map(|provider| weight(provider, &mut seen)).sum();
    assert!(weight < (16 << 20) + 256 * len_bytes, "{weight} bytes of schemas from {len_bytes}");
    for provider in providers {
        for event in &provider.events {
            let compiled = CompiledSchema::new(Arc::clone(event));
            black_box((compiled.layout.defect(), compiled.label().to_string()));
        }
        if let Some(text) = etw_mc::write(provider) {
            let again = manifest::read(text.as_bytes(), "fuzz").providers;
            assert_eq!(again.len(), 1, "{text}");
            assert_eq!(again[0].info.guid, provider.info.guid);
        }
    }
}

/// Returns the memory size of a provider in bytes, excluding the parts in `seen`.
fn weight(provider: &Provider, seen: &mut HashSet<usize>) -> usize {
    let info = &provider.info;
    let mut texts: Vec<&Arc<str>> = vec![&info.name, &info.origin];
    texts.extend(
        info.channels.iter().flat_map(|channel| [Some(&channel.name), channel.message.as_ref()]).flatten(),
    );
    texts.extend(info.levels.iter().flat_map(|level| [Some(&level.name), level.message.as_ref()]).flatten());
    texts.extend(info.tasks.iter().flat_map(|task| [Some(&task.name), task.message.as_ref()]).flatten());
    texts.extend(
        info.opcodes.iter().flat_map(|opcode| [Some(&opcode.name), opcode.message.as_ref()]).flatten(),
    );
    texts.extend(
        info.keywords.iter().flat_map(|keyword| [Some(&keyword.name), keyword.message.as_ref()]).flatten(),
    );
    let mut bytes = 64 * texts.len();
    let mut maps: Vec<&Arc<ValueMap>> = info.maps.iter().collect();
    for event in &provider.events {
        bytes += size_of::<EventSchema>()
            + event.properties.len() * size_of_val(&event.properties[..1.min(event.properties.len())]);
        texts.extend(
            [&event.name, &event.task_name, &event.opcode_name, &event.message].into_iter().flatten(),
        );
        texts.extend(event.keyword_names.iter());
        for property in &event.properties {
            texts.push(&property.name);
            if let PropertyType::Value { map: Some(map), .. } = &property.kind {
                maps.push(map);
            }
        }
    }
    for map in maps {
        if seen.insert(Arc::as_ptr(map) as usize) {
            bytes += map.entries.len() * 32;
            texts.extend(map.entries.iter().map(|entry| &entry.text));
        }
    }
    texts.retain(|text| seen.insert(text.as_ptr() as usize));
    bytes + texts.iter().map(|text| text.len() + 16).sum::<usize>()
}
