//! Records that are no samples.

use crate::attribute::{Attribute, SampleFormat};
use crate::cursor::{ByteOrder, Cursor, until_zero};
use crate::kind;
use crate::sample::Sample;

/// Bits of `misc`: a mapping is data, or a name is that of a new program; a thread is switched out; it could go on.
const MISC_DATA_OR_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPTED: u16 = 1 << 14;
/// Bit of `misc`: a mapping has a build id in place of a device and an inode.
const MISC_BUILD_ID: u16 = 1 << 14;
/// Maximum length of a build id in bytes.
const MAX_BUILD_ID_BYTES: usize = 20;
/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;
/// Fields that records other than samples end with.
const SAMPLE_ID_FIELDS: u64 = SampleFormat::TID
    | SampleFormat::TIME
    | SampleFormat::ID
    | SampleFormat::STREAM_ID
    | SampleFormat::CPU
    | SampleFormat::IDENTIFIER;

/// A record. Only those that say something of what ran are parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A mapping.
    Mapping(Mapping<'a>),
    /// A thread has a name.
    Comm(Comm<'a>),
    /// A thread was created.
    Fork(Task),
    /// A thread has ended.
    Exit(Task),
    /// A switch of threads.
    Switch(Switch),
    /// So many records or samples were lost.
    Lost(u64),
    /// An event is not sampled for a while, since it was too frequent.
    Throttle,
    /// A record of another kind.
    Other,
}

/// A mapping of a process or of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Process; `None` for the kernel.
    pub process_id: Option<u32>,
    /// Thread that made it.
    pub thread_id: u32,
    /// Lowest address.
    pub address: u64,
    /// Size in bytes.
    pub len_bytes: u64,
    /// Position in the file in bytes; the address for the kernel itself.
    pub file_offset: u64,
    /// Whether it can be executed.
    pub is_executable: bool,
    /// Device (major and minor number) and inode of the file, if the record has them.
    pub file: Option<(u32, u32, u64)>,
    /// Build id of the file; empty if the record does not have it.
    pub build_id: &'a [u8],
    /// Path of the file, or a name in brackets.
    pub path: &'a [u8],
}

/// The name of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process.
    pub process_id: u32,
    /// Thread.
    pub thread_id: u32,
    /// The name, of at most 15 bytes.
    pub name: &'a [u8],
    /// Whether the process runs a new program.
    pub is_exec: bool,
}

/// A thread that starts or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Process.
    pub process_id: u32,
    /// Process of the thread that created it.
    pub parent_id: u32,
    /// Thread.
    pub thread_id: u32,
}

/// A switch of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Whether the record's thread is switched out; else it is switched in.
    pub is_out: bool,
    /// Whether it could have gone on.
    pub is_preempted: bool,
    /// Process and thread on the other side, if all threads of the processor were recorded.
    pub other: Option<(u32, u32)>,
}

/// Process, thread, time, id and processor of a record that is no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleId {
    /// Process and thread.
    pub thread: Option<(u32, u32)>,
    /// Time in nanoseconds on the event's clock.
    pub time: Option<u64>,
    /// Id of its event.
    pub id: Option<u64>,
    /// Processor.
    pub processor: Option<u32>,
}

impl SampleId {
    /// Reads the end of a record that is no sample.
    pub(crate) fn read(body: &[u8], attribute: &Attribute, order: ByteOrder) -> SampleId {
        let format = attribute.sample_format;
        let len = usize::try_from(8 * format.count(SAMPLE_ID_FIELDS)).unwrap_or(usize::MAX);
        let start = body.len().checked_sub(len).filter(|_| attribute.flags.has_sample_ids());
        let bytes = start.and_then(|start| body.get(start..)).unwrap_or_default();
        let mut cursor = Cursor::new(bytes, order);
        let mut word = |field: u64| if format.has(field) { cursor.take(8) } else { None };
        let halves = |word: Option<&[u8]>| {
            let (low, high) = word?.split_at_checked(4)?;
            Some((u32::try_from(order.number(low)).ok()?, u32::try_from(order.number(high)).ok()?))
        };
        let whole = |word: Option<&[u8]>| word.map(|word| order.number(word));
        let thread = halves(word(SampleFormat::TID));
        let time = whole(word(SampleFormat::TIME));
        let id = whole(word(SampleFormat::ID));
        word(SampleFormat::STREAM_ID);
        let processor = halves(word(SampleFormat::CPU)).map(|(processor, _)| processor);
        let id = whole(word(SampleFormat::IDENTIFIER)).or(id);
        SampleId { thread, time, id, processor }
    }
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if it is shorter than its fields.
    pub(crate) fn read(
        kind: u32,
        misc: u16,
        body: &'a [u8],
        attribute: &Attribute,
        order: ByteOrder,
    ) -> Option<Record<'a>> {
        let mut cursor = Cursor::new(body, order);
        Some(match kind {
            kind::SAMPLE => Record::Sample(Sample::read(body, attribute, order)?),
            kind::MMAP => Record::Mapping(Mapping::read(&mut cursor, misc)?),
            kind::MMAP2 => Record::Mapping(Mapping::read_second(&mut cursor, misc)?),
            kind::COMM => Record::Comm(Comm {
                process_id: cursor.u32()?,
                thread_id: cursor.u32()?,
                name: until_zero(cursor.rest()),
                is_exec: misc & MISC_DATA_OR_EXEC != 0,
            }),
            kind::FORK => Record::Fork(Task::read(&mut cursor)?),
            kind::EXIT => Record::Exit(Task::read(&mut cursor)?),
            kind::LOST => {
                cursor.u64()?;
                Record::Lost(cursor.u64()?)
            }
            kind::LOST_SAMPLES => Record::Lost(cursor.u64()?),
            kind::THROTTLE => Record::Throttle,
            kind::SWITCH => Record::Switch(Switch::new(misc, None)),
            kind::SWITCH_CPU_WIDE => Record::Switch(Switch::new(misc, Some((cursor.u32()?, cursor.u32()?)))),
            _ => Record::Other,
        })
    }
}

impl<'a> Mapping<'a> {
    fn read(cursor: &mut Cursor<'a>, misc: u16) -> Option<Mapping<'a>> {
        let (process_id, thread_id) = (cursor.u32()?, cursor.u32()?);
        Some(Mapping {
            process_id: Some(process_id).filter(|id| *id != u32::MAX),
            thread_id,
            address: cursor.u64()?,
            len_bytes: cursor.u64()?,
            file_offset: cursor.u64()?,
            is_executable: misc & MISC_DATA_OR_EXEC == 0,
            file: None,
            build_id: &[],
            path: until_zero(cursor.rest()),
        })
    }

    /// Reads the newer form, with protection, device and inode, or a build id.
    fn read_second(cursor: &mut Cursor<'a>, misc: u16) -> Option<Mapping<'a>> {
        let mut mapping = Mapping::read(&mut cursor.clone(), misc)?;
        cursor.take(32)?;
        let identity = cursor.take(24)?;
        if misc & MISC_BUILD_ID != 0 {
            let (len, rest) = identity.split_first()?;
            mapping.build_id = rest.get(3..)?.get(..usize::from(*len).min(MAX_BUILD_ID_BYTES))?;
        } else {
            let mut identity = cursor.within(identity);
            mapping.file = Some((identity.u32()?, identity.u32()?, identity.u64()?));
        }
        mapping.is_executable = cursor.u32()? & EXECUTABLE != 0;
        cursor.u32()?;
        mapping.path = until_zero(cursor.rest());
        Some(mapping)
    }
}

impl Task {
    fn read(cursor: &mut Cursor<'_>) -> Option<Task> {
        let (process_id, parent_id) = (cursor.u32()?, cursor.u32()?);
        Some(Task { process_id, parent_id, thread_id: cursor.u32()? })
    }
}

impl Switch {
    fn new(misc: u16, other: Option<(u32, u32)>) -> Switch {
        let is_out = misc & MISC_DATA_OR_EXEC != 0;
        Switch { is_out, is_preempted: is_out && misc & MISC_SWITCH_OUT_PREEMPTED != 0, other }
    }
}
