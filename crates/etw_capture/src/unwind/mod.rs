//! Unwinding of user stacks by the unwind information in files: from registers and a copy of the stack's memory,
//! continuing where the kernel's programs stopped.
//!
//! ```
//! use std::sync::Arc;
//!
//! use etw_capture::images::LoadedImage;
//! use etw_capture::records::Stack;
//! use etw_capture::unwind::StackUnwinder;
//!
//! /// Returns the frames of a process's stack, innermost first.
//! fn frames(process_id: u32, images: &[Arc<LoadedImage>], stack: &Stack<'_>) -> Vec<u64> {
//!     let mut frames = Vec::new();
//!     StackUnwinder::default().unwind(process_id, images, stack, &mut frames);
//!     frames
//! }
//! ```

mod program_images;
mod rows;
mod sections;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use etw_kernel_events::classes::MAX_FRAMES;
use etw_sys::vdso;
use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, Unwinder as _};
use framehop::{UnwindRegsNative, UnwinderNative};

use crate::images::LoadedImage;
use crate::python::{self, Interpreter, PythonFile};
use crate::records::{FileIdentity, Following, Registers, Stack};
use crate::rules::{ImageTable, RuleTable};
use program_images::{Place, ProgramImages};
use sections::{Bytes, Context, Sections};

type Unwinder = UnwinderNative<Bytes, MayAllocateDuringUnwind>;

/// Finds the frames of user stacks.
///
/// It provides the kernel's programs with the images and rules that it needed ([`StackUnwinder::teach`]), so that they
/// can follow the next stack themselves.
///
/// The sections of a file are read when a stack first leads through it, and cached within bounds.
#[derive(Default)]
pub struct StackUnwinder {
    processes: HashMap<u32, Process>,
    sections: HashMap<FileIdentity, Option<Arc<Sections>>>,
    /// The interpreters in files that are named after Python.
    pythons: HashMap<FileIdentity, Option<Arc<PythonFile>>>,
    vdso: Option<Option<Arc<Sections>>>,
    kept_bytes: usize,
    teacher: ProgramImages,
    counts: UnwindCounts,
}

/// Counts of unwound stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnwindCounts {
    /// User stacks.
    pub stacks: u64,
    /// Of those, stacks that were followed to the start of the thread.
    pub whole: u64,
    /// Of the others, stacks that needed memory that was not copied, or were followed in the kernel by images that the
    /// process no longer had.
    pub cut: u64,
    /// Stacks with more frames than an event has room for ([`MAX_FRAMES`]): their outermost frames are missing.
    pub too_deep: u64,
}

/// A process with its images.
struct Process {
    images: Vec<Arc<LoadedImage>>,
    /// The images whose files have unwind information.
    places: Vec<Place>,
    python: Option<ProcessPython>,
    /// Created when a stack is first unwound here. Belongs to these images only.
    unwinding: Option<Box<Unwinding>>,
}

/// The interpreter of Python that a process runs.
#[derive(Clone)]
struct ProcessPython {
    interpreter: Interpreter,
    /// Addresses of the function that runs frames.
    run: Range<u64>,
}

struct Unwinding {
    unwinder: Unwinder,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Unwinding {
    fn new(places: &[Place]) -> Box<Unwinding> {
        let mut unwinder = Unwinder::new();
        places.iter().for_each(|place| unwinder.add_module(place.module()));
        Box::new(Unwinding { unwinder, cache: CacheNative::new() })
    }
}

/// What names of files with an interpreter contain.
const PYTHON: &[u8] = b"python";
/// Maximum size of cached sections in bytes.
const KEPT_BYTES: usize = 256 << 20;
/// Maximum number of processes with cached unwinders.
const PROCESSES: usize = 1024;

/// Returns how many pieces of code a program's file has rules for, around each of these link addresses; `None` if it has none
/// that are safe to follow. For a file in memory whose maker nobody trusts.
pub fn rules_of_file(file: &[u8], addresses: &[u64]) -> Option<usize> {
    const AROUND: u64 = 256;
    let sections = Sections::read(file)?.checked()?;
    let (mut context, mut pieces) = (Context::default(), 0);
    for address in addresses {
        let around = address.saturating_sub(AROUND)..address.saturating_add(AROUND);
        sections
            .for_each_rule(*address, around, &mut context, |_, rule| pieces += usize::from(rule.is_some()));
    }
    Some(pieces)
}

impl StackUnwinder {
    /// Creates an unwinder that writes rules to this table ([`Capture::rules`](crate::capture::Capture::rules)).
    pub fn new(table: RuleTable) -> StackUnwinder {
        StackUnwinder { teacher: ProgramImages::new(table), ..StackUnwinder::default() }
    }

    /// Appends the frames of a user stack, innermost first: the current instruction, then return addresses.
    ///
    /// `images` are those of the process at the time of the stack. Code without unwind information is followed by frame
    /// pointers, as is what lies after the copied memory.
    pub fn unwind(
        &mut self,
        process_id: u32,
        images: &[Arc<LoadedImage>],
        stack: &Stack<'_>,
        frames: &mut Vec<u64>,
    ) {
        let first = frames.len();
        let is_whole = self.unwind_native(process_id, images, stack, frames);
        let is_limited = match stack.following {
            Following::Ended => false,
            Following::Limited => true,
            Following::Stopped | Following::SpaceUnknown => frames.len() - first >= MAX_FRAMES,
        };
        if stack.python().len() > 0
            && let Some(python) = self.processes.get(&process_id).and_then(|process| process.python.as_ref())
        {
            let ProcessPython { interpreter, run } = python;
            let is_known = |address| images.iter().any(|image| image.holds(address));
            python::merge(frames, first, run, stack.python(), interpreter, is_whole, is_known);
        }
        self.counts.too_deep += u64::from(is_limited || frames.len() > MAX_FRAMES);
    }

    /// Appends the native frames; returns whether they reach the start of the thread.
    fn unwind_native(
        &mut self,
        process_id: u32,
        images: &[Arc<LoadedImage>],
        stack: &Stack<'_>,
        frames: &mut Vec<u64>,
    ) -> bool {
        let first = frames.len();
        let registers = stack.registers();
        let is_followed = matches!(stack.following, Following::Ended | Following::Limited);
        if registers.is_none() && !is_followed {
            frames.extend(stack.user());
            return false;
        }
        self.counts.stacks += 1;
        self.prepare(process_id, images);
        let Some(process) = self.processes.get_mut(&process_id) else { return false };
        let trusted = self.teacher.trusted(process_id, images, stack);
        let python = process.python.as_ref().map(|python| python.interpreter);
        self.teacher.teach_images(process_id, images, (&process.places, python), stack);
        // The current instruction is right in any case.
        frames.extend(stack.followed().take(trusted.max(1)));
        if trusted < stack.followed().len() {
            // The kernel's programs used other images.
            self.counts.cut += 1;
            return false;
        }
        let Some(registers) = registers.filter(|_| !is_followed) else {
            self.counts.whole += u64::from(registers.is_none());
            return stack.following == Following::Ended;
        };
        let unwinding = process.unwinding.get_or_insert_with(|| Unwinding::new(&process.places));
        let Unwinding { unwinder, cache } = &mut **unwinding;
        let mut is_cut = false;
        let mut read = |address| stack.word(address).ok_or_else(|| is_cut |= stack.ends_before(address));
        let mut native = native_registers(&registers);
        let instruction = FrameAddress::from_instruction_pointer(registers.instruction);
        let returned = FrameAddress::from_return_address(registers.instruction);
        let mut address = returned.filter(|_| trusted > 0).unwrap_or(instruction);
        let is_whole = loop {
            if frames.len() - first >= MAX_FRAMES {
                break false;
            }
            frames.push(address.address());
            self.teacher.teach_rule(&process.places, address.address_for_lookup());
            let caller = unwinder.unwind_frame(address, &mut native, cache, &mut read);
            match caller.map(|caller| caller.map(FrameAddress::from_return_address)) {
                Ok(Some(Some(caller))) => address = caller,
                Ok(None) => break true,
                _ => break false,
            }
        };
        if is_whole {
            self.counts.whole += 1;
            return true;
        }
        self.counts.cut += u64::from(is_cut);
        // Frame pointers may continue from where this ended.
        let last = frames.last().copied().unwrap_or_default();
        let mut rest = stack.user();
        if rest.any(|address| address == last) {
            frames.extend(rest);
        }
        false
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> UnwindCounts {
        self.counts
    }

    /// Passes the images that the kernel's programs lacked since the last call to `table`. Returns whether there were
    /// any.
    pub fn teach(&mut self, table: &mut impl ImageTable) -> bool {
        self.teacher.teach(table)
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, process_id: u32) {
        self.processes.remove(&process_id);
        self.teacher.forget(process_id);
    }

    /// Makes a process have exactly these images.
    fn prepare(&mut self, process_id: u32, images: &[Arc<LoadedImage>]) {
        if self.processes.get(&process_id).is_some_and(|process| same_images(&process.images, images)) {
            return;
        }
        if self.processes.len() >= PROCESSES || self.kept_bytes > KEPT_BYTES {
            self.processes.clear();
            self.sections.clear();
            self.pythons.clear();
            self.kept_bytes = 0;
        }
        let place =
            |image: &Arc<LoadedImage>| Place::new(image.clone(), self.sections_of(process_id, image)?);
        let places = images.iter().filter_map(place).collect();
        let python = images.iter().find_map(|image| self.python_of(process_id, image));
        let process = Process { images: images.to_vec(), places, python, unwinding: None };
        self.processes.insert(process_id, process);
    }

    /// Returns the interpreter in an image of a process, if its file is named after Python: a program, a library, or a plugin of a
    /// program.
    fn python_of(&mut self, process_id: u32, image: &LoadedImage) -> Option<ProcessPython> {
        let name = image.path.rsplit(|byte| *byte == b'/').next()?;
        if !name.to_ascii_lowercase().windows(PYTHON.len()).any(|part| part == PYTHON) {
            return None;
        }
        let read = || {
            let directory = Path::new("/proc").join(process_id.to_string());
            image.open(&directory).and_then(PythonFile::from_file).map(Arc::new)
        };
        let file = self.pythons.entry(image.identity).or_insert_with(read).as_ref()?;
        let moved = image.base.wrapping_sub(image.file.as_ref()?.linked_base());
        Some(ProcessPython { interpreter: file.interpreter(moved), run: file.run(moved) })
    }

    fn sections_of(&mut self, process_id: u32, image: &LoadedImage) -> Option<Arc<Sections>> {
        if image.is_vdso() {
            let read = || vdso::own().ok().and_then(|bytes| Sections::read(&bytes[..])).map(Arc::new);
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

/// Returns whether these are the same images.
fn same_images(one: &[Arc<LoadedImage>], other: &[Arc<LoadedImage>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Space, StackParts, stack_for_tests};

    /// The stack of code with frame pointers.
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
        let parts = StackParts {
            registers,
            space: Space::default(),
            following: Following::Stopped,
            followed: &[],
            user,
            memory_at: 0x7000,
            memory: words,
            python: &[],
        };
        stack_for_tests(parts, |stack| unwinder.unwind(1, &[], stack, &mut frames));
        (frames, unwinder.counts())
    }

    #[test]
    fn frame_pointers_are_followed_where_no_file_says_more() {
        let memory = memory();
        let (frames, counts) = unwind(&memory, &[]);
        assert_eq!(frames[..5], [7, 0x1111, 0x2222, 0x3333, 0x4444]);
        assert_eq!(counts.stacks, 1);
        // The kernel found more of them than the copied memory has.
        let (frames, counts) = unwind(&memory[..16], &[0x1111, 0x2222, 0x3333, 0x4444, 0x5555]);
        assert_eq!(frames, [7, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555]);
        assert_eq!(counts, UnwindCounts { stacks: 1, whole: 0, cut: 1, too_deep: 0 });
    }

    #[test]
    fn stacks_with_more_frames_than_an_event_has_room_for_are_counted() {
        let deep = |following, followed: &[u64], in_kernel| {
            let registers = Registers { instruction: 0x1111, stack_pointer: 0x7000, ..Registers::default() };
            let (space, memory_at) = (Space::default(), 0x7000);
            let parts = StackParts {
                registers,
                space,
                following,
                followed,
                user: &[],
                memory_at,
                memory: &[],
                python: &[],
            };
            let (mut unwinder, mut frames) = (StackUnwinder::default(), vec![7; in_kernel]);
            stack_for_tests(parts, |stack| unwinder.unwind(1, &[], stack, &mut frames));
            unwinder.counts().too_deep
        };
        assert_eq!(deep(Following::Limited, &[0x1111], 0), 1);
        // A stack of exactly so many frames is whole.
        assert_eq!(
            (deep(Following::Ended, &[0x1111], MAX_FRAMES - 1), deep(Following::Ended, &[0x1111], 0)),
            (0, 0)
        );
        // The kernel's frames need room too.
        assert_eq!(deep(Following::Ended, &[0x1111], MAX_FRAMES), 1);
    }
}
