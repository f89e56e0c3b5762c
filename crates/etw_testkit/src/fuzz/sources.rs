//! Fuzz bodies of the sources of schemas. What a source gives is compiled, too, since layouts must bear it.

use std::hint::black_box;
use std::sync::Arc;

use etw_event::Guid;
use etw_schema::event_source::EventSourceManifests;
use etw_schema::{CompiledSchema, Provider, manifest, wevt};

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

fn compile(provider: &Provider) {
    for event in &provider.events {
        let compiled = CompiledSchema::new(Arc::clone(event));
        black_box((compiled.layout.defect(), compiled.label().to_string()));
    }
}
