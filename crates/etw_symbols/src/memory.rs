//! Files in memory instead of on disk.
//!
//! ```
//! assert!(etw_symbols::memory::pdb_symbols(b"no PDB".to_vec(), &[0x1000]).is_err());
//! ```

use std::io::Read;

use crate::frame::{IlPlace, SourceLine, Symbol};
use crate::stores::file::unpack;
use crate::stores::kind::FileKind;
use crate::stores::limits::MAX_LEN_BYTES;
use crate::windows::{WindowsImage, pdb, pe, portable};

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

/// Resolves places in IL code by a portable PDB, in their order; `None` where it has no line.
///
/// # Errors
///
/// Returns the reason if the file is not a portable PDB, or is damaged.
pub fn portable_pdb_lines(file: &[u8], places: &[IlPlace]) -> Result<Vec<Option<SourceLine>>, String> {
    portable::lines(file, places)
}

/// Resolves places in IL code by a PDB of Windows, in their order; `None` where it has no line.
///
/// # Errors
///
/// Returns the reason if the file is not such a PDB, or is damaged.
pub fn managed_pdb_lines(file: Vec<u8>, places: &[IlPlace]) -> Result<Vec<Option<SourceLine>>, String> {
    pdb::managed::lines(&file.into(), places)
}

/// Returns the portable PDB that an assembly contains, unpacked.
pub fn embedded_pdb(file: &[u8]) -> Option<Vec<u8>> {
    pe::embedded_pdb(file)
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
    let mut file = tempfile::tempfile().map_err(|error| error.to_string())?;
    unpack(cabinet, FileKind::Any, &mut file, MAX_LEN_BYTES)?;
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file).map_err(|error| error.to_string())?;
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
