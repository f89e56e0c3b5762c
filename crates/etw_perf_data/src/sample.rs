//! Samples.

use crate::attribute::{Attribute, SampleFormat};
use crate::cursor::{ByteOrder, Cursor, Words};

/// Layout of counters (`PERF_FORMAT_*`): two times, ids, the group, lost samples.
const READ_TIMES: u64 = 1 | 2;
const READ_ID: u64 = 4;
const READ_GROUP: u64 = 8;
const READ_LOST: u64 = 16;
/// `PERF_SAMPLE_BRANCH_HW_INDEX`: an index precedes the branches.
const BRANCH_INDEX: u64 = 1 << 17;
/// Bytes of a branch.
const BRANCH_BYTES: u64 = 24;

/// Marks in call chains (`PERF_CONTEXT_*`): the frames after one are of that context.
pub mod context {
    /// Frames of a hypervisor.
    pub const HYPERVISOR: u64 = -32_i64 as u64;
    /// Frames of the kernel.
    pub const KERNEL: u64 = -128_i64 as u64;
    /// Frames of the program.
    pub const USER: u64 = -512_i64 as u64;
    /// The lowest number that is a mark and no address (`PERF_CONTEXT_MAX`).
    pub const FIRST: u64 = -4095_i64 as u64;
}

/// A sample. Fields that the event does not record are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample<'a> {
    /// Id of its event.
    pub id: Option<u64>,
    /// Address of the next instruction.
    pub ip: Option<u64>,
    /// Process and thread.
    pub thread: Option<(u32, u32)>,
    /// Time in nanoseconds on the event's clock.
    pub time: Option<u64>,
    /// Address that the event is about.
    pub address: Option<u64>,
    /// Processor.
    pub processor: Option<u32>,
    /// Number of events that it stands for.
    pub period: Option<u64>,
    /// The call chain, innermost first, with marks ([`context`]).
    pub call_chain: Option<Words<'a>>,
    /// The payload of a tracepoint.
    pub raw: Option<&'a [u8]>,
    /// The program's registers.
    pub user_registers: Option<Registers<'a>>,
    /// The part of the program's stack from its stack pointer on.
    pub user_stack: Option<&'a [u8]>,
}

/// Registers of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers<'a> {
    /// Whether the program has 32-bit registers.
    pub is_32_bit: bool,
    mask: u64,
    values: Words<'a>,
}

impl Registers<'_> {
    /// Returns a register by its number in the architecture's `perf_regs.h`.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        let before = (self.mask & (bit - 1)).count_ones();
        (self.mask & bit != 0).then(|| self.values.get(usize::try_from(before).ok()?)).flatten()
    }
}

impl<'a> Sample<'a> {
    /// Reads the body of a sample; `None` if it is shorter than its fields.
    pub(crate) fn read(body: &'a [u8], attribute: &Attribute, order: ByteOrder) -> Option<Sample<'a>> {
        let format = attribute.sample_format;
        let mut cursor = Cursor::new(body, order);
        let mut sample = Sample::default();
        /// Reads a field if samples have it.
        macro_rules! field {
            ($bit:ident, $value:expr) => {
                if format.has(SampleFormat::$bit) { Some($value) } else { None }
            };
        }
        let identifier = field!(IDENTIFIER, cursor.u64()?);
        sample.ip = field!(IP, cursor.u64()?);
        sample.thread = field!(TID, (cursor.u32()?, cursor.u32()?));
        sample.time = field!(TIME, cursor.u64()?);
        sample.address = field!(ADDR, cursor.u64()?);
        sample.id = field!(ID, cursor.u64()?).or(identifier);
        field!(STREAM_ID, cursor.u64()?);
        sample.processor = field!(CPU, (cursor.u32()?, cursor.u32()?)).map(|(processor, _)| processor);
        sample.period = field!(PERIOD, cursor.u64()?);
        field!(READ, skip_counters(&mut cursor, attribute.read_format)?);
        sample.call_chain = field!(CALLCHAIN, {
            let count = cursor.u64()?;
            cursor.words(count)?
        });
        sample.raw = field!(RAW, {
            let len = cursor.u32()?;
            cursor.take_u64(len.into())?
        });
        field!(BRANCH_STACK, skip_branches(&mut cursor, attribute.branch_format)?);
        sample.user_registers =
            field!(REGS_USER, registers(&mut cursor, attribute.user_registers)?).flatten();
        sample.user_stack = field!(STACK_USER, stack(&mut cursor)?);
        Some(sample)
    }
}

fn skip_counters(cursor: &mut Cursor<'_>, format: u64) -> Option<()> {
    let words = |bits: u64| u64::from((format & bits).count_ones());
    let (before, counters) = match format & READ_GROUP != 0 {
        true => (cursor.u64(), words(READ_TIMES)),
        false => (Some(1), words(READ_TIMES)),
    };
    let each = 1 + words(READ_ID | READ_LOST);
    let count = before?.checked_mul(each)?.checked_add(counters)?;
    cursor.words(count).map(|_| ())
}

fn skip_branches(cursor: &mut Cursor<'_>, format: u64) -> Option<()> {
    let count = cursor.u64()?;
    if format & BRANCH_INDEX != 0 {
        cursor.u64()?;
    }
    cursor.take_u64(count.checked_mul(BRANCH_BYTES)?).map(|_| ())
}

/// Reads user registers; a thread of the kernel has none.
fn registers<'a>(cursor: &mut Cursor<'a>, mask: u64) -> Option<Option<Registers<'a>>> {
    let abi = cursor.u64()?;
    if abi == 0 {
        return Some(None);
    }
    let values = cursor.words(mask.count_ones().into())?;
    Some(Some(Registers { is_32_bit: abi == 1, mask, values }))
}

/// Reads the copied part of the stack: its size, the bytes, and how many of them are valid.
fn stack<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let len = cursor.u64()?;
    let bytes = cursor.take_u64(len)?;
    if len == 0 {
        return Some(bytes);
    }
    let valid = usize::try_from(cursor.u64()?).ok()?;
    Some(bytes.get(..valid).unwrap_or(bytes))
}
