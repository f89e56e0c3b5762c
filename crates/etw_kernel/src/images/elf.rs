//! ELF files: build ids, and where their segments are loaded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use etw_event::Fields;

use crate::classes::BuildId;

/// Most bytes of program headers, and of notes, that are looked at.
const MAX_BYTES: u64 = 64 * 1024;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
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
    Ok(Head::of_file(&file)?.and_then(|head| head.build_id))
}

/// What the head of an ELF file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Head {
    pub(crate) build_id: Option<BuildId>,
    /// What is loaded from the file, by rising addresses.
    pub(crate) loads: Vec<Load>,
}

/// A segment that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// The address that it was linked for.
    pub(crate) address: u64,
    /// How many bytes come from the file.
    pub(crate) bytes: u64,
    /// Whether it is code.
    pub(crate) is_code: bool,
}

impl Head {
    /// Reads the head of a file; `None` if it is no ELF file.
    pub(crate) fn of_file(file: &File) -> io::Result<Option<Head>> {
        Head::by(|offset, len| read(file, offset, len))
    }

    /// Reads the head of a file that is in memory.
    pub(crate) fn of_bytes(file: &[u8]) -> Option<Head> {
        let part = |offset: u64, len: u64| {
            let rest = file.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            Ok(rest[..rest.len().min(len.min(MAX_BYTES) as usize)].to_vec())
        };
        Head::by(part).ok().flatten()
    }

    fn by(read: impl Fn(u64, u64) -> io::Result<Vec<u8>>) -> io::Result<Option<Head>> {
        let header = read(0, 64)?;
        let Some(segments) = Segments::of(&header) else { return Ok(None) };
        let table = read(segments.offset, u64::from(segments.size) * u64::from(segments.count))?;
        let mut head = Head::default();
        for segment in table.chunks_exact(segments.size.into()).filter_map(|bytes| segments.segment(bytes)) {
            match segment.kind {
                PT_LOAD => head.loads.push(segment.load),
                PT_NOTE if head.build_id.is_none() => {
                    head.build_id = of_notes(&read(segment.load.offset, segment.load.bytes)?);
                }
                _ => {}
            }
        }
        head.loads.retain(|load| load.bytes > 0);
        head.loads.sort_by_key(|load| load.address);
        Ok(Some(head))
    }
}

/// The build id among notes.
pub(crate) fn of_notes(notes: &[u8]) -> Option<BuildId> {
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

    fn segment(&self, bytes: &[u8]) -> Option<Segment> {
        let (flags, offset, address, len) = match self.is_64 {
            true => (bytes.u32_at(0x04)?, bytes.u64_at(0x08)?, bytes.u64_at(0x10)?, bytes.u64_at(0x20)?),
            false => {
                let word = |at| Some(u64::from(bytes.u32_at(at)?));
                (bytes.u32_at(0x18)?, word(0x04)?, word(0x08)?, word(0x10)?)
            }
        };
        let load = Load { offset, address, bytes: len, is_code: flags & PF_X != 0 };
        Some(Segment { kind: bytes.u32_at(0)?, load })
    }
}

struct Segment {
    kind: u32,
    load: Load,
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
