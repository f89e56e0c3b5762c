//! Build ids of ELF files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use etw_event::Fields;

use crate::classes::BuildId;

/// Most bytes of program headers, and of notes, that are looked at.
const MAX_BYTES: u64 = 64 * 1024;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;

/// The build id of an ELF file of either size, little-endian; `None` if it has none, or is no such file.
///
/// # Errors
/// If the file cannot be read.
pub fn build_id_of_file(path: &Path) -> io::Result<Option<BuildId>> {
    let file = File::open(path)?;
    // A device or a pipe might never end.
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    of_file(&file)
}

fn of_file(file: &File) -> io::Result<Option<BuildId>> {
    let header = read(file, 0, 64)?;
    let Some(segments) = Segments::of(&header) else { return Ok(None) };
    let table = read(file, segments.offset, u64::from(segments.size) * u64::from(segments.count))?;
    for segment in table.chunks_exact(segments.size.into()) {
        let Some((offset, len)) = segments.note(segment) else { continue };
        if let Some(id) = of_notes(&read(file, offset, len)?) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The build id among notes.
pub(super) fn of_notes(notes: &[u8]) -> Option<BuildId> {
    let mut rest = notes;
    loop {
        let (name_len, len, kind) = (rest.u32_at(0)? as usize, rest.u32_at(4)? as usize, rest.u32_at(8)?);
        let name = rest.get(12..)?.get(..name_len)?;
        let content = rest.get(12..)?.get(name_len.checked_next_multiple_of(4)?..)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::new(content.get(..len)?);
        }
        rest = content.get(len.checked_next_multiple_of(4)?..)?;
    }
}

/// Where the program headers are.
struct Segments {
    is_64: bool,
    offset: u64,
    size: u16,
    count: u16,
}

impl Segments {
    fn of(header: &[u8]) -> Option<Segments> {
        // Magic, class, little-endian.
        let is_64 = match header.get(..6)? {
            [0x7F, b'E', b'L', b'F', 1, 1] => false,
            [0x7F, b'E', b'L', b'F', 2, 1] => true,
            _ => return None,
        };
        let (offset, size_at) = match is_64 {
            true => (header.u64_at(0x20)?, 0x36),
            false => (header.u32_at(0x1C)?.into(), 0x2A),
        };
        let (size, count) = (header.u16_at(size_at)?, header.u16_at(size_at + 2)?);
        (size >= 0x20).then_some(Segments { is_64, offset, size, count })
    }

    /// Offset and size of a segment of notes.
    fn note(&self, segment: &[u8]) -> Option<(u64, u64)> {
        if segment.u32_at(0)? != PT_NOTE {
            return None;
        }
        match self.is_64 {
            true => Some((segment.u64_at(0x08)?, segment.u64_at(0x20)?)),
            false => Some((segment.u32_at(0x04)?.into(), segment.u32_at(0x10)?.into())),
        }
    }
}

/// Bytes of a file, fewer if there are not so many.
fn read(file: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len.min(MAX_BYTES) as usize];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let Some(at) = offset.checked_add(filled as u64).filter(|at| i64::try_from(*at).is_ok()) else {
            break;
        };
        match file.read_at(rest, at) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(bytes: &[u8]) -> Option<BuildId> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        build_id_of_file(file.path()).unwrap()
    }

    /// A file with one segment of notes: an ABI note, then a build id.
    fn elf(is_64: bool) -> Vec<u8> {
        let mut notes = Vec::new();
        for (kind, content) in [(1_u32, vec![0; 16]), (NT_GNU_BUILD_ID, (1..=20).collect::<Vec<u8>>())] {
            notes.extend(
                [4_u32.to_le_bytes(), (content.len() as u32).to_le_bytes(), kind.to_le_bytes()].concat(),
            );
            notes.extend(b"GNU\0");
            notes.extend(content);
        }
        let mut bytes = vec![0; 0x100];
        bytes[..6].copy_from_slice(&[0x7F, b'E', b'L', b'F', 1 + u8::from(is_64), 1]);
        let mut put = |at: usize, value: u64, len: usize| {
            bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        };
        let len = notes.len() as u64;
        if is_64 {
            [(0x20, 0x40, 8), (0x36, 0x38, 2), (0x38, 1, 2), (0x40, 4, 4), (0x48, 0x100, 8), (0x60, len, 8)]
                .into_iter()
                .for_each(|(at, value, len)| put(at, value, len));
        } else {
            [(0x1C, 0x40, 4), (0x2A, 0x20, 2), (0x2C, 1, 2), (0x40, 4, 4), (0x44, 0x100, 4), (0x50, len, 4)]
                .into_iter()
                .for_each(|(at, value, len)| put(at, value, len));
        }
        bytes.extend(notes);
        bytes
    }

    #[test]
    fn build_ids_are_found_and_damage_is_survived() {
        let id: Vec<u8> = (1..=20).collect();
        for is_64 in [true, false] {
            let whole = elf(is_64);
            assert_eq!(file_of(&whole).unwrap().as_bytes(), id);
            for len in 0..whole.len() {
                assert_eq!(file_of(&whole[..len]), None, "{len}");
            }
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] = 0xFF;
                let _ = file_of(&damaged);
            }
        }
        assert_eq!(file_of(b"#!/bin/sh\n"), None);
        assert_eq!(of_notes(&[0xFF; 64]), None);
    }
}
