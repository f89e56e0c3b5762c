//! Seeds for symbols. `shapes.exe` and `shapes.pdb` are built from the source in `etw_symbols/tests/windows/llvm.rs`.

use super::Seed;

const PDB: &[u8] = include_bytes!("shapes.pdb");
/// Maximum length in bytes of a block before compression.
const BLOCK_LEN_BYTES: usize = 0x8000;

/// Seeds of `pdb_symbols`: a file with inlined functions, lines and public symbols.
pub fn pdb_symbols() -> Vec<Seed> {
    vec![("shapes.pdb", PDB.to_vec())]
}

/// Seeds of `pe_symbols`: a file with an export and unwind information.
pub fn pe_symbols() -> Vec<Seed> {
    vec![("shapes.exe", include_bytes!("shapes.exe").to_vec())]
}

/// Seeds of `symbol_path`: elements of each kind, and decorated names.
pub fn symbol_path() -> Vec<Seed> {
    let path =
        r"c:\bin;cache*c:\c;srv*;srv**https://x.org/s;symsrv*symsrv.dll*d:\s*\\server\share*http://y.org";
    let name = "?run@?$Loop@P6AHPEAUThing@shapes@@0@ZV?$list@H@std@@@shapes@@UEAA?AV1@AEBV1@P6AX0@Z@Z";
    vec![("path.txt", path.into()), ("name.txt", name.into())]
}

/// Seeds of `symbol_server`: cabinets of MSZIP blocks, with a PDB and with too little of it.
pub fn symbol_server() -> Vec<Seed> {
    vec![("shapes.pd_", cabinet(PDB)), ("cut.pd_", cabinet(&PDB[..10_000]))]
}

/// Returns a cabinet with one file in stored blocks of deflate. Source: Microsoft, "Cabinet format".
fn cabinet(file: &[u8]) -> Vec<u8> {
    let blocks: Vec<&[u8]> = file.chunks(BLOCK_LEN_BYTES).collect();
    let name = b"shapes.pdb\0";
    let entry_at = 36 + 8;
    let data_at = entry_at + 16 + name.len();
    let mut data = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let len = block.len() as u16;
        let is_last = u8::from(index + 1 == blocks.len());
        let stored = [&b"CK"[..], &[is_last], &len.to_le_bytes(), &(!len).to_le_bytes(), block].concat();
        // No checksum.
        data.extend(
            [&[0; 4][..], &(stored.len() as u16).to_le_bytes(), &len.to_le_bytes(), &stored].concat(),
        );
    }
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let shorts = |shorts: &[u16]| shorts.iter().flat_map(|short| short.to_le_bytes()).collect::<Vec<u8>>();
    let parts: [&[u8]; 9] = [
        b"MSCF",
        &words(&[0, (data_at + data.len()) as u32, 0, entry_at as u32, 0]),
        // Version 1.3, one folder, one file, no flags.
        &shorts(&[0x0103, 1, 1, 0, 0, 0]),
        &words(&[data_at as u32]),
        // Compressed by MSZIP.
        &shorts(&[blocks.len() as u16, 1]),
        &words(&[file.len() as u32, 0]),
        &shorts(&[0, 0, 0, 0]),
        name,
        &data,
    ];
    parts.concat()
}
