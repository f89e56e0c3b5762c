//! Encoding of records, for every header kind.
//!
//! ```
//! use etw_etl::encode::RecordBuilder;
//! use etw_event::{EventDescriptor, Guid, PointerSize, Ticks};
//!
//! let descriptor = EventDescriptor { id: 7, ..EventDescriptor::default() };
//! let provider = Guid::from_provider_name("MyCompany.MyApp");
//! let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
//!     .time(Ticks(100))
//!     .process(4711, 4712)
//!     .payload(&[1, 2, 3])
//!     .build()?;
//! assert_eq!(record.len(), 0x50 + 3);
//! # Ok::<(), etw_etl::encode::EncodeError>(())
//! ```

pub mod field_types;
mod jit_function;
mod process_control_group;
mod tracelogging;

use etw_event::{
    EventDescriptor, ExtendedType, Guid, HeaderKind, HookId, Instance, MessageFlags, Opcode, PointerSize,
    Ticks, classes,
};
use etw_kernel_events::ids;

pub use jit_function::{JitFunction, JitSourceLine};
pub use process_control_group::ProcessControlGroup;
pub use tracelogging::{EventMetadata, cut_text, provider_traits, put_text};

/// The largest record: its size is a `u16`.
pub const MAX_RECORD_BYTES: usize = 0xFFFF;

/// Why a record cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The record would be too large.
    #[error("a record of {size} bytes is too large; the largest has {MAX_RECORD_BYTES}")]
    TooLarge {
        /// Size that it would have.
        size: usize,
    },
    /// An extended item would be too large.
    #[error("extended data of {size} bytes is too large for an item")]
    ItemTooLarge {
        /// Bytes of the data.
        size: usize,
    },
    /// Only events with an `EVENT_HEADER` have extended items.
    #[error("a record of kind {kind:?} has no extended items")]
    NoItems {
        /// The kind of the record.
        kind: HeaderKind,
    },
    /// Only kernel events have counters, and at most seven.
    #[error("a record of kind {kind:?} cannot have {count} counters")]
    Counters {
        /// The kind of the record.
        kind: HeaderKind,
        /// Number of counters given.
        count: usize,
    },
}

/// Builds the bytes of one record.
///
/// ```
/// use etw_etl::encode::RecordBuilder;
/// use etw_event::{EventDescriptor, ExtendedType, Guid, Origin, PointerSize, Record, Ticks};
///
/// let provider = Guid::from_provider_name("MyProvider");
/// let descriptor = EventDescriptor { id: 7, ..EventDescriptor::default() };
/// let bytes = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
///     .time(Ticks(1000))
///     .process(4, 8)
///     .item(ExtendedType::EVENT_KEY, &5u64.to_le_bytes())
///     .payload(b"data")
///     .build()?;
/// let origin = Origin::default();
/// let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
/// assert_eq!(record.payload(), b"data");
/// # Ok::<(), etw_etl::encode::EncodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RecordBuilder {
    kind: HeaderKind,
    /// Identifies the event: provider, class or message GUID.
    guid: Guid,
    descriptor: EventDescriptor,
    hook_id: HookId,
    /// Event number of a TIMED record.
    number: u32,
    time: Option<Ticks>,
    process_id: Option<u32>,
    thread_id: Option<u32>,
    cpu_times: (u32, u32),
    flags: u16,
    event_property: u16,
    activity_id: Guid,
    instance: Instance,
    pebs_index: Option<u64>,
    counters: Vec<u64>,
    items: Vec<(ExtendedType, Vec<u8>)>,
    message_flags: MessageFlags,
    message_sequence: u32,
    component_id: u32,
    payload: Vec<u8>,
}

impl RecordBuilder {
    fn new(kind: HeaderKind) -> RecordBuilder {
        RecordBuilder {
            kind,
            guid: Guid::ZERO,
            descriptor: EventDescriptor::default(),
            hook_id: HookId::LOG_FILE_HEADER,
            number: 0,
            time: None,
            process_id: None,
            thread_id: None,
            cpu_times: (0, 0),
            flags: 0,
            event_property: 0,
            activity_id: Guid::ZERO,
            instance: Instance { id: 0, parent_id: 0, parent_guid: Guid::ZERO },
            pebs_index: None,
            counters: Vec::new(),
            items: Vec::new(),
            message_flags: MessageFlags::empty(),
            message_sequence: 0,
            component_id: 0,
            payload: Vec::new(),
        }
    }

    fn kernel(kinds: [HeaderKind; 2], size: PointerSize, hook_id: HookId, version: u8) -> RecordBuilder {
        let descriptor = EventDescriptor { version, ..EventDescriptor::default() };
        RecordBuilder { hook_id, descriptor, ..RecordBuilder::new(of_size(kinds, size)) }
    }

    fn by_guid(kind: HeaderKind, guid: Guid, descriptor: &EventDescriptor) -> RecordBuilder {
        RecordBuilder { guid, descriptor: *descriptor, ..RecordBuilder::new(kind) }
    }

    /// Starts a kernel event with thread, process and CPU times.
    pub fn system(pointer_size: PointerSize, hook_id: HookId, version: u8) -> RecordBuilder {
        RecordBuilder::kernel([HeaderKind::System32, HeaderKind::System64], pointer_size, hook_id, version)
    }

    /// Starts a kernel event with thread and process.
    pub fn compact(pointer_size: PointerSize, hook_id: HookId, version: u8) -> RecordBuilder {
        RecordBuilder::kernel([HeaderKind::Compact32, HeaderKind::Compact64], pointer_size, hook_id, version)
    }

    /// Starts a kernel event with only a time.
    pub fn perf_info(pointer_size: PointerSize, hook_id: HookId, version: u8) -> RecordBuilder {
        RecordBuilder::kernel(
            [HeaderKind::PerfInfo32, HeaderKind::PerfInfo64],
            pointer_size,
            hook_id,
            version,
        )
    }

    /// Starts a classic event; of the descriptor, version, level and opcode are used.
    pub fn full(pointer_size: PointerSize, class: Guid, descriptor: &EventDescriptor) -> RecordBuilder {
        let kind = of_size([HeaderKind::Full32, HeaderKind::Full64], pointer_size);
        RecordBuilder::by_guid(kind, class, descriptor)
    }

    /// Starts the event that reports `count` missed events to a real-time consumer (`RT_LostEvent`, opcode 32), with
    /// the number as a `u64` in the payload.
    pub fn lost_events(count: u64) -> RecordBuilder {
        let opcode = Opcode(ids::LostEvent::RT_LOST_EVENT.opcode());
        let descriptor = EventDescriptor { opcode, ..EventDescriptor::default() };
        RecordBuilder::full(PointerSize::Eight, classes::LOST_EVENT, &descriptor)
            .payload(&count.to_le_bytes())
    }

    /// Starts a classic event of an instance.
    pub fn instance(
        pointer_size: PointerSize,
        class: Guid,
        descriptor: &EventDescriptor,
        instance: Instance,
    ) -> RecordBuilder {
        let kind = of_size([HeaderKind::Instance32, HeaderKind::Instance64], pointer_size);
        RecordBuilder { instance, ..RecordBuilder::by_guid(kind, class, descriptor) }
    }

    /// Starts an event with an `EVENT_HEADER`: of a manifest, TraceLogging or EventSource provider.
    pub fn event(pointer_size: PointerSize, provider: Guid, descriptor: &EventDescriptor) -> RecordBuilder {
        let kind = of_size([HeaderKind::Event32, HeaderKind::Event64], pointer_size);
        RecordBuilder::by_guid(kind, provider, descriptor)
    }

    /// Starts an error event, with the layout of [`RecordBuilder::event`].
    pub fn error(provider: Guid, descriptor: &EventDescriptor) -> RecordBuilder {
        RecordBuilder::by_guid(HeaderKind::Error, provider, descriptor)
    }

    /// Starts a TIMED record: an event number and a time.
    pub fn timed(number: u32) -> RecordBuilder {
        RecordBuilder { number, ..RecordBuilder::new(HeaderKind::Timed) }
    }

    /// Starts a WNODE block.
    pub fn wnode(guid: Guid) -> RecordBuilder {
        RecordBuilder { guid, ..RecordBuilder::new(HeaderKind::Wnode) }
    }

    /// Starts a WPP message. Its optional fields are those that are set: time, process, and those of the `message_…`
    /// methods.
    pub fn message(number: u16, pointer_size: PointerSize) -> RecordBuilder {
        let message_flags = match pointer_size {
            PointerSize::Four => MessageFlags::POINTER32,
            PointerSize::Eight => MessageFlags::POINTER64,
        };
        let descriptor = EventDescriptor { id: number, ..EventDescriptor::default() };
        RecordBuilder { descriptor, message_flags, ..RecordBuilder::new(HeaderKind::Message) }
    }

    /// Sets the time on the session's raw clock; 0 by default.
    pub fn time(mut self, time: Ticks) -> RecordBuilder {
        self.time = Some(time);
        self.message_flags |= MessageFlags::TIMESTAMP;
        self
    }

    /// Sets the process and thread that log the event; both -1, which means unknown, by default.
    pub fn process(mut self, process_id: u32, thread_id: u32) -> RecordBuilder {
        (self.process_id, self.thread_id) = (Some(process_id), Some(thread_id));
        self.message_flags |= MessageFlags::SYSTEM_INFO;
        self
    }

    /// Sets kernel and user CPU time of the thread, in ticks of the header's `TimerResolution`.
    pub fn cpu_times(mut self, kernel: u32, user: u32) -> RecordBuilder {
        self.cpu_times = (kernel, user);
        self
    }

    /// Sets `EVENT_HEADER.Flags`; the bit that announces extended items is set automatically.
    pub fn flags(mut self, flags: u16) -> RecordBuilder {
        self.flags = flags;
        self
    }

    /// Sets `EVENT_HEADER.EventProperty`.
    pub fn event_property(mut self, property: u16) -> RecordBuilder {
        self.event_property = property;
        self
    }

    /// Sets the activity of the event.
    pub fn activity_id(mut self, activity_id: Guid) -> RecordBuilder {
        self.activity_id = activity_id;
        self
    }

    /// Adds the activity that caused this one, as an extended item.
    pub fn related_activity_id(self, activity_id: Guid) -> RecordBuilder {
        self.item(ExtendedType::RELATED_ACTIVITY_ID, &activity_id.to_bytes())
    }

    /// Adds a stack of 64-bit addresses, innermost first, as an extended item.
    pub fn stack(self, match_id: u64, addresses: &[u64]) -> RecordBuilder {
        let words = std::iter::once(&match_id).chain(addresses);
        let data: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        self.item(ExtendedType::STACK_TRACE64, &data)
    }

    /// Adds an extended item. Items keep their order.
    pub fn item(mut self, ext_type: ExtendedType, data: &[u8]) -> RecordBuilder {
        self.items.push((ext_type, data.to_vec()));
        self
    }

    /// Sets the index of a PEBS record, for kernel events.
    pub fn pebs_index(mut self, index: u64) -> RecordBuilder {
        self.pebs_index = Some(index);
        self
    }

    /// Sets performance counters, for kernel events.
    pub fn counters(mut self, counters: &[u64]) -> RecordBuilder {
        self.counters = counters.to_vec();
        self
    }

    /// Sets the sequence number of a WPP message.
    pub fn message_sequence(mut self, sequence: u32) -> RecordBuilder {
        self.message_sequence = sequence;
        self.message_flags |= MessageFlags::SEQUENCE;
        self
    }

    /// Sets the GUID of a WPP message.
    pub fn message_guid(mut self, guid: Guid) -> RecordBuilder {
        self.guid = guid;
        self.message_flags |= MessageFlags::GUID;
        self
    }

    /// Sets the component id of a WPP message; ignored if a GUID is set.
    pub fn message_component_id(mut self, component_id: u32) -> RecordBuilder {
        self.component_id = component_id;
        self.message_flags |= MessageFlags::COMPONENT_ID;
        self
    }

    /// Sets the payload.
    pub fn payload(mut self, payload: &[u8]) -> RecordBuilder {
        self.payload = payload.to_vec();
        self
    }

    /// Returns the record's bytes, without padding.
    ///
    /// # Errors
    ///
    /// Fails if the record or an item is too large, or the kind of record cannot have the given items or counters.
    pub fn build(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        self.build_into(&mut out)?;
        Ok(out)
    }

    /// Appends the record's bytes to `out`, without padding.
    ///
    /// # Errors
    ///
    /// Fails like [`RecordBuilder::build`]; `out` is then unchanged.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "a record has at least 8 bytes, and at most MAX_RECORD_BYTES, which was checked"
    )]
    pub fn build_into(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        let size = self.put(out).and_then(|()| match out.len() - start {
            size if size > MAX_RECORD_BYTES => Err(EncodeError::TooLarge { size }),
            size => Ok(size),
        });
        match size {
            Ok(size) => {
                // Records with a hook id have their size after the kind, all others first.
                let at = start + if self.kind.has_hook_id() { 4 } else { 0 };
                out[at..at + 2].copy_from_slice(&(size as u16).to_le_bytes());
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if !self.items.is_empty() && !self.kind.is_event_header() {
            return Err(EncodeError::NoItems { kind: self.kind });
        }
        if (!self.counters.is_empty() || self.pebs_index.is_some()) && !self.kind.has_hook_id()
            || self.counters.len() > 7
        {
            return Err(EncodeError::Counters { kind: self.kind, count: self.counters.len() });
        }
        match self.kind {
            HeaderKind::Message => self.put_message(out),
            HeaderKind::Timed => {
                out.extend([0, 0, 0, 0xB0]);
                out.extend(self.number.to_le_bytes());
                self.put_time(out);
            }
            HeaderKind::Wnode => {
                // Size, then provider id, version and linkage, which are unused here.
                out.extend([0; 16]);
                self.put_time(out);
                out.extend(self.guid.to_bytes());
                out.extend([0; 8]);
            }
            kind if kind.has_hook_id() => self.put_kernel(out),
            kind if kind.is_event_header() => {
                self.put_event_header(out);
                self.put_items(out)?;
            }
            _ => self.put_classic(out),
        }
        out.extend(&self.payload);
        Ok(())
    }

    fn put_kernel(&self, out: &mut Vec<u8>) {
        let pebs = u8::from(self.pebs_index.is_some()) << 7;
        #[expect(clippy::cast_possible_truncation, reason = "there are at most seven, as `put` has checked")]
        let counters = self.counters.len() as u8;
        out.extend([self.descriptor.version, pebs | counters, self.kind as u8, 0xC0, 0, 0]);
        out.extend(self.hook_id.0.to_le_bytes());
        match self.kind {
            HeaderKind::PerfInfo32 | HeaderKind::PerfInfo64 => self.put_time(out),
            kind => {
                self.put_process(out);
                self.put_time(out);
                if matches!(kind, HeaderKind::System32 | HeaderKind::System64) {
                    self.put_cpu_times(out);
                }
            }
        }
        for counter in self.pebs_index.iter().chain(&self.counters) {
            out.extend(counter.to_le_bytes());
        }
    }

    fn put_classic(&self, out: &mut Vec<u8>) {
        let descriptor = &self.descriptor;
        out.extend([
            0,
            0,
            self.kind as u8,
            0xC0,
            descriptor.opcode.0,
            descriptor.level.0,
            descriptor.version,
            0,
        ]);
        self.put_process(out);
        self.put_time(out);
        out.extend(self.guid.to_bytes());
        self.put_cpu_times(out);
        if matches!(self.kind, HeaderKind::Instance32 | HeaderKind::Instance64) {
            out.extend(self.instance.id.to_le_bytes());
            out.extend(self.instance.parent_id.to_le_bytes());
            out.extend(self.instance.parent_guid.to_bytes());
        }
    }

    fn put_event_header(&self, out: &mut Vec<u8>) {
        let descriptor = &self.descriptor;
        out.extend([0, 0, self.kind as u8, 0xC0]);
        out.extend((self.flags & !1 | u16::from(!self.items.is_empty())).to_le_bytes());
        out.extend(self.event_property.to_le_bytes());
        self.put_process(out);
        self.put_time(out);
        out.extend(self.guid.to_bytes());
        out.extend(descriptor.id.to_le_bytes());
        out.extend([descriptor.version, descriptor.channel, descriptor.level.0, descriptor.opcode.0]);
        out.extend(descriptor.task.to_le_bytes());
        out.extend(descriptor.keyword.0.to_le_bytes());
        self.put_cpu_times(out);
        out.extend(self.activity_id.to_bytes());
    }

    fn put_items(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut left = self.items.len();
        for (ext_type, data) in &self.items {
            left -= 1;
            let total = (8 + data.len()).next_multiple_of(8);
            let (Ok(total_size), Ok(size)) = (u16::try_from(total), u16::try_from(data.len())) else {
                return Err(EncodeError::ItemTooLarge { size: data.len() });
            };
            let start = out.len();
            out.extend(total_size.to_le_bytes());
            out.extend(ext_type.0.to_le_bytes());
            out.extend(u16::from(left > 0).to_le_bytes());
            out.extend(size.to_le_bytes());
            out.extend(data);
            out.resize(start + total, 0);
        }
        Ok(())
    }

    fn put_message(&self, out: &mut Vec<u8>) {
        let flags = self.message_flags;
        out.extend([0, 0, 0, 0x90]);
        out.extend(self.descriptor.id.to_le_bytes());
        out.extend(flags.0.to_le_bytes());
        if flags.contains(MessageFlags::SEQUENCE) {
            out.extend(self.message_sequence.to_le_bytes());
        }
        if flags.contains(MessageFlags::GUID) {
            out.extend(self.guid.to_bytes());
        } else if flags.contains(MessageFlags::COMPONENT_ID) {
            out.extend(self.component_id.to_le_bytes());
        }
        if flags.contains(MessageFlags::TIMESTAMP) {
            self.put_time(out);
        }
        if flags.contains(MessageFlags::SYSTEM_INFO) {
            self.put_process(out);
        }
    }

    /// Thread before process, as in every header.
    fn put_process(&self, out: &mut Vec<u8>) {
        for id in [self.thread_id, self.process_id] {
            out.extend(id.unwrap_or(u32::MAX).to_le_bytes());
        }
    }

    fn put_time(&self, out: &mut Vec<u8>) {
        out.extend(self.time.unwrap_or_default().0.to_le_bytes());
    }

    fn put_cpu_times(&self, out: &mut Vec<u8>) {
        out.extend(self.cpu_times.0.to_le_bytes());
        out.extend(self.cpu_times.1.to_le_bytes());
    }
}

fn of_size([four, eight]: [HeaderKind; 2], pointer_size: PointerSize) -> HeaderKind {
    match pointer_size {
        PointerSize::Four => four,
        PointerSize::Eight => eight,
    }
}

#[cfg(test)]
mod tests {
    use etw_event::{Keyword, Level, Origin, Record};

    use super::*;

    const GUID: Guid = Guid::from_u128(0x11223344_5566_7788_99aa_bbccddeeff00);

    fn descriptor() -> EventDescriptor {
        EventDescriptor {
            id: 0x1234,
            version: 5,
            channel: 6,
            level: Level(4),
            opcode: Opcode(32),
            task: 0x789,
            keyword: Keyword(0x8000_0000_0000_0001),
        }
    }

    #[test]
    fn every_kind_is_read_back() {
        let instance = Instance { id: 7, parent_id: 8, parent_guid: Guid::from_bytes([9; 16]) };
        let classic =
            EventDescriptor { version: 5, level: Level(4), opcode: Opcode(32), ..Default::default() };
        let kernel = EventDescriptor { version: 3, opcode: Opcode(0x24), ..Default::default() };
        let hook = HookId(0x0524);
        let mut seen = Vec::new();
        let mut check = |builder: RecordBuilder, guid: Guid, expected: EventDescriptor| {
            for payload in [&b""[..], b"x", b"payload!!"] {
                let builder = builder.clone().time(Ticks(77)).process(4, 8).cpu_times(5, 6).payload(payload);
                let bytes = builder.build().unwrap();
                let origin = Origin::default();
                let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
                assert_eq!(record.as_bytes(), bytes);
                assert!(record.is_intact());
                assert_eq!(record.payload(), payload, "{:?}", record.kind());
                assert_eq!(record.raw_time(), Ticks(77));
                assert_eq!((record.provider_id(), record.descriptor()), (guid, expected));
                if let Some(times) = record.cpu_times() {
                    assert_eq!(times, (5, 6));
                }
                if let Some(process) = record.process_id() {
                    assert_eq!((process, record.thread_id()), (4, Some(8)));
                }
                seen.push(record.kind());
            }
        };
        for size in [PointerSize::Four, PointerSize::Eight] {
            check(RecordBuilder::system(size, hook, 3), hook.class_guid(), kernel);
            check(RecordBuilder::compact(size, hook, 3), hook.class_guid(), kernel);
            check(RecordBuilder::perf_info(size, hook, 3), hook.class_guid(), kernel);
            let counted = RecordBuilder::perf_info(size, hook, 3).pebs_index(1).counters(&[2, 3]);
            check(counted, hook.class_guid(), kernel);
            check(RecordBuilder::full(size, GUID, &descriptor()), GUID, classic);
            check(RecordBuilder::instance(size, GUID, &descriptor(), instance), GUID, classic);
            check(RecordBuilder::event(size, GUID, &descriptor()), GUID, descriptor());
            let message = EventDescriptor { id: 9, opcode: Opcode(0xFF), ..Default::default() };
            check(RecordBuilder::message(9, size).message_guid(GUID), GUID, message);
            check(RecordBuilder::message(9, size).message_component_id(3), Guid::ZERO, message);
            check(RecordBuilder::message(9, size).message_sequence(3).message_guid(GUID), GUID, message);
        }
        check(RecordBuilder::error(GUID, &descriptor()), GUID, descriptor());
        check(RecordBuilder::wnode(GUID), GUID, EventDescriptor::default());
        let timed = EventDescriptor { id: 99, ..Default::default() };
        check(RecordBuilder::timed(99), Guid::ZERO, timed);
        for kind in HeaderKind::ALL {
            assert!(seen.contains(&kind), "{kind:?}");
        }
    }

    #[test]
    fn all_extended_items() {
        let mut builder = RecordBuilder::event(PointerSize::Eight, GUID, &descriptor());
        let items: Vec<_> =
            (1..=0x13u16).map(|code| (ExtendedType(code), vec![code as u8; 30 + code as usize])).collect();
        for (ext_type, data) in &items {
            builder = builder.item(*ext_type, data);
        }
        let bytes = builder.activity_id(GUID).payload(b"behind").build().unwrap();
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let read: Vec<_> = record.extended_items().map(|item| (item.ext_type, item.data.to_vec())).collect();
        assert_eq!(read, items);
        assert_eq!((record.payload(), record.activity_id()), (&b"behind"[..], Some(GUID)));
        let stack =
            RecordBuilder::event(PointerSize::Eight, GUID, &descriptor()).stack(3, &[1, 2]).build().unwrap();
        let record = Record::parse(&stack, &origin, Ticks(0)).unwrap();
        assert_eq!(record.stack_trace().unwrap().addresses().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let event = || RecordBuilder::event(PointerSize::Eight, GUID, &descriptor());
        let full = || RecordBuilder::full(PointerSize::Eight, GUID, &descriptor());
        let mut out = b"before".to_vec();
        let mut check = |builder: RecordBuilder, expected: Option<EncodeError>| {
            let result = builder.build_into(&mut out);
            assert_eq!(result.err(), expected);
            if expected.is_some() {
                assert_eq!(out, b"before");
            }
            out.truncate(6);
        };
        let largest = vec![0; MAX_RECORD_BYTES - 0x50];
        check(event().payload(&largest), None);
        check(event().payload(&[&largest[..], b"x"].concat()), Some(EncodeError::TooLarge { size: 65536 }));
        check(event().item(ExtendedType::SID, &[0; 65536]), Some(EncodeError::ItemTooLarge { size: 65536 }));
        let kind = HeaderKind::Full64;
        check(full().item(ExtendedType::SID, &[0; 12]), Some(EncodeError::NoItems { kind }));
        check(full().counters(&[1]), Some(EncodeError::Counters { kind, count: 1 }));
        let kind = HeaderKind::PerfInfo64;
        let counted = RecordBuilder::perf_info(PointerSize::Eight, HookId(0x0F2E), 2).counters(&[1; 8]);
        check(counted, Some(EncodeError::Counters { kind, count: 8 }));
    }
}
