//! From an event to its record in the sessions' regions.

use etw_buffer::Reserve;
use etw_event::{EventDescriptor, Guid};

use crate::activity;
use crate::enables::{Enables, Entry, Settings};
use crate::extras::{Extras, LINKAGE};
use crate::payload::{Payload, PayloadWriter, guid_words};
use crate::sink::Sink;

/// The largest record, in bytes: its size is a `u16`.
pub const MAX_RECORD_BYTES: usize = 0xFFFF;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No session wants it.
    NotEnabled,
    /// Every session that wants it has it.
    Written,
    /// A session that wants it has no free buffer; it is counted there as lost.
    Lost,
    /// The record would be larger than 65535 bytes, or than a buffer of a session; it is counted there as lost.
    TooLarge,
}

/// The words of a record that are known before it is written.
#[derive(Debug)]
pub(crate) struct Template<'a> {
    /// Header type, and for classic events type, level and version; the size is added.
    pub(crate) first: u64,
    /// Provider, or class of a classic event.
    pub(crate) guid: [u64; 2],
    /// `None` for a classic event, whose header ends with its CPU times.
    pub(crate) descriptor: Option<[u64; 2]>,
    /// Extended items that every record has, of which the last one announces no further one. The first, the
    /// provider's traits, announces the second.
    pub(crate) items: [&'a [u64]; 2],
}

/// `EVENT_HEADER` with 64-bit pointers.
pub(crate) const EVENT_HEADER: u64 = 0xC013_0000;
/// `EVENT_TRACE_HEADER` of 64 bits.
pub(crate) const CLASSIC_HEADER: u64 = 0xC014_0000;
/// `EVENT_HEADER_FLAG_EXTENDED_INFO`, as it stands in the first word.
const EXTENDED: u64 = 1 << 32;
/// `EVENT_HEADER_FLAG_STRING_ONLY`.
pub(crate) const STRING_ONLY: u64 = 4 << 32;

/// A descriptor as the two words of a record.
pub(crate) const fn descriptor_words(descriptor: &EventDescriptor) -> [u64; 2] {
    let word = descriptor.id as u64
        | (descriptor.version as u64) << 16
        | (descriptor.channel as u64) << 24
        | (descriptor.level.0 as u64) << 32
        | (descriptor.opcode.0 as u64) << 40
        | (descriptor.task as u64) << 48;
    [word, descriptor.keyword.0]
}

/// What filters look at beside the record's words.
pub(crate) struct Subject<'a> {
    pub(crate) descriptor: &'a EventDescriptor,
    /// Name of a TraceLogging event.
    pub(crate) name: Option<&'a str>,
}

impl Enables {
    /// Writes an event to the sessions of the bits of `wanted`. No lock, no system call, no allocation.
    #[inline(always)]
    pub(crate) fn write<P: Payload + ?Sized>(
        &self,
        wanted: u32,
        template: &Template<'_>,
        activity: Option<&Guid>,
        related: Option<&Guid>,
        subject: &Subject<'_>,
        payload: &P,
    ) -> Outcome {
        let mut rest = wanted;
        let mut outcome = Outcome::NotEnabled;
        let activity = match activity {
            Some(activity) => guid_words(activity),
            None => activity::current_words(),
        };
        let len_bytes = payload.len_bytes();
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            let Some(entry) = self.entry(index) else { break };
            let settings = entry.settings();
            let one = if settings.is_plain() && related.is_none() {
                let Some(sink) = entry.sink.load() else { continue };
                put(sink, settings.epoch(), template, activity, &[], payload, len_bytes)
            } else {
                with_extras(entry, settings, template, activity, related, subject, payload, len_bytes)
            };
            outcome = outcome.and(one);
        }
        outcome
    }
}

impl Outcome {
    /// The worse of two.
    #[inline(always)]
    fn and(self, other: Outcome) -> Outcome {
        if other as u8 > self as u8 { other } else { self }
    }
}

/// Writes to a session that has filters, or asks for extended items.
#[cold]
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "the parts of one event")]
fn with_extras<P: Payload + ?Sized>(
    entry: &Entry,
    settings: Settings,
    template: &Template<'_>,
    activity: [u64; 2],
    related: Option<&Guid>,
    subject: &Subject<'_>,
    payload: &P,
    len_bytes: usize,
) -> Outcome {
    let Some(sink) = entry.sink.load() else { return Outcome::NotEnabled };
    let mut properties = settings.properties();
    if let Some(filters) = entry.filters.load() {
        match filters.look(subject, template.items[1], properties, payload, len_bytes) {
            Some(remaining) => properties = remaining,
            None => return Outcome::NotEnabled,
        }
    }
    if template.descriptor.is_none() {
        // Classic records have no extended items.
        return put(sink, settings.epoch(), template, activity, &[], payload, len_bytes);
    }
    let mut extras = Extras::new(properties, related);
    let is_followed = template.items.iter().any(|item| !item.is_empty());
    put(sink, settings.epoch(), template, activity, extras.words(is_followed), payload, len_bytes)
}

/// Writes one record.
#[inline(always)]
fn put<P: Payload + ?Sized>(
    sink: &Sink,
    epoch: u8,
    template: &Template<'_>,
    activity: [u64; 2],
    extras: &[u64],
    payload: &P,
    payload_len_bytes: usize,
) -> Outcome {
    let [traits, schema] = template.items;
    let header_words = if template.descriptor.is_some() { 10 } else { 6 };
    let front_words = header_words + extras.len() + traits.len() + schema.len();
    let len_bytes = front_words * 8 + payload_len_bytes;
    let Ok(len) = u16::try_from(len_bytes) else {
        sink.lose(epoch);
        return Outcome::TooLarge;
    };
    let slot = match sink.reserve(epoch, len) {
        Reserve::Slot(slot) => slot,
        Reserve::Lost => return Outcome::Lost,
        Reserve::TooLarge => return Outcome::TooLarge,
        Reserve::Closed => return Outcome::NotEnabled,
    };
    let words = slot.words();
    let store = |index: usize, word: u64| {
        if let Some(place) = words.get(index) {
            place.store(word, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let mut first = template.first | u64::from(len);
    // One check of the length serves all of the header.
    if let Some(descriptor) = template.descriptor
        && words.len() >= 10
    {
        store(1, etw_sys::ids::thread_and_process());
        store(2, slot.time);
        store(3, template.guid[0]);
        store(4, template.guid[1]);
        store(5, descriptor[0]);
        store(6, descriptor[1]);
        // Word 7, the CPU times, stays 0: to ask for them would be a system call.
        store(8, activity[0]);
        store(9, activity[1]);
        let mut at = 10;
        for word in extras {
            store(at, *word);
            at += 1;
        }
        if let Some((header, data)) = traits.split_first() {
            store(at, if schema.is_empty() { *header } else { *header | LINKAGE });
            at += 1;
            for word in data {
                store(at, *word);
                at += 1;
            }
        }
        for word in schema {
            store(at, *word);
            at += 1;
        }
        if at > 10 {
            first |= EXTENDED;
        }
    } else {
        store(1, etw_sys::ids::thread_and_process());
        store(2, slot.time);
        store(3, template.guid[0]);
        store(4, template.guid[1]);
    }
    let mut writer = PayloadWriter::new(words.get(front_words..).unwrap_or_default());
    payload.put(&mut writer);
    writer.finish();
    sink.commit(slot, first);
    Outcome::Written
}
