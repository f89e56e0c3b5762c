//! Fuzz bodies for symbols: PDB and PE files, symbol paths, and what symbol servers send.

use std::hint::black_box;
use std::panic;
use std::sync::Once;

use etw_symbols::{SymbolPath, demangle, memory};

/// Offsets that seeds have code at, and others.
fn offsets() -> Vec<u32> {
    (0..0x3000).step_by(13).chain([u32::MAX - 1, u32::MAX]).collect()
}

/// Lets panics in the libraries for PDB and CAB files pass, which `etw_symbols` catches: libFuzzer's hook ends the
/// process before that. Panics elsewhere end it as ever.
fn tolerate_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_in = |library: &str| info.location().is_some_and(|at| at.file().contains(library));
            if !["/cab-", "/lzxd-", "/pdb2-", "/msvc-demangler-"].into_iter().any(is_in) {
                before(info);
            }
        }));
    });
}

/// Names of addresses by a PDB file.
pub fn pdb_symbols(bytes: &[u8]) {
    tolerate_libraries();
    let _ = black_box(memory::pdb_symbols(bytes.to_vec(), &offsets()));
}

/// Identity and exports of a PE file.
pub fn pe_symbols(bytes: &[u8]) {
    let _ = black_box(memory::pe_identity(bytes));
    let _ = black_box(memory::pe_symbols(bytes, &offsets()));
}

/// A symbol path, and a name that Visual C++ decorated, as text.
pub fn symbol_path(bytes: &[u8]) {
    tolerate_libraries();
    let text = String::from_utf8_lossy(bytes);
    black_box(text.parse::<SymbolPath>().is_ok_and(|path| path.has_server()));
    black_box(demangle(&text));
}

/// The answer of a symbol server: a compressed PDB.
pub fn symbol_server(bytes: &[u8]) {
    tolerate_libraries();
    if let Ok(file) = memory::unpacked(bytes) {
        pdb_symbols(&file);
    }
}
