//! Unwind information of files.

use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use framehop::{ExplicitModuleSectionInfo, Module};
use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, DebugFrame, EhFrame, EhFrameHdr,
    Encoding, EndianSlice, LittleEndian, Operation, UnwindContext, UnwindSection,
};
use object::elf::{FileHeader64, SHF_COMPRESSED};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadCache, ReadRef};

use super::rows::rule_of;
use crate::images::LoadedImage;
use crate::rules::Rule;

pub(super) type Bytes = Arc<[u8]>;
pub(super) type Reader<'d> = EndianSlice<'d, LittleEndian>;
/// Where the machine of a function's rules is put together.
pub(super) type Context = UnwindContext<usize>;

/// The unwind information of a file.
pub(super) struct Sections {
    eh_frame: Option<(u64, Bytes)>,
    eh_frame_header: Option<(u64, Bytes)>,
    debug_frame: Option<Bytes>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    /// Offsets in `.eh_frame` by the functions' first addresses, if the file has no trusted index.
    index: Vec<(u64, usize)>,
    number: u32,
}

static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// Maximum size of a section in bytes.
const SECTION_BYTES: u64 = 64 << 20;
/// Upper limit of link addresses.
pub(super) const HIGHEST: u64 = 1 << 56;
/// Number of bytes of unwind information that are read for neighbours of the requested function. That is some hundred
/// functions, but files may be crafted to keep their readers busy.
const NEIGHBOURS_BYTES: usize = 64 << 10;
/// Alignment of functions, as by compilers.
const ALIGNMENT: u64 = 16;

impl Sections {
    /// Reads the sections of a program's file.
    pub(super) fn of_file(file: File) -> Option<Sections> {
        // A file that only root can write is trusted, including its index.
        let is_trusted =
            file.metadata().is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0);
        let cache = ReadCache::new(file);
        let sections = Sections::read(&cache)?;
        if is_trusted { Some(sections) } else { sections.checked() }
    }

    /// Returns the sections if nothing in them loops forever. They get an index of our own, since the file's may be
    /// wrong.
    pub(super) fn checked(self) -> Option<Sections> {
        let bases = self.bases();
        let index = match (&self.eh_frame, &self.debug_frame) {
            (Some((_, bytes)), _) => index_of_harmless(&EhFrame::new(bytes, LittleEndian), &bases),
            (None, Some(bytes)) => index_of_harmless(&DebugFrame::new(bytes, LittleEndian), &bases),
            (None, None) => Ok(Some(Vec::new())),
        };
        let index = index.ok()??;
        Some(Sections { eh_frame_header: None, index, ..self })
    }

    pub(super) fn read<'d>(file: impl ReadRef<'d>) -> Option<Sections> {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        // A count too large for its field would allow a table of any size.
        let table = header.sections(endian, file).ok().filter(|_| header.e_shnum(endian) != 0)?;
        let named = |name: &str| {
            let (_, section) = table.section_by_name(endian, name.as_bytes())?;
            let (address, size) = (section.sh_addr(endian), section.sh_size(endian));
            (size <= SECTION_BYTES && address < HIGHEST).then_some((address, size, section))
        };
        let bytes = |name: &str| {
            let (address, _, section) = named(name)?;
            let is_plain = !section.sh_flags(endian).contains(SHF_COMPRESSED);
            let data = section.data(endian, file).ok().filter(|data| is_plain && !data.is_empty())?;
            Some((address, Bytes::from(data)))
        };
        let range = |name: &str| named(name).map(|(address, size, _)| address..address + size);
        let eh_frame = bytes(".eh_frame");
        let debug_frame = if eh_frame.is_none() { bytes(".debug_frame") } else { None };
        Some(Sections {
            debug_frame: debug_frame.map(|section| section.1),
            eh_frame,
            eh_frame_header: bytes(".eh_frame_hdr"),
            text: range(".text"),
            got: range(".got"),
            index: Vec::new(),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Returns a number that is unique among all files ever read.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Returns an image with this file, whose lowest link address is `linked_base`, in the unwinder's form.
    pub(super) fn module(&self, image: &LoadedImage, linked_base: u64) -> Module<Bytes> {
        let range = |section: &(u64, Bytes)| section.0..section.0 + section.1.len() as u64;
        let info = ExplicitModuleSectionInfo {
            base_svma: linked_base,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: self.eh_frame.as_ref().map(range),
            eh_frame: self.eh_frame.as_ref().map(|section| section.1.clone()),
            eh_frame_hdr_svma: self.eh_frame_header.as_ref().map(range),
            eh_frame_hdr: self.eh_frame_header.as_ref().map(|section| section.1.clone()),
            debug_frame: self.debug_frame.clone(),
            ..ExplicitModuleSectionInfo::default()
        };
        Module::new(String::new(), image.base..image.base + image.len_bytes, image.base, info)
    }

    /// Passes the rules of the function at a link address, and of neighbours that reach into `around`, to `each`. There
    /// are none if the file has no information, and the rule is `None` where the programs cannot express it.
    pub(super) fn for_each_rule(
        &self,
        address: u64,
        around: Range<u64>,
        context: &mut Context,
        mut each: impl FnMut(Range<u64>, Option<Rule>),
    ) {
        let (bases, Some((_, bytes))) = (self.bases(), &self.eh_frame) else { return };
        let section = EhFrame::new(bytes, LittleEndian);
        let mut bytes_read = 0;
        let mut tell = |address: u64| {
            let offset = self.entry_of(address, &bases)?;
            let entry = section.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset).ok()?;
            if bytes_read > NEIGHBOURS_BYTES {
                return None;
            }
            bytes_read += entry.entry_len() + entry.cie().entry_len();
            let encoding = entry.cie().encoding();
            let mut table = entry.rows(&section, &bases, context).ok()?;
            while let Ok(Some(row)) = table.next_row() {
                each(row.start_address()..row.end_address(), rule_of(row, &section, encoding));
            }
            Some(entry.initial_address()..entry.end_address())
        };
        let Some(own) = tell(address).filter(|own| own.contains(&address)) else { return };
        let mut begin = own.start;
        while begin > around.start
            && let Some(before) = tell(begin - 1).filter(|before| before.start < begin)
        {
            begin = before.start;
        }
        let mut end = own.end;
        while end < around.end
            && let Some(behind) = tell(end.next_multiple_of(ALIGNMENT)).filter(|behind| behind.end > end)
        {
            end = behind.end;
        }
    }

    /// Returns the offset in `.eh_frame` of the entry for the function at an address, or for one before it.
    fn entry_of(&self, address: u64, bases: &BaseAddresses) -> Option<usize> {
        let Some((_, header)) = &self.eh_frame_header else {
            let behind = self.index.partition_point(|(begin, _)| *begin <= address);
            return Some(self.index.get(behind.checked_sub(1)?)?.1);
        };
        let header = EhFrameHdr::new(header, LittleEndian).parse(bases, 8).ok()?;
        let entry = header.table()?.lookup(address, bases).ok()?.direct().ok()?;
        usize::try_from(entry.checked_sub(self.eh_frame.as_ref()?.0)?).ok()
    }

    fn bases(&self) -> BaseAddresses {
        let at = |section: &Option<(u64, Bytes)>| section.as_ref().map_or(0, |section| section.0);
        let begin = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
        BaseAddresses::default()
            .set_eh_frame_hdr(at(&self.eh_frame_header))
            .set_eh_frame(at(&self.eh_frame))
            .set_text(begin(&self.text))
            .set_got(begin(&self.got))
    }

    pub(super) fn bytes(&self) -> usize {
        let len = |section: &Option<(u64, Bytes)>| section.as_ref().map_or(0, |section| section.1.len());
        len(&self.eh_frame)
            + len(&self.eh_frame_header)
            + self.debug_frame.as_ref().map_or(0, |bytes| bytes.len())
            + size_of_val(&self.index[..])
    }
}

/// Returns the offsets of all entries by the functions' first addresses; `None` if an expression may not terminate
/// because it jumps back.
fn index_of_harmless<'d, S: UnwindSection<Reader<'d>>>(
    section: &S,
    bases: &BaseAddresses,
) -> gimli::Result<Option<Vec<(u64, usize)>>> {
    let (mut seen, mut index) = (HashSet::new(), Vec::new());
    let mut entries = section.entries(bases);
    while let Some(entry) = entries.next()? {
        let (cie, fde) = match entry {
            CieOrFde::Cie(cie) => (cie, None),
            CieOrFde::Fde(partial) => {
                let fde = partial.parse(S::cie_from_offset)?;
                (fde.cie().clone(), Some(fde))
            }
        };
        let encoding = cie.encoding();
        if seen.insert(cie.offset())
            && !instructions_end(cie.instructions(section, bases), section, encoding)?
        {
            return Ok(None);
        }
        let Some(fde) = fde else { continue };
        if !instructions_end(fde.instructions(section, bases), section, encoding)? {
            return Ok(None);
        }
        index.push((fde.initial_address(), fde.offset()));
    }
    index.sort_unstable();
    Ok(Some(index))
}

fn instructions_end<'d, S: UnwindSection<Reader<'d>>>(
    mut instructions: CallFrameInstructionIter<'_, Reader<'d>>,
    section: &S,
    encoding: Encoding,
) -> gimli::Result<bool> {
    while let Some(instruction) = instructions.next()? {
        let (CallFrameInstruction::DefCfaExpression { expression }
        | CallFrameInstruction::Expression { expression, .. }
        | CallFrameInstruction::ValExpression { expression, .. }) = instruction
        else {
            continue;
        };
        let mut operations = expression.get(section)?.operations(encoding);
        while let Some(operation) = operations.next()? {
            if let Operation::Skip { target } | Operation::Bra { target } = operation
                && target < 0
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_the_files_index_and_by_ours() {
        let read = || {
            let cache = ReadCache::new(File::open(std::env::current_exe().unwrap()).unwrap());
            Sections::read(&cache).unwrap()
        };
        let (theirs, ours) = (read(), read().checked().unwrap());
        assert!(theirs.eh_frame_header.is_some() && ours.eh_frame_header.is_none());
        let (mut context, mut found) = (Context::default(), 0);
        let mut rules_near = |sections: &Sections, address, around| {
            let mut rules = Vec::new();
            let each = |addresses, rule| rules.push((addresses, rule));
            sections.for_each_rule(address, around, &mut context, each);
            rules
        };
        let mut rules_of =
            |sections: &Sections, address: u64| rules_near(sections, address, address..address + 1);
        assert!(ours.index.len() > 1000);
        for (address, _) in ours.index.iter().step_by(ours.index.len() / 1000) {
            let rules = rules_of(&ours, *address);
            assert_eq!(rules, rules_of(&theirs, *address), "{address:#x}");
            assert!(rules.first().is_some_and(|(addresses, _)| addresses.start == *address), "{rules:?}");
            found += usize::from(rules.iter().all(|(_, rule)| rule.is_some()));
        }
        if cfg!(target_arch = "x86_64") {
            assert!(found > 900, "{found}");
        }
        assert!(rules_of(&ours, 1).is_empty());
        let (first, last) = (ours.index[500].0, ours.index[520].0);
        let near = rules_near(&ours, ours.index[510].0, first..last);
        assert_eq!(near, rules_near(&theirs, ours.index[510].0, first..last));
        let has = |address: u64| near.iter().any(|(addresses, _)| addresses.start == address);
        // Some functions may lie in a separate part of the file.
        assert!(ours.index[500..520].iter().filter(|(address, _)| has(*address)).count() >= 10, "{near:x?}");
    }

    #[test]
    fn expressions_that_jump_back_are_refused() {
        // A CIE with an expression for the frame's address, then the end mark.
        let section = |operations: &[u8]| {
            let mut entry = vec![0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0F, operations.len() as u8];
            entry.extend(operations);
            entry.resize(entry.len().next_multiple_of(4), 0);
            [&(entry.len() as u32).to_le_bytes()[..], &entry, &[0; 4]].concat()
        };
        let bases = BaseAddresses::default().set_eh_frame(0);
        let check = |operations: &[u8], expected: Option<bool>| {
            let bytes = section(operations);
            let index = |bytes| {
                index_of_harmless(&EhFrame::new(bytes, LittleEndian), &bases).map(|index| index.is_some())
            };
            assert_eq!(index(&bytes).ok(), expected, "{operations:x?}");
            for len in 0..bytes.len() {
                let _ = index(&bytes[..len]);
            }
        };
        // Register 7 plus 8; a jump forward by 1; a jump back to its own start.
        check(&[0x77, 8], Some(true));
        check(&[0x77, 8, 0x2F, 1, 0, 0x96], Some(true));
        check(&[0x77, 8, 0x2F, 0xFD, 0xFF], Some(false));
        check(&[0x77, 8, 0x28, 0xFD, 0xFF], Some(false));
    }
}
