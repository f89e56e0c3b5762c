//! Stacks of programs from their registers and the copied part of their stacks (`--call-graph dwarf`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use etw_perf_data::{Mapping, PerfData, Sample, Task};
use framehop::FrameAddress;
use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};

use super::linux::{ImageFile, SectionBytes};

/// Architecture whose stacks are unwound.
const ARCHITECTURE: &[u8] = b"x86_64";
/// Numbers of registers in `perf_regs.h` of x86: frame pointer, stack pointer and next instruction.
const BP: u32 = 6;
const SP: u32 = 7;
const IP: u32 = 8;
/// Maximum number of frames of a program.
const MAX_FRAMES: usize = 1024;
/// Maximum number of images of a process, and of all processes that ever were.
const MAX_PLACES: usize = 1 << 12;
const MAX_ALL_PLACES: usize = 1 << 21;

/// What unwinds the stacks of each process.
pub(in super::super) struct Unwinders {
    is_needed: bool,
    processes: HashMap<u32, Process>,
    /// Number of images that processes got, of which some have ended.
    count: usize,
    cache: CacheX86_64,
}

/// The images of a process.
#[derive(Clone, Default)]
struct Process {
    places: Vec<Place>,
    /// Made of the places when a stack needs it.
    unwinder: Option<UnwinderX86_64<SectionBytes>>,
}

/// An image with its file.
#[derive(Clone)]
struct Place {
    addresses: Range<u64>,
    base: u64,
    file: Option<Arc<ImageFile>>,
}

impl std::fmt::Debug for Unwinders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinders").field("is_needed", &self.is_needed).finish_non_exhaustive()
    }
}

impl Unwinders {
    pub(in super::super) fn new(file: &PerfData<'_>) -> Unwinders {
        let has_stacks = file.attributes().iter().any(|attribute| attribute.sample_format.has_user_stack());
        let is_needed = has_stacks && file.features().architecture == ARCHITECTURE;
        Unwinders { is_needed, processes: HashMap::new(), count: 0, cache: CacheX86_64::new() }
    }

    /// Adds a mapping of a process, in place of those that it overlaps.
    pub(in super::super) fn add(
        &mut self,
        process_id: u32,
        mapping: &Mapping<'_>,
        base: u64,
        file: Option<Arc<ImageFile>>,
    ) {
        if !self.is_needed || self.count >= MAX_ALL_PLACES {
            return;
        }
        let addresses = mapping.address..mapping.address.saturating_add(mapping.len_bytes);
        let process = self.processes.entry(process_id).or_default();
        process.unwinder = None;
        process
            .places
            .retain(|place| place.addresses.end <= addresses.start || addresses.end <= place.addresses.start);
        if process.places.len() < MAX_PLACES {
            self.count += 1;
            process.places.push(Place { addresses, base, file });
        }
    }

    /// Gives a new process the images of the one that created it.
    pub(in super::super) fn fork(&mut self, task: &Task) {
        if task.process_id != task.parent_id
            && self.count < MAX_ALL_PLACES
            && let Some(parent) = self.processes.get(&task.parent_id)
        {
            self.count += parent.places.len();
            let process = parent.clone();
            self.processes.insert(task.process_id, process);
        }
    }

    /// Removes the images of a process that runs a new program.
    pub(in super::super) fn remove(&mut self, process_id: u32) {
        self.processes.remove(&process_id);
    }

    /// Adds the frames of a sample's program, innermost first. Returns whether they reach the outermost function.
    pub(in super::super) fn unwind(&mut self, sample: &Sample<'_>, frames: &mut Vec<u64>) -> bool {
        let Some((registers, stack)) = sample.user_registers.zip(sample.user_stack) else { return true };
        let register = |number: u32| registers.get(number).filter(|_| !registers.is_32_bit);
        let (Some(ip), Some(sp), Some(bp)) = (register(IP), register(SP), register(BP)) else { return false };
        let process = sample.thread.and_then(|(process_id, _)| self.processes.get_mut(&process_id));
        let Some(process) = process.filter(|_| self.is_needed) else {
            frames.push(ip);
            return false;
        };
        let unwinder = process.unwinder();
        let mut read = |address: u64| {
            let at = address.checked_sub(sp).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let word = stack.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(())?;
            Ok(u64::from_le_bytes(*word))
        };
        let mut found =
            unwinder.iter_frames(ip, UnwindRegsX86_64::new(ip, sp, bp), &mut self.cache, &mut read);
        for _ in 0..MAX_FRAMES {
            match found.next() {
                Ok(Some(FrameAddress::InstructionPointer(address))) => frames.push(address),
                Ok(Some(FrameAddress::ReturnAddress(address))) => frames.push(address.get()),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

impl Process {
    fn unwinder(&mut self) -> &UnwinderX86_64<SectionBytes> {
        let places = &self.places;
        self.unwinder.get_or_insert_with(|| {
            let mut unwinder = UnwinderX86_64::new();
            let module = |place: &Place| place.file.as_ref()?.module(place.addresses.clone(), place.base);
            places.iter().filter_map(module).for_each(|module| unwinder.add_module(module));
            unwinder
        })
    }
}
