//! Names of addresses in images of Windows, from the files of the symbol path.

use std::path::Path;

use crate::SymbolError;
use crate::elf::MappedFile;
use crate::frame::Symbol;
use crate::stores::SymbolPath;
use crate::stores::file::StoredFile;
use crate::stores::find;
use crate::windows::{PdbId, WindowsImage, pdb, pe, portable};

/// The files of an image that are on this machine.
pub(crate) struct Files {
    pub(crate) pdb: Option<MappedFile>,
    pub(crate) image: Option<MappedFile>,
    /// The PDB's identity, from the trace or from the image.
    pub(crate) id: Option<PdbId>,
}

impl Files {
    /// Returns the file that names are read from.
    pub(crate) fn into_file(self) -> Option<MappedFile> {
        self.pdb.or(self.image)
    }

    /// Finds the files of an image.
    pub(crate) fn new(symbols: &SymbolPath, path: &str, image: &WindowsImage) -> Files {
        let in_place = |file: &StoredFile| in_place(symbols, path, file);
        let find_pdb = |id: &PdbId| in_place(&StoredFile::Pdb(id.clone()));
        if let Some(pdb) = image.pdb.as_ref().and_then(find_pdb) {
            return Files { pdb: Some(pdb), image: None, id: image.pdb.clone() };
        }
        let file = StoredFile::image(path, image).and_then(|file| in_place(&file));
        let id = image.pdb.clone().or_else(|| pe::id(file.as_ref()?.bytes()).ok()?.pdb);
        let pdb = id.as_ref().filter(|_| image.pdb.is_none()).and_then(find_pdb);
        Files { pdb, image: file, id }
    }
}

/// Finds a file of the image or assembly at a path: next to it, or in the symbol path.
pub(crate) fn in_place(symbols: &SymbolPath, path: &str, file: &StoredFile) -> Option<MappedFile> {
    let local = Path::new(path);
    let beside = local.parent().filter(|_| local.is_absolute());
    let beside = beside.and_then(|beside| find::in_directory(beside, file));
    beside.or_else(|| find::find(symbols, file))
}

/// Finds a file with names of an image.
///
/// # Errors
///
/// Fails if there is neither a PDB nor the image itself.
pub(crate) fn find(symbols: &SymbolPath, path: &str, image: &WindowsImage) -> Result<Files, SymbolError> {
    let files = Files::new(symbols, path, image);
    match (&files.pdb, &files.image) {
        (None, None) => Err(missing(symbols, files.id)),
        _ => Ok(files),
    }
}

/// Resolves offsets from the image's base, in their order.
///
/// # Errors
///
/// Fails if there is no PDB, and the image's exports name none of the offsets.
pub(crate) fn resolve(
    symbols: &SymbolPath,
    path: &str,
    image: &WindowsImage,
    offsets: &[u64],
) -> Result<Vec<Option<Symbol>>, SymbolError> {
    // An image is smaller than 4 GiB, so larger offsets are in none.
    let offsets: Vec<u32> = offsets.iter().map(|offset| u32::try_from(*offset).unwrap_or(u32::MAX)).collect();
    let files = find(symbols, path, image)?;
    let damaged = |file: &MappedFile, reason| SymbolError::Damaged { path: file.path.clone(), reason };
    let exports =
        |file: &MappedFile| pe::resolve(file.bytes(), &offsets).map_err(|reason| damaged(file, reason));
    // A portable PDB has no names of machine code.
    if let Some(file) = files.pdb.as_ref().filter(|file| !portable::is_portable(file.bytes())) {
        return match (pdb::resolve(file.bytes(), &offsets), &files.image) {
            (Ok(found), _) => Ok(found),
            (Err(_), Some(image)) => exports(image),
            (Err(reason), None) => Err(damaged(file, reason)),
        };
    }
    let found = files.image.as_ref().map(exports).transpose()?.unwrap_or_default();
    match found.iter().any(Option::is_some) {
        true => Ok(found),
        false if files.pdb.is_some() => Ok(vec![None; offsets.len()]),
        false => Err(missing(symbols, files.id)),
    }
}

fn missing(symbols: &SymbolPath, id: Option<PdbId>) -> SymbolError {
    match id {
        Some(id) => SymbolError::NoPdb { id, has_server: symbols.has_server() },
        None => SymbolError::NoPdbId,
    }
}
