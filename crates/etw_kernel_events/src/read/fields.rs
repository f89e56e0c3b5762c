//! Reading a payload by a layout of the tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etw_event::{Guid, PointerSize, Record};

use crate::ids::EventId;

/// The fields of an event of one version, or of some.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) version: u8,
    pub(super) opcodes: &'static [u8],
    /// Where the reader's fields are.
    pub(super) places: &'static [Place],
    /// The kinds of the payload's fields, as far as their sizes can be told.
    pub(super) sequence: &'static [Kind],
}

/// Where a layout has a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) kind: Kind,
    /// Its offset with pointers of 4 and of 8 bytes; the highest number if that depends on the payload.
    pub(super) at: [u16; 2],
    /// Its number among the payload's fields.
    pub(super) order: u8,
}

impl Place {
    /// The place of a field that a layout lacks.
    pub(super) const ABSENT: Place = Place { kind: Kind::Absent, at: [u16::MAX; 2], order: 0 };
}

/// The kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Absent,
    U8,
    U16,
    U32,
    U64,
    Pointer,
    /// A port in network order.
    Port,
    Ip4,
    Ip6,
    Guid,
    /// Pointers up to the payload's end.
    Pointers,
    /// 8-bit text with its terminator.
    Narrow,
    /// UTF-16 with its terminator.
    Wide,
    /// A `TOKEN_USER` with its SID, or four zeros.
    UserSid,
}

/// The fields of one record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    payload: &'a [u8],
    layout: &'static Layout,
    has_short_pointers: bool,
}

impl<'a> Fields<'a> {
    /// Takes the layout of the highest version up to the event's; of an older event, the oldest.
    #[inline]
    pub(super) fn new(record: &Record<'a>, layouts: &'static [Layout]) -> Fields<'a> {
        let opcode = match record.hook_id() {
            Some(hook) => hook.event_type(),
            None => {
                EventId::from_provider_record(record).map_or(record.descriptor().opcode.0, EventId::opcode)
            }
        };
        let version = EventId::version_in_class(record);
        let is_it = |layout: &&Layout| layout.version <= version && layout.opcodes.contains(&opcode);
        // A reader has at least one layout.
        let layout = layouts.iter().find(is_it).unwrap_or(&layouts[layouts.len() - 1]);
        let has_short_pointers = record.pointer_size() == PointerSize::Four;
        Fields { payload: record.payload(), layout, has_short_pointers }
    }

    /// Returns the kind of a field and the payload from it on.
    #[inline(always)]
    fn from(&self, index: usize) -> Option<(Kind, &'a [u8])> {
        let place = self.layout.places.get(index)?;
        let [short, long] = place.at;
        match if self.has_short_pointers { short } else { long } {
            u16::MAX => self.walk(place),
            at => Some((place.kind, self.payload.get(usize::from(at)..)?)),
        }
    }

    /// As [`Fields::from`], for a field behind one whose size depends on the payload.
    #[cold]
    fn walk(&self, place: &Place) -> Option<(Kind, &'a [u8])> {
        let before = self.layout.sequence.get(..place.order.into()).filter(|_| place.kind != Kind::Absent)?;
        let mut rest = self.payload;
        for kind in before {
            let size = match kind {
                Kind::Absent | Kind::Pointers => return None,
                Kind::U8 => 1,
                Kind::U16 | Kind::Port => 2,
                Kind::U32 | Kind::Ip4 => 4,
                Kind::U64 => 8,
                Kind::Ip6 | Kind::Guid => 16,
                Kind::Pointer => self.pointer_bytes(),
                Kind::Narrow => narrow(rest)?.len() + 1,
                Kind::Wide => wide(rest)?.len() + 2,
                Kind::UserSid => user_sid(rest, self.pointer_bytes())?.1,
            };
            rest = rest.get(size..)?;
        }
        Some((place.kind, rest))
    }

    #[inline(always)]
    fn pointer_bytes(&self) -> usize {
        if self.has_short_pointers { 4 } else { 8 }
    }

    /// Returns a number of another size than the newest layout has.
    #[cold]
    fn number(&self, kind: Kind, rest: &[u8]) -> Option<u64> {
        match kind {
            Kind::U32 => bytes(rest).map(|bytes| u32::from_le_bytes(bytes).into()),
            Kind::U64 => bytes(rest).map(u64::from_le_bytes),
            Kind::Pointer if self.has_short_pointers => {
                bytes(rest).map(|bytes| u32::from_le_bytes(bytes).into())
            }
            Kind::Pointer => bytes(rest).map(u64::from_le_bytes),
            Kind::U16 => bytes(rest).map(|bytes| u16::from_le_bytes(bytes).into()),
            Kind::U8 => rest.first().map(|byte| (*byte).into()),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn u8(&self, index: usize) -> Option<u8> {
        match self.from(index)? {
            (Kind::U8, rest) => rest.first().copied(),
            (kind, rest) => self.number(kind, rest).map(|number| number as u8),
        }
    }

    #[inline]
    pub(super) fn u16(&self, index: usize) -> Option<u16> {
        match self.from(index)? {
            (Kind::U16, rest) => bytes(rest).map(u16::from_le_bytes),
            (kind, rest) => self.number(kind, rest).map(|number| number as u16),
        }
    }

    #[inline]
    pub(super) fn u32(&self, index: usize) -> Option<u32> {
        match self.from(index)? {
            (Kind::U32, rest) => bytes(rest).map(u32::from_le_bytes),
            (kind, rest) => self.number(kind, rest).map(|number| number as u32),
        }
    }

    #[inline]
    pub(super) fn u64(&self, index: usize) -> Option<u64> {
        match self.from(index)? {
            (Kind::U64, rest) => bytes(rest).map(u64::from_le_bytes),
            (Kind::Pointer, rest) if !self.has_short_pointers => bytes(rest).map(u64::from_le_bytes),
            (kind, rest) => self.number(kind, rest),
        }
    }

    #[inline]
    pub(super) fn port(&self, index: usize) -> Option<u16> {
        self.from(index).and_then(|(_, rest)| bytes(rest)).map(u16::from_be_bytes)
    }

    #[inline]
    pub(super) fn address(&self, index: usize) -> Option<IpAddr> {
        let (kind, rest) = self.from(index)?;
        match kind {
            Kind::Ip4 => bytes::<4>(rest).map(|bytes| Ipv4Addr::from(bytes).into()),
            Kind::Ip6 => bytes::<16>(rest).map(|bytes| Ipv6Addr::from(bytes).into()),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn guid(&self, index: usize) -> Option<Guid> {
        self.from(index).and_then(|(_, rest)| bytes(rest)).map(Guid::from_bytes)
    }

    #[inline]
    pub(super) fn pointers(&self, index: usize) -> Option<impl Iterator<Item = u64> + 'a> {
        let (_, rest) = self.from(index).filter(|(kind, _)| *kind == Kind::Pointers)?;
        let (size, is_short) = (self.pointer_bytes(), self.has_short_pointers);
        Some(rest.chunks_exact(size).map(move |chunk| match is_short {
            true => bytes(chunk).map_or(0, |bytes| u32::from_le_bytes(bytes).into()),
            false => bytes(chunk).map_or(0, u64::from_le_bytes),
        }))
    }

    pub(super) fn narrow(&self, index: usize) -> Option<&'a [u8]> {
        self.from(index).and_then(|(_, rest)| narrow(rest))
    }

    pub(super) fn wide(&self, index: usize) -> Option<&'a [u8]> {
        self.from(index).and_then(|(_, rest)| wide(rest))
    }

    pub(super) fn user_sid(&self, index: usize) -> Option<&'a [u8]> {
        self.from(index).and_then(|(_, rest)| user_sid(rest, self.pointer_bytes())).map(|(sid, _)| sid)
    }
}

#[inline(always)]
fn bytes<const N: usize>(rest: &[u8]) -> Option<[u8; N]> {
    rest.first_chunk().copied()
}

/// Returns a text without its terminator; `None` if it has none.
fn narrow(rest: &[u8]) -> Option<&[u8]> {
    rest.iter().position(|byte| *byte == 0).and_then(|end| rest.get(..end))
}

/// Returns the bytes of UTF-16 without its terminator; `None` if it has none.
fn wide(rest: &[u8]) -> Option<&[u8]> {
    let end = rest.chunks_exact(2).position(|unit| unit == [0, 0])?;
    rest.get(..2 * end)
}

/// Returns the SID behind a `TOKEN_USER`, which is empty if four zeros say that there is none, and the number of bytes of both.
fn user_sid(rest: &[u8], pointer_bytes: usize) -> Option<(&[u8], usize)> {
    // A pointer, and attributes padded to one.
    let user = 2 * pointer_bytes;
    if *rest.first_chunk()? == [0; 4] && !is_sid_behind_zeros(rest, user) {
        return Some((&[], 4));
    }
    let sid = rest.get(user..)?;
    let size = 8 + 4 * usize::from(*sid.get(1)?);
    Some((sid.get(..size)?, user + size))
}

/// Returns whether a `TOKEN_USER` of zeros, of `user` bytes, which should mean that no SID follows, is followed by one with an
/// authority below 256 nevertheless (Observed: the process events of google-sawbuck).
#[cold]
pub fn is_sid_behind_zeros(bytes: &[u8], user: usize) -> bool {
    let zeros = bytes.get(..user).is_some_and(|user| user.iter().all(|byte| *byte == 0));
    let sid = bytes.get(user..).unwrap_or_default();
    let [1, count @ 1..=15, 0, 0, 0, 0, 0, _, ..] = sid else { return false };
    zeros && sid.len() >= 8 + 4 * usize::from(*count)
}
