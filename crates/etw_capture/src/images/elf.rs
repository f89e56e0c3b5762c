//! The heads of ELF files: build ids, and where their segments are loaded.
//!
//! Only the parts that are needed are read, since a live capture does this for every file that a process maps: usually
//! the first page of the file, which has the program headers and the note with the build id.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::elf::{
    ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_LOAD, PT_NOTE, ProgramHeader32,
    ProgramHeader64,
};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};
use object::{LittleEndian, pod};

use etw_kernel_events::classes::BuildId;

/// Number of bytes at the start of a file that are read at once.
const START_BYTES: u64 = 4096;
/// Maximum size in bytes of the program headers, and of a segment of notes. Larger ones are cut.
const MAX_BYTES: u64 = 64 * 1024;

/// Returns the build id of a little-endian ELF file of 32 or 64 bits; `None` if it has none or is not such a file.
///
/// # Errors
///
/// Returns the system's error if the file cannot be opened or read.
pub fn build_id_of_file(path: &Path) -> io::Result<Option<BuildId>> {
    let file = match etw_sys::open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
        opened => opened?,
    };
    Ok(Head::of_file(&file)?.and_then(|head| head.build_id))
}

/// What the head of an ELF file describes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Head {
    pub(crate) build_id: Option<BuildId>,
    /// The segments that are loaded from the file, sorted by address.
    pub(crate) loads: Vec<Load>,
}

/// A segment that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// The address that it is linked for.
    pub(crate) address: u64,
    /// Number of bytes that come from the file.
    pub(crate) bytes: u64,
    /// Whether it is executable.
    pub(crate) is_code: bool,
}

impl Head {
    /// Reads the head of a file; `None` if it is not a little-endian ELF file.
    pub(crate) fn of_file(file: &File) -> io::Result<Option<Head>> {
        let start = read(file, 0, START_BYTES)?;
        let part = |offset: u64, len: u64| match within(&start, offset, len) {
            Some(part) => Ok(Cow::Borrowed(part)),
            None => read(file, offset, len.min(MAX_BYTES)).map(Cow::Owned),
        };
        Head::of_start(&start, part)
    }

    /// Reads the head of a file that is in memory.
    pub(crate) fn of_bytes(file: &[u8]) -> Option<Head> {
        let part = |offset, len: u64| {
            let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).unwrap_or_default();
            let len = usize::try_from(len.min(MAX_BYTES)).unwrap_or(rest.len());
            Ok(Cow::Borrowed(rest.get(..len).unwrap_or(rest)))
        };
        Head::of_start(file, part).ok().flatten()
    }

    /// Reads the head of the file with these first bytes; `part` returns the bytes at an offset, fewer at the end of
    /// the file.
    fn of_start<'d>(
        start: &[u8],
        part: impl Fn(u64, u64) -> io::Result<Cow<'d, [u8]>>,
    ) -> io::Result<Option<Head>> {
        if let Ok(header) = FileHeader64::<LittleEndian>::parse(start) {
            return Head::of_segments::<_, ProgramHeader64<LittleEndian>>(header, part).map(Some);
        }
        match FileHeader32::<LittleEndian>::parse(start) {
            Ok(header) => Head::of_segments::<_, ProgramHeader32<LittleEndian>>(header, part).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn of_segments<'d, F, P>(
        header: &F,
        part: impl Fn(u64, u64) -> io::Result<Cow<'d, [u8]>>,
    ) -> io::Result<Head>
    where
        F: FileHeader<Endian = LittleEndian, ProgramHeader = P>,
        P: ProgramHeader<Elf = F, Endian = LittleEndian, Word = F::Word>,
    {
        let (endian, size) = (LittleEndian, size_of::<P>());
        let mut head = Head::default();
        if header.endian().is_err() || usize::from(header.e_phentsize(endian)) != size {
            return Ok(head);
        }
        let count = usize::from(header.e_phnum(endian));
        let table = part(header.e_phoff(endian).into(), (size * count) as u64)?;
        let segments = pod::slice_from_bytes::<P>(&table, count.min(table.len() / size));
        for segment in segments.map(|(segments, _)| segments).unwrap_or_default() {
            let (offset, bytes) = segment.file_range(endian);
            match segment.p_type(endian) {
                PT_LOAD if bytes > 0 => head.loads.push(Load {
                    offset,
                    address: segment.p_vaddr(endian).into(),
                    bytes,
                    is_code: segment.p_flags(endian).contains(PF_X),
                }),
                PT_NOTE if head.build_id.is_none() => {
                    head.build_id = build_id::<F>(&part(offset, bytes)?, segment.p_align(endian));
                }
                _ => {}
            }
        }
        head.loads.sort_by_key(|load| load.address);
        Ok(head)
    }
}

/// Returns the build id among ELF notes that are aligned to 4 bytes, as in `/sys/kernel/notes`.
pub(crate) fn build_id_of_notes(notes: &[u8]) -> Option<BuildId> {
    build_id::<FileHeader64<LittleEndian>>(notes, 4)
}

fn build_id<F: FileHeader<Endian = LittleEndian>>(notes: &[u8], align: F::Word) -> Option<BuildId> {
    let mut notes = NoteIterator::<F>::new(LittleEndian, align, notes).ok()?;
    let is_build_id = |note: &object::read::elf::Note<'_, F>| {
        note.name() == ELF_NOTE_GNU && note.n_type(LittleEndian) == NT_GNU_BUILD_ID
    };
    BuildId::new(notes.find_map(|note| note.ok().filter(is_build_id))?.desc())
}

/// Returns this part of the bytes if they have all of it.
fn within(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)?.get(..usize::try_from(len).ok()?)
}

/// Reads bytes of a file, fewer at its end.
fn read(file: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
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
        let found = build_id_of_file(file.path()).unwrap();
        assert_eq!(Head::of_bytes(bytes).and_then(|head| head.build_id), found);
        found
    }

    /// An ELF file with one segment of notes at an offset: an ABI note, then a build id.
    fn elf(is_64: bool, notes_at: usize) -> Vec<u8> {
        let mut notes = Vec::new();
        for (kind, content) in [(1_u32, vec![0; 16]), (3, (1..=20).collect::<Vec<u8>>())] {
            notes.extend(
                [4_u32.to_le_bytes(), (content.len() as u32).to_le_bytes(), kind.to_le_bytes()].concat(),
            );
            notes.extend(b"GNU\0");
            notes.extend(content);
        }
        let mut bytes = vec![0; notes_at];
        bytes[..7].copy_from_slice(&[0x7F, b'E', b'L', b'F', 1 + u8::from(is_64), 1, 1]);
        let mut put = |at: usize, value: u64, len: usize| {
            bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        };
        let (at, len) = (notes_at as u64, notes.len() as u64);
        if is_64 {
            [(0x20, 0x40, 8), (0x36, 0x38, 2), (0x38, 1, 2), (0x40, 4, 4), (0x48, at, 8), (0x60, len, 8)]
                .into_iter()
                .for_each(|(at, value, len)| put(at, value, len));
        } else {
            [(0x1C, 0x40, 4), (0x2A, 0x20, 2), (0x2C, 1, 2), (0x40, 4, 4), (0x44, at, 4), (0x50, len, 4)]
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
            let whole = elf(is_64, 0x100);
            assert_eq!(file_of(&whole).unwrap().as_bytes(), id);
            for len in 0..whole.len() {
                assert_eq!(file_of(&whole[..len]), None, "{len}");
            }
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] = 0xFF;
                let _ = file_of(&damaged);
            }
            // After what is read at once, and across its end.
            for notes_at in [0xFF0, 0x2000] {
                assert_eq!(file_of(&elf(is_64, notes_at)).unwrap().as_bytes(), id);
            }
        }
        assert_eq!(file_of(b"#!/bin/sh\n"), None);
        assert_eq!(build_id_of_notes(&[0xFF; 64]), None);
    }
}
