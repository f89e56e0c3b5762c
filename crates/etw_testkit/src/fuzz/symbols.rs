//! Fuzz bodies for symbols: PDB and PE files, symbol paths, and what symbol servers send.

use std::hint::black_box;

use etw_symbols::{SymbolPath, demangle, memory};

/// Offsets that seeds have code at, and others.
fn offsets() -> Vec<u32> {
    (0..0x3000).step_by(13).chain([u32::MAX - 1, u32::MAX]).collect()
}

/// Names of addresses by a PDB file.
pub fn pdb_symbols(bytes: &[u8]) {
    let _ = black_box(memory::pdb_symbols(bytes.to_vec(), &offsets()));
}

/// Identity and exports of a PE file.
pub fn pe_symbols(bytes: &[u8]) {
    let _ = black_box(memory::pe_identity(bytes));
    let _ = black_box(memory::pe_symbols(bytes, &offsets()));
}

/// A symbol path, and a name that Visual C++ decorated, as text.
pub fn symbol_path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    black_box(text.parse::<SymbolPath>().is_ok_and(|path| path.has_server()));
    black_box(demangle(&text));
}

/// The answer of a symbol server: a compressed PDB.
pub fn symbol_server(bytes: &[u8]) {
    if let Ok(file) = memory::unpacked(bytes) {
        pdb_symbols(&file);
    }
}
