//! A program that was built with the source in `llvm.rs` by clang and lld 14, with what its addresses must give.

use std::path::Path;

use etw_event::Guid;
use etw_symbols::{PdbId, Symbol, SymbolError, WindowsImage};

use crate::{module, symbolizer, text};

/// Offsets from the image's base, and functions with lines there, innermost first. Written by hand from the
/// disassembly and the source.
const EXPECTED: [(u64, &[(&str, u32)]); 16] = [
    // add [sink], edx; the compiler wrote no line for the outer call.
    (0x1000, &[("shapes::Counter::bump", 7), ("shapes::both", 12), ("shapes::Counter::twice", 0)]),
    (0x1005, &[("shapes::Counter::bump", 7), ("shapes::both", 12), ("shapes::Counter::twice", 0)]),
    // mov [sink], 7
    (0x1006, &[("shapes::both", 13), ("shapes::Counter::twice", 0)]),
    (0x100F, &[("shapes::both", 13), ("shapes::Counter::twice", 0)]),
    (0x1010, &[("shapes::Counter::twice", 17)]),
    (0x1018, &[("shapes::Counter::twice", 17)]),
    // Padding.
    (0x1019, &[]),
    (0x101F, &[]),
    (0x1020, &[("shapes::run", 28)]),
    (0x1062, &[("shapes::run", 30)]),
    (0x1072, &[("shapes::`anonymous namespace'::hidden", 21)]),
    (0x1080, &[("start", 33)]),
    // run is inlined.
    (0x1094, &[("shapes::run", 30), ("start", 34)]),
    (0x10D2, &[("shapes::bigger<int>", 25)]),
    // Compiled without debug information.
    (0x10E0, &[("shapes::plain", 0)]),
    (0x2000, &[]),
];

fn image() -> WindowsImage {
    let guid = Guid::from_u128(0x10CA8EAD_B351_1AE5_4C4C_44205044422E);
    WindowsImage { time_stamp: 0xDD94_582A, len_bytes: 0x5000, pdb: PdbId::new("shapes.pdb", guid, 1) }
}

/// Copies the files into a directory of their own.
fn copy(names: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etw_fuzz/src/seeds");
    for name in names {
        std::fs::copy(seeds.join(name), directory.path().join(name)).unwrap();
    }
    directory
}

fn frames(symbol: &Option<Symbol>) -> Vec<(&str, u32)> {
    let frames = symbol.iter().flat_map(|symbol| &symbol.frames);
    frames.map(|frame| (frame.function.as_str(), frame.line.unwrap_or(0))).collect()
}

#[test]
fn addresses_of_each_kind() {
    let directory = copy(&["shapes.pdb"]);
    let image = image();
    let offsets = EXPECTED.map(|(offset, _)| offset);
    let found = symbolizer(text(directory.path())).resolve(&module("shapes.exe", &image), &offsets).unwrap();
    for ((offset, expected), found) in EXPECTED.iter().zip(&found) {
        assert_eq!(frames(found), *expected, "{offset:#x}");
    }
    let file = found[0].as_ref().unwrap().frames[0].file.as_deref();
    assert_eq!(file, Some("/src/shapes.cpp"));
}

#[test]
fn the_image_names_its_pdb_and_its_exports() {
    let unknown = WindowsImage { pdb: None, ..image() };
    let both = copy(&["shapes.pdb", "shapes.exe"]);
    let module = module(r"C:\bin\shapes.exe", &unknown);
    let found = symbolizer(text(both.path())).resolve(&module, &[0x1020]).unwrap();
    assert_eq!(frames(&found[0]), [("shapes::run", 28)]);
    // The export ends where .pdata says that its function ends, before the next one.
    let only = copy(&["shapes.exe"]);
    let found = symbolizer(text(only.path())).resolve(&module, &[0x1080, 0x10C6, 0x10C7, 0x1020]).unwrap();
    let found: Vec<_> = found.iter().map(frames).collect();
    assert_eq!(found, [vec![("start", 0)], vec![("start", 0)], vec![], vec![]]);
    let error = symbolizer(text(only.path())).resolve(&module, &[0x1020]).unwrap_err();
    assert!(matches!(&error, SymbolError::NoPdb { id, .. } if id.name() == "shapes.pdb"), "{error}");
}
