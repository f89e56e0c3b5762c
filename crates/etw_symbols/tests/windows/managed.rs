//! Lines of IL code: portable PDBs and a PDB of Windows that Roslyn wrote, in stores, next to assemblies and in them.

use std::fs;
use std::path::{Path, PathBuf};

use etw_event::Guid;
use etw_symbols::{IlPlace, Module, PdbId, SourceLine, SymbolError, Symbolizer, WindowsImage, memory};

use crate::{symbolizer, text};

const GUID: Guid = Guid::from_u128(0x8F4A_0625_777D_412E_9434_1323_0545_F82B);
const NAME: &str = "CsPortablePdb1.pdb";
const SOURCE: &str = r"C:\PerfViewTestData\CsPortablePdb1\Program.cs";

/// Returns a real PDB; prints a message and returns `None` if the file is missing.
fn real(name: &str) -> Option<Vec<u8>> {
    // etw_testkit, which finds such files elsewhere, takes minutes to compile.
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let data = std::env::var_os("OPENETW_DATA").map_or(shared, PathBuf::from);
    let found = fs::read(data.join("pdb").join(name)).ok();
    if found.is_none() {
        etw_testkit::skip!("{name} is missing");
    }
    found
}

fn place(token: u32, offset: u32) -> IlPlace {
    IlPlace { token, offset }
}

fn line(file: &str, line: u32) -> Option<SourceLine> {
    Some(SourceLine { file: file.to_owned(), line })
}

/// Returns the identity that a trace has of the PDB: its age is 1.
fn image() -> WindowsImage {
    WindowsImage { pdb: PdbId::new(NAME, GUID, 1), ..WindowsImage::default() }
}

fn module<'a>(path: &'a str, image: &'a WindowsImage) -> Module<'a> {
    Module { path, windows: Some(image), is_managed: true, ..Module::default() }
}

#[test]
fn lines_of_portable_pdbs() {
    let Some(file) = real(NAME) else { return };
    // In no order; a method without lines, and tokens that are no methods.
    let tokens = [(0x600_0001, 12), (0x600_0001, 0), (0x600_0001, 9), (0x600_0001, 10), (0x600_0002, 0)];
    let places = tokens.into_iter().chain([(0x600_0003, 0), (0x600_0000, 0), (0x100_0001, 0)]);
    let places: Vec<IlPlace> = places.map(|(token, offset)| place(token, offset)).collect();
    let [ninth, tenth] = [9, 10].map(|number| line(SOURCE, number));
    let expected = [tenth.clone(), ninth.clone(), ninth, tenth, None, None, None, None];
    assert_eq!(memory::portable_pdb_lines(&file, &places).unwrap(), expected);
    for len in 0..file.len() {
        if let Ok(lines) = memory::portable_pdb_lines(&file[..len], &places) {
            assert_eq!(lines.len(), places.len());
            assert!(lines.iter().zip(&expected).all(|(one, whole)| one.is_none() || one == whole), "{len}");
        }
    }
    let Some(file) = real("CsPortableEmbeddedSource.pdb") else { return };
    let places = [place(0x600_0001, 3), place(0x600_0003, 11)];
    let directory = r"C:\PerfViewTestData\CsPortableEmbeddedSource\";
    let expected = [("Tiny.cs", 1), ("Program.cs", 10)]
        .map(|(file, number)| line(&format!("{directory}{file}"), number));
    assert_eq!(memory::portable_pdb_lines(&file, &places).unwrap(), expected);
}

#[test]
fn lines_of_a_managed_pdb_of_windows() {
    let Some(file) = real("CsDesktopProj.pdb") else { return };
    let source = r"C:\PerfViewTestData\CsDesktopProj\Program.cs";
    let places = [place(0x600_0001, 0), place(0x600_0001, 9), place(0x600_0001, 10), place(0x600_0002, 0)];
    let expected = [line(source, 9), line(source, 9), line(source, 10), None];
    assert_eq!(memory::managed_pdb_lines(file.clone(), &places).unwrap(), expected);
    assert!(memory::portable_pdb_lines(&file, &places).is_err());
    assert!(memory::managed_pdb_lines(b"BSJB".to_vec(), &places).is_err());
}

#[test]
fn a_portable_pdb_is_found_by_its_guid() {
    let Some(file) = real(NAME) else { return };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let image = image();
    let places = [place(0x600_0001, 0)];
    let check = |symbolizer: &Symbolizer, path: &str, context: &str| {
        let lines = symbolizer.lines(&module(path, &image), &places).unwrap();
        assert_eq!(lines, [line(SOURCE, 9)], "{context}");
        let located = symbolizer.locate(&module(path, &image)).unwrap();
        assert!(located.starts_with(root), "{context}");
    };
    let error = symbolizer(text(root)).lines(&module("App.dll", &image), &places).unwrap_err();
    assert!(matches!(&error, SymbolError::NoPdb { id, .. } if id.age == PdbId::PORTABLE), "{error}");
    assert!(error.to_string().contains("8F4A0625777D412E943413230545F82Bffffffff"), "{error}");
    let key = "8F4A0625777D412E943413230545F82Bffffffff";
    for key in [key.to_owned(), key.to_lowercase(), key.to_uppercase()] {
        let store = root.join(&key);
        let place = store.join(NAME).join(&key);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(NAME), &file).unwrap();
        check(&symbolizer(text(&store)), r"C:\app\CsPortablePdb1.dll", &key);
    }
    // Next to the assembly.
    let program = root.join("bin");
    fs::create_dir_all(&program).unwrap();
    fs::write(program.join(NAME), &file).unwrap();
    let assembly = program.join("CsPortablePdb1.dll");
    check(&Symbolizer::new(), text(&assembly), "beside");
    // Another build.
    let mut other = file.clone();
    let at = other.windows(4).position(|bytes| *bytes == GUID.to_bytes()[..4]).unwrap();
    other[at] ^= 1;
    fs::write(program.join(NAME), &other).unwrap();
    assert!(Symbolizer::new().lines(&module(text(&assembly), &image), &places).is_err());
    // It has no names of machine code, and that is no error.
    fs::write(program.join(NAME), &file).unwrap();
    let portable = WindowsImage { pdb: image.pdb.as_ref().map(PdbId::portable), ..image.clone() };
    let path = text(&assembly);
    let native = Module { path, windows: Some(&portable), ..Module::default() };
    assert_eq!(Symbolizer::new().resolve(&native, &[0x1000]).unwrap(), [None]);
}

/// Returns an assembly with a reference to a PDB, and the PDB itself.
fn assembly(guid: Guid, pdb: &[u8]) -> Vec<u8> {
    const RAW_AT: u32 = 0x200;
    const ADDRESS: u32 = 0x2000;
    let codeview = [b"RSDS", &guid.to_bytes()[..], &1_u32.to_le_bytes(), NAME.as_bytes(), b"\0"].concat();
    // One stored block of deflate.
    let len = pdb.len() as u16;
    let stored = [&[1][..], &len.to_le_bytes(), &(!len).to_le_bytes(), pdb].concat();
    let embedded = [b"MPDB", &(pdb.len() as u32).to_le_bytes()[..], &stored].concat();
    let mut bytes = vec![0; RAW_AT as usize];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"MZ");
    put(0x18, &[0x40, 0]);
    put(0x3C, &[0x40, 0]);
    put(0x40, b"PE\0\0");
    // x86, one section, size of the optional header, flags.
    put(0x44, &[0x4C, 0x01, 1, 0]);
    put(0x54, &[224, 0, 0x02, 0x21]);
    put(0x58, &[0x0B, 0x01]);
    put(0x58 + 92, &[16]);
    put(0x58 + 96 + 6 * 8, &[ADDRESS, 2 * 28].map(u32::to_le_bytes).concat());
    let header = 0x58 + 224;
    put(header, b".text");
    put(header + 8, &[0x8000, ADDRESS, 0x8000, RAW_AT].map(u32::to_le_bytes).concat());
    let mut at = 2 * 28;
    for (kind, version, data) in [(2, 0x504D_0100, &codeview), (17, 0x0100_0100, &embedded)] {
        let entry = [0, 0, version, kind, data.len() as u32, ADDRESS + at, RAW_AT + at];
        bytes.extend(entry.map(u32::to_le_bytes).concat());
        at += data.len() as u32;
    }
    bytes.extend(codeview);
    bytes.extend(embedded);
    bytes.resize(RAW_AT as usize + 0x8000, 0);
    bytes
}

#[test]
fn a_portable_pdb_in_the_assembly() {
    let Some(file) = real(NAME) else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("App.dll");
    let (image, places) = (image(), [place(0x600_0001, 10)]);
    let lines = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Symbolizer::new().lines(&module(text(&path), &image), &places)
    };
    let whole = assembly(GUID, &file);
    assert_eq!(lines(&whole).unwrap(), [line(SOURCE, 10)]);
    assert_eq!(memory::embedded_pdb(&whole), Some(file.clone()));
    // Assemblies of other builds.
    let other = Guid::from_u128(1);
    assert!(lines(&assembly(other, &file)).is_err());
    let mut changed = file.clone();
    let at = changed.windows(4).position(|bytes| *bytes == GUID.to_bytes()[..4]).unwrap();
    changed[at] ^= 1;
    assert!(lines(&assembly(GUID, &changed)).is_err());
    for len in (0..whole.len()).step_by(97) {
        let _ = memory::embedded_pdb(&whole[..len]);
    }
}
