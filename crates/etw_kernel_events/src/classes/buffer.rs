//! The buffer that records are written to.

use etw_event::{ExtendedType, Guid, HeaderKind, HookId, Record, Ticks};

use super::field::Field;
use super::{KernelEvent, ManifestEvent};

/// Time, process and thread of a record.
///
/// Thread, process and CPU times are written to headers that have a field for them, and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Time on the session's raw clock.
    pub time: Ticks,
    /// The process that caused the event.
    pub process_id: u32,
    /// The thread that caused the event.
    pub thread_id: u32,
    /// CPU times of that thread in the kernel and in user mode, in units of the file header's `TimerResolution`; `None` if
    /// they are unknown, which only manifest events can express.
    pub cpu_times: Option<(u32, u32)>,
}

impl Stamp {
    /// Creates a stamp without CPU times.
    pub fn new(time: Ticks, process_id: u32, thread_id: u32) -> Stamp {
        Stamp { time, process_id, thread_id, cpu_times: None }
    }

    /// Adds CPU times in nanoseconds.
    #[must_use]
    pub fn with_cpu_nanos(self, kernel: u64, user: u64) -> Stamp {
        let units = |nanos: u64| u32::try_from(nanos / TIMER_RESOLUTION_NANOS).unwrap_or(u32::MAX);
        Stamp { cpu_times: Some((units(kernel), units(user))), ..self }
    }

    fn cpu_times_word(&self) -> u64 {
        let (kernel, user) = self.cpu_times.unwrap_or_default();
        u64::from(kernel) | u64::from(user) << 32
    }
}

/// The unit of CPU times and of waits in sessions: the `TimerResolution` of their log file header, 15.625 ms.
pub const TIMER_RESOLUTION_NANOS: u64 = 15_625_000;

/// The owner of a record of a manifest event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestOwner {
    /// The provider.
    pub provider: Guid,
    /// The event's id.
    pub id: u16,
    /// Its time on the session's raw clock.
    pub time: Ticks,
    /// The process that caused it.
    pub process_id: u32,
}

impl ManifestOwner {
    /// Returns the owner of a record of a [`RecordBuffer`]; `None` for a classic event.
    pub fn from_record(record: &[u64]) -> Option<ManifestOwner> {
        let [first, ids, time, low, high, descriptor, ..] = *record else { return None };
        let provider = || {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&low.to_le_bytes());
            bytes[8..].copy_from_slice(&high.to_le_bytes());
            Guid::from_bytes(bytes)
        };
        (first >> 16 & 0xFF == HeaderKind::Event64 as u64).then(|| ManifestOwner {
            provider: provider(),
            id: descriptor as u16,
            time: Ticks(time as i64),
            process_id: (ids >> 32) as u32,
        })
    }
}

/// Records one after the other. Each starts at a word, and the rest of its last word is zero.
///
/// The buffer keeps its memory, so adding records allocates nothing once it has grown.
#[derive(Debug, Clone, Default)]
pub struct RecordBuffer {
    words: Vec<u64>,
}

/// Maximum size of a record in bytes, by the header's size field.
const MAX_RECORD_BYTES: usize = u16::MAX as usize;

/// Words of the header of a manifest event (`EVENT_HEADER`).
const MANIFEST_HEADER_WORDS: usize = 10;

/// Bytes of the header of an extended item.
const ITEM_HEADER_BYTES: usize = 8;

/// Flag of a manifest event: extended items follow the header. In an item's header, the same bit says that another item
/// follows.
const EXTENDED_INFO: u64 = 1;

/// The fourth byte of a record's header, without the kind.
const MARK: u64 = 0xC0 << 24;

impl RecordBuffer {
    /// Creates an empty buffer.
    pub fn new() -> RecordBuffer {
        RecordBuffer::default()
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Removes the records from a word on, at which a record starts: an earlier length of [`RecordBuffer::words`].
    pub fn truncate(&mut self, word: usize) {
        self.words.truncate(word);
    }

    /// Returns the words of all records, little-endian in a trace.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the words of each record.
    pub fn records(&self) -> impl Iterator<Item = &[u64]> {
        self.records_from(0)
    }

    /// Sets the time of all records.
    pub fn set_time(&mut self, time: Ticks) {
        let mut rest = &mut self.words[..];
        while let Some(first) = rest.first().copied() {
            let Some((record, behind)) = rest.split_at_mut_checked(len_words(first)) else { return };
            if let Some(word) = record.get_mut(time_at(first)) {
                *word = time.0 as u64;
            }
            rest = behind;
        }
    }

    /// Returns the time of a record of a buffer, which may be another one.
    pub fn time_of(record: &[u64]) -> Ticks {
        let time = record.first().and_then(|first| record.get(time_at(*first)));
        Ticks(time.map_or(0, |time| *time as i64))
    }

    /// Returns the words of each record from a word on, at which a record starts: an earlier length of
    /// [`RecordBuffer::words`].
    pub fn records_from(&self, word: usize) -> impl Iterator<Item = &[u64]> {
        let mut rest = self.words.get(word..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (record, behind) = rest.split_at_checked(len_words(*rest.first()?))?;
            rest = behind;
            Some(record)
        })
    }

    /// Returns the hook ids of the records from a word on, for headers that have one.
    pub fn hooks_from(&self, word: usize) -> impl Iterator<Item = HookId> {
        let by_hook = |record: &&[u64]| !is_by_guid(record[0]);
        self.records_from(word).filter(by_hook).map(|record| HookId((record[0] >> 48) as u16))
    }

    /// Adds a record.
    ///
    /// Every event of this crate fits into a record. An event of another crate that takes more than 65,535 bytes is not
    /// added, and the result is `false`.
    #[inline]
    pub fn put<E: KernelEvent>(&mut self, stamp: &Stamp, event: &E) -> bool {
        let start = self.words.len();
        let (kind, hook) = (event.kind(), event.hook_id());
        let mark = u64::from(kind as u8) << 16 | MARK;
        let by_hook = u64::from(E::VERSION) | mark | u64::from(hook.0) << 48;
        let ids = u64::from(stamp.thread_id) | u64::from(stamp.process_id) << 32;
        let times = stamp.cpu_times_word();
        let time = stamp.time.0 as u64;
        let size_at = match kind {
            HeaderKind::PerfInfo64 => {
                self.words.extend([by_hook, time]);
                32
            }
            HeaderKind::Full64 => {
                // EVENT_TRACE_HEADER: size, kind; type, level, version.
                let first = mark | u64::from(hook.event_type()) << 32 | u64::from(E::VERSION) << 48;
                let [low, high] = guid_words(event.class());
                self.words.extend([first, ids, time, low, high, times]);
                0
            }
            HeaderKind::Compact64 => {
                self.words.extend([by_hook, ids, time]);
                32
            }
            _ => {
                self.words.extend([by_hook, ids, time, times]);
                32
            }
        };
        self.put_payload(start, size_at, |payload| event.put_payload(payload))
    }

    /// Adds a record of a manifest event. Returns `false` if it is too long, as [`RecordBuffer::put`].
    pub fn put_manifest<E: ManifestEvent>(&mut self, stamp: &Stamp, event: &E) -> bool {
        let start = self.words.len();
        let d = event.descriptor();
        let [provider_low, provider_high] = guid_words(event.provider());
        let descriptor = u64::from(d.id)
            | u64::from(d.version) << 16
            | u64::from(d.channel) << 24
            | u64::from(d.level.0) << 32
            | u64::from(d.opcode.0) << 40
            | u64::from(d.task) << 48;
        let flags = if stamp.cpu_times.is_some() { 0 } else { Record::NO_CPU_TIME };
        self.words.extend([
            u64::from(HeaderKind::Event64 as u8) << 16 | MARK | u64::from(flags) << 32,
            u64::from(stamp.thread_id) | u64::from(stamp.process_id) << 32,
            stamp.time.0 as u64,
            provider_low,
            provider_high,
            descriptor,
            d.keyword.0,
            stamp.cpu_times_word(),
            // No activity.
            0,
            0,
        ]);
        self.put_payload(start, 0, |payload| event.put_payload(payload))
    }

    /// Adds a copy of a record.
    pub fn copy(&mut self, record: &[u64]) {
        self.words.extend_from_slice(record);
    }

    /// Adds a copy of a record's bytes.
    pub fn copy_bytes(&mut self, record: &[u8]) {
        self.words.extend(words_of(record));
    }

    /// Adds an extended item of these bytes, as [`RecordBuffer::add_item`].
    pub fn add_bytes_item(&mut self, word: usize, ext_type: ExtendedType, data: &[u8]) -> bool {
        let words: Vec<u64> = words_of(data).collect();
        u16::try_from(data.len()).is_ok_and(|len| self.add_item(word, ext_type, &words, len))
    }

    /// Adds an extended item of `len_bytes` to the last record, which starts at `word` and is one of a manifest event.
    /// Returns `false` if the record would be too long.
    pub fn add_item(&mut self, word: usize, ext_type: ExtendedType, data: &[u64], len_bytes: u16) -> bool {
        let Some(first) = self.words.get_mut(word) else { return false };
        let added = ITEM_HEADER_BYTES + size_of_val(data);
        let size = usize::from(*first as u16) + added;
        if size > MAX_RECORD_BYTES {
            return false;
        }
        let has_others = *first >> 32 & EXTENDED_INFO;
        *first = *first & !0xFFFF | size as u64 | EXTENDED_INFO << 32;
        let header =
            added as u64 | u64::from(ext_type.0) << 16 | has_others << 32 | u64::from(len_bytes) << 48;
        let at = (word + MANIFEST_HEADER_WORDS).min(self.words.len());
        self.words.splice(at..at, [header].into_iter().chain(data.iter().copied()));
        true
    }

    /// Adds the payload of the record at `start`, and sets its size there.
    #[inline(always)]
    fn put_payload(&mut self, start: usize, size_at: u32, put: impl FnOnce(&mut Payload<'_>)) -> bool {
        let mut payload = Payload { words: &mut self.words, pending: 0, bits: 0 };
        put(&mut payload);
        let spare_bytes = payload.finish();
        let size = 8 * (self.words.len() - start) - spare_bytes;
        if size > MAX_RECORD_BYTES {
            self.words.truncate(start);
            return false;
        }
        self.words[start] |= (size as u64) << size_at;
        true
    }
}

/// Returns up to eight bytes as a word.
fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns bytes as words, the last one filled with zeros.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(size_of::<u64>()).map(word_of)
}

/// Returns whether the record with this first word has the GUID of its class or provider.
fn is_by_guid(first: u64) -> bool {
    let kind = first >> 16 & 0xFF;
    kind == HeaderKind::Full64 as u64 || kind == HeaderKind::Event64 as u64
}

/// Returns which word of the record with this first word is its time.
fn time_at(first: u64) -> usize {
    if first >> 16 & 0xFF == HeaderKind::PerfInfo64 as u64 { 1 } else { 2 }
}

/// Returns the number of words of the record with this first word.
fn len_words(first: u64) -> usize {
    let size = if is_by_guid(first) { first as u16 } else { (first >> 32) as u16 };
    usize::from(size).div_ceil(8)
}

/// Returns a GUID as stored in a record.
fn guid_words(guid: Guid) -> [u64; 2] {
    let bytes = guid.to_bytes();
    let (low, high) = bytes.split_at(8);
    [low, high].map(word_of)
}

/// The payload of a record while it is written.
#[derive(Debug)]
pub struct Payload<'b> {
    words: &'b mut Vec<u64>,
    /// Bytes that do not fill a word yet.
    pending: u64,
    /// Number of used bits in `pending`; less than 64.
    bits: u32,
}

impl Payload<'_> {
    /// Writes a field.
    #[inline]
    pub fn put(&mut self, field: impl Field) {
        field.put(self);
    }

    /// Writes bytes.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(size_of::<u64>()) {
            self.put_low_bytes(word_of(bytes), bytes.len() as u32);
        }
    }

    /// Writes the `len_bytes` (1 to 8) low bytes of `value`, whose other bytes must be zero.
    #[inline(always)]
    pub(super) fn put_low_bytes(&mut self, value: u64, len_bytes: u32) {
        let filled = self.bits + 8 * len_bytes;
        self.pending |= value << self.bits;
        if filled < 64 {
            self.bits = filled;
            return;
        }
        self.words.push(self.pending);
        // In two steps, since a shift by 64 is not allowed.
        self.pending = (value >> 1) >> (63 - self.bits);
        self.bits = filled - 64;
    }

    /// Stores the last, incomplete word. Returns the number of bytes that it lacks.
    fn finish(self) -> usize {
        if self.bits == 0 {
            return 0;
        }
        self.words.push(self.pending);
        8 - self.bits as usize / 8
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ProcessTerminate, RundownComplete, SysCallExit, layout};
    use super::*;
    use crate::providers::{Thread, ThreadEvent};
    use etw_event::Origin;
    use etw_testkit::decoded::bytes_of;

    struct Large(usize);
    struct Zeros(usize);

    impl Field for Zeros {
        fn put(&self, to: &mut Payload<'_>) {
            for _ in 0..self.0 {
                to.put_low_bytes(0xAB, 1);
            }
        }
    }

    layout! { Large, version 1, |event| Compact64 crate::ids::PerfInfo::SAMPLE_PROFILE; Zeros(event.0) }

    #[test]
    fn records_follow_each_other_and_what_is_too_large_is_left_out() {
        let mut buffer = RecordBuffer::new();
        let stamp = Stamp { time: Ticks(-5), process_id: 7, thread_id: 8, cpu_times: Some((9, 10)) };
        assert!(buffer.is_empty());
        assert!(buffer.put(&stamp, &ProcessTerminate { process_id: 7 }));
        assert!(buffer.put(&stamp, &RundownComplete));
        let before = buffer.words().len();
        assert!(!buffer.put(&stamp, &Large(MAX_RECORD_BYTES - 0x18 + 1)));
        assert_eq!(buffer.words().len(), before);
        assert!(buffer.put(&stamp, &Large(MAX_RECORD_BYTES - 0x18)));
        for len in 0..20 {
            assert!(buffer.put(&stamp, &Large(len)));
        }
        assert!(buffer.put(&stamp, &SysCallExit { status: 5 }));
        let origin = Origin::default();
        let bytes = bytes_of(buffer.words());
        let (mut rest, mut sizes) = (&bytes[..], Vec::new());
        let mut records = buffer.records();
        while !rest.is_empty() {
            let record = Record::parse(rest, &origin, Ticks(0)).unwrap();
            assert_eq!(bytes_of(records.next().unwrap()), rest[..record.stride_bytes()]);
            assert!(rest[record.as_bytes().len()..record.stride_bytes()].iter().all(|byte| *byte == 0));
            assert_eq!(record.raw_time(), Ticks(-5));
            if record.kind() == HeaderKind::System64 {
                assert_eq!((record.process_id(), record.thread_id()), (Some(7), Some(8)));
                assert_eq!(record.cpu_times(), Some((9, 10)));
            }
            sizes.push(record.payload().len());
            rest = &rest[record.stride_bytes()..];
        }
        assert!(records.next().is_none());
        drop(records);
        assert_eq!(buffer.records_from(before).count(), 22);
        assert_eq!(buffer.hooks_from(0).next(), Some(ProcessTerminate { process_id: 7 }.hook_id()));
        let expected = [4, 0, MAX_RECORD_BYTES - 0x18].into_iter().chain(0..20).chain([4]);
        assert!(sizes.into_iter().eq(expected));
        buffer.clear();
        assert!(buffer.is_empty() && buffer.records().next().is_none());
    }

    #[test]
    fn records_of_manifest_events_name_their_owner() {
        let mut buffer = RecordBuffer::new();
        let stamp = Stamp::new(Ticks(-5), 7, 8);
        let thread = Thread { event: ThreadEvent::Stop, process_id: 1, thread_id: 2 };
        assert!(buffer.put_manifest(&stamp, &thread) && buffer.put(&stamp, &RundownComplete));
        let bytes = bytes_of(buffer.words());
        assert_eq!(Record::parse(&bytes, &Origin::default(), Ticks(0)).unwrap().cpu_times(), None);
        let with_times = stamp.with_cpu_nanos(31_250_000, 15_624_999);
        let mut other = RecordBuffer::new();
        assert!(other.put_manifest(&with_times, &thread));
        let bytes = bytes_of(other.words());
        assert_eq!(Record::parse(&bytes, &Origin::default(), Ticks(0)).unwrap().cpu_times(), Some((2, 0)));
        let owners: Vec<_> = buffer.records().map(ManifestOwner::from_record).collect();
        let (provider, id) = (thread.provider(), thread.descriptor().id);
        assert_eq!(owners, [Some(ManifestOwner { provider, id, time: Ticks(-5), process_id: 7 }), None]);
    }

    #[test]
    fn records_of_all_kinds_get_another_time() {
        let buffer = |time| {
            let (mut buffer, stamp) = (RecordBuffer::new(), Stamp::new(Ticks(time), 7, 8));
            let thread = Thread { event: ThreadEvent::Stop, process_id: 1, thread_id: 2 };
            buffer.put_manifest(&stamp, &thread);
            buffer.put(&stamp, &SysCallExit { status: 5 });
            buffer.put(&stamp, &ProcessTerminate { process_id: 7 });
            buffer.put(&stamp, &RundownComplete);
            buffer
        };
        let mut other = buffer(3);
        assert!(other.records().all(|record| RecordBuffer::time_of(record) == Ticks(3)));
        other.set_time(Ticks(-5));
        assert!(other.records().all(|record| RecordBuffer::time_of(record) == Ticks(-5)));
        assert_eq!(other.words(), buffer(-5).words());
    }
}
