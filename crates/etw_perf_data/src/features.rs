//! What the header says of the recording and its machine.

use crate::attribute::Attribute;
use crate::cursor::{ByteOrder, Cursor, until_zero};

/// Numbers of features (`HEADER_*` of `tools/perf/util/header.h`).
mod number {
    pub(super) const TRACING_DATA: u32 = 1;
    pub(super) const BUILD_ID: u32 = 2;
    pub(super) const HOST_NAME: u32 = 3;
    pub(super) const OS_RELEASE: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCHITECTURE: u32 = 6;
    pub(super) const PROCESSORS: u32 = 7;
    pub(super) const PROCESSOR_NAME: u32 = 8;
    pub(super) const PROCESSOR_ID: u32 = 9;
    pub(super) const TOTAL_MEMORY: u32 = 10;
    pub(super) const COMMAND_LINE: u32 = 11;
    pub(super) const EVENT_DESCRIPTIONS: u32 = 12;
    pub(super) const CLOCK_DATA: u32 = 29;
}

/// Maximum number of words of a command line, and of attributes and their ids, that are read.
const MAX_COUNT: u32 = 1 << 16;
/// Bit of `misc` of a build id: its length follows it.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;
/// Mode of execution in `misc`: the kernel.
const MISC_MODE: u16 = 7;
const MISC_KERNEL: u16 = 1;

/// The features of a file.
#[derive(Debug, Clone, Default)]
pub struct Features<'a> {
    /// Name of the machine.
    pub host_name: &'a [u8],
    /// Release of the kernel.
    pub os_release: &'a [u8],
    /// Version of perf.
    pub version: &'a [u8],
    /// Architecture as `uname -m` names it.
    pub architecture: &'a [u8],
    /// Number of processors that exist, and of those that were online.
    pub processors: Option<(u32, u32)>,
    /// Name of the processor.
    pub processor_name: &'a [u8],
    /// Vendor, family, model and stepping of the processor, separated by commas.
    pub processor_id: &'a [u8],
    /// Memory in KiB.
    pub memory_kib: Option<u64>,
    /// The words of perf's command line.
    pub command_line: Vec<&'a [u8]>,
    /// Relation of the events' clock to the time of day.
    pub clock_data: Option<ClockData>,
    /// Build ids of the files that samples are in.
    pub build_ids: Vec<BuildIdEntry<'a>>,
    /// The formats of tracepoints, which [`Tracepoints`](crate::Tracepoints) reads.
    pub tracing_data: &'a [u8],
    /// The attributes with their names and ids.
    pub(crate) attributes: Vec<Attribute>,
}

/// A moment on the events' clock and on the clock of the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockData {
    /// The events' clock (`CLOCK_*`).
    pub clock_id: i32,
    /// Time of day in nanoseconds since 1970.
    pub time_of_day_nanos: u64,
    /// The same moment on the events' clock in nanoseconds.
    pub clock_nanos: u64,
}

/// The build id of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildIdEntry<'a> {
    /// Whether the file is the kernel or a module.
    pub is_kernel: bool,
    /// The build id.
    pub build_id: &'a [u8],
    /// Path of the file; `[kernel.kallsyms]` for the kernel.
    pub path: &'a [u8],
}

impl<'a> Features<'a> {
    /// Adds a feature. What is cut short or unknown is left out.
    pub(crate) fn add(&mut self, feature: u32, bytes: &'a [u8], order: ByteOrder) {
        let mut cursor = Cursor::new(bytes, order);
        let mut text = || cursor.counted_text().unwrap_or_default();
        match feature {
            number::TRACING_DATA => self.tracing_data = bytes,
            number::BUILD_ID => self.build_ids = build_ids(bytes, order),
            number::HOST_NAME => self.host_name = text(),
            number::OS_RELEASE => self.os_release = text(),
            number::VERSION => self.version = text(),
            number::ARCHITECTURE => self.architecture = text(),
            number::PROCESSORS => self.processors = cursor.u32().zip(cursor.u32()),
            number::PROCESSOR_NAME => self.processor_name = text(),
            number::PROCESSOR_ID => self.processor_id = text(),
            number::TOTAL_MEMORY => self.memory_kib = cursor.u64(),
            number::COMMAND_LINE => self.command_line = words(&mut cursor),
            number::EVENT_DESCRIPTIONS => {
                self.attributes = attributes(&mut cursor, order).unwrap_or_default()
            }
            number::CLOCK_DATA => self.clock_data = ClockData::read(&mut cursor),
            _ => {}
        }
    }
}

fn words<'a>(cursor: &mut Cursor<'a>) -> Vec<&'a [u8]> {
    let count = cursor.u32().unwrap_or(0).min(MAX_COUNT);
    (0..count).map_while(|_| cursor.counted_text()).collect()
}

fn attributes(cursor: &mut Cursor<'_>, order: ByteOrder) -> Option<Vec<Attribute>> {
    let (count, len_bytes) = (cursor.u32()?, cursor.u32()?);
    let mut attributes = Vec::new();
    for _ in 0..count.min(MAX_COUNT) {
        let (mut attribute, _) = Attribute::read(cursor.take_u64(len_bytes.into())?, order)?;
        let ids = cursor.u32()?;
        attribute.name = String::from_utf8_lossy(cursor.counted_text()?).into_owned();
        attribute.ids = cursor.words(ids.into())?.iter().collect();
        attributes.push(attribute);
    }
    Some(attributes)
}

impl ClockData {
    fn read(cursor: &mut Cursor<'_>) -> Option<ClockData> {
        cursor.u32()?;
        Some(ClockData {
            clock_id: cursor.u32()?.cast_signed(),
            time_of_day_nanos: cursor.u64()?,
            clock_nanos: cursor.u64()?,
        })
    }
}

/// Reads the table of build ids: records, whose kind means nothing.
fn build_ids(bytes: &[u8], order: ByteOrder) -> Vec<BuildIdEntry<'_>> {
    let mut cursor = Cursor::new(bytes, order);
    let entries = std::iter::from_fn(|| {
        let (_, misc, len) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
        let body = cursor.take(usize::from(len).checked_sub(8)?)?;
        BuildIdEntry::read(misc, body)
    });
    entries.collect()
}

impl<'a> BuildIdEntry<'a> {
    /// Reads the body of a record with a build id.
    pub(crate) fn read(misc: u16, body: &'a [u8]) -> Option<BuildIdEntry<'a>> {
        // Process; the build id in 20 bytes, its length and padding; the path.
        let id = body.get(4..24)?;
        let len = match misc & MISC_BUILD_ID_SIZE != 0 {
            true => usize::from(*body.get(24)?),
            false => id.len(),
        };
        Some(BuildIdEntry {
            is_kernel: misc & MISC_MODE == MISC_KERNEL,
            build_id: id.get(..len).unwrap_or(id),
            path: until_zero(body.get(28..)?),
        })
    }
}
