//! Locations of debug information that is separate from programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::elf::{Elf, MappedFile};

/// Returns the file `.build-id/ab/cdef.debug` below one of the directories.
pub(crate) fn by_build_id(directories: &[PathBuf], build_id: &[u8]) -> Option<MappedFile> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let below = format!(".build-id/{first:02x}/{rest}.debug");
    directories.iter().find_map(|directory| with_id(&directory.join(&below), build_id))
}

/// Returns the path of a debug file in the cache of debuginfod's clients.
pub(crate) fn in_cache(cache: &Path, build_id: &[u8]) -> PathBuf {
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    cache.join(hex).join("debuginfo")
}

/// Returns the file in the cache of debuginfod's clients.
pub(crate) fn cached(cache: &Path, build_id: &[u8]) -> Option<MappedFile> {
    with_id(&in_cache(cache, build_id), build_id)
}

/// Returns the file that a program names (`.gnu_debuglink`): next to it, in `.debug` next to it, or at its path below
/// one of the directories. Only a file with the program's build id is used.
pub(crate) fn by_link(directories: &[PathBuf], program: &Path, elf: &Elf<'_>) -> Option<MappedFile> {
    let name = path_of(elf.debug_link()?)?;
    let (beside, build_id) = (program.parent()?, elf.build_id());
    if build_id.is_empty() || name.components().count() != 1 {
        return None;
    }
    let near = [beside.join(&name), beside.join(".debug").join(&name)];
    let below = beside.strip_prefix("/").unwrap_or(beside);
    let far = directories.iter().map(|directory| directory.join(below).join(&name));
    near.into_iter().chain(far).filter(|path| path != program).find_map(|path| with_id(&path, build_id))
}

/// Returns the file with the parts that several debug files share (`.gnu_debugaltlink`).
pub(crate) fn shared(directories: &[PathBuf], file: &MappedFile, elf: &Elf<'_>) -> Option<MappedFile> {
    let (name, build_id) = elf.shared_link()?;
    let named = || with_id(&file.path.canonicalize().ok()?.parent()?.join(path_of(name)?), build_id);
    by_build_id(directories, build_id).or_else(named)
}

/// Opens the file if it is an ELF file with this build id.
fn with_id(path: &Path, build_id: &[u8]) -> Option<MappedFile> {
    let file = MappedFile::open(path).ok()?;
    let is_it = file.elf().is_ok_and(|elf| elf.build_id() == build_id);
    is_it.then_some(file)
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    Some(PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    str::from_utf8(bytes).ok().map(|text| PathBuf::from(OsStr::new(text)))
}
