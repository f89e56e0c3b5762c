//! Annotations in a PDB file: `S_ANNOTATION` records in the symbol streams of its modules.
//!
//! A PDB is a multi-stream file (MSF 7.00): blocks of equal size, and a directory with the blocks of each stream.
//! Stream 3 (DBI) lists the modules, each with a stream of symbol records. Source: LLVM, "The PDB File Format".

use std::borrow::Cow;

use etw_event::Fields;

use crate::source_text::source_text;

const MAGIC: &[u8; 32] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0";
const DBI_STREAM: usize = 3;
const DBI_HEADER_BYTES: usize = 64;
const MODULE_HEADER_BYTES: usize = 64;
const S_ANNOTATION: u16 = 0x1019;
const NO_STREAM: u16 = 0xFFFF;
const NIL_STREAM: u32 = 0xFFFF_FFFF;

/// The error of reading a PDB file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PdbError {
    /// The file does not start with the MSF 7.00 signature.
    #[error("not a PDB file: it does not start with \"Microsoft C/C++ MSF 7.00\"")]
    NoPdb,
    /// The block size is not a power of two from 512 to 65,536.
    #[error("PDB with invalid block size of {0} bytes")]
    BlockSize(u32),
    /// Blocks of a stream are outside the file.
    #[error("PDB truncated or damaged: {0} is outside the file")]
    OutsideFile(&'static str),
    /// The streams together are larger than the file, which only a forged directory can cause.
    #[error("PDB whose streams are larger than the file")]
    TooLarge,
}

/// Calls `found` with the strings of each annotation, in module order.
pub(super) fn for_each_annotation(
    file: &[u8],
    mut found: impl FnMut(&[Cow<'_, str>]),
) -> Result<(), PdbError> {
    let mut streams = Streams::open(file)?;
    let Some(dbi) = streams.read(DBI_STREAM)? else { return Ok(()) };
    let modules_bytes = dbi.u32_at(24).map_or(0, |size| size as usize);
    let modules = dbi.get(DBI_HEADER_BYTES..).unwrap_or_default();
    let modules = modules.get(..modules_bytes).unwrap_or(modules);
    let mut at = 0;
    while let (Some(stream), Some(symbol_bytes)) = (modules.u16_at(at + 34), modules.u32_at(at + 36)) {
        if stream != NO_STREAM
            && let Some(symbols) = streams.read(usize::from(stream))?
        {
            let symbols = symbols.get(..symbol_bytes as usize).unwrap_or(&symbols);
            annotations(symbols, &mut found);
        }
        // The entry ends with two names and is padded to four bytes.
        at += MODULE_HEADER_BYTES;
        for _ in 0..2 {
            let name = modules.get(at..).unwrap_or_default();
            at += memchr::memchr(0, name).map_or(name.len(), |end| end + 1);
        }
        at = at.next_multiple_of(4);
    }
    Ok(())
}

/// Reads the records after the stream's signature: `u16` length of the rest, `u16` kind.
fn annotations(symbols: &[u8], found: &mut impl FnMut(&[Cow<'_, str>])) {
    let mut at = 4;
    while let (Some(length), Some(kind)) = (symbols.u16_at(at), symbols.u16_at(at + 2)) {
        let end = at + 2 + usize::from(length);
        if length < 2 {
            return;
        }
        // An annotation: u32 offset, u16 section, u16 number of strings, strings.
        if kind == S_ANNOTATION
            && let Some(number) = symbols.u16_at(at + 10)
            && let Some(text) = symbols.get(at + 12..end)
        {
            let strings = text.split(|byte| *byte == 0).take(usize::from(number));
            let strings: Vec<_> = strings.map(source_text).collect();
            found(&strings);
        }
        at = end;
    }
}

/// The streams of an MSF file.
struct Streams<'a> {
    file: &'a [u8],
    block_size: usize,
    directory: Vec<u8>,
    number: usize,
    /// Start of each stream's block list in the directory.
    lists: Vec<usize>,
    /// Bytes that streams may still take: in total at most the file's size.
    budget: usize,
}

impl<'a> Streams<'a> {
    fn open(file: &'a [u8]) -> Result<Streams<'a>, PdbError> {
        if !file.starts_with(MAGIC) {
            return Err(PdbError::NoPdb);
        }
        let field = |offset| file.u32_at(offset).ok_or(PdbError::OutsideFile("the header"));
        let block_size = field(32)?;
        if !block_size.is_power_of_two() || !(512..=65_536).contains(&block_size) {
            return Err(PdbError::BlockSize(block_size));
        }
        let block_size = block_size as usize;
        let directory_bytes = field(44)? as usize;
        let map_at = (field(52)? as usize).saturating_mul(block_size);
        if directory_bytes > file.len() {
            return Err(PdbError::TooLarge);
        }
        let map_bytes = directory_bytes.div_ceil(block_size) * 4;
        let map = file.get(map_at..).and_then(|rest| rest.get(..map_bytes));
        let map = map.ok_or(PdbError::OutsideFile("the directory's block list"))?;
        let directory = gather(file, block_size, map, directory_bytes)?;
        let number = directory.u32_at(0).map_or(0, |number| number as usize);
        let mut list = number.saturating_add(1).saturating_mul(4);
        if list > directory.len() {
            return Err(PdbError::OutsideFile("the directory's stream sizes"));
        }
        let mut lists = Vec::with_capacity(number);
        for stream in 0..number {
            lists.push(list);
            list =
                list.saturating_add(stream_bytes(&directory, stream).div_ceil(block_size).saturating_mul(4));
        }
        Ok(Streams { file, block_size, directory, number, lists, budget: file.len() })
    }

    /// Returns the bytes of a stream, or `None` if the file has no such stream.
    fn read(&mut self, stream: usize) -> Result<Option<Vec<u8>>, PdbError> {
        let Some(list) = self.lists.get(stream).copied().filter(|_| stream < self.number) else {
            return Ok(None);
        };
        let bytes = stream_bytes(&self.directory, stream);
        self.budget = self.budget.checked_sub(bytes).ok_or(PdbError::TooLarge)?;
        let list_bytes = bytes.div_ceil(self.block_size) * 4;
        let blocks = self.directory.get(list..).and_then(|rest| rest.get(..list_bytes));
        let blocks = blocks.ok_or(PdbError::OutsideFile("a stream's block list"))?;
        gather(self.file, self.block_size, blocks, bytes).map(Some)
    }
}

fn stream_bytes(directory: &[u8], stream: usize) -> usize {
    match directory.u32_at(4 + 4 * stream) {
        None | Some(NIL_STREAM) => 0,
        Some(bytes) => bytes as usize,
    }
}

/// Returns the first `bytes` bytes of a list of blocks.
fn gather(file: &[u8], block_size: usize, blocks: &[u8], bytes: usize) -> Result<Vec<u8>, PdbError> {
    let mut gathered = Vec::with_capacity(bytes);
    for block in blocks.as_chunks::<4>().0 {
        let at = (u32::from_le_bytes(*block) as usize).saturating_mul(block_size);
        let wanted = block_size.min(bytes - gathered.len());
        let found =
            file.get(at..).and_then(|rest| rest.get(..wanted)).ok_or(PdbError::OutsideFile("a block"))?;
        gathered.extend_from_slice(found);
    }
    Ok(gathered)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a PDB of 512-byte blocks: 0 header, 1 directory, 2 its block list, 3 DBI, 4 symbols.
    fn pdb() -> Vec<u8> {
        let mut file = vec![0; 5 * 512];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, MAGIC);
        for (at, value) in [(32, 512u32), (40, 5), (44, 28), (52, 2)] {
            put(at, &value.to_le_bytes());
        }
        put(1024, &1u32.to_le_bytes());
        let directory = [5u32, NIL_STREAM, 0, 0, 160, 64];
        for (index, value) in directory.iter().chain(&[3, 4]).enumerate() {
            put(512 + 4 * index, &value.to_le_bytes());
        }
        put(44, &32u32.to_le_bytes());
        put(3 * 512 + 24, &76u32.to_le_bytes());
        put(3 * 512 + 64 + 34, &4u16.to_le_bytes());
        put(3 * 512 + 64 + 36, &40u32.to_le_bytes());
        put(3 * 512 + 128, b"m.obj\0m.lib\0");
        let mut symbols = vec![4, 0, 0, 0, 6, 0, 0x3C, 0x11, 0, 0, 0, 0];
        symbols.extend([18, 0, 0x19, 0x10, 0, 0, 0, 0, 1, 0, 2, 0]);
        symbols.extend(b"TMF:\0abc\0");
        put(4 * 512, &symbols);
        file
    }

    fn found(file: &[u8]) -> Result<Vec<String>, PdbError> {
        let mut strings = Vec::new();
        for_each_annotation(file, |annotation| strings.push(annotation.join("|")))?;
        Ok(strings)
    }

    #[test]
    fn annotations_are_found() {
        assert_eq!(found(&pdb()), Ok(vec!["TMF:|abc".to_owned()]));
    }

    #[test]
    fn broken_files_are_refused() {
        let check = |at: usize, value: u32, error| {
            let mut file = pdb();
            file[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert_eq!(found(&file), Err(error), "{value} at {at}");
        };
        check(0, 0, PdbError::NoPdb);
        check(32, 700, PdbError::BlockSize(700));
        check(44, 0xFFFF_0000, PdbError::TooLarge);
        check(52, 0xFFFF, PdbError::OutsideFile("the directory's block list"));
        check(512, 0xFFFF, PdbError::OutsideFile("the directory's stream sizes"));
        check(512 + 16, 0xFFFF_0000, PdbError::TooLarge);
        check(512 + 16, 1025, PdbError::OutsideFile("a stream's block list"));
        check(512 + 24, 99, PdbError::OutsideFile("a block"));
    }
}
