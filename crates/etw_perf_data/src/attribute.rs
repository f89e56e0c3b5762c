//! What was recorded (`perf_event_attr`).

use crate::cursor::{ByteOrder, Cursor};

/// Smallest size of an attribute in bytes (`PERF_ATTR_SIZE_VER0`).
const MIN_LEN_BYTES: u32 = 64;

/// The type of an event (`perf_type_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventType(pub u32);

impl EventType {
    /// Counters of the processor by general names.
    pub const HARDWARE: EventType = EventType(0);
    /// Events of the kernel.
    pub const SOFTWARE: EventType = EventType(1);
    /// Tracepoints; `config` is the number.
    pub const TRACEPOINT: EventType = EventType(2);
}

/// Flags of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttributeFlags(pub u64);

impl AttributeFlags {
    const FREQUENCY: u64 = 1 << 10;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const USE_CLOCK_ID: u64 = 1 << 25;

    /// Returns whether the period is a frequency.
    pub fn is_frequency(self) -> bool {
        self.0 & Self::FREQUENCY != 0
    }

    /// Returns whether records that are no samples have time and processor too.
    pub fn has_sample_ids(self) -> bool {
        self.0 & Self::SAMPLE_ID_ALL != 0
    }

    fn has_clock(self) -> bool {
        self.0 & Self::USE_CLOCK_ID != 0
    }
}

/// Fields of a sample (`PERF_SAMPLE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleFormat(pub u64);

impl SampleFormat {
    pub(crate) const IP: u64 = 1 << 0;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;

    pub(crate) fn has(self, field: u64) -> bool {
        self.0 & field != 0
    }

    /// Returns the number of these fields that samples have.
    pub(crate) fn count(self, fields: u64) -> u32 {
        (self.0 & fields).count_ones()
    }

    /// Returns whether samples have user registers and a part of the stack (`--call-graph dwarf`).
    pub fn has_user_stack(self) -> bool {
        self.has(Self::REGS_USER) && self.has(Self::STACK_USER)
    }
}

/// An event that was recorded (`perf_event_attr`), with its name and ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The type.
    pub event_type: EventType,
    /// Which event of the type.
    pub config: u64,
    /// Number of events between two samples; with [`AttributeFlags::is_frequency`], samples per second.
    pub period: u64,
    /// The fields of samples.
    pub sample_format: SampleFormat,
    /// The layout of counters in samples (`PERF_FORMAT_*`).
    pub read_format: u64,
    /// Flags.
    pub flags: AttributeFlags,
    /// What branches in samples have (`PERF_SAMPLE_BRANCH_*`).
    pub branch_format: u64,
    /// Set of user registers in samples, by the numbers of `perf_regs.h`.
    pub user_registers: u64,
    /// The clock (`CLOCK_*`); `None` for the scheduler's, which counts from boot.
    pub clock_id: Option<i32>,
    /// Name as given to perf: `cycles:u`, `sched:sched_switch`. Empty if the file does not have it.
    pub name: String,
    /// The ids by which records refer to it.
    pub ids: Vec<u64>,
}

impl Attribute {
    /// Reads an attribute, without name and ids, and returns its size in bytes.
    pub(crate) fn read(bytes: &[u8], order: ByteOrder) -> Option<(Attribute, u32)> {
        let mut cursor = Cursor::new(bytes, order);
        let event_type = EventType(cursor.u32()?);
        let len_bytes = cursor.u32()?;
        if len_bytes < MIN_LEN_BYTES {
            return None;
        }
        let (config, period) = (cursor.u64()?, cursor.u64()?);
        let (sample_format, read_format) = (SampleFormat(cursor.u64()?), cursor.u64()?);
        let flags = AttributeFlags(cursor.u64()?);
        // Wake-up, breakpoint and two further configurations.
        cursor.take(16)?;
        // Fields of later kernels; attributes of older ones end before them.
        let mut later = Cursor::new(bytes.get(64..bytes.len().min(usize::try_from(len_bytes).ok()?))?, order);
        later.take(8);
        let branch_format = later.u64().unwrap_or(0);
        let user_registers = later.u64().unwrap_or(0);
        later.u32();
        let clock_id = later.u32().filter(|_| flags.has_clock()).map(u32::cast_signed);
        let (name, ids) = (String::new(), Vec::new());
        let attribute = Attribute {
            event_type,
            config,
            period,
            sample_format,
            read_format,
            flags,
            branch_format,
            user_registers,
            clock_id,
            name,
            ids,
        };
        Some((attribute, len_bytes))
    }
}
