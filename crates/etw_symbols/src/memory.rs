//! Files in memory instead of on disk.
//!
//! ```
//! assert!(etw_symbols::memory::pdb_symbols(b"no PDB".to_vec(), &[0x1000]).is_err());
//! ```

use std::io::Read;

use crate::frame::Symbol;
use crate::stores::file::unpack;
use crate::windows::{WindowsImage, pdb, pe};

/// Resolves offsets from the image's base by a PDB, in their order; `None` where it names no function.
///
/// # Errors
///
/// Returns the reason if the file is not a PDB, or is damaged.
pub fn pdb_symbols(file: Vec<u8>, offsets: &[u32]) -> Result<Vec<Option<Symbol>>, String> {
    pdb::resolve(&file.into(), offsets)
}

/// Resolves offsets from the image's base by a PE file's exports, in their order; `None` where it names no function.
///
/// # Errors
///
/// Returns the reason if the file is not a PE file, or is damaged.
pub fn pe_symbols(file: &[u8], offsets: &[u32]) -> Result<Vec<Option<Symbol>>, String> {
    pe::resolve(file, offsets)
}

/// Returns the identity of a PE file and of its PDB.
///
/// # Errors
///
/// Returns the reason if the file is not a PE file.
pub fn pe_identity(file: &[u8]) -> Result<WindowsImage, String> {
    pe::id(file)
}

/// Unpacks a compressed file of a symbol store.
///
/// # Errors
///
/// Returns the reason if the cabinet is damaged, or if the file cannot be read back.
pub fn unpacked(cabinet: &[u8]) -> Result<Vec<u8>, String> {
    let mut file = unpack(cabinet)?;
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file).map_err(|error| error.to_string())?;
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
