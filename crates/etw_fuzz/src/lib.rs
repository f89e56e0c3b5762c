//! The bodies of the fuzz targets, one function for each parser of untrusted bytes and for each output made from whole
//! traces, and their seeds.
//!
//! A body passes bytes to a parser and reads all results. It must return for any input: no panic, no hang, memory
//! bounded by the input. `fuzz/fuzz_targets` contains a target for each name in [`TARGETS`]; tests replay the seeds of
//! every target, and damaged versions of them, without a fuzzer.

#![forbid(unsafe_code)]

mod bodies;
pub mod seeds;

use std::path::PathBuf;

use etw_testkit::data::workspace_root;

use seeds::Seed;

#[cfg(target_os = "linux")]
pub use bodies::capi::tdh;
pub use bodies::configuration::configuration;
pub use bodies::consumer::{
    container, decoded_file, dotnet_ipc, filter, nettrace, perf_data, provider_string,
};
pub use bodies::decoder::{built_in, decoder, message};
pub use bodies::export::{columns, evtx, timeline};
pub use bodies::file::{context_switches, etl_file, xpress};
pub use bodies::index::column_index;
pub use bodies::profile::profile;
pub use bodies::record::record;
pub use bodies::rows::row_tables;
pub use bodies::runtime::{logger, protocol, region};
pub use bodies::shared::ring;
pub use bodies::sources::{
    compiled_manifest, event_map, event_metadata, event_source, manifest, mof, pdb, publishers, tmf,
    trace_logging,
};
pub use bodies::store::store;
#[cfg(target_os = "linux")]
pub use bodies::symbols::elf_symbols;
pub use bodies::symbols::{
    image_code, jit_dump, pdb_symbols, pe_symbols, perf_map, portable_pdb, symbol_path, symbol_server,
};
pub use bodies::wpa::{stack_tags, wpa_regions};

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target in `fuzz/fuzz_targets` and of its directory in `fuzz/seeds`.
    pub name: &'static str,
    /// Function that processes an input.
    pub body: fn(&[u8]),
    /// Function that returns the seeds.
    pub seeds: fn() -> Vec<Seed>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "built_in", body: built_in, seeds: seeds::built_in },
    Target { name: "column_index", body: column_index, seeds: seeds::column_index },
    Target { name: "columns", body: columns, seeds: seeds::columns },
    Target { name: "compiled_manifest", body: compiled_manifest, seeds: seeds::compiled_manifest },
    Target { name: "configuration", body: configuration, seeds: seeds::configuration },
    Target { name: "container", body: container, seeds: seeds::container },
    Target { name: "context_switches", body: context_switches, seeds: seeds::context_switches },
    Target { name: "decoded_file", body: decoded_file, seeds: seeds::etl_file },
    Target { name: "decoder", body: decoder, seeds: seeds::decoder },
    Target { name: "dotnet_ipc", body: dotnet_ipc, seeds: seeds::dotnet_ipc },
    #[cfg(target_os = "linux")]
    Target { name: "elf_symbols", body: elf_symbols, seeds: seeds::elf_symbols },
    Target { name: "etl_file", body: etl_file, seeds: seeds::etl_file },
    Target { name: "event_map", body: event_map, seeds: seeds::event_map },
    Target { name: "event_metadata", body: event_metadata, seeds: seeds::event_metadata },
    Target { name: "event_source", body: event_source, seeds: seeds::event_source },
    Target { name: "evtx", body: evtx, seeds: seeds::etl_file },
    Target { name: "filter", body: filter, seeds: seeds::filter },
    Target { name: "image_code", body: image_code, seeds: seeds::image_code },
    Target { name: "jit_dump", body: jit_dump, seeds: seeds::jit_dump },
    Target { name: "logger", body: logger, seeds: seeds::logger },
    Target { name: "manifest", body: manifest, seeds: seeds::manifest },
    Target { name: "message", body: message, seeds: seeds::message },
    Target { name: "mof", body: mof, seeds: seeds::mof },
    Target { name: "nettrace", body: nettrace, seeds: seeds::nettrace },
    Target { name: "pdb", body: pdb, seeds: seeds::pdb },
    Target { name: "pdb_symbols", body: pdb_symbols, seeds: seeds::pdb_symbols },
    Target { name: "pe_symbols", body: pe_symbols, seeds: seeds::pe_symbols },
    Target { name: "perf_data", body: perf_data, seeds: seeds::perf_data },
    Target { name: "perf_map", body: perf_map, seeds: seeds::perf_map },
    Target { name: "portable_pdb", body: portable_pdb, seeds: seeds::portable_pdb },
    Target { name: "profile", body: profile, seeds: seeds::profile },
    Target { name: "protocol", body: protocol, seeds: seeds::protocol },
    Target { name: "provider_string", body: provider_string, seeds: seeds::provider_string },
    Target { name: "publishers", body: publishers, seeds: seeds::publishers },
    Target { name: "record", body: record, seeds: seeds::record },
    Target { name: "region", body: region, seeds: seeds::region },
    Target { name: "ring", body: ring, seeds: seeds::ring },
    Target { name: "row_tables", body: row_tables, seeds: seeds::row_tables },
    Target { name: "stack_tags", body: stack_tags, seeds: seeds::stack_tags },
    Target { name: "store", body: store, seeds: seeds::store },
    Target { name: "symbol_path", body: symbol_path, seeds: seeds::symbol_path },
    Target { name: "symbol_server", body: symbol_server, seeds: seeds::symbol_server },
    #[cfg(target_os = "linux")]
    Target { name: "tdh", body: tdh, seeds: seeds::tdh },
    Target { name: "timeline", body: timeline, seeds: seeds::etl_file },
    Target { name: "tmf", body: tmf, seeds: seeds::tmf },
    Target { name: "trace_logging", body: trace_logging, seeds: seeds::trace_logging },
    Target { name: "wpa_regions", body: wpa_regions, seeds: seeds::wpa_regions },
    Target { name: "xpress", body: xpress, seeds: seeds::xpress },
];

/// Returns the directory with the seeds of all targets.
pub fn seeds_dir() -> PathBuf {
    workspace_root().join("fuzz/seeds")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use etw_testkit::{are_slow_tests_wanted, mutate};

    /// Damaged versions of each seed, as many as meet every kind of damage often.
    const MUTATIONS: usize = 200;
    /// The same with `RUN_SLOW_TESTS=1`.
    const MANY_MUTATIONS: usize = 2000;

    #[test]
    fn every_target_takes_its_seeds_and_damaged_ones() {
        let mutations = if are_slow_tests_wanted() { MANY_MUTATIONS } else { MUTATIONS };
        for target in TARGETS {
            for (_, seed) in (target.seeds)() {
                mutate::each(&seed, mutations, target.body);
            }
        }
    }

    #[test]
    fn every_target_takes_what_once_broke_it() {
        let entries = fs::read_dir(workspace_root().join("fuzz/regressions")).unwrap();
        for directory in entries.map(|entry| entry.unwrap().path()) {
            let name = directory.file_name().unwrap().to_string_lossy();
            let target = TARGETS.iter().find(|target| target.name == name);
            let target = target.unwrap_or_else(|| panic!("{directory:?} belongs to no target"));
            for file in fs::read_dir(&directory).unwrap() {
                (target.body)(&fs::read(file.unwrap().path()).unwrap());
            }
        }
    }

    #[test]
    fn what_is_repeated_does_not_multiply() {
        let sized = |body: Vec<u8>| {
            let size = (2 + body.len() as u16).to_le_bytes();
            [&size[..], &body].concat()
        };
        // A schema of many fields of one name.
        trace_logging(&sized([&b"\0E\0"[..], &b"\0\x04".repeat(25_000)].concat()));
        // An array of many structs whose member has a long name.
        let name = vec![b'n'; 30_000];
        let structs = sized([&b"\0E\0s\0\xD8\x01"[..], &name, b"\0\x04"].concat());
        trace_logging(&[&structs[..], &30_000u16.to_le_bytes(), &[7; 30_000]].concat());
        // A message that names a long text many times.
        let text: Vec<u8> = vec![b'x'; 20_000];
        message(&[b"%8".repeat(20_000), vec![0; 47], text].concat());
        // A map all of whose names overlap.
        let mut map = [40u32, 1, 3000, 0].map(u32::to_le_bytes).concat();
        for index in 0..3000u32 {
            map.extend([0x10 + 8 * 3000 + 2 * index, index].map(u32::to_le_bytes).concat());
        }
        map.resize(60_000, b'x');
        event_map(&map);
    }

    #[test]
    fn the_seeds_in_the_repository_are_those_that_are_made() {
        for target in TARGETS {
            let directory = seeds_dir().join(target.name);
            let made = (target.seeds)();
            assert!(!made.is_empty(), "{} has no seeds", target.name);
            for (name, bytes) in &made {
                let kept = fs::read(directory.join(name)).unwrap_or_default();
                assert!(kept == *bytes, "{}/{name} differs: run `cargo xtask seeds`", target.name);
            }
            assert_eq!(fs::read_dir(&directory).unwrap().count(), made.len(), "{directory:?}");
        }
    }

    /// Ordinary builds do not compile them.
    #[test]
    fn the_targets_are_those_that_cargo_fuzz_has() {
        let workspace = workspace_root().join("fuzz");
        let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        assert_eq!(fs::read_dir(workspace.join("fuzz_targets")).unwrap().count(), TARGETS.len());
        for name in TARGETS.iter().map(|target| target.name) {
            let path = format!("fuzz_targets/{name}.rs");
            assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"{path}\"")), "{name}");
            let program = fs::read_to_string(workspace.join(path)).unwrap();
            let body = format!("libfuzzer_sys::fuzz_target!(|data: &[u8]| etw_fuzz::{name}(data));");
            assert!(
                program.starts_with("//! ") && program.contains("#![no_main]\n") && program.contains(&body),
                "{name}"
            );
        }
    }
}
