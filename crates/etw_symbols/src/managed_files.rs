//! Lines of IL code, from the PDB of its assembly.

use std::path::{Path, PathBuf};

use crate::SymbolError;
use crate::elf::MappedFile;
use crate::file_bytes::FileBytes;
use crate::frame::{IlPlace, SourceLine};
use crate::stores::SymbolPath;
use crate::stores::file::StoredFile;
use crate::windows::{PdbId, pdb, pe, portable};
use crate::windows_files::in_place;

/// A PDB: a file, or a part of the assembly.
pub(crate) struct ManagedPdb {
    /// The PDB, or the assembly that contains it.
    pub(crate) path: PathBuf,
    bytes: FileBytes,
}

/// Finds the PDB of an assembly: a portable PDB, a PDB of Windows, or a portable PDB in the assembly itself.
pub(crate) fn find(symbols: &SymbolPath, path: &str, id: &PdbId) -> Option<ManagedPdb> {
    let ids = [id.portable(), id.clone()];
    let file = ids.into_iter().find_map(|id| in_place(symbols, path, &StoredFile::Pdb(id)));
    if let Some(file) = file {
        return Some(ManagedPdb { bytes: file.bytes().clone(), path: file.path });
    }
    let assembly = Path::new(path);
    let file = MappedFile::open(assembly).ok().filter(|_| assembly.is_absolute())?;
    let is_it = pe::id(file.bytes()).is_ok_and(|of| of.pdb.is_some_and(|pdb| pdb.guid == id.guid));
    let bytes = pe::embedded_pdb(file.bytes()).filter(|_| is_it)?;
    let is_its = portable::id(&bytes).is_ok_and(|guid| guid == id.guid);
    is_its.then(|| ManagedPdb { path: file.path, bytes: bytes.into() })
}

/// Resolves places in IL code, in their order.
///
/// # Errors
///
/// Fails if the PDB is not on this machine, or is damaged.
pub(crate) fn lines(
    symbols: &SymbolPath,
    path: &str,
    id: &PdbId,
    places: &[IlPlace],
) -> Result<Vec<Option<SourceLine>>, SymbolError> {
    let file = find(symbols, path, id).ok_or_else(|| missing(symbols, id))?;
    let found = match portable::is_portable(&file.bytes) {
        true => portable::lines(&file.bytes, places),
        false => pdb::managed::lines(&file.bytes, places),
    };
    found.map_err(|reason| SymbolError::Damaged { path: file.path, reason })
}

/// Returns the error of a PDB that is not on this machine.
pub(crate) fn missing(symbols: &SymbolPath, id: &PdbId) -> SymbolError {
    SymbolError::NoPdb { id: id.portable(), has_server: symbols.has_server() }
}
