//! Stacks of events.

use super::python::{self, PythonFrame};
use super::{Body, Fields};

/// The stack of an event's thread.
///
/// The programs in the kernel follow a user stack as far as they have rules (see
/// [`StackUnwinder`](crate::unwind::StackUnwinder)). Registers and a copy of the stack's memory allow to continue from
/// where they stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Time of the event that it belongs to, which precedes it in the same processor's ring.
    pub event_time: u64,
    /// Whether the event is a sample. The kernel's frames of other events start with tracing code.
    pub is_of_sample: bool,
    /// The address space of the program, if its stack was followed.
    pub space: Space,
    /// How far the program's stack was followed.
    pub following: Following,
    registers: Registers,
    memory_at: u64,
    /// Length of each part in bytes.
    lens: [u16; 5],
    rest: &'a [u8],
}

/// The address space of a process while it runs one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Space {
    /// Start time of the process in nanoseconds of `CLOCK_MONOTONIC` (`start_time` of its first thread in the kernel).
    pub began: u64,
    /// Process id.
    pub process_id: u32,
    /// Number of programs that it and its ancestors ran before (`self_exec_id` in the kernel).
    pub programs: u32,
}

/// How far a program's stack was followed in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Following {
    /// To the start of the thread.
    Ended,
    /// To the maximum number of frames.
    Limited,
    /// To code without a rule, or to memory that could not be read.
    Stopped,
    /// Not at all, since the images of the process were unknown.
    SpaceUnknown,
}

/// The kind of samples.
const SAMPLE: u32 = 6;
/// Why following ended, as numbered in `bpf/room.h`.
const WHOLE: u32 = 1;
const TO_LIMIT: u32 = 2;
const SPACE_UNKNOWN: u32 = 3;

/// The registers of the first frame that was not followed; without followed frames, those of the program where it was
/// interrupted or entered the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// Address of the next instruction.
    pub instruction: u64,
    /// Lowest address of the stack.
    pub stack_pointer: u64,
    /// Frame pointer (`rbp`, `x29`).
    pub frame_pointer: u64,
    /// Return address on ARM (`x30`); 0 elsewhere.
    pub link: u64,
}

impl<'a> Stack<'a> {
    /// Returns the frames in the kernel, innermost first; none if the processor was running a program.
    pub fn kernel(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        addresses(self.part(0))
    }

    /// Returns the followed frames in the program, innermost first: the current instruction, then return addresses.
    pub fn followed(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        addresses(self.part(1))
    }

    /// Returns the program's frames by frame pointers, innermost first, if it was not followed to the end. Code without
    /// frame pointers gives few frames, and sometimes wrong ones.
    pub fn user(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        addresses(self.part(2))
    }

    /// Returns the frames of Python's interpreter, innermost first, if the thread runs one.
    pub fn python(&self) -> impl ExactSizeIterator<Item = PythonFrame> + 'a {
        python::frames(self.part(4))
    }

    /// Returns the program's registers; `None` without a program, for 32-bit programs, and before Linux 5.15.
    pub fn registers(&self) -> Option<Registers> {
        (self.registers.instruction != 0).then_some(self.registers)
    }

    /// Returns a word of the program's stack if it was copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.memory_at)?).ok()?;
        Some(u64::from_ne_bytes(*self.part(3).get(at..)?.first_chunk()?))
    }

    /// Returns whether a word lies after the copied memory.
    pub fn ends_before(&self, address: u64) -> bool {
        self.word(address).is_none() && address >= self.memory_at
    }

    /// Returns the bytes that the stack borrows: frames and memory.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the same stack with other borrowed bytes, which must be a copy of [`Stack::rest`].
    pub fn with_rest<'b>(&self, rest: &'b [u8]) -> Stack<'b> {
        let Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, .. } = *self;
        Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, rest }
    }

    /// Returns a part: 0 frames of the kernel, 1 followed frames, 2 frames by frame pointers, 3 memory, 4 frames of Python.
    fn part(&self, number: usize) -> &'a [u8] {
        let begin = self.lens[..number].iter().map(|len| usize::from(*len)).sum();
        self.rest.get(begin..begin + usize::from(self.lens[number])).unwrap_or_default()
    }
}

fn addresses(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> + '_ {
    bytes.as_chunks().0.iter().map(|chunk| u64::from_ne_bytes(*chunk))
}

pub(super) fn body(event_time: u64, event_kind: u32, fields: Fields<'_>) -> Option<Body<'_>> {
    let registers = Registers {
        instruction: fields.u64(0)?,
        stack_pointer: fields.u64(8)?,
        frame_pointer: fields.u64(16)?,
        link: fields.u64(24)?,
    };
    let memory_at = fields.u64(32)?;
    let space = Space { began: fields.u64(40)?, process_id: fields.u32(48)?, programs: fields.u32(52)? };
    let python = u16::try_from(fields.u32(68)?).ok()?;
    let lens = [fields.u16(56)?, fields.u16(58)?, fields.u16(60)?, fields.u16(62)?, python];
    let following = match fields.u32(64)? {
        WHOLE => Following::Ended,
        TO_LIMIT => Following::Limited,
        SPACE_UNKNOWN => Following::SpaceUnknown,
        _ => Following::Stopped,
    };
    let rest = fields.0.get(72..)?;
    let is_of_sample = event_kind == SAMPLE;
    let stack = Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, rest };
    let all = lens.iter().map(|len| usize::from(*len)).sum::<usize>();
    (all <= rest.len()).then_some(Body::Stack(stack))
}

/// The parts of a stack, for tests.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackParts<'a> {
    pub(crate) registers: Registers,
    pub(crate) space: Space,
    pub(crate) following: Following,
    pub(crate) followed: &'a [u64],
    pub(crate) user: &'a [u64],
    pub(crate) memory_at: u64,
    pub(crate) memory: &'a [u64],
    /// Code and instruction of each.
    pub(crate) python: &'a [u64],
}

#[cfg(test)]
pub(crate) fn stack_for_tests<R>(parts: StackParts<'_>, each: impl FnOnce(&Stack<'_>) -> R) -> R {
    let StackParts { registers, space, following, memory_at, .. } = parts;
    let words = [parts.followed, parts.user, parts.memory, parts.python];
    let [followed, user, memory, python] = words.map(|words| 8 * words.len() as u16);
    let rest = words.concat().iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let lens = [0, followed, user, memory, python];
    let (event_time, is_of_sample) = (0, true);
    each(&Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, rest: &rest })
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    const RULE_UNKNOWN: u32 = 5;

    fn record(lens: [u16; 4], (ended, python): (u32, u32), rest: &[u64]) -> Vec<u8> {
        let mut record =
            [&7_u64.to_ne_bytes()[..], &[63_u32, 10, 11, 4].map(u32::to_ne_bytes).concat()].concat();
        record.extend([0x1000_u64, 0x7008, 0x7010, 0, 0x7000].map(u64::to_ne_bytes).concat());
        record.extend(9_u64.to_ne_bytes());
        record.extend([10_u32, 2].map(u32::to_ne_bytes).concat());
        record.extend(lens.map(u16::to_ne_bytes).concat());
        record.extend([ended, python].map(u32::to_ne_bytes).concat());
        record.extend(rest.iter().flat_map(|word| word.to_ne_bytes()));
        record
    }

    #[test]
    fn stacks_are_parted_and_lengths_are_checked() {
        let whole = record([8, 8, 16, 16], (RULE_UNKNOWN, 16), &[1, 6, 2, 3, 4, 5, 0x11, 8]);
        let Some(Event { body: Body::Stack(stack), .. }) = Event::parse(&whole, 0) else { panic!() };
        assert_eq!((stack.event_time, stack.is_of_sample), (7, false));
        assert_eq!(stack.space, Space { began: 9, process_id: 10, programs: 2 });
        assert_eq!(stack.following, Following::Stopped);
        assert_eq!(stack.kernel().collect::<Vec<_>>(), [1]);
        assert_eq!(stack.followed().collect::<Vec<_>>(), [6]);
        assert_eq!(stack.user().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(stack.registers().unwrap().stack_pointer, 0x7008);
        let words = [0x6ff8, 0x7000, 0x7008, 0x7009, 0x7010, u64::MAX].map(|address| stack.word(address));
        assert_eq!(words, [None, Some(4), Some(5), None, None, None]);
        let ends = [0x6ff8, 0x7000, 0x7008, 0x7009, 0x7010].map(|address| stack.ends_before(address));
        assert_eq!(ends, [false, false, false, true, true]);
        let frame = PythonFrame { code: 0x10, instruction: 8, is_entry: true };
        assert_eq!(stack.python().collect::<Vec<_>>(), [frame]);
        assert_eq!(stack.with_rest(stack.rest()), stack);
        for len in 0..whole.len() {
            assert_eq!(Event::parse(&whole[..len], 0), None, "{len}");
        }
        assert_eq!(Event::parse(&record([8, 0, 8, 9], (WHOLE, 0), &[1, 2, 3]), 0), None);
    }
}
