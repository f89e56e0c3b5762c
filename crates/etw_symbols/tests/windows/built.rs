//! A program that is built here, with what each of its functions must give.

use std::collections::BTreeSet;

use etw_symbols::{Frame, PdbId, SymbolError, Symbolizer, WindowsImage};

use crate::llvm::{self, Program};
use crate::{module, names, symbolizer, text};

/// The functions by the start of their decorated names, and by the names that people know.
const FUNCTIONS: [(&str, &str); 6] = [
    ("?twice@Counter@shapes", "shapes::Counter::twice"),
    ("?hidden@?A0x", "shapes::`anonymous namespace'::hidden"),
    ("??$bigger@H@shapes", "shapes::bigger<int>"),
    ("?run@shapes", "shapes::run"),
    ("?plain@shapes", "shapes::plain"),
    ("start", "start"),
];

/// Builds the program in a directory that is not next to anything.
fn program() -> Option<(tempfile::TempDir, Program)> {
    let directory = tempfile::tempdir().unwrap();
    let program = llvm::build(directory.path())?;
    Some((directory, program))
}

#[test]
fn functions_of_each_kind() {
    let Some((directory, program)) = program() else { return };
    let image = program.identity();
    let module = module(r"\Device\HarddiskVolume3\build\shapes.exe", &image);
    let offsets = FUNCTIONS.map(|(decorated, _)| program.offset(decorated));
    let found = symbolizer(text(directory.path())).resolve(&module, &offsets).unwrap();
    for (symbol, (_, name)) in found.iter().zip(FUNCTIONS) {
        assert_eq!(symbol.as_ref().unwrap().function(), name);
    }
    let outside = [0, 0x10, u64::from(image.len_bytes), u64::from(u32::MAX), 1 << 40];
    assert_eq!(symbolizer(text(directory.path())).resolve(&module, &outside).unwrap(), [const { None }; 5]);
}

#[test]
fn inlined_functions_files_and_lines() {
    let Some((directory, program)) = program() else { return };
    let image = program.identity();
    let module = module("shapes.exe", &image);
    let start = program.offset("?twice@Counter@shapes");
    let offsets: Vec<u64> = (start..start + 24).collect();
    let found = symbolizer(text(directory.path())).resolve(&module, &offsets).unwrap();
    let frame = |frame: &Frame| {
        assert!(frame.file.as_deref().is_none_or(|file| file.ends_with("shapes.cpp")), "{frame:?}");
        (frame.function.clone(), frame.line)
    };
    let stacks: BTreeSet<Vec<(String, Option<u32>)>> =
        found.iter().flatten().map(|symbol| symbol.frames.iter().map(frame).collect()).collect();
    let at = |name: &str, line| (format!("shapes::{name}"), Some(line));
    let [bump, both, outer] = [at("Counter::bump", 7), at("both", 12), at("both", 13)];
    // Some compilers do not write the line of an inlined call.
    let has = |frames: &[(String, Option<u32>)]| stacks.iter().any(|stack| stack.starts_with(frames));
    assert!(has(&[bump, both]) && has(&[outer]) && has(&[at("Counter::twice", 17)]), "{stacks:#?}");
    assert!(stacks.iter().all(|stack| stack.last().unwrap().0 == "shapes::Counter::twice"), "{stacks:#?}");
}

#[test]
fn exports_without_a_pdb() {
    let Some((directory, program)) = program() else { return };
    std::fs::remove_file(&program.pdb).unwrap();
    let image = program.identity();
    let module = module("shapes.exe", &image);
    let symbolizer = symbolizer(text(directory.path()));
    let (start, run) = (program.offset("start"), program.offset("?run@shapes"));
    let found = symbolizer.resolve(&module, &[start, start + 4, run, run + 4]).unwrap();
    assert_eq!(found.iter().map(names).collect::<Vec<_>>(), [vec!["start"], vec!["start"], vec![], vec![]]);
    // Nothing is named, and the reason is the PDB.
    let error = symbolizer.resolve(&module, &[run]).unwrap_err();
    assert!(matches!(error, SymbolError::NoPdb { .. }), "{error}");
    assert!(error.to_string().contains("shapes.pdb"), "{error}");
}

#[test]
fn the_image_tells_the_pdb_if_the_trace_does_not() {
    let Some((directory, program)) = program() else { return };
    let image = WindowsImage { pdb: None, ..program.identity() };
    let module = module("shapes.exe", &image);
    let run = program.offset("?run@shapes");
    let found = symbolizer(text(directory.path())).resolve(&module, &[run]).unwrap();
    assert_eq!(names(&found[0]).last(), Some(&"shapes::run"));
    let error = Symbolizer::new().resolve(&module, &[run]).unwrap_err();
    assert!(matches!(error, SymbolError::NoPdbId), "{error}");
}

#[test]
fn files_of_other_builds_are_not_used() {
    let Some((directory, program)) = program() else { return };
    let right = program.identity();
    let id = right.pdb.clone().unwrap();
    let others = [
        WindowsImage { pdb: PdbId::new("shapes.pdb", id.guid, id.age + 1), ..WindowsImage::default() },
        WindowsImage { pdb: PdbId::new("shapes.pdb", Default::default(), id.age), ..WindowsImage::default() },
        WindowsImage { time_stamp: right.time_stamp ^ 1, pdb: None, ..right.clone() },
        WindowsImage { len_bytes: right.len_bytes + 0x1000, pdb: None, ..right.clone() },
    ];
    for other in &others {
        let offsets = [program.offset("start")];
        let result = symbolizer(text(directory.path())).resolve(&module("shapes.exe", other), &offsets);
        assert!(result.is_err(), "{other:?}");
    }
}

#[test]
fn damaged_files_cost_names_only() {
    let Some((directory, program)) = program() else { return };
    let image = program.identity();
    let offsets: Vec<u64> = (0x1000..0x1100).collect();
    for path in [&program.pdb, &program.image] {
        let bytes = std::fs::read(path).unwrap();
        let mut state = 1_u64;
        for round in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..20 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % damaged.len();
                damaged[at] = (state >> 20) as u8;
            }
            if round % 4 == 0 {
                damaged.truncate((state >> 33) as usize % bytes.len());
            }
            std::fs::write(path, damaged).unwrap();
            let _ = symbolizer(text(directory.path())).resolve(&module("shapes.exe", &image), &offsets);
        }
        std::fs::remove_file(path).unwrap();
    }
}
