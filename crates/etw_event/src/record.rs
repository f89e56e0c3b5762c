//! One record of a trace buffer, whatever its header kind.

use bitflags::bitflags;

use crate::header::classes;
use crate::{
    BufferPlace, Clock, EventDescriptor, ExtendedItem, ExtendedItems, ExtendedType, Fields, FileTime, Guid,
    HeaderKind, HookId, Keyword, Level, Opcode, Outline, PointerSize, Position, RecordPlace, Sid, StackTrace,
    Ticks,
};

/// Properties that all records of a buffer share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// The session's clock.
    pub clock: Clock,
    /// Processor of the buffer.
    pub processor: u16,
    /// Session id of the buffer; 0 in merged and relogged files.
    pub logger_id: u16,
    /// Index of the file or session among those read together.
    pub source: u32,
    /// Whether the session was private to a process (`EVENT_TRACE_PRIVATE_LOGGER_MODE`): its events have a processor time
    /// in place of CPU times.
    pub is_private: bool,
    /// The buffer in its file; `None` for live sessions, and where the file's records were made from another format.
    pub buffer: Option<BufferPlace>,
}

/// Why bytes are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes end before the header does.
    #[error("the record's header of {needed} bytes does not fit in {available} bytes")]
    HeaderCut {
        /// Size of the header in bytes.
        needed: usize,
        /// Bytes that are available.
        available: usize,
    },
    /// The header's size field is invalid: below the header's own size, or past the end of the buffer.
    #[error(
        "the record's size of {size} bytes does not fit: its header takes {header}, the buffer has {available}"
    )]
    Size {
        /// The size field.
        size: usize,
        /// Size of the header in bytes.
        header: usize,
        /// Bytes from the record's start to the end of the buffer's data.
        available: usize,
    },
    /// The first four bytes do not mark a known kind of header.
    #[error("unknown record header {0:#010x}")]
    UnknownHeader(u32),
}

/// Bits of a WPP message's `OptionFlags` (`TRACE_MESSAGE_*`, `evntrace.h`), including unknown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MessageFlags(pub u16);

bitflags! {
    impl MessageFlags: u16 {
        /// A `u32` sequence number follows.
        const SEQUENCE = 0x01;
        /// The message GUID follows.
        const GUID = 0x02;
        /// A `u32` component id follows, unless a GUID does.
        const COMPONENT_ID = 0x04;
        /// A time follows.
        const TIMESTAMP = 0x08;
        /// The time comes from the performance counter.
        const PERFORMANCE_TIMESTAMP = 0x10;
        /// Thread and process ids follow.
        const SYSTEM_INFO = 0x20;
        /// Pointers of the arguments have four bytes.
        const POINTER32 = 0x40;
        /// Pointers of the arguments have eight bytes.
        const POINTER64 = 0x80;
        const _ = !0;
    }
}

impl MessageFlags {
    /// Returns the size in bytes of the optional fields that these flags announce.
    #[inline]
    pub const fn optional_len_bytes(self) -> usize {
        let mut len = 0;
        if self.contains(Self::SEQUENCE) {
            len += 4;
        }
        if self.contains(Self::GUID) {
            len += 16;
        } else if self.contains(Self::COMPONENT_ID) {
            len += 4;
        }
        if self.contains(Self::TIMESTAMP) {
            len += 8;
        }
        if self.contains(Self::SYSTEM_INFO) {
            len += 8;
        }
        len
    }

    /// Returns these flags without `flag` and those above it, whose fields come later.
    #[inline]
    #[must_use]
    pub const fn before(self, flag: MessageFlags) -> MessageFlags {
        MessageFlags(self.0 & flag.0.wrapping_sub(1))
    }

    /// Returns the offset in the record of the field that `flag` announces.
    pub(crate) const fn offset_of(self, flag: MessageFlags) -> Option<usize> {
        if !self.contains(flag) || (flag.0 == Self::COMPONENT_ID.0 && self.contains(Self::GUID)) {
            return None;
        }
        Some(8 + self.before(flag).optional_len_bytes())
    }
}

/// The instance that a classic event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance {
    /// Id of the instance.
    pub id: u32,
    /// Id of the parent instance.
    pub parent_id: u32,
    /// Class GUID of the parent.
    pub parent_guid: Guid,
}

/// One event in a trace buffer: a cheaply copied view that decodes header fields on demand.
///
/// No accessor fails: fields that the header kind lacks are `None`, zero or empty, as documented for each.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    bytes: &'a [u8],
    origin: &'a Origin,
    outline: Outline,
    position: Position,
}

impl<'a> Record<'a> {
    /// Parses the record at the start of `bytes`, which extend to the end of the buffer's data.
    ///
    /// `previous` is the time of the preceding record, which a WPP message without a time of its own inherits.
    ///
    /// # Errors
    ///
    /// Fails if the header or the record does not fit into `bytes`, or the kind of header is unknown.
    #[inline]
    pub fn parse(bytes: &'a [u8], origin: &'a Origin, previous: Ticks) -> Result<Record<'a>, RecordError> {
        let outline = Outline::parse(bytes, previous)?;
        let available = bytes.len();
        outline
            .record(bytes, origin)
            .ok_or(RecordError::HeaderCut { needed: outline.stride_bytes(), available })
    }

    /// Creates a record from its bytes and its outline.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], origin: &'a Origin, outline: Outline) -> Record<'a> {
        Record { bytes, origin, outline, position: Position::UNKNOWN }
    }

    /// Returns the record with its position in its buffer.
    #[inline(always)]
    #[must_use]
    pub fn at(self, position: Position) -> Record<'a> {
        Record { position, ..self }
    }

    /// Returns the position in the buffer.
    #[inline]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns where the file has the record; `None` if it is not from a file, or its position is not known.
    #[inline]
    pub fn place(&self) -> Option<RecordPlace> {
        RecordPlace::from_position(self.origin.buffer?, self.position)
    }

    /// Returns the outline, the result of parsing.
    #[inline]
    pub fn outline(&self) -> Outline {
        self.outline
    }

    /// Returns the whole record: header, extended items, payload; without the padding to the next one.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes from this record's start to the next one's: the size rounded up to 8.
    #[inline]
    pub fn stride_bytes(&self) -> usize {
        self.outline.stride_bytes()
    }

    /// Returns the kind of the header.
    #[inline]
    pub fn kind(&self) -> HeaderKind {
        self.outline.kind()
    }

    /// Returns whether the parts between header and payload (extended items, counters) are well-formed. If not, the
    /// payload may contain remains of them.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.outline.is_intact()
    }

    /// Returns the properties that all records of the buffer share.
    #[inline]
    pub fn origin(&self) -> &'a Origin {
        self.origin
    }

    /// Returns the processor on which the event was logged.
    #[inline]
    pub fn processor(&self) -> u16 {
        self.origin.processor
    }

    /// Returns the time on the session's raw clock.
    #[inline]
    pub fn raw_time(&self) -> Ticks {
        self.outline.raw_time()
    }

    /// Returns the offset of the time in the record; `None` for a WPP message without a time of its own.
    pub fn time_offset(&self) -> Option<usize> {
        self.kind().time_offset().or_else(|| self.message_flags().offset_of(MessageFlags::TIMESTAMP))
    }

    /// Returns the time in UTC.
    #[inline]
    pub fn time(&self) -> FileTime {
        self.origin.clock.to_filetime(self.outline.raw_time())
    }

    /// Returns the pointer size of the payload.
    #[inline]
    pub fn pointer_size(&self) -> PointerSize {
        match self.kind() {
            HeaderKind::Message if self.message_flags().contains(MessageFlags::POINTER32) => {
                PointerSize::Four
            }
            kind => kind.pointer_size(),
        }
    }

    /// Returns the hook id of a kernel event.
    #[inline]
    pub fn hook_id(&self) -> Option<HookId> {
        if self.kind().has_hook_id() { self.bytes.u16_at(6).map(HookId) } else { None }
    }

    /// Returns the GUID that identifies the event: provider (`EVENT_HEADER`), class (classic events) or message (WPP);
    /// zero if the record has none.
    #[inline]
    pub fn provider_id(&self) -> Guid {
        match self.kind() {
            HeaderKind::Timed => Guid::ZERO,
            HeaderKind::Message => {
                let offset = self.message_flags().offset_of(MessageFlags::GUID);
                offset.and_then(|offset| self.bytes.guid_at(offset)).unwrap_or_default()
            }
            kind if kind.has_hook_id() => self.hook_id().map_or(Guid::ZERO, HookId::class_guid),
            _ => self.bytes.guid_at(0x18).unwrap_or_default(),
        }
    }

    /// Returns the descriptor; for classic events and messages it is synthesised as ETW's consumer does.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "a record has at least the bytes of its header, which are 8 or more"
    )]
    pub fn descriptor(&self) -> EventDescriptor {
        let bytes = self.bytes;
        match self.kind() {
            kind if kind.is_event_header() => {
                let first = bytes.u64_at(0x28).unwrap_or(0);
                EventDescriptor {
                    id: (first & 0xFFFF) as u16,
                    version: (first >> 16 & 0xFF) as u8,
                    channel: (first >> 24 & 0xFF) as u8,
                    level: Level((first >> 32 & 0xFF) as u8),
                    opcode: Opcode((first >> 40 & 0xFF) as u8),
                    task: (first >> 48) as u16,
                    keyword: Keyword(bytes.u64_at(0x30).unwrap_or(0)),
                }
            }
            HeaderKind::Message => EventDescriptor {
                id: bytes.u16_at(4).unwrap_or(0),
                opcode: Opcode(0xFF),
                ..EventDescriptor::default()
            },
            HeaderKind::Timed => {
                EventDescriptor { id: bytes.u16_at(4).unwrap_or(0), ..EventDescriptor::default() }
            }
            HeaderKind::Wnode => EventDescriptor::default(),
            kind if kind.has_hook_id() => {
                EventDescriptor { version: bytes[0], opcode: Opcode(bytes[6]), ..EventDescriptor::default() }
            }
            _ => EventDescriptor {
                version: bytes[6],
                level: Level(bytes[5]),
                opcode: Opcode(bytes[4]),
                ..EventDescriptor::default()
            },
        }
    }

    /// Returns the thread that logged the event; `None` if the record does not contain it.
    #[inline]
    pub fn thread_id(&self) -> Option<u32> {
        self.id_at(0)
    }

    /// Returns the process that logged the event; `None` if the record does not contain it.
    #[inline]
    pub fn process_id(&self) -> Option<u32> {
        self.id_at(4)
    }

    /// Returns the offset of the thread id in the record, which the process id follows; `None` if the header has none.
    #[inline]
    pub fn ids_offset(&self) -> Option<usize> {
        match self.kind() {
            HeaderKind::PerfInfo32 | HeaderKind::PerfInfo64 | HeaderKind::Timed | HeaderKind::Wnode => None,
            HeaderKind::Message => self.message_flags().offset_of(MessageFlags::SYSTEM_INFO),
            _ => Some(8),
        }
    }

    #[inline]
    fn id_at(&self, offset: usize) -> Option<u32> {
        self.bytes.u32_at(self.ids_offset()? + offset).filter(|id| *id != u32::MAX)
    }

    /// Returns kernel and user CPU time of the thread, in ticks of the header's `TimerResolution`; `None` if the header
    /// has none, or says so by [`Record::NO_CPU_TIME`], or has [`Record::processor_time`] in their place.
    #[inline]
    pub fn cpu_times(&self) -> Option<(u32, u32)> {
        let is_without = self.flags() & Record::NO_CPU_TIME != 0 || self.origin.is_private;
        let base = self.times_offset().filter(|_| !is_without)?;
        Some((self.bytes.u32_at(base)?, self.bytes.u32_at(base + 4)?))
    }

    /// Returns the CPU time of the thread in the processor's ticks (`ProcessorTime`); `None` if the session was not
    /// private to a process.
    #[inline]
    pub fn processor_time(&self) -> Option<u64> {
        self.bytes.u64_at(self.times_offset().filter(|_| self.origin.is_private)?)
    }

    /// Returns the offset of two CPU times, or of one processor time.
    #[inline]
    fn times_offset(&self) -> Option<usize> {
        match self.kind() {
            HeaderKind::System32 | HeaderKind::System64 => Some(0x18),
            HeaderKind::Full32 | HeaderKind::Full64 | HeaderKind::Instance32 | HeaderKind::Instance64 => {
                Some(0x28)
            }
            kind if kind.is_event_header() => Some(0x38),
            _ => None,
        }
    }

    /// The bit of [`Record::flags`] for events without the thread's CPU times (`EVENT_HEADER_FLAG_NO_CPUTIME`,
    /// `evntcons.h`).
    pub const NO_CPU_TIME: u16 = 0x0010;

    /// Returns `EVENT_HEADER.Flags` as stored; 0 for other kinds.
    #[inline]
    pub fn flags(&self) -> u16 {
        if self.kind().is_event_header() { self.bytes.u16_at(4).unwrap_or(0) } else { 0 }
    }

    /// Returns whether the payload is one null-terminated UTF-16 string (`EventWriteString`).
    #[inline]
    pub fn is_string_only(&self) -> bool {
        self.flags() & 0x0004 != 0
    }

    /// Returns `EVENT_HEADER.EventProperty` as stored: 1 XML, 2 forwarded XML, 4 legacy event log, 8 reloggable.
    #[inline]
    pub fn event_property(&self) -> u16 {
        if self.kind().is_event_header() { self.bytes.u16_at(6).unwrap_or(0) } else { 0 }
    }

    /// Returns the event's activity; `None` if the header has none or zero.
    #[inline]
    pub fn activity_id(&self) -> Option<Guid> {
        if !self.kind().is_event_header() {
            return None;
        }
        self.bytes.guid_at(0x40).filter(|guid| !guid.is_zero())
    }

    /// Returns the activity that caused this one.
    pub fn related_activity_id(&self) -> Option<Guid> {
        self.extended(ExtendedType::RELATED_ACTIVITY_ID)?.data.guid_at(0)
    }

    /// Returns the user that logged the event.
    pub fn sid(&self) -> Option<Sid<'a>> {
        Sid::parse(self.extended(ExtendedType::SID)?.data)
    }

    /// Returns the stack attached to the event.
    pub fn stack_trace(&self) -> Option<StackTrace<'a>> {
        self.extended_items().find_map(|item| item.stack_trace())
    }

    /// Returns all extended data items, in order.
    #[inline]
    pub fn extended_items(&self) -> ExtendedItems<'a> {
        if self.flags() & 1 == 0 {
            return ExtendedItems::none();
        }
        self.bytes.get(0x50..).map_or(ExtendedItems::none(), ExtendedItems::new)
    }

    /// Returns the first extended data item of a type.
    #[inline]
    pub fn extended(&self, ext_type: ExtendedType) -> Option<ExtendedItem<'a>> {
        self.extended_items().find(|item| item.ext_type == ext_type)
    }

    /// Returns the instance that a classic event belongs to.
    pub fn instance(&self) -> Option<Instance> {
        if !matches!(self.kind(), HeaderKind::Instance32 | HeaderKind::Instance64) {
            return None;
        }
        Some(Instance {
            id: self.bytes.u32_at(0x30)?,
            parent_id: self.bytes.u32_at(0x34)?,
            parent_guid: self.bytes.guid_at(0x38)?,
        })
    }

    /// Returns the performance counters before a kernel event's payload, preceded by the PEBS index if there is one.
    pub fn counters(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let start =
            if self.kind().has_hook_id() { self.kind().len_bytes() } else { self.outline.payload_offset() };
        let bytes = self.bytes.get(start..self.outline.payload_offset()).unwrap_or_default();
        bytes.chunks_exact(8).map(|chunk| chunk.u64_at(0).unwrap_or(0))
    }

    /// Returns `OptionFlags` of a WPP message; zero for other kinds.
    #[inline]
    pub fn message_flags(&self) -> MessageFlags {
        match self.kind() {
            HeaderKind::Message => MessageFlags(self.bytes.u16_at(6).unwrap_or(0)),
            _ => MessageFlags::empty(),
        }
    }

    /// Returns the sequence number of a WPP message.
    pub fn message_sequence(&self) -> Option<u32> {
        self.bytes.u32_at(self.message_flags().offset_of(MessageFlags::SEQUENCE)?)
    }

    /// Returns the component id of a WPP message that has one in place of its GUID.
    pub fn message_component_id(&self) -> Option<u32> {
        self.bytes.u32_at(self.message_flags().offset_of(MessageFlags::COMPONENT_ID)?)
    }

    /// Returns the provider's data.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.outline.payload_offset()..).unwrap_or_default()
    }

    /// Returns whether this is the record of a log file header.
    #[inline]
    pub fn is_log_file_header(&self) -> bool {
        self.hook_id() == Some(HookId::LOG_FILE_HEADER)
    }

    /// Returns whether the header contains a class GUID in full, as in classic user-mode events (`EVENT_TRACE_HEADER`).
    #[inline]
    pub fn has_class_guid_in_header(&self) -> bool {
        matches!(
            self.kind(),
            HeaderKind::Full32 | HeaderKind::Full64 | HeaderKind::Instance32 | HeaderKind::Instance64
        )
    }

    /// Returns whether the event belongs to one of the kernel's classic classes.
    pub fn is_kernel_classic(&self) -> bool {
        self.kind().has_hook_id()
            || (self.kind().is_classic() && classes::BY_GROUP.contains(&self.provider_id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bytes: &[u8]) -> Result<Record<'_>, RecordError> {
        static ORIGIN: Origin = Origin {
            clock: Clock::system_time(),
            processor: 3,
            logger_id: 1,
            source: 0,
            is_private: false,
            buffer: None,
        };
        Record::parse(bytes, &ORIGIN, Ticks(7))
    }

    fn header(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn an_event_header_with_items() {
        let provider = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
        let mut bytes = header(&[
            &[0, 0, 0x13, 0xC0, 1, 0, 0, 0],
            &8u32.to_le_bytes(),
            &4u32.to_le_bytes(),
            &99i64.to_le_bytes(),
            &provider.to_bytes(),
            &[1, 0, 3, 16, 4, 1, 2, 0],
            &0x10u64.to_le_bytes(),
            &[5, 0, 0, 0, 6, 0, 0, 0],
            &[0; 16],
            &[0x18, 0, 1, 0, 1, 0, 16, 0],
            &[9; 16],
            &[0x20, 0, 2, 0, 0, 0, 20, 0],
            &[1, 3, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0xEE, 0xEE, 0xEE, 0xEE],
            b"payload",
        ]);
        let size = (bytes.len() as u16).to_le_bytes();
        bytes[..2].copy_from_slice(&size);
        bytes.extend([0xFF; 9]);
        let record = record(&bytes).unwrap();
        assert!(record.is_intact());
        assert_eq!(record.payload(), b"payload");
        assert_eq!(record.provider_id(), provider);
        assert_eq!((record.process_id(), record.thread_id()), (Some(4), Some(8)));
        assert_eq!(record.time(), FileTime(99));
        assert_eq!(record.cpu_times(), Some((5, 6)));
        let mut without_times = bytes.clone();
        without_times[4] |= Record::NO_CPU_TIME as u8;
        assert_eq!(self::record(&without_times).unwrap().cpu_times(), None);
        static PRIVATE: Origin = Origin {
            clock: Clock::system_time(),
            processor: 3,
            logger_id: 1,
            source: 0,
            is_private: true,
            buffer: None,
        };
        let private = Record::parse(record.as_bytes(), &PRIVATE, Ticks(0)).unwrap();
        assert_eq!((private.cpu_times(), private.processor_time()), (None, Some(6 << 32 | 5)));
        assert_eq!(record.related_activity_id(), Some(Guid::from_bytes([9; 16])));
        assert_eq!(record.sid().unwrap().to_string(), "S-1-5-1-2-3");
        assert_eq!(record.activity_id(), None);
        let descriptor = record.descriptor();
        assert_eq!((descriptor.id, descriptor.version, descriptor.channel), (1, 3, 16));
        assert_eq!((descriptor.level, descriptor.opcode, descriptor.task), (Level(4), Opcode(1), 2));
        assert_eq!(record.stride_bytes() % 8, 0);
    }

    #[test]
    fn kernel_headers() {
        let bytes =
            header(&[&[2, 0x82, 0x11, 0xC0, 0x2C, 0, 0x2E, 0x0F], &50i64.to_le_bytes(), &[1; 24], &[7; 4]]);
        let record = record(&bytes).unwrap();
        assert_eq!(record.provider_id(), classes::PERF_INFO);
        assert_eq!(record.descriptor().opcode, Opcode(0x2E));
        assert_eq!(record.descriptor().version, 2);
        assert_eq!(record.counters().collect::<Vec<_>>(), [0x0101_0101_0101_0101; 3]);
        assert_eq!(record.payload(), [7; 4]);
        assert_eq!((record.process_id(), record.raw_time()), (None, Ticks(50)));
        assert_eq!(HookId(0x030A).class_guid(), classes::IMAGE);
        assert_eq!(HookId(0x1803).class_guid(), classes::STACK_WALK);
        assert_eq!(HookId(0x7703).class_guid(), Guid::ZERO);
    }

    #[test]
    fn message_fields_are_read_in_order() {
        let bytes = header(&[
            &[56, 0, 0, 0x90, 10, 0, 0xAB, 0],
            &1u32.to_le_bytes(),
            &[3; 16],
            &77i64.to_le_bytes(),
            &[8, 0, 0, 0, 4, 0, 0, 0],
            b"arguments!!!",
        ]);
        let message = record(&bytes).unwrap();
        assert_eq!(message.message_sequence(), Some(1));
        assert_eq!(message.provider_id(), Guid::from_bytes([3; 16]));
        assert_eq!(message.raw_time(), Ticks(77));
        assert_eq!((message.thread_id(), message.process_id()), (Some(8), Some(4)));
        assert_eq!(message.payload(), b"arguments!!!");
        assert_eq!(message.descriptor().id, 10);
        let bare = record(&[8, 0, 0, 0x90, 10, 0, 0, 0]).unwrap();
        assert_eq!((bare.raw_time(), bare.payload().len()), (Ticks(7), 0));
        assert!(record(&[8, 0, 0, 0x90, 10, 0, 2, 0]).is_err());
    }

    #[test]
    fn invalid_records_are_refused() {
        assert!(matches!(record(&[0xFF; 16]), Err(RecordError::UnknownHeader(_))));
        assert!(matches!(record(&[1, 2]), Err(RecordError::HeaderCut { .. })));
        assert!(matches!(record(&[2, 0, 2, 0xC0, 9, 0, 0, 0]), Err(RecordError::HeaderCut { .. })));
        let mut small = [0; 64];
        small[..8].copy_from_slice(&[2, 0, 2, 0xC0, 9, 0, 0, 0]);
        assert!(matches!(record(&small), Err(RecordError::Size { size: 9, .. })));
        assert!(matches!(record(&[0; 64]), Err(RecordError::Size { size: 0, .. })));
    }

    #[test]
    fn records_with_broken_items_are_not_intact() {
        let mut bytes = vec![0u8; 0x60];
        bytes[..6].copy_from_slice(&[0x60, 0, 0x13, 0xC0, 1, 0]);
        bytes[0x50..0x58].copy_from_slice(&[4, 0, 1, 0, 0, 0, 16, 0]);
        let record = record(&bytes).unwrap();
        assert!(!record.is_intact());
        assert_eq!(record.extended_items().count(), 0);
        assert_eq!(record.payload().len(), 16);
    }
}
