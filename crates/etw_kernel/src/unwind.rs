//! Stacks of programs, from their registers and a copy of their memory, by what their files say of unwinding.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use framehop::{CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwinderNative};
use framehop::{UnwindRegsNative, Unwinder as _};
use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, DebugFrame, EhFrame, Encoding,
    EndianSlice, LittleEndian, Operation, UnwindSection,
};
use object::elf::{FileHeader64, SHF_COMPRESSED};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadCache, ReadRef};

use crate::capture::{FileIdentity, Registers, Stack};
use crate::classes::MAX_FRAMES;
use crate::images::{LoadedImage, own_vdso};

type Bytes = Arc<[u8]>;
type Reader<'d> = EndianSlice<'d, LittleEndian>;
type Unwinder = UnwinderNative<Bytes, MayAllocateDuringUnwind>;

/// Finds the frames of programs.
///
/// The files' sections are read once each, when a stack goes through them first, and kept within bounds.
#[derive(Default)]
pub struct StackUnwinder {
    processes: HashMap<u32, Process>,
    sections: HashMap<FileIdentity, Option<Arc<Sections>>>,
    vdso: Option<Option<Arc<Sections>>>,
    kept_bytes: usize,
    counts: UnwindCounts,
}

/// What became of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnwindCounts {
    /// Stacks of programs.
    pub stacks: u64,
    /// Of those, the ones that were followed to where the thread began.
    pub whole: u64,
    /// Of the others, the ones that needed memory behind what was copied.
    pub cut: u64,
}

/// A process, with the images that its unwinder has.
struct Process {
    images: Vec<Arc<LoadedImage>>,
    unwinder: Unwinder,
    cache: Box<CacheNative<MayAllocateDuringUnwind>>,
}

/// What a file says of unwinding.
struct Sections {
    eh_frame: Option<(u64, Bytes)>,
    eh_frame_header: Option<(u64, Bytes)>,
    debug_frame: Option<Bytes>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
}

/// Most bytes of sections that are kept, and of one section.
const KEPT_BYTES: usize = 256 << 20;
const SECTION_BYTES: u64 = 64 << 20;
/// No program is linked for addresses from here on.
const HIGHEST: u64 = 1 << 56;
/// Most processes whose unwinders are kept.
const PROCESSES: usize = 1024;

impl StackUnwinder {
    /// Puts the frames of a program, the innermost first: the instruction where it was, then return addresses.
    ///
    /// `images` are those of the process at the time of the stack. Code of which no file tells how to unwind is followed
    /// by frame pointers, and so is what lies behind the copied memory.
    pub fn unwind(
        &mut self,
        process_id: u32,
        images: &[Arc<LoadedImage>],
        stack: &Stack<'_>,
        frames: &mut Vec<u64>,
    ) {
        let first = frames.len();
        let Some(registers) = stack.registers() else {
            frames.extend(stack.user());
            return;
        };
        self.counts.stacks += 1;
        self.prepare(process_id, images);
        let Some(process) = self.processes.get_mut(&process_id) else { return };
        let mut is_cut = false;
        let mut read = |address| stack.word(address).ok_or_else(|| is_cut |= stack.ends_before(address));
        let native = native_registers(&registers);
        let mut found =
            process.unwinder.iter_frames(registers.instruction, native, &mut process.cache, &mut read);
        let is_whole = loop {
            match found.next() {
                Ok(Some(frame)) if frames.len() - first < MAX_FRAMES => frames.push(frame.address()),
                Ok(None) => break true,
                _ => break false,
            }
        };
        if is_whole {
            self.counts.whole += 1;
            return;
        }
        self.counts.cut += u64::from(is_cut);
        // Frame pointers may lead on from where this ended.
        let last = frames.last().copied().unwrap_or_default();
        let mut rest = stack.user();
        if rest.any(|address| address == last) {
            frames.extend(rest);
        }
    }

    /// What became of all stacks so far.
    pub fn counts(&self) -> UnwindCounts {
        self.counts
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, process_id: u32) {
        self.processes.remove(&process_id);
    }

    /// Has the unwinder of a process know just these images.
    fn prepare(&mut self, process_id: u32, images: &[Arc<LoadedImage>]) {
        let is_known = |process: &Process| {
            let same = |(one, other): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(one, other);
            process.images.len() == images.len() && process.images.iter().zip(images).all(same)
        };
        if self.processes.get(&process_id).is_some_and(is_known) {
            return;
        }
        if self.processes.len() >= PROCESSES || self.kept_bytes > KEPT_BYTES {
            self.processes.clear();
            self.sections.clear();
            self.kept_bytes = 0;
        }
        let mut unwinder = Unwinder::new();
        for image in images {
            if let Some(module) = self.module(process_id, image) {
                unwinder.add_module(module);
            }
        }
        // Rules of other images must not be taken for those of these.
        let process = Process { images: images.to_vec(), unwinder, cache: Box::default() };
        self.processes.insert(process_id, process);
    }

    fn module(&mut self, process_id: u32, image: &LoadedImage) -> Option<Module<Bytes>> {
        let base_svma = image.file.as_ref()?.linked_base();
        if base_svma >= HIGHEST {
            return None;
        }
        let sections = self.sections_of(process_id, image)?;
        let range = |section: &(u64, Bytes)| section.0..section.0 + section.1.len() as u64;
        let info = ExplicitModuleSectionInfo {
            base_svma,
            text_svma: sections.text.clone(),
            got_svma: sections.got.clone(),
            eh_frame_svma: sections.eh_frame.as_ref().map(range),
            eh_frame: sections.eh_frame.as_ref().map(|section| section.1.clone()),
            eh_frame_hdr_svma: sections.eh_frame_header.as_ref().map(range),
            eh_frame_hdr: sections.eh_frame_header.as_ref().map(|section| section.1.clone()),
            debug_frame: sections.debug_frame.clone(),
            ..ExplicitModuleSectionInfo::default()
        };
        let addresses = image.base..image.base.checked_add(image.len_bytes)?;
        Some(Module::new(String::new(), addresses, image.base, info))
    }

    fn sections_of(&mut self, process_id: u32, image: &LoadedImage) -> Option<Arc<Sections>> {
        if image.is_vdso() {
            let read = || own_vdso().ok().and_then(|bytes| Sections::of(&bytes[..])).map(Arc::new);
            return self.vdso.get_or_insert_with(read).clone();
        }
        if let Some(known) = self.sections.get(&image.identity) {
            return known.clone();
        }
        if self.kept_bytes > KEPT_BYTES {
            // There is room again when the next process is prepared.
            return None;
        }
        let directory = Path::new("/proc").join(process_id.to_string());
        let sections = image.open(&directory).and_then(Sections::of_file).map(Arc::new);
        self.kept_bytes += sections.as_ref().map_or(0, |sections| sections.bytes());
        self.sections.insert(image.identity, sections.clone());
        sections
    }
}

/// Whether every expression of a file comes to an end: none of them jumps back.
fn expressions_end<'d, S: UnwindSection<Reader<'d>>>(section: &S) -> gimli::Result<bool> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(0).set_eh_frame(0).set_text(0).set_got(0);
    let mut seen = HashSet::new();
    let mut entries = section.entries(&bases);
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
            && !instructions_end(cie.instructions(section, &bases), section, encoding)?
        {
            return Ok(false);
        }
        if let Some(fde) = fde
            && !instructions_end(fde.instructions(section, &bases), section, encoding)?
        {
            return Ok(false);
        }
    }
    Ok(true)
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

#[cfg(target_arch = "x86_64")]
fn native_registers(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.instruction, registers.stack_pointer, registers.frame_pointer)
}

#[cfg(target_arch = "aarch64")]
fn native_registers(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.link, registers.stack_pointer, registers.frame_pointer)
}

impl std::fmt::Debug for StackUnwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackUnwinder").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Sections {
    fn of_file(file: File) -> Option<Sections> {
        // What only the machine's owner can write is taken as it is, with its index.
        let is_trusted =
            file.metadata().is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0);
        let cache = ReadCache::new(file);
        let sections = Sections::of(&cache)?;
        if is_trusted { Some(sections) } else { sections.checked() }
    }

    /// The sections if nothing in them goes on for ever; without the index, which might lead elsewhere.
    fn checked(self) -> Option<Sections> {
        let ends = match (&self.eh_frame, &self.debug_frame) {
            (Some((_, bytes)), _) => expressions_end(&EhFrame::new(bytes, LittleEndian)),
            (None, Some(bytes)) => expressions_end(&DebugFrame::new(bytes, LittleEndian)),
            (None, None) => Ok(true),
        };
        let is_harmless = ends.unwrap_or(false);
        is_harmless.then_some(Sections { eh_frame_header: None, ..self })
    }

    fn of<'d>(file: impl ReadRef<'d>) -> Option<Sections> {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        // With a number that is too large for its field the table might be as large as the file says it is.
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
        })
    }

    fn bytes(&self) -> usize {
        let len = |section: &Option<(u64, Bytes)>| section.as_ref().map_or(0, |section| section.1.len());
        len(&self.eh_frame)
            + len(&self.eh_frame_header)
            + self.debug_frame.as_ref().map_or(0, |bytes| bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::stack_for_tests;

    /// Frames of code with frame pointers: where each frame's pointer is, and the words there.
    fn memory() -> Vec<u64> {
        let mut words = vec![0; 64];
        for (at, next, return_address) in [(2, 10, 0x2222), (10, 20, 0x3333), (20, 60, 0x4444)] {
            words[at] = 0x7000 + 8 * next;
            words[at + 1] = return_address;
        }
        words
    }

    fn unwind(words: &[u64], user: &[u64]) -> (Vec<u64>, UnwindCounts) {
        let registers =
            Registers { instruction: 0x1111, stack_pointer: 0x7000, frame_pointer: 0x7010, link: 0 };
        let mut unwinder = StackUnwinder::default();
        let mut frames = vec![7];
        stack_for_tests(registers, 0x7000, words, user, |stack| unwinder.unwind(1, &[], stack, &mut frames));
        (frames, unwinder.counts())
    }

    #[test]
    fn frame_pointers_are_followed_where_no_file_says_more() {
        let memory = memory();
        let (frames, counts) = unwind(&memory, &[]);
        assert_eq!(frames[..5], [7, 0x1111, 0x2222, 0x3333, 0x4444]);
        assert_eq!(counts.stacks, 1);
        // The kernel found more of them than was copied.
        let (frames, counts) = unwind(&memory[..16], &[0x1111, 0x2222, 0x3333, 0x4444, 0x5555]);
        assert_eq!(frames, [7, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555]);
        assert_eq!(counts, UnwindCounts { stacks: 1, whole: 0, cut: 1 });
    }

    #[test]
    fn expressions_that_jump_back_are_refused() {
        // A CIE with an expression for the frame's address, of these operations; then the end.
        let section = |operations: &[u8]| {
            let mut entry = vec![0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0F, operations.len() as u8];
            entry.extend(operations);
            entry.resize(entry.len().next_multiple_of(4), 0);
            [&(entry.len() as u32).to_le_bytes()[..], &entry, &[0; 4]].concat()
        };
        let check = |operations: &[u8], expected: Option<bool>| {
            let bytes = section(operations);
            assert_eq!(
                expressions_end(&EhFrame::new(&bytes, LittleEndian)).ok(),
                expected,
                "{operations:x?}"
            );
            for len in 0..bytes.len() {
                let _ = expressions_end(&EhFrame::new(&bytes[..len], LittleEndian));
            }
        };
        // Register 7 and 8; forward by 1; back to its own begin.
        check(&[0x77, 8], Some(true));
        check(&[0x77, 8, 0x2F, 1, 0, 0x96], Some(true));
        check(&[0x77, 8, 0x2F, 0xFD, 0xFF], Some(false));
        check(&[0x77, 8, 0x28, 0xFD, 0xFF], Some(false));
    }
}
