//! Stacks of events.

use super::{Body, Fields};

/// The stack of an event: that of the thread that was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Time of the event that it belongs to, which stands before it in the same processor's ring.
    pub event_time: u64,
    /// Whether the event is a sample; the kernel's frames of other events begin with those of tracing.
    pub is_of_sample: bool,
    registers: Registers,
    memory_at: u64,
    kernel: &'a [u8],
    user: &'a [u8],
    memory: &'a [u8],
}

/// The kind of samples.
const SAMPLE: u32 = 6;

/// Registers of a program where it was interrupted, or entered the kernel.
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
        addresses(self.kernel)
    }

    /// Addresses in the program, innermost first. They are found by frame pointers, so code without them gives few, and
    /// wrong ones at times.
    pub fn user(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        addresses(self.user)
    }

    /// The program's registers; nothing if there is no program, or one of 32 bits, or a kernel before 5.15.
    pub fn registers(&self) -> Option<Registers> {
        (self.registers.instruction != 0).then_some(self.registers)
    }

    /// A word of the program's stack, as far as it was copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.memory_at)?).ok()?;
        Some(u64::from_ne_bytes(*self.memory.get(at..)?.first_chunk()?))
    }

    /// Whether a word lies behind what was copied.
    pub fn ends_before(&self, address: u64) -> bool {
        self.word(address).is_none() && address >= self.memory_at
    }

    /// The parts that borrow: frames of the kernel, of the program, memory.
    pub fn parts(&self) -> [&'a [u8]; 3] {
        [self.kernel, self.user, self.memory]
    }

    /// The same stack with its parts elsewhere.
    pub fn with_parts<'b>(&self, [kernel, user, memory]: [&'b [u8]; 3]) -> Stack<'b> {
        let Stack { event_time, is_of_sample, registers, memory_at, .. } = *self;
        Stack { event_time, is_of_sample, registers, memory_at, kernel, user, memory }
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
    let lens = [fields.u16(40)?, fields.u16(42)?, fields.u16(44)?];
    let mut rest = fields.0.get(48..)?;
    let mut part = |len: u16| {
        let (part, behind) = rest.split_at_checked(len.into())?;
        rest = behind;
        Some(part)
    };
    let (kernel, user, memory) = (part(lens[0])?, part(lens[1])?, part(lens[2])?);
    let is_of_sample = event_kind == SAMPLE;
    Some(Body::Stack(Stack { event_time, is_of_sample, registers, memory_at, kernel, user, memory }))
}

/// A stack of a program, for tests of what is made of it.
#[cfg(test)]
pub(crate) fn stack_for_tests(
    registers: Registers,
    memory_at: u64,
    memory: &[u64],
    user: &[u64],
    each: impl FnOnce(&Stack<'_>),
) {
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let (user, memory) = (bytes(user), bytes(memory));
    let (kernel, user, memory) = (&[][..], &user[..], &memory[..]);
    each(&Stack { event_time: 0, is_of_sample: true, registers, memory_at, kernel, user, memory });
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    fn record(lens: [u16; 3], rest: &[u64]) -> Vec<u8> {
        let mut record =
            [&7_u64.to_ne_bytes()[..], &[63_u32, 10, 11, 4].map(u32::to_ne_bytes).concat()].concat();
        record.extend([0x1000_u64, 0x7008, 0x7010, 0, 0x7000].map(u64::to_ne_bytes).concat());
        record.extend([lens[0], lens[1], lens[2], 0].map(u16::to_ne_bytes).concat());
        record.extend(rest.iter().flat_map(|word| word.to_ne_bytes()));
        record
    }

    #[test]
    fn stacks_are_parted_and_lengths_are_checked() {
        let whole = record([8, 16, 16], &[1, 2, 3, 4, 5]);
        let Some(Event { body: Body::Stack(stack), .. }) = Event::parse(&whole, 0) else { panic!() };
        assert_eq!((stack.event_time, stack.is_of_sample), (7, false));
        assert_eq!(stack.kernel().collect::<Vec<_>>(), [1]);
        assert_eq!(stack.user().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(stack.registers().unwrap().stack_pointer, 0x7008);
        let words = [0x6ff8, 0x7000, 0x7008, 0x7009, 0x7010, u64::MAX].map(|address| stack.word(address));
        assert_eq!(words, [None, Some(4), Some(5), None, None, None]);
        let ends = [0x6ff8, 0x7000, 0x7008, 0x7009, 0x7010].map(|address| stack.ends_before(address));
        assert_eq!(ends, [false, false, false, true, true]);
        assert_eq!(stack.with_parts(stack.parts()), stack);
        for len in 0..whole.len() {
            assert_eq!(Event::parse(&whole[..len], 0), None, "{len}");
        }
        assert_eq!(Event::parse(&record([8, 8, 9], &[1, 2, 3]), 0), None);
    }
}
