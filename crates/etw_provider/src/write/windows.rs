//! Writing an event by Windows' own functions.

use std::sync::atomic::AtomicU64;

use etw_event::{EventDescriptor, Guid};
use etw_sys::provider::{LARGER_THAN_BUFFER, NOT_REGISTERED, Parts, TOO_LARGE};
use etw_sys::{bytes_of, bytes_of_atomics};

use super::{
    Classic, Context, Described, MAX_RECORD_BYTES, Message, Outcome, Plain, STRING_ONLY, activity_words,
};
use crate::enables::Enables;
use crate::payload::{Payload, PayloadWriter, guid_words};

/// Words of payloads that are packed on the stack; larger ones take memory.
const ON_STACK: usize = 64;

/// The part of an event before the payload.
pub(crate) trait Front: Copy {
    /// Writes the event; the context's activities and the payload are in `parts`. Returns the code of Windows; `None` for
    /// a kind of event that providers cannot write.
    fn write(&self, enables: &Enables, parts: &Parts<'_>) -> Option<u32>;
}

impl Front for Plain<'_> {
    fn write(&self, enables: &Enables, parts: &Parts<'_>) -> Option<u32> {
        let registration = &enables.registration;
        if self.first & STRING_ONLY != 0 {
            let units: Vec<u16> =
                parts.payload.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
            let text = String::from_utf16_lossy(&units);
            let [word, keyword] = *self.descriptor;
            return Some(registration.write_string((word >> 32) as u8, keyword, &text));
        }
        Some(registration.write(&Parts { descriptor: *self.descriptor, ..*parts }))
    }
}

impl Front for Described<'_> {
    fn write(&self, enables: &Enables, parts: &Parts<'_>) -> Option<u32> {
        let descriptor = *self.plain.descriptor;
        let (traits, schema) = (data_of(self.traits), data_of(self.schema));
        Some(enables.registration.write(&Parts { descriptor, traits, schema, ..*parts }))
    }
}

impl Front for Classic {
    fn write(&self, enables: &Enables, parts: &Parts<'_>) -> Option<u32> {
        if self.instance.is_some() {
            return None;
        }
        let EventDescriptor { opcode, level, version, .. } = self.descriptor;
        let Some(classic) = enables.classic() else { return Some(NOT_REGISTERED) };
        Some(classic.event(self.class, opcode.0, level.0, version, parts.payload))
    }
}

impl Front for Message {
    fn write(&self, enables: &Enables, parts: &Parts<'_>) -> Option<u32> {
        let Some(classic) = enables.classic() else { return Some(NOT_REGISTERED) };
        Some(classic.message(self.guid, self.number, parts.payload))
    }
}

/// Returns the data of an extended item, which starts with its own size.
fn data_of(item: &[u64]) -> &[u8] {
    let data = bytes_of(item).get(8..).unwrap_or_default();
    let size = data.first_chunk().map_or(0, |size| u16::from_le_bytes(*size));
    data.get(..usize::from(size)).unwrap_or(data)
}

impl Enables {
    /// Writes an event of an activity to the sessions that want it.
    #[inline(always)]
    pub(crate) fn try_write<F: Front, P: Payload + ?Sized>(
        &self,
        _wanted: u32,
        front: &F,
        activity: Option<&Guid>,
        payload: &P,
    ) -> Option<Outcome> {
        Some(put(self, front, activity, None, payload))
    }

    /// Writes an event to the sessions that want it, with all requested items.
    #[inline(never)]
    pub(crate) fn write<F: Front, P: Payload + ?Sized>(
        &self,
        _wanted: u32,
        front: &F,
        context: &Context<'_>,
        payload: &P,
    ) -> Outcome {
        put(self, front, context.activity, context.related.map(guid_words), payload)
    }
}

/// Packs the payload and writes the event.
fn put<F: Front, P: Payload + ?Sized>(
    enables: &Enables,
    front: &F,
    activity: Option<&Guid>,
    related: Option<[u64; 2]>,
    payload: &P,
) -> Outcome {
    let len = payload.len_bytes();
    if len > MAX_RECORD_BYTES {
        return Outcome::TooLarge;
    }
    let write = |words: &mut [AtomicU64]| {
        let mut writer = PayloadWriter::new(words);
        payload.put(&mut writer);
        writer.finish();
        let payload = bytes_of_atomics(words).get(..len).unwrap_or_default();
        front.write(
            enables,
            &Parts { activity: Some(activity_words(activity)), related, payload, ..Parts::default() },
        )
    };
    let words = len.div_ceil(8);
    let mut on_stack = [const { AtomicU64::new(0) }; ON_STACK];
    let code = match on_stack.get_mut(..words) {
        Some(words) => write(words),
        None => write(&mut (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>()),
    };
    match code {
        Some(0) => Outcome::Written,
        Some(NOT_REGISTERED) => Outcome::NotEnabled,
        Some(TOO_LARGE | LARGER_THAN_BUFFER) => Outcome::TooLarge,
        Some(_) => Outcome::Lost,
        None => Outcome::Unsupported,
    }
}
