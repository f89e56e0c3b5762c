//! Symbol stores in directories: two and three levels, compressed files, and references to other places.

use std::path::{Path, PathBuf};

use etw_event::Guid;
use etw_symbols::{PdbId, SymbolError, WindowsImage};

use crate::{module, symbolizer, text};

/// GUID and age of the PDB of these tests.
pub(crate) const KEY: &str = "0123456789ABCDEF0123456789ABCDEF1";

pub(crate) fn image() -> WindowsImage {
    let guid = Guid::from_u128(0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF);
    WindowsImage { pdb: PdbId::new("app.pdb", guid, 1), ..WindowsImage::default() }
}

/// Returns a PDB with an id and nothing else.
pub(crate) fn pdb(guid: u128, padding: usize) -> Vec<u8> {
    const BLOCK: usize = 512;
    let information = [
        &20_000_404_u32.to_le_bytes()[..],
        &[0; 4],
        &1_u32.to_le_bytes(),
        &Guid::from_u128(guid).to_bytes(),
        &[0; 4],
    ];
    let information = information.concat();
    // Streams: the old directory, the information.
    let directory = [2, 0, information.len() as u32, 5].map(u32::to_le_bytes).concat();
    // Readers expect at least 4096 bytes.
    let blocks = 8 + padding.div_ceil(BLOCK);
    let header =
        [BLOCK as u32, 1, blocks as u32, directory.len() as u32, 0, 3].map(u32::to_le_bytes).concat();
    let mut bytes = vec![0; blocks * BLOCK];
    let mut put = |block: usize, part: &[u8]| bytes[block * BLOCK..][..part.len()].copy_from_slice(part);
    put(0, &[&b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0"[..], &header].concat());
    put(3, &4_u32.to_le_bytes());
    put(4, &directory);
    put(5, &information);
    bytes
}

pub(crate) const GUID: u128 = 0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF;

/// Returns a cabinet with one file.
pub(crate) fn cabinet(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut builder = cab::CabinetBuilder::new();
    builder.add_folder(cab::CompressionType::MsZip).add_file(name);
    let mut writer = builder.build(std::io::Cursor::new(Vec::new())).unwrap();
    while let Some(mut file) = writer.next_file().unwrap() {
        std::io::Write::write_all(&mut file, bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn put(directory: &Path, place: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(place);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn locate(path: &str) -> Result<PathBuf, SymbolError> {
    symbolizer(path).locate(&module("app.exe", &image()))
}

#[test]
fn places_where_a_file_is_found() {
    let plain = pdb(GUID, 0);
    let packed = cabinet("app.pdb", &plain);
    let lower = KEY.to_lowercase();
    let places: [(&str, &[u8]); 10] = [
        ("app.pdb", &plain),
        ("pdb/app.pdb", &plain),
        ("symbols/pdb/app.pdb", &plain),
        ("app.pd_", &packed),
        // What compressed files are called does not matter.
        ("app.pdb", &packed),
        (&format!("app.pdb/{KEY}/app.pdb"), &plain),
        (&format!("app.pdb/{lower}/app.pdb"), &plain),
        (&format!("app.pdb/{KEY}/app.pd_"), &packed),
        (&format!("app.pdb/{KEY}/app.pdb"), &packed),
        (&format!("ap/app.pdb/{KEY}/app.pdb"), &plain),
    ];
    for (place, bytes) in places {
        let directory = tempfile::tempdir().unwrap();
        if place.starts_with("ap/") {
            put(directory.path(), "index2.txt", b"");
        }
        let path = put(directory.path(), place, bytes);
        assert_eq!(locate(text(directory.path())).unwrap(), path, "{place}");
        // A store of a server has no loose files.
        let chain = format!("srv*{}*https://127.0.0.1:1/", text(directory.path()));
        assert_eq!(locate(&chain).is_ok(), place.contains("app.pdb/"), "{place}");
    }
}

#[test]
fn places_in_their_order() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let path = put(two.path(), "app.pdb", &pdb(GUID, 0));
    let both = format!("{};{}", text(one.path()), text(two.path()));
    assert_eq!(locate(&both).unwrap(), path);
    // A file of another build is passed over.
    put(one.path(), "pdb/app.pdb", &pdb(GUID + 1, 0));
    assert_eq!(locate(&both).unwrap(), path);
    let first = put(one.path(), &format!("app.pdb/{KEY}/app.pdb"), &pdb(GUID, 0));
    assert_eq!(locate(&both).unwrap(), first);
}

#[test]
fn references_to_other_places() {
    let [store, share] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let path = put(share.path(), "elsewhere.pdb", &pdb(GUID, 0));
    for text in [format!("PATH:{}", text(&path)), text(&path).to_owned()] {
        put(store.path(), &format!("app.pdb/{KEY}/file.ptr"), text.as_bytes());
        assert_eq!(locate(crate::text(store.path())).unwrap(), path);
    }
    for text in ["MSG: Not Found", "PATH:/nowhere/a.pdb", ""] {
        put(store.path(), &format!("app.pdb/{KEY}/file.ptr"), text.as_bytes());
        let error = locate(crate::text(store.path())).unwrap_err();
        assert_eq!(error.to_string(), format!("app.pdb {KEY} is not in the symbol path"));
    }
}

#[test]
fn damaged_compressed_files_are_not_used() {
    let packed = cabinet("app.pdb", &pdb(GUID, 3000));
    let directory = tempfile::tempdir().unwrap();
    for len in (0..packed.len()).step_by(7) {
        put(directory.path(), "app.pd_", &packed[..len]);
        assert!(locate(text(directory.path())).is_err(), "{len}");
    }
}
