//! The positions of a record's parts: the result of parsing, so that nothing is located twice.

use crate::{ExtendedItems, Fields, HeaderKind, MessageFlags, Origin, Record, RecordError, Ticks};

/// The result of parsing a record: kind, size, time, and the start of its payload.
///
/// An outline does not borrow the bytes, so it can be stored where a [`Record`] cannot, and turns back into one at no
/// cost. It takes 16 bytes without padding, so that it is copied in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    raw_time: Ticks,
    len_bytes: u32,
    /// At most the size, which is below 64 KiB except in `WNODE_HEADER` blocks, whose payload starts at 0x30.
    payload_offset: u16,
    kind: HeaderKind,
    intact: bool,
}

/// How the first four bytes of most records determine the positions of its parts.
#[derive(Clone, Copy)]
struct Shape {
    kind: HeaderKind,
    header: u8,
    time_at: u8,
    /// Bits of byte 1 that count performance counters before the payload.
    counters: u8,
    /// Bits of byte 4 that announce extended items before the payload.
    items: u8,
}

/// The shapes of records that start with 0xC0, by byte 2.
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the codes are those below 0x20, the length of the table, and headers are at most 0x50 bytes long"
)]
static SHAPES: [Option<Shape>; 0x20] = {
    let mut shapes = [None; 0x20];
    let mut code = 0;
    while code < shapes.len() {
        shapes[code] = match HeaderKind::from_code(code as u8) {
            None | Some(HeaderKind::Message) => None,
            Some(kind) => Some(Shape {
                kind,
                header: kind.len_bytes() as u8,
                time_at: match kind.time_offset() {
                    Some(offset) => offset as u8,
                    None => 0,
                },
                counters: if kind.has_hook_id() { 0x87 } else { 0 },
                items: if kind.is_event_header() { 1 } else { 0 },
            }),
        };
        code += 1;
    }
    shapes
};

/// Has a bit set for each value of byte 2 that marks a record with a hook id, whose size is after its first four bytes.
const SIZE_BEHIND: u32 = {
    let (mut bits, mut code) = (0, 0);
    while code < 32 {
        if let Some(kind) = HeaderKind::from_code(code)
            && kind.has_hook_id()
        {
            bits |= 1 << code;
        }
        code += 1;
    }
    bits
};

impl Outline {
    /// Parses the record at the start of `bytes`, which extend to the end of the buffer's data.
    ///
    /// `previous` is the time of the preceding record, which a WPP message without a time of its own inherits.
    ///
    /// # Errors
    ///
    /// Fails if the header or the record does not fit into `bytes`, or the kind of header is unknown.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "the size is a u16 that `check_size` compared with the bytes, and the payload starts within it"
    )]
    pub fn parse(bytes: &[u8], previous: Ticks) -> Result<Outline, RecordError> {
        let Some(word) = bytes.u64_at(0) else {
            return Err(RecordError::HeaderCut { needed: 8, available: bytes.len() });
        };
        let first = (word & 0xFFFF_FFFF) as u32;
        if first >> 24 != 0xC0 {
            return Outline::parse_other(bytes, first, previous);
        }
        let code = first >> 16 & 0xFF;
        let Some(shape) = SHAPES.get(code as usize).and_then(Option::as_ref) else {
            return Err(RecordError::UnknownHeader(first));
        };
        let header = usize::from(shape.header);
        // The position of the next record depends only on the size, so it does not wait for the shape.
        let size = usize::from(if SIZE_BEHIND >> (code & 31) & 1 == 1 {
            (word >> 32 & 0xFFFF) as u16
        } else {
            (word & 0xFFFF) as u16
        });
        check_size(header, size, bytes.len())?;
        let counters = first >> 8 & u32::from(shape.counters);
        let behind_counters = header + 8 * ((counters >> 7) + (counters & 7)) as usize;
        let (payload_offset, intact) = if (word >> 32 & 0xFF) as u8 & shape.items != 0 {
            behind_items(&bytes[..size])
        } else {
            (if behind_counters <= size { behind_counters } else { header }, behind_counters <= size)
        };
        Ok(Outline {
            raw_time: Ticks(bytes.i64_at(shape.time_at.into()).unwrap_or(0)),
            len_bytes: size as u32,
            payload_offset: payload_offset as u16,
            kind: shape.kind,
            intact,
        })
    }

    /// Parses other kinds: WPP messages, `TIMED_TRACE_HEADER`, and `WNODE_HEADER`, whose first field is its size.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "the size is a u32 that `check_size` compared with the bytes, and no header is above 0x50 bytes"
    )]
    fn parse_other(bytes: &[u8], first: u32, previous: Ticks) -> Result<Outline, RecordError> {
        let (kind, size) = match first >> 24 {
            0x90..=0x9F => (HeaderKind::Message, first & 0xFFFF),
            0xB0..=0xBF => (HeaderKind::Timed, first & 0xFFFF),
            0x00..=0x7F => (HeaderKind::Wnode, first),
            _ => return Err(RecordError::UnknownHeader(first)),
        };
        let (header, size) = (kind.len_bytes(), size as usize);
        check_size(header, size, bytes.len())?;
        let bytes = &bytes[..size];
        let time_at = |offset| Ticks(bytes.i64_at(offset).unwrap_or(0));
        let (raw_time, payload_offset) = match kind {
            HeaderKind::Message => {
                let flags = MessageFlags(bytes.u16_at(6).unwrap_or(0));
                let payload_offset = header + flags.optional_len_bytes();
                if payload_offset > size {
                    return Err(RecordError::Size { size, header: payload_offset, available: size });
                }
                (flags.offset_of(MessageFlags::TIMESTAMP).map_or(previous, time_at), payload_offset)
            }
            HeaderKind::Timed => (time_at(0x08), header),
            _ => (time_at(0x10), header),
        };
        let (len_bytes, payload_offset) = (size as u32, payload_offset as u16);
        Ok(Outline { raw_time, len_bytes, payload_offset, kind, intact: true })
    }

    /// Returns the record with this outline; `None` if `bytes` is shorter than the record it was parsed from.
    #[inline(always)]
    pub fn record<'a>(self, bytes: &'a [u8], origin: &'a Origin) -> Option<Record<'a>> {
        Some(Record::new(bytes.get(..self.len_bytes as usize)?, origin, self))
    }

    /// Returns the bytes from the record's start to the next one's: the size rounded up to 8.
    #[inline]
    pub fn stride_bytes(&self) -> usize {
        (self.len_bytes as usize).next_multiple_of(8)
    }

    /// Returns the kind of the header.
    #[inline]
    pub fn kind(&self) -> HeaderKind {
        self.kind
    }

    /// Returns whether the parts between header and payload (extended items, counters) are well-formed. If not, the
    /// payload may contain remains of them.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.intact
    }

    /// Returns the time on the session's raw clock.
    #[inline]
    pub fn raw_time(&self) -> Ticks {
        self.raw_time
    }

    /// Returns the payload's offset in the record.
    #[inline]
    pub fn payload_offset(&self) -> usize {
        self.payload_offset.into()
    }
}

#[inline(always)]
fn check_size(header: usize, size: usize, available: usize) -> Result<(), RecordError> {
    if available < header {
        return Err(RecordError::HeaderCut { needed: header, available });
    }
    if size < header || size > available {
        return Err(RecordError::Size { size, header, available });
    }
    Ok(())
}

/// Returns where the payload of an event with extended items starts, and whether the items are well-formed.
#[inline]
fn behind_items(bytes: &[u8]) -> (usize, bool) {
    let mut items = ExtendedItems::new(bytes.get(0x50..).unwrap_or_default());
    while items.next().is_some() {}
    (bytes.len() - items.rest().len(), items.ended())
}
