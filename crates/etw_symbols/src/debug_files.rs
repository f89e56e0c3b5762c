//! Where debug information lies that is kept apart from programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::elf::{Elf, MappedFile};

/// `.build-id/ab/cdef.debug` below each directory.
pub(crate) fn by_build_id(directories: &[PathBuf], build_id: &[u8]) -> Option<MappedFile> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let below = format!(".build-id/{first:02x}/{rest}.debug");
    directories.iter().find_map(|directory| with_id(&directory.join(&below), build_id))
}

/// The file that a program names (`.gnu_debuglink`): beside it, in `.debug` beside it, or in its place below each
/// directory. Only one with the program's build id is taken.
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

/// The file with what several debug files have in common (`.gnu_debugaltlink`).
pub(crate) fn shared(directories: &[PathBuf], file: &MappedFile, elf: &Elf<'_>) -> Option<MappedFile> {
    let (name, build_id) = elf.shared_link()?;
    let named = || with_id(&file.path.canonicalize().ok()?.parent()?.join(path_of(name)?), build_id);
    by_build_id(directories, build_id).or_else(named)
}

/// The file, if it is an ELF file with this build id.
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
