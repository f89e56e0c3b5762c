//! Fuzz bodies of the sources of schemas. What a source gives is compiled, too, since layouts must bear it.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::{env, fs, process, thread};

use etw_event::{EventDescriptor, Guid};
use etw_schema::event_source::EventSourceManifests;
use etw_schema::message::Message;
use etw_schema::store::Store;
use etw_schema::text::write_mapped;
use etw_schema::tracelogging::{self, ProviderTraits};
use etw_schema::wpp::WppReader;
use etw_schema::{
    CompiledSchema, Decoding, EventSchema, MessageStyle, Provider, ProviderInfo, event_metadata, manifest,
    mof, wevt,
};

/// An instrumentation manifest.
pub fn manifest(bytes: &[u8]) {
    let manifest = manifest::read(bytes, "fuzz");
    for problem in &manifest.problems {
        black_box(problem.to_string());
    }
    for provider in &manifest.providers {
        compile(provider);
    }
}

/// A file with compiled manifests, and itself as its satellite.
pub fn compiled_manifest(bytes: &[u8]) {
    let Ok(wevt) = wevt::read(bytes, Some(bytes), "fuzz") else { return };
    for problem in &wevt.problems {
        black_box(problem.to_string());
    }
    for provider in &wevt.providers {
        compile(provider);
        black_box(manifest::write(provider));
    }
}

/// Payloads of manifest events one behind the other, each with its length in 16 bits before it.
pub fn event_source(mut bytes: &[u8]) {
    let mut manifests = EventSourceManifests::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let (payload, rest) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
        if let Some(manifest) = manifests.add_chunk(Guid::ZERO, 1, payload) {
            manifest.provider.iter().for_each(compile);
        }
        bytes = rest;
    }
    black_box(manifests.finish());
}

/// MOF text.
pub fn mof(bytes: &[u8]) {
    let mof = mof::parse_bytes(bytes, "fuzz");
    black_box(&mof.problems);
    mof.providers.iter().for_each(compile);
}

/// A TMF file.
pub fn tmf(bytes: &[u8]) {
    let mut reader = WppReader::default();
    reader.add_tmf(bytes, "fuzz");
    black_box(reader.problems());
    reader.finish().iter().for_each(compile);
}

/// A PDB file.
pub fn pdb(bytes: &[u8]) {
    let mut reader = WppReader::default();
    black_box(reader.add_pdb(bytes, "fuzz").map_err(|error| error.to_string())).ok();
    reader.finish().iter().for_each(compile);
}

/// TraceLogging metadata of an event, and as a provider's traits.
pub fn trace_logging(bytes: &[u8]) {
    if let Ok(traits) = ProviderTraits::parse(bytes) {
        black_box(traits);
    }
    let info = Arc::new(ProviderInfo::new(Guid::ZERO, "Fuzz", Decoding::TraceLogging, "fuzz"));
    match tracelogging::parse_event(bytes, info, EventDescriptor::default()) {
        Ok(schema) => compile_event(Arc::new(schema)),
        Err(error) => drop(black_box(error.to_string())),
    }
}

/// A `TRACE_EVENT_INFO` blob.
pub fn event_metadata(bytes: &[u8]) {
    match event_metadata::parse_event(bytes, &HashMap::new()) {
        Ok(schema) => compile_event(Arc::new(schema)),
        Err(error) => drop(black_box(error.to_string())),
    }
}

/// An `EVENT_MAP_INFO` blob.
pub fn event_map(bytes: &[u8]) {
    match event_metadata::parse_map(bytes) {
        Ok(map) => {
            let mut text = String::new();
            for bits in [0, 1, 3, u64::MAX] {
                black_box(write_mapped(&mut text, &map, bits));
            }
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

/// A message text.
pub fn message(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    black_box(Message::parse(&text, MessageStyle::FormatMessage));
    black_box(Message::parse(&text, MessageStyle::Wpp));
}

/// A schema store: `u32` length of the index, the index, then a file of records.
pub fn store(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return };
    let (index, records) = rest.split_at((u32::from_le_bytes(*len) as usize).min(rest.len()));
    // One directory a process and thread: tests run side by side.
    let name = format!("openetw-fuzz-{}-{:?}", process::id(), thread::current().id());
    let directory = env::temp_dir().join(name);
    let written = fs::create_dir_all(&directory)
        .and_then(|()| fs::write(directory.join("index"), index))
        .and_then(|()| fs::write(directory.join("1.schemas"), records));
    assert!(written.is_ok(), "{}: {written:?}", directory.display());
    if let Ok(store) = Store::open(&directory) {
        for listed in store.list().unwrap_or_default() {
            if let Ok(Some(provider)) = store.provider(&listed.guid) {
                compile(&provider);
            }
        }
    }
    let _ = fs::remove_dir_all(&directory);
}

fn compile(provider: &Provider) {
    for event in &provider.events {
        compile_event(Arc::clone(event));
    }
}

fn compile_event(event: Arc<EventSchema>) {
    let compiled = CompiledSchema::new(event);
    black_box((compiled.layout.defect(), compiled.label().to_string()));
}
