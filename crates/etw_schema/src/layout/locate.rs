//! The positions of the properties in one payload.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a payload is part of a buffer of at most 64 MiB, and has at most 4 values for each byte and 4096 more; what \
              it says of sizes and counts is compared with that before it is cast; frames have at most 65535 places"
)]

use etw_event::{Clock, Fields, PointerSize};

use super::scan::{ansi_len, utf16_len};
use super::{Elements, FRAME_START, Frame, LayoutDefect, MAX_EMPTY_VALUES, Op, Part, Plan, Shape, Stated};
use crate::{Inference, Inferred};

/// The positions of the properties in one event. Reused between events, so that locating does not allocate.
///
/// Filled by [`CompiledSchema::locate`](crate::CompiledSchema::locate).
#[derive(Debug, Clone, Default)]
pub struct Located {
    /// The event's slots, followed by those of its structs and arrays.
    pub(crate) slots: Vec<Slot>,
    registers: Vec<u64>,
    pub(crate) pointer: PointerSize,
    pub(crate) members: u16,
    pub(crate) end: u32,
    /// The clock for raw times.
    pub(crate) clock: Clock,
    used: u32,
    error: Option<LocateError>,
    /// What was inferred for this event alone.
    pub(crate) inferred: Option<Inference>,
}

/// A part of varying size. All positions are offsets in the payload.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slot {
    /// First byte of the value, after a length prefix.
    pub(crate) start: u32,
    /// End of the value, before a terminator.
    pub(crate) end: u32,
    /// Start of the next member.
    pub(crate) next: u32,
    /// Number of elements of an array.
    pub(crate) count: u32,
    /// Index of the first child slot.
    pub(crate) child: u32,
}

/// A mismatch between a payload and its schema. The properties before it are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocateError {
    /// Index in the schema's properties of the first one that does not fit: a top-level property or a struct's member.
    pub property: u16,
    /// Offset in the payload where it starts, as far as known.
    pub offset: u32,
    /// The kind of mismatch.
    pub kind: LocateErrorKind,
}

/// The kinds of [`LocateError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocateErrorKind {
    /// The payload is too short.
    #[error("needs {needed} bytes, the payload has {available} left")]
    Short {
        /// Bytes needed, as far as known.
        needed: u64,
        /// Bytes available.
        available: u32,
    },
    /// An array has more elements than any payload can hold.
    #[error("an array of {0} elements is more than a payload holds")]
    TooMany(u64),
    /// The schema is invalid at this property.
    #[error("invalid schema: {0}")]
    Defect(LayoutDefect),
    /// The property is inferred, and the payload does not end where the properties end.
    #[error("not certain: {0}, and the payload does not end where the properties would")]
    Inferred(Inference),
}

impl LocateErrorKind {
    /// Returns whether the payload ends before a property that the schema has.
    pub fn is_cut(&self) -> bool {
        matches!(self, LocateErrorKind::Short { .. } | LocateErrorKind::TooMany(_))
    }
}

impl Located {
    /// Creates an empty set of positions.
    pub fn new() -> Located {
        Located::default()
    }

    /// Returns the number of located top-level properties, counted from the first.
    pub fn properties(&self) -> usize {
        self.members.into()
    }

    /// Returns the number of payload bytes used by the located properties.
    pub fn consumed_bytes(&self) -> usize {
        self.end as usize
    }

    /// Returns why some properties were not located.
    pub fn error(&self) -> Option<&LocateError> {
        self.error.as_ref()
    }

    /// Returns the pointer size used to read the payload.
    pub fn pointer_size(&self) -> PointerSize {
        self.pointer
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Slot {
        self.slots.get(index as usize).copied().unwrap_or_default()
    }

    /// Allocates `count` slots and returns the index of the first.
    #[inline]
    fn take(&mut self, count: usize) -> usize {
        let first = self.used as usize;
        let end = first + count;
        if self.slots.len() < end {
            self.slots.resize(end, Slot::default());
        }
        self.used = end as u32;
        first
    }
}

/// Locates the properties of a payload.
///
/// If the payload does not end where inferred properties end, locates only those that the source states.
#[inline]
pub(super) fn locate(plan: &Plan, payload: &[u8], pointer: PointerSize, located: &mut Located) {
    let top = plan.top();
    located.pointer = pointer;
    // Of a payload that ends where properties of fixed sizes end, nothing else has to be known.
    if let Some(fixed) = top.fixed
        && fixed as usize == payload.len()
    {
        located.error = None;
        located.inferred = None;
        located.members = top.places.len() as u16;
        located.end = fixed;
        return;
    }
    locate_all(plan, payload, located);
    if let Some(stated) = &plan.stated {
        locate_stated(stated, payload, located);
    }
}

/// Locates the stated properties alone, unless the payload ends where the inferred ones end.
#[cold]
fn locate_stated(stated: &Stated, payload: &[u8], located: &mut Located) {
    if located.end as usize == payload.len() && located.error.is_none() {
        return;
    }
    locate_all(&stated.plan, payload, located);
    if located.error.is_none() {
        let Inferred { from, what } = stated.inferred;
        let kind = LocateErrorKind::Inferred(what);
        located.error = Some(LocateError { property: from, offset: located.end, kind });
    }
}

#[inline(always)]
fn locate_all(plan: &Plan, payload: &[u8], located: &mut Located) {
    let top = plan.top();
    located.used = 0;
    located.error = None;
    located.inferred = None;
    located.members = top.places.len() as u16;
    if let Some(fixed) = top.fixed
        && fixed as usize <= payload.len()
    {
        located.end = fixed;
        return;
    }
    if plan.registers != 0 {
        located.registers.clear();
        located.registers.resize(plan.registers.into(), 0);
    }
    let slots = located.take(top.slots.into());
    let mut run = Run { plan, payload, pointer: located.pointer.bytes(), located };
    match run.frame(top, 0, slots) {
        Ok(end) => located.end = end as u32,
        Err(stop) => located.fail(plan, stop),
    }
}

/// The reason why a frame could only be located in part.
struct Stop {
    /// Index of the failing member in the frame.
    member: u16,
    /// Start of that member.
    member_start: usize,
    error: LocateError,
}

impl Located {
    #[cold]
    fn fail(&mut self, plan: &Plan, stop: Stop) {
        let top = plan.top();
        self.members = stop.member;
        self.end = stop.member_start as u32;
        let is_absent = matches!(stop.error.kind, LocateErrorKind::Short { available: 0, .. });
        let optional = top
            .steps
            .iter()
            .any(|step| step.member == stop.member && matches!(step.op, Op::Value { optional: true, .. }));
        if !is_absent || !optional {
            self.error = Some(stop.error);
        } else if plan.completes_strings {
            let (empty, all) = (self.end, top.places.len() as u16);
            for step in top.steps.iter().filter(|step| step.member >= stop.member) {
                if let Some(slot) = self.slots.get_mut(usize::from(step.slot)) {
                    *slot = Slot { start: empty, end: empty, next: empty, ..Slot::default() };
                }
            }
            self.inferred = Some(Inference::LeftOut(all - stop.member));
            self.members = all;
        }
    }
}

struct Run<'r> {
    plan: &'r Plan,
    payload: &'r [u8],
    pointer: usize,
    located: &'r mut Located,
}

/// Why a part does not fit: the bytes it needs, or too many elements.
enum Misfit {
    Needs(u64),
    TooMany(u64),
}

impl Run<'_> {
    /// Locates one instance of a frame whose slots start at `slots`. Returns the end of the instance.
    fn frame(&mut self, frame: &Frame, start: usize, slots: usize) -> Result<usize, Stop> {
        let mut base = start;
        let mut last = FRAME_START;
        for step in &frame.steps {
            let at = base + step.at as usize;
            let found = match step.op {
                Op::Load { register, width } => {
                    let Some(value) = integer(self.payload, at, width) else {
                        return Err(self.short(frame, last, base));
                    };
                    if let Some(kept) = self.located.registers.get_mut(usize::from(register)) {
                        *kept = value;
                    }
                    continue;
                }
                _ if at > self.payload.len() => return Err(self.short(frame, last, base)),
                // The common case is handled here, so that the slot is written from registers.
                Op::Value { part, .. } => match self.part(part, at) {
                    Ok((start, end, next)) => {
                        base = next;
                        last = step.slot;
                        if let Some(place) = self.located.slots.get_mut(slots + usize::from(step.slot)) {
                            place.start = start as u32;
                            place.end = end as u32;
                            place.next = next as u32;
                        }
                        continue;
                    }
                    Err(misfit) => Err(misfit),
                },
                Op::Elements { size, count, values } => self.elements(size, count, values, at),
                Op::VaryingElements { part, count } => self.varying_elements(part, count, at),
                Op::Struct { frame: inner } => match self.structs(inner, None, at) {
                    Ok(found) => found,
                    Err(stop) => return Err(stop.within(step.member, at)),
                },
                Op::Structs { frame: inner, count } => match self.structs(inner, Some(count), at) {
                    Ok(found) => found,
                    Err(stop) => return Err(stop.within(step.member, at)),
                },
                Op::Defect(defect) => {
                    return Err(stop(frame, step.member, at, LocateErrorKind::Defect(defect)));
                }
            };
            match found {
                Ok(slot) => {
                    base = slot.next as usize;
                    last = step.slot;
                    if let Some(place) = self.located.slots.get_mut(slots + usize::from(step.slot)) {
                        *place = slot;
                    }
                }
                Err(misfit) => {
                    let kind = self.misfit(misfit, at);
                    return Err(stop(frame, step.member, at, kind));
                }
            }
        }
        let end = base + frame.tail as usize;
        if end > self.payload.len() { Err(self.short(frame, last, base)) } else { Ok(end) }
    }

    /// Returns start, end and next of a value that starts at `at`, which is not past the end.
    #[inline(always)]
    fn part(&self, part: Part, at: usize) -> Result<(usize, usize, usize), Misfit> {
        let rest = self.payload.get(at..).unwrap_or_default();
        let (skip, len, after) = match part {
            Part::Utf16 => match utf16_len(rest) {
                Some(len) => (0, len, 2),
                None if rest.is_empty() => return Err(Misfit::Needs(2)),
                None => (0, rest.len() & !1, rest.len() & 1),
            },
            Part::Ansi => match ansi_len(rest) {
                Some(len) => (0, len, 1),
                None if rest.is_empty() => return Err(Misfit::Needs(1)),
                None => (0, rest.len(), 0),
            },
            Part::Counted => (2, rest.u16_at(0).ok_or(Misfit::Needs(2))?.into(), 0),
            Part::ReverseCounted => (2, rest.u16_at(0).ok_or(Misfit::Needs(2))?.swap_bytes().into(), 0),
            Part::LongCounted => (4, rest.u32_at(0).ok_or(Misfit::Needs(4))? as usize, 0),
            Part::Sid => (0, 8 + 4 * usize::from(rest.u8_at(1).ok_or(Misfit::Needs(8))?), 0),
            Part::WbemSid => {
                let user = 2 * self.pointer;
                match rest.u32_at(0).ok_or(Misfit::Needs(4))? {
                    0 if !etw_kernel_events::read::is_sid_behind_zeros(rest, user) => (4, 0, 0),
                    _ => {
                        let count = rest.u8_at(user + 1).ok_or(Misfit::Needs(user as u64 + 8))?;
                        (user, 8 + 4 * usize::from(count), 0)
                    }
                }
            }
            Part::Register { register, unit } => {
                let bytes = self.register(register).saturating_mul(unit.into());
                (0, usize::try_from(bytes).map_err(|_| Misfit::Needs(bytes))?, 0)
            }
            Part::Rest { unit } => {
                let odd = rest.len() % usize::from(unit.max(1));
                (0, rest.len() - odd, odd)
            }
        };
        let needed = (skip as u64) + (len as u64) + (after as u64);
        if needed > rest.len() as u64 {
            return Err(Misfit::Needs(needed));
        }
        let start = at + skip;
        let end = start + len;
        Ok((start, end, end + after))
    }

    fn register(&self, register: u16) -> u64 {
        self.located.registers.get(usize::from(register)).copied().unwrap_or(0)
    }

    /// Returns the number of elements and their start. The number is `None` for arrays up to the payload's end.
    fn count(&self, count: Elements, at: usize) -> Result<(Option<u64>, usize), Misfit> {
        Ok(match count {
            Elements::Fixed(count) => (Some(count.into()), at),
            Elements::Register(register) => (Some(self.register(register)), at),
            Elements::Prefixed => (Some(self.payload.u16_at(at).ok_or(Misfit::Needs(2))?.into()), at + 2),
            Elements::ToEnd => (None, at),
        })
    }

    fn elements(&self, size: u32, count: Elements, values: u32, at: usize) -> Result<Slot, Misfit> {
        let (count, start) = self.count(count, at)?;
        let available = (self.payload.len() - start) as u64;
        let size = u64::from(size);
        // An array of elements without bytes is empty: nothing separates them.
        let fitting = available.checked_div(size);
        let count = fitting.map_or(0, |fitting| count.unwrap_or(fitting));
        let bytes = count.saturating_mul(size);
        if bytes > available {
            return Err(Misfit::Needs((start - at) as u64 + bytes));
        }
        if count.saturating_mul(values.into()) > self.max_values() {
            return Err(Misfit::TooMany(count));
        }
        let end = start + bytes as usize;
        Ok(Slot { start: start as u32, end: end as u32, next: end as u32, count: count as u32, child: 0 })
    }

    fn varying_elements(&mut self, part: Part, count: Elements, at: usize) -> Result<Slot, Misfit> {
        let (count, start) = self.count(count, at)?;
        let available = self.payload.len() - start;
        self.limit(count, part.min_bytes(), 1, 1, (at, start))?;
        let child = match count {
            Some(count) => self.located.take(count as usize),
            None => self.located.used as usize,
        };
        let mut next = start;
        let mut index = 0;
        while count.map_or(next < self.payload.len() && index < available, |count| (index as u64) < count) {
            let (start, end, behind) = self.part(part, next).map_err(|misfit| match misfit {
                Misfit::Needs(needed) => Misfit::Needs((next - at) as u64 + needed),
                other => other,
            })?;
            if count.is_none() {
                self.located.take(1);
            }
            if let Some(place) = self.located.slots.get_mut(child + index) {
                *place =
                    Slot { start: start as u32, end: end as u32, next: behind as u32, count: 1, child: 0 };
            }
            next = behind;
            index += 1;
        }
        Ok(Slot {
            start: start as u32,
            end: next as u32,
            next: next as u32,
            count: index as u32,
            child: child as u32,
        })
    }

    /// Rejects counts that the rest of the payload cannot hold, before allocating for them. The array starts at `at`,
    /// its elements at `start`.
    fn limit(
        &self,
        count: Option<u64>,
        min: u32,
        slots: u32,
        values: u32,
        (at, start): (usize, usize),
    ) -> Result<(), Misfit> {
        let Some(count) = count else { return Ok(()) };
        let available = (self.payload.len() - start) as u64;
        let bytes = count.saturating_mul(min.into());
        if bytes > available {
            return Err(Misfit::Needs(bytes.saturating_add((start - at) as u64)));
        }
        let room = self.max_values().saturating_sub(self.located.used.into());
        if count.saturating_mul(slots.max(values).into()) > room {
            return Err(Misfit::TooMany(count));
        }
        Ok(())
    }

    /// Locates a struct, or an array of structs.
    fn structs(
        &mut self,
        frame: u16,
        count: Option<Elements>,
        at: usize,
    ) -> Result<Result<Slot, Misfit>, Stop> {
        let plan = self.plan;
        let frame = plan.frame(frame);
        let Some(count) = count else {
            if let Err(misfit) = self.limit(Some(1), 0, frame.slots.into(), 1, (at, at)) {
                return Ok(Err(misfit));
            }
            let child = self.located.take(frame.slots.into());
            let end = self.frame(frame, at, child)? as u32;
            return Ok(Ok(Slot { start: at as u32, end, next: end, count: 1, child: child as u32 }));
        };
        let (count, start) = match self.count(count, at) {
            Ok(found) => found,
            Err(misfit) => return Ok(Err(misfit)),
        };
        let stride = usize::from(frame.slots) + 1;
        if let Err(misfit) = self.limit(count, frame.min, stride as u32, frame.values, (at, start)) {
            return Ok(Err(misfit));
        }
        // The slots of all instances are adjacent and precede those of their own structs and arrays. An array up to the
        // end has at most one instance per byte.
        let room = count.unwrap_or_else(|| (self.payload.len() - start) as u64 / u64::from(frame.min.max(1)));
        let room = room.min(self.max_values() / stride as u64) as usize;
        let child = self.located.take(room * stride);
        let mut next = start;
        let mut index = 0;
        while index < room && (count.is_some() || next < self.payload.len()) {
            let own = child + index * stride;
            let end = self.frame(frame, next, own + 1)?;
            if let Some(place) = self.located.slots.get_mut(own) {
                *place = Slot { start: next as u32, end: end as u32, next: end as u32, count: 1, child: 0 };
            }
            next = end;
            index += 1;
        }
        Ok(Ok(Slot {
            start: start as u32,
            end: next as u32,
            next: next as u32,
            count: index as u32,
            child: child as u32,
        }))
    }

    /// Returns the limit of values in a payload of this size. It exceeds the number of bytes, because some values are
    /// empty, but keeps a small event from costing as much as a large one.
    fn max_values(&self) -> u64 {
        4 * self.payload.len() as u64 + u64::from(MAX_EMPTY_VALUES)
    }

    fn misfit(&self, misfit: Misfit, at: usize) -> LocateErrorKind {
        match misfit {
            Misfit::Needs(needed) => {
                LocateErrorKind::Short { needed, available: self.payload.len().saturating_sub(at) as u32 }
            }
            Misfit::TooMany(count) => LocateErrorKind::TooMany(count),
        }
    }

    /// Finds the fixed member after slot `last`, which ends at `base`, that does not fit in the payload.
    #[cold]
    fn short(&self, frame: &Frame, last: u16, base: usize) -> Stop {
        let mut at = base;
        for (place, member) in frame.places.iter().zip(0..) {
            let fixed =
                matches!(place.shape, Shape::Fixed | Shape::FixedArray | Shape::Struct | Shape::StructArray);
            if place.base != last || !fixed {
                continue;
            }
            at = base + place.offset as usize;
            let needed = u64::from(place.size) * u64::from(place.count);
            if at as u64 + needed > self.payload.len() as u64 {
                let available = self.payload.len().saturating_sub(at) as u32;
                return stop(frame, member, at, LocateErrorKind::Short { needed, available });
            }
        }
        stop(frame, 0, at, LocateErrorKind::Short { needed: 0, available: 0 })
    }
}

impl Stop {
    /// Converts the stop to the frame that contains the struct.
    fn within(self, member: u16, member_start: usize) -> Stop {
        Stop { member, member_start, error: self.error }
    }
}

#[cold]
fn stop(frame: &Frame, member: u16, at: usize, kind: LocateErrorKind) -> Stop {
    let property = frame.first.saturating_add(member);
    Stop { member, member_start: at, error: LocateError { property, offset: at as u32, kind } }
}

#[inline]
fn integer(payload: &[u8], at: usize, width: u8) -> Option<u64> {
    match width {
        1 => payload.u8_at(at).map(u64::from),
        2 => payload.u16_at(at).map(u64::from),
        4 => payload.u32_at(at).map(u64::from),
        _ => payload.u64_at(at),
    }
}
