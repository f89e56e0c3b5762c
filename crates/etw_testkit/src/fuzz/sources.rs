//! Fuzz bodies of the sources of schemas. What a source gives is compiled, too, since layouts must bear it.

use std::hint::black_box;
use std::sync::Arc;

use etw_schema::{CompiledSchema, Provider, manifest};

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

fn compile(provider: &Provider) {
    for event in &provider.events {
        let compiled = CompiledSchema::new(Arc::clone(event));
        black_box((compiled.layout.defect(), compiled.label().to_string()));
    }
}
