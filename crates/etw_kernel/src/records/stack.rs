//! Stacks of events.

use super::{Body, Fields};

/// The stack of an event: that of the thread that was running.
///
/// The kernel's programs follow a program's stack as far as they have been taught to (`StackUnwinder`). Where that ends,
/// the registers and the copied memory are there to go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Time of the event that it belongs to, which stands before it in the same processor's ring.
    pub event_time: u64,
    /// Whether the event is a sample; the kernel's frames of other events begin with those of tracing.
    pub is_of_sample: bool,
    /// The memory of the program, if it was to be followed.
    pub space: Space,
    /// How far the program's stack was followed.
    pub following: Following,
    registers: Registers,
    memory_at: u64,
    /// Bytes of each part.
    lens: [u16; 4],
    rest: &'a [u8],
}

/// The memory of a process as long as it runs one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Space {
    /// When the process began, in nanoseconds of `CLOCK_MONOTONIC` (`start_time` of its first thread in the kernel).
    pub began: u64,
    /// Its id.
    pub process_id: u32,
    /// How many programs it and its ancestors ran before (`self_exec_id` in the kernel).
    pub programs: u32,
}

/// How far a program's stack was followed in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Following {
    /// To where the thread began, or to the most frames that there may be.
    Ended,
    /// To something that the kernel's programs have not been taught, or cannot read.
    Stopped,
    /// To where the images of the program would have been needed.
    SpaceUnknown,
}

/// The kind of samples.
const SAMPLE: u32 = 6;
/// Why following ended, as `bpf/stack.h` numbers it.
const WHOLE: u32 = 1;
const TO_LIMIT: u32 = 2;
const SPACE_UNKNOWN: u32 = 3;

/// Registers of a program where it was interrupted, or entered the kernel; those of its first frame that was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// The next instruction.
    pub instruction: u64,
    /// The stack's lowest address.
    pub stack_pointer: u64,
    /// What code with frame pointers has its frame at (`rbp`, `x29`).
    pub frame_pointer: u64,
    /// Where ARM returns to (`x30`); 0 elsewhere.
    pub link: u64,
}

impl<'a> Stack<'a> {
    /// Addresses in the kernel, innermost first; none if the processor was running a program.
    pub fn kernel(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        addresses(self.part(0))
    }

    /// Addresses in the program that were followed, innermost first: the instruction where it was, then return addresses.
    pub fn followed(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        addresses(self.part(1))
    }

    /// Addresses in the program, innermost first, if it was not followed to the end. They are found by frame pointers, so
    /// code without them gives few, and wrong ones at times.
    pub fn user(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        addresses(self.part(2))
    }

    /// The program's registers; nothing if there is no program, or one of 32 bits, or a kernel before 5.15.
    pub fn registers(&self) -> Option<Registers> {
        (self.registers.instruction != 0).then_some(self.registers)
    }

    /// A word of the program's stack, as far as it was copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.memory_at)?).ok()?;
        Some(u64::from_ne_bytes(*self.part(3).get(at..)?.first_chunk()?))
    }

    /// Whether a word lies behind what was copied.
    pub fn ends_before(&self, address: u64) -> bool {
        self.word(address).is_none() && address >= self.memory_at
    }

    /// What it borrows: frames and memory.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The same stack with what it borrows elsewhere.
    pub fn with_rest<'b>(&self, rest: &'b [u8]) -> Stack<'b> {
        let Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, .. } = *self;
        Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, rest }
    }

    /// Frames of the kernel, followed frames, frames by frame pointers, memory.
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
    let lens = [fields.u16(56)?, fields.u16(58)?, fields.u16(60)?, fields.u16(62)?];
    let following = match fields.u32(64)? {
        WHOLE | TO_LIMIT => Following::Ended,
        SPACE_UNKNOWN => Following::SpaceUnknown,
        _ => Following::Stopped,
    };
    let rest = fields.0.get(72..)?;
    let is_of_sample = event_kind == SAMPLE;
    let stack = Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, rest };
    let all = lens.iter().map(|len| usize::from(*len)).sum::<usize>();
    (all <= rest.len()).then_some(Body::Stack(stack))
}

/// What stacks of programs are made of, for tests of what is made of them.
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
}

#[cfg(test)]
pub(crate) fn stack_for_tests<R>(parts: StackParts<'_>, each: impl FnOnce(&Stack<'_>) -> R) -> R {
    let StackParts { registers, space, following, memory_at, .. } = parts;
    let words = [parts.followed, parts.user, parts.memory];
    let [followed, user, memory] = words.map(|words| 8 * words.len() as u16);
    let rest = words.concat().iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let lens = [0, followed, user, memory];
    let (event_time, is_of_sample) = (0, true);
    each(&Stack { event_time, is_of_sample, space, following, registers, memory_at, lens, rest: &rest })
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    const RULE_UNKNOWN: u32 = 5;

    fn record(lens: [u16; 4], ended: u32, rest: &[u64]) -> Vec<u8> {
        let mut record =
            [&7_u64.to_ne_bytes()[..], &[63_u32, 10, 11, 4].map(u32::to_ne_bytes).concat()].concat();
        record.extend([0x1000_u64, 0x7008, 0x7010, 0, 0x7000].map(u64::to_ne_bytes).concat());
        record.extend(9_u64.to_ne_bytes());
        record.extend([10_u32, 2].map(u32::to_ne_bytes).concat());
        record.extend(lens.map(u16::to_ne_bytes).concat());
        record.extend([ended, 0].map(u32::to_ne_bytes).concat());
        record.extend(rest.iter().flat_map(|word| word.to_ne_bytes()));
        record
    }

    #[test]
    fn stacks_are_parted_and_lengths_are_checked() {
        let whole = record([8, 8, 16, 16], RULE_UNKNOWN, &[1, 6, 2, 3, 4, 5]);
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
        assert_eq!(stack.with_rest(stack.rest()), stack);
        for len in 0..whole.len() {
            assert_eq!(Event::parse(&whole[..len], 0), None, "{len}");
        }
        assert_eq!(Event::parse(&record([8, 0, 8, 9], WHOLE, &[1, 2, 3]), 0), None);
    }
}
