//! Writing events: what an event consists of, and how it reaches the sessions of this system.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

use etw_event::{EventDescriptor, Guid, Record};

use crate::activity;
use crate::payload::guid_words;

/// The maximum size of a record in bytes: the size field is a `u16`.
pub const MAX_RECORD_BYTES: usize = 0xFFFF;

/// The result of writing an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No session wants it.
    NotEnabled,
    /// Every session that wants it has received it.
    Written,
    /// A session that wants it has no free buffer; the session counts it as lost.
    Lost,
    /// The record would be larger than 65535 bytes, or than a buffer of a session; the session counts it as lost.
    TooLarge,
    /// Windows cannot write an event of this kind so: one of an instance that the program numbers itself
    /// ([`trace_event_instance`](crate::Provider::trace_event_instance)).
    #[cfg(windows)]
    Unsupported,
}

/// An event with nothing but its header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a> {
    /// Header type and flags.
    pub(crate) first: u64,
    #[cfg_attr(windows, expect(dead_code, reason = "Windows knows the provider by its registration"))]
    pub(crate) provider: &'a [u64; 2],
    pub(crate) descriptor: &'a [u64; 2],
}

/// An event with known extended items: the provider's traits, and optionally TraceLogging metadata.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described<'a> {
    pub(crate) plain: Plain<'a>,
    pub(crate) traits: &'a [u64],
    pub(crate) schema: &'a [u64],
}

/// A classic event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Classic {
    pub(crate) class: [u64; 2],
    pub(crate) descriptor: EventDescriptor,
    /// Id and parent's id, and the parent's class, of an event of an instance.
    pub(crate) instance: Option<[u64; 3]>,
}

/// A WPP message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// The GUID that identifies its file of formats, if it has one.
    pub(crate) guid: Option<[u64; 2]>,
    pub(crate) number: u16,
}

/// `EVENT_HEADER` with 64-bit pointers and without CPU times.
pub(crate) const EVENT_HEADER: u64 = 0xC013_0000 | (Record::NO_CPU_TIME as u64) << 32;
/// `EVENT_HEADER_FLAG_STRING_ONLY`.
pub(crate) const STRING_ONLY: u64 = 4 << 32;

/// Returns a descriptor as the two words of a record.
pub(crate) const fn descriptor_words(descriptor: &EventDescriptor) -> [u64; 2] {
    let word = descriptor.id as u64
        | (descriptor.version as u64) << 16
        | (descriptor.channel as u64) << 24
        | (descriptor.level.0 as u64) << 32
        | (descriptor.opcode.0 as u64) << 40
        | (descriptor.task as u64) << 48;
    [word, descriptor.keyword.0]
}

/// Context of an event besides its provider.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Context<'a> {
    /// The event's activity, if not the thread's.
    pub(crate) activity: Option<&'a Guid>,
    /// The activity that caused the event's activity.
    pub(crate) related: Option<&'a Guid>,
    /// Name of a TraceLogging event, used by filters.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows applies filters"))]
    pub(crate) name: Option<&'a str>,
}

/// Returns the words of an activity: this one, or the thread's.
#[inline(always)]
pub(crate) fn activity_words(activity: Option<&Guid>) -> [u64; 2] {
    match activity {
        Some(activity) => guid_words(activity),
        None => activity::current_words(),
    }
}
