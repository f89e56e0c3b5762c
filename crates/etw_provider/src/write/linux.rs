//! Writing an event's record into the regions of sessions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use etw_buffer::{Reserve, Slot};
use etw_event::{EventDescriptor, Guid, Keyword, Level, MessageFlags, Opcode};
use etw_sys::clock::ClockSource;

use super::{Classic, Context, Described, Message, Outcome, Plain, activity_words};
use crate::enables::{Enables, Entry, Settings};
use crate::extras::{Extras, LINKAGE};
use crate::filters::Subject;
use crate::payload::{Payload, PayloadWriter};
use crate::sink::Sink;

/// The part of a record before the payload, as far as it is known before the record is written.
pub(crate) trait Front: Copy {
    /// Size of the header in words.
    const HEADER_WORDS: usize;
    /// Whether extended items may follow the header.
    const HAS_ITEMS: bool;

    /// Size of header and items in words.
    fn len_words(&self) -> usize;

    /// Stores everything but the first word. Extras are stored after the header. Returns the first word without the
    /// size, and the words of the payload.
    fn put<'r>(&self, words: &'r [AtomicU64], stamp: &Stamp<'_>, extras: &[u64]) -> (u64, &'r [AtomicU64]);

    /// The extended item with a TraceLogging event's metadata; empty for other events.
    fn schema(&self) -> &[u64] {
        &[]
    }

    /// The event's descriptor, used by filters.
    fn descriptor(&self) -> EventDescriptor;
}

/// When, where and for what a record is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp<'a> {
    /// Thread in the low half, process in the high half.
    ids: u64,
    time: u64,
    clock: ClockSource,
    /// The event's activity, if not the thread's.
    activity: Option<&'a Guid>,
}

impl Front for Plain<'_> {
    const HEADER_WORDS: usize = 10;
    const HAS_ITEMS: bool = true;

    #[inline(always)]
    fn len_words(&self) -> usize {
        10
    }

    // All of this is loaded here and not before: across the reservation, it would have to be kept in memory.
    #[inline(always)]
    fn put<'r>(&self, words: &'r [AtomicU64], stamp: &Stamp<'_>, extras: &[u64]) -> (u64, &'r [AtomicU64]) {
        // One length check covers the whole header.
        let Some((header, behind)) = words.split_first_chunk::<10>() else { return (self.first, &[]) };
        let store = |word: &AtomicU64, value: u64| word.store(value, Relaxed);
        store(&header[1], stamp.ids);
        store(&header[2], stamp.time);
        store(&header[3], self.provider[0]);
        store(&header[4], self.provider[1]);
        store(&header[5], self.descriptor[0]);
        store(&header[6], self.descriptor[1]);
        // Word 7, the CPU times, stays 0: reading them would take a system call, so the flags say that there are none.
        let activity = activity_words(stamp.activity);
        store(&header[8], activity[0]);
        store(&header[9], activity[1]);
        (self.first | if extras.is_empty() { 0 } else { EXTENDED }, copy(behind, extras))
    }

    fn descriptor(&self) -> EventDescriptor {
        let [word, keyword] = *self.descriptor;
        EventDescriptor {
            id: word as u16,
            version: (word >> 16) as u8,
            channel: (word >> 24) as u8,
            level: Level((word >> 32) as u8),
            opcode: Opcode((word >> 40) as u8),
            task: (word >> 48) as u16,
            keyword: Keyword(keyword),
        }
    }
}

impl Front for Described<'_> {
    const HEADER_WORDS: usize = 10;
    const HAS_ITEMS: bool = true;

    #[inline(always)]
    fn len_words(&self) -> usize {
        10 + self.traits.len() + self.schema.len()
    }

    #[inline(always)]
    fn put<'r>(&self, words: &'r [AtomicU64], stamp: &Stamp<'_>, extras: &[u64]) -> (u64, &'r [AtomicU64]) {
        let (first, items) = self.plain.put(words, stamp, extras);
        let first = first | EXTENDED;
        let behind = copy(items, self.traits);
        if let (Some(place), Some(header)) = (items.first(), self.traits.first())
            && !self.schema.is_empty()
        {
            place.store(*header | LINKAGE, Relaxed);
        }
        (first, copy(behind, self.schema))
    }

    fn schema(&self) -> &[u64] {
        self.schema
    }

    fn descriptor(&self) -> EventDescriptor {
        self.plain.descriptor()
    }
}

impl Front for Classic {
    const HEADER_WORDS: usize = 6;
    const HAS_ITEMS: bool = false;

    #[inline(always)]
    fn len_words(&self) -> usize {
        if self.instance.is_some() { 9 } else { 6 }
    }

    #[inline(always)]
    fn put<'r>(&self, words: &'r [AtomicU64], stamp: &Stamp<'_>, _: &[u64]) -> (u64, &'r [AtomicU64]) {
        let EventDescriptor { opcode, level, version, .. } = self.descriptor;
        // EVENT_INSTANCE_GUID_HEADER is the next kind.
        let first = (CLASSIC_HEADER + (u64::from(self.instance.is_some()) << 16))
            | u64::from(opcode.0) << 32
            | u64::from(level.0) << 40
            | u64::from(version) << 48;
        let Some((header, behind)) = words.split_first_chunk::<6>() else { return (first, &[]) };
        header[1].store(stamp.ids, Relaxed);
        header[2].store(stamp.time, Relaxed);
        header[3].store(self.class[0], Relaxed);
        header[4].store(self.class[1], Relaxed);
        (first, copy(behind, self.instance.as_ref().map_or(&[], |instance| instance)))
    }

    fn descriptor(&self) -> EventDescriptor {
        self.descriptor
    }
}

impl Front for Message {
    const HEADER_WORDS: usize = 3;
    const HAS_ITEMS: bool = false;

    #[inline(always)]
    fn len_words(&self) -> usize {
        if self.guid.is_some() { 5 } else { 3 }
    }

    #[inline(always)]
    fn put<'r>(&self, words: &'r [AtomicU64], stamp: &Stamp<'_>, _: &[u64]) -> (u64, &'r [AtomicU64]) {
        let mut flags = MessageFlags::TIMESTAMP | MessageFlags::SYSTEM_INFO | MessageFlags::POINTER64;
        if stamp.clock != ClockSource::System {
            flags |= MessageFlags::PERFORMANCE_TIMESTAMP;
        }
        if self.guid.is_some() {
            flags |= MessageFlags::GUID;
        }
        let first = MESSAGE_HEADER | u64::from(self.number) << 32 | u64::from(flags.0) << 48;
        let behind = words.get(1..).unwrap_or_default();
        let behind = copy(behind, self.guid.as_ref().map_or(&[], |guid| guid));
        (first, copy(behind, &[stamp.time, stamp.ids]))
    }

    fn descriptor(&self) -> EventDescriptor {
        EventDescriptor { id: self.number, ..EventDescriptor::ZERO }
    }
}

/// Stores words at the start of others, and returns the rest of those. They always fit, since the record was reserved for
/// them.
#[inline(always)]
fn copy<'r>(to: &'r [AtomicU64], from: &[u64]) -> &'r [AtomicU64] {
    let Some((places, rest)) = to.split_at_checked(from.len()) else { return &[] };
    for (place, word) in places.iter().zip(from) {
        place.store(*word, Relaxed);
    }
    rest
}

/// `EVENT_TRACE_HEADER` of 64 bits.
const CLASSIC_HEADER: u64 = 0xC014_0000;
/// The header of a WPP message.
const MESSAGE_HEADER: u64 = 0x9000_0000;
/// `EVENT_HEADER_FLAG_EXTENDED_INFO`, as in the first word.
const EXTENDED: u64 = 1 << 32;

impl Enables {
    /// Writes an event in the common case: one session without extras or filters has room for it. Returns `None` if
    /// nothing was done. It calls no functions, so all its state stays in registers.
    #[inline(always)]
    pub(crate) fn try_write<F: Front, P: Payload + ?Sized>(
        &self,
        wanted: u32,
        front: &F,
        activity: Option<&Guid>,
        payload: &P,
    ) -> Option<Outcome> {
        if !wanted.is_power_of_two() {
            return None;
        }
        let entry = self.entry(wanted.trailing_zeros());
        let settings = entry.settings();
        if !settings.is_plain() {
            return None;
        }
        let sink = entry.sink.load()?;
        let ids = etw_sys::ids::known()?;
        let len = u16::try_from(front.len_words() * 8 + payload.len_bytes()).ok()?;
        let slot = sink.try_reserve(settings.epoch(), len)?;
        let stamp = Stamp { ids, time: slot.time, clock: ClockSource::Counter, activity };
        let first = fill(&slot, len, &stamp, front, &[], payload);
        sink.commit(slot, first);
        Some(Outcome::Written)
    }

    /// Writes an event to the sessions of the bits of `wanted`, with all requested items. Takes no lock, makes no
    /// system call and does not allocate.
    #[inline(never)]
    pub(crate) fn write<F: Front, P: Payload + ?Sized>(
        &self,
        wanted: u32,
        front: &F,
        context: &Context<'_>,
        payload: &P,
    ) -> Outcome {
        let mut outcome = Outcome::NotEnabled;
        let mut rest = wanted;
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            let entry = self.entry(index);
            let settings = entry.settings();
            let Some(sink) = entry.sink.load() else { continue };
            let one = if settings.is_plain() && context.related.is_none() {
                put(sink, settings.epoch(), front, context.activity, &[], payload)
            } else {
                with_extras(entry, sink, settings, front, context, payload)
            };
            outcome = outcome.and(one);
        }
        outcome
    }
}

impl Outcome {
    /// Returns the worse of the two.
    #[inline(always)]
    fn and(self, other: Outcome) -> Outcome {
        if other as u8 > self as u8 { other } else { self }
    }
}

/// Writes to a session that has filters or requests extended items.
#[cold]
#[inline(never)]
fn with_extras<F: Front, P: Payload + ?Sized>(
    entry: &Entry,
    sink: &Sink,
    settings: Settings,
    front: &F,
    context: &Context<'_>,
    payload: &P,
) -> Outcome {
    let mut properties = settings.properties();
    if let Some(filters) = entry.filters.load() {
        let subject = Subject { descriptor: &front.descriptor(), name: context.name };
        match filters.look(&subject, front.schema(), properties, payload) {
            Some(remaining) => properties = remaining,
            None => return Outcome::NotEnabled,
        }
    }
    if !F::HAS_ITEMS {
        return put(sink, settings.epoch(), front, None, &[], payload);
    }
    let mut extras = Extras::new(properties, context.related);
    let is_followed = front.len_words() > F::HEADER_WORDS;
    put(sink, settings.epoch(), front, context.activity, extras.words(is_followed), payload)
}

/// Writes one record.
#[inline(always)]
fn put<F: Front, P: Payload + ?Sized>(
    sink: &Sink,
    epoch: u8,
    front: &F,
    activity: Option<&Guid>,
    extras: &[u64],
    payload: &P,
) -> Outcome {
    let front_words = front.len_words() + extras.len();
    let Ok(len) = u16::try_from(front_words * 8 + payload.len_bytes()) else {
        return if sink.lose() { Outcome::TooLarge } else { Outcome::NotEnabled };
    };
    let slot = match sink.reserve(epoch, len) {
        Reserve::Slot(slot) => slot,
        Reserve::Lost => return Outcome::Lost,
        Reserve::TooLarge => return Outcome::TooLarge,
        Reserve::Closed => return Outcome::NotEnabled,
    };
    let ids = etw_sys::ids::thread_and_process();
    let stamp = Stamp { ids, time: slot.time, clock: sink.clock(), activity };
    let first = fill(&slot, len, &stamp, front, extras, payload);
    sink.commit(slot, first);
    Outcome::Written
}

/// Distance in words from a record to the cache lines that are prefetched for later records. The exchange that reserves
/// room waits for all earlier stores, so slow cache lines would delay every event.
const AHEAD_WORDS: usize = 128;

/// Stores a record except for its first word, and returns that word.
#[inline(always)]
fn fill<F: Front, P: Payload + ?Sized>(
    slot: &Slot<'_>,
    len: u16,
    stamp: &Stamp<'_>,
    front: &F,
    extras: &[u64],
    payload: &P,
) -> u64 {
    let words = slot.words();
    if let [record, ..] = words {
        etw_sys::prefetch_for_writing(record, AHEAD_WORDS, words.len());
    }
    let (first, behind) = front.put(words, stamp, extras);
    let mut writer = PayloadWriter::new(behind);
    payload.put(&mut writer);
    writer.finish();
    first | u64::from(len)
}
