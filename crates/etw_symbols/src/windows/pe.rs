//! PE files: their identity, the portable PDB in an assembly, and names of addresses from exports, within the bounds of
//! functions that `.pdata` lists.
//!
//! Source: Microsoft, "PE Format" and "x64 exception handling".

use std::collections::{BTreeSet, HashMap};
use std::io::Read;

use etw_event::Guid;
use flate2::read::DeflateDecoder;
use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile, PeFile32, PeFile64, SectionTable};
use object::{FileKind, Object};

use super::{PdbId, WindowsImage};
use crate::frame::{Frame, Symbol};

/// Length in bytes of an entry of the debug directory.
const DEBUG_ENTRY_LEN_BYTES: usize = 28;
/// Type of the entry for an embedded portable PDB.
const EMBEDDED_PDB: u32 = 17;
/// Maximum length in bytes of an embedded PDB.
const MAX_EMBEDDED_LEN_BYTES: u64 = 256 << 20;
/// Length in bytes of an entry of `.pdata` on x64: start, end and unwind information.
const ENTRY_LEN_BYTES: usize = 12;
/// Flag of unwind information: the entry continues another one.
const CHAINED: u8 = 4;
/// Maximum length in bytes of the name of an export.
const MAX_NAME_LEN_BYTES: usize = 4096;
/// Maximum number of entries that a function consists of in a row.
const MAX_CHAIN: usize = 32;

/// Returns the identity of a PE file and of its PDB.
///
/// # Errors
///
/// Returns the reason if the file is not a PE file.
pub(crate) fn id(bytes: &[u8]) -> Result<WindowsImage, String> {
    match FileKind::parse(bytes) {
        Ok(FileKind::Pe32) => id_of(&PeFile32::parse(bytes).map_err(text)?),
        Ok(FileKind::Pe64) => id_of(&PeFile64::parse(bytes).map_err(text)?),
        Ok(other) => Err(format!("its format is {other:?}")),
        Err(error) => Err(text(error)),
    }
}

/// Returns the portable PDB that an assembly contains, unpacked. Source: "PE/COFF Specification" in dotnet/runtime.
pub(crate) fn embedded_pdb(bytes: &[u8]) -> Option<Vec<u8>> {
    let data = match FileKind::parse(bytes).ok()? {
        FileKind::Pe32 => debug_data(&PeFile32::parse(bytes).ok()?, EMBEDDED_PDB)?,
        FileKind::Pe64 => debug_data(&PeFile64::parse(bytes).ok()?, EMBEDDED_PDB)?,
        _ => return None,
    };
    let (len, packed) = data.strip_prefix(b"MPDB")?.split_first_chunk()?;
    let len = u64::from(u32::from_le_bytes(*len)).min(MAX_EMBEDDED_LEN_BYTES);
    let mut unpacked = Vec::new();
    DeflateDecoder::new(packed).take(len).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}

/// Returns the data of the first entry of a type in the debug directory.
fn debug_data<'d, Pe: ImageNtHeaders>(file: &PeFile<'d, Pe>, kind: u32) -> Option<&'d [u8]> {
    let directory = file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG)?;
    let entries = directory.data(file.data(), &file.section_table()).ok()?;
    entries.chunks_exact(DEBUG_ENTRY_LEN_BYTES).find_map(|entry| {
        // Flags, time, version, type, length, address, offset.
        let word = |at: usize| entry.get(at * 4..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
        let (len, at) = (word(4)? as usize, word(6)? as usize);
        file.data().get(at..at.checked_add(len)?).filter(|_| word(3) == Some(kind))
    })
}

/// Resolves offsets from the image's base, in their order; `None` where no export is known.
///
/// # Errors
///
/// Returns the reason if the file is not a PE file, or is damaged.
pub(crate) fn resolve(bytes: &[u8], offsets: &[u32]) -> Result<Vec<Option<Symbol>>, String> {
    // Only x64 has the entries read here; without them the end of a function is unknown.
    match FileKind::parse(bytes) {
        Ok(FileKind::Pe64) => {}
        Ok(FileKind::Pe32) => return Ok(vec![None; offsets.len()]),
        Ok(other) => return Err(format!("its format is {other:?}")),
        Err(error) => return Err(text(error)),
    }
    let file = PeFile64::parse(bytes).map_err(text)?;
    if file.nt_headers().file_header().machine.get(LE) != pe::IMAGE_FILE_MACHINE_AMD64 {
        return Ok(vec![None; offsets.len()]);
    }
    let functions = Functions::new(&file);
    let starts: Vec<Option<u32>> = offsets.iter().map(|offset| functions.start(*offset)).collect();
    let exports = exports(&file, &starts.iter().flatten().copied().collect())?;
    let symbol = |(start, offset): (Option<u32>, &u32)| {
        let start = start?;
        let function = exports.get(&start)?.clone();
        let frames = vec![Frame { function, file: None, line: None }];
        Some(Symbol { frames, offset: offset.checked_sub(start).map(u64::from) })
    };
    Ok(starts.into_iter().zip(offsets).map(symbol).collect())
}

/// Returns the names of the exports at these addresses.
fn exports(file: &PeFile64<'_>, wanted: &BTreeSet<u32>) -> Result<HashMap<u32, String>, String> {
    let mut names = HashMap::new();
    let Some(table) = file.export_table().map_err(text)? else { return Ok(names) };
    for (pointer, index) in table.name_iter() {
        let Ok(address) = table.address_by_index(index) else { continue };
        // A name is read only if it is used, since damaged tables may have many long ones at one place.
        if !wanted.contains(&address) || names.contains_key(&address) || table.is_forward(address) {
            continue;
        }
        if let Ok(name) = table.name_from_pointer(pointer)
            && name.len() <= MAX_NAME_LEN_BYTES
        {
            names.insert(address, crate::demangle(&String::from_utf8_lossy(name)).into_owned());
        }
    }
    Ok(names)
}

fn id_of<'d, Pe: ImageNtHeaders>(file: &PeFile<'d, Pe>) -> Result<WindowsImage, String> {
    let headers = file.nt_headers();
    let pdb = file.pdb_info().ok().flatten().and_then(|of| {
        PdbId::new(&String::from_utf8_lossy(of.path()), Guid::from_bytes(of.guid()), of.age())
    });
    Ok(WindowsImage {
        time_stamp: headers.file_header().time_date_stamp.get(LE),
        len_bytes: headers.optional_header().size_of_image(),
        pdb,
    })
}

/// Bounds of functions.
struct Functions<'d> {
    /// Entries of `.pdata`, sorted by start.
    entries: Vec<[u32; 3]>,
    sections: SectionTable<'d>,
    bytes: &'d [u8],
}

impl<'d> Functions<'d> {
    fn new(file: &PeFile64<'d>) -> Functions<'d> {
        let (sections, bytes) = (file.section_table(), file.data());
        let directory = file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION);
        let data = directory.and_then(|directory| directory.data(bytes, &sections).ok());
        let entries = data.unwrap_or_default().chunks_exact(ENTRY_LEN_BYTES).map(entry);
        let mut entries: Vec<[u32; 3]> = entries.filter(|[start, end, _]| start < end).collect();
        entries.sort_unstable();
        Functions { entries, sections, bytes }
    }

    /// Returns the start of the function that contains an offset.
    fn start(&self, offset: u32) -> Option<u32> {
        let after = self.entries.partition_point(|[start, ..]| *start <= offset);
        let mut entry = *self.entries.get(after.checked_sub(1)?)?;
        if offset >= entry[1] {
            return None;
        }
        for _ in 0..MAX_CHAIN {
            match self.outer(entry[2]) {
                Some(outer) => entry = outer,
                None => return Some(entry[0]),
            }
        }
        None
    }

    /// Returns the entry that unwind information continues.
    fn outer(&self, information: u32) -> Option<[u32; 3]> {
        let data = self.sections.pe_data_at(self.bytes, information)?;
        let [first, _, codes, _] = *data.first_chunk()?;
        if (first >> 3) & CHAINED == 0 {
            return None;
        }
        // Codes have two bytes each and are padded to four.
        let codes = usize::from(codes).next_multiple_of(2) * 2;
        data.get(4 + codes..).and_then(|rest| rest.get(..ENTRY_LEN_BYTES)).map(entry)
    }
}

fn entry(bytes: &[u8]) -> [u32; 3] {
    let mut words = bytes.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
    [(); 3].map(|()| words.next().unwrap_or(0))
}

fn text(error: object::Error) -> String {
    error.to_string()
}
