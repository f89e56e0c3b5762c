//! Events of Windows (`EVENT_RECORD`) as the records that trace files have.

use etw_event::{Fields, Guid};
use etw_sys::consumer::HEADER_BYTES;

/// `EVENT_HEADER_FLAG_EXTENDED_INFO`.
const EXTENDED: u16 = 0x1;
/// `EVENT_HEADER_FLAG_TRACE_MESSAGE`.
const TRACE_MESSAGE: u16 = 0x8;
/// `EVENT_HEADER_FLAG_32_BIT_HEADER`.
const IS_32_BIT: u16 = 0x20;
/// `EVENT_HEADER_FLAG_CLASSIC_HEADER`.
const CLASSIC: u16 = 0x100;
/// Flags that only consumers see: the size of pointers, and how the processor is stored.
const OF_CONSUMERS: u16 = 0x20 | 0x40 | 0x200;

/// Bytes of the header of a classic event, and of a WPP message with GUID, time and ids.
const CLASSIC_BYTES: usize = 48;
const MESSAGE_BYTES: usize = 40;
/// `TRACE_MESSAGE_GUID`, `TRACE_MESSAGE_TIMESTAMP` and `TRACE_MESSAGE_SYSTEMINFO`.
const MESSAGE_FLAGS: u16 = 0x02 | 0x08 | 0x20;

/// The parts of an event.
pub(super) struct Parts<'e, I> {
    /// `EVENT_HEADER`.
    pub(super) header: &'e [u8; HEADER_BYTES],
    pub(super) payload: &'e [u8],
    /// The types and data of the extended items.
    pub(super) items: I,
}

impl<'e, I: ExactSizeIterator<Item = (u16, &'e [u8])> + Clone> Parts<'e, I> {
    pub(super) fn provider(&self) -> Guid {
        self.header.guid_at(0x18).unwrap_or_default()
    }

    pub(super) fn opcode(&self) -> u8 {
        self.header[0x2D]
    }

    pub(super) fn time(&self) -> i64 {
        self.header.i64_at(0x10).unwrap_or(0)
    }

    fn flags(&self) -> u16 {
        self.header.u16_at(4).unwrap_or(0)
    }

    /// Returns the size of the record; `None` if it exceeds that of any record.
    pub(super) fn len_bytes(&self) -> Option<usize> {
        let before = match self.flags() {
            flags if flags & TRACE_MESSAGE != 0 => MESSAGE_BYTES,
            flags if flags & CLASSIC != 0 => CLASSIC_BYTES,
            _ => HEADER_BYTES + self.items.clone().map(|(_, data)| item_bytes(data)).sum::<usize>(),
        };
        Some(before + self.payload.len()).filter(|len| u16::try_from(*len).is_ok())
    }

    /// Stores the record in a place of at least `len_bytes`, the result of [`Parts::len_bytes`].
    pub(super) fn put(&self, place: &mut [u8], len_bytes: usize) {
        let mut out = Out { place, at: 0 };
        let flags = self.flags();
        let size = (len_bytes as u16).to_le_bytes();
        let is_32_bit = flags & IS_32_BIT != 0;
        out.put(&size);
        if flags & TRACE_MESSAGE != 0 {
            let pointers: u16 = if is_32_bit { 0x40 } else { 0x80 };
            out.put(&[0, 0x90]);
            out.put(&self.header[0x28..0x2A]);
            out.put(&(MESSAGE_FLAGS | pointers).to_le_bytes());
            out.put(&self.header[0x18..0x28]);
            out.put(&self.header[0x10..0x18]);
            out.put(&self.header[0x08..0x10]);
        } else if flags & CLASSIC != 0 {
            let [version, level, opcode] = [0x2A, 0x2C, 0x2D].map(|at: usize| self.header[at]);
            out.put(&[if is_32_bit { 0x0A } else { 0x14 }, 0xC0, opcode, level, version, 0]);
            out.put(&self.header[0x08..0x28]);
            out.put(&self.header[0x38..0x40]);
        } else {
            let has_items = u16::from(self.items.len() != 0) * EXTENDED;
            out.put(&[if is_32_bit { 0x12 } else { 0x13 }, 0xC0]);
            out.put(&(flags & !(OF_CONSUMERS | EXTENDED) | has_items).to_le_bytes());
            out.put(&self.header[0x06..]);
            let mut left = self.items.len();
            for (ext_type, data) in self.items.clone() {
                left -= 1;
                out.put(&(item_bytes(data) as u16).to_le_bytes());
                out.put(&ext_type.to_le_bytes());
                out.put(&u16::from(left != 0).to_le_bytes());
                out.put(&(data.len() as u16).to_le_bytes());
                out.put(data);
                // The place is all zeros.
                out.at = out.at.next_multiple_of(8);
            }
        }
        out.put(self.payload);
    }
}

/// Returns the size of an extended item with its header and padding.
fn item_bytes(data: &[u8]) -> usize {
    8 + data.len().next_multiple_of(8)
}

/// A place that is filled from its start.
struct Out<'p> {
    place: &'p mut [u8],
    at: usize,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.place.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::{Clock, ExtendedType, Opcode, Origin, Record, Ticks};

    /// A header with recognisable fields.
    fn header(flags: u16) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[4..6].copy_from_slice(&flags.to_le_bytes());
        header[8] = 5;
        header[12] = 6;
        header[0x10] = 77;
        header[0x18..0x28].fill(9);
        header[0x28..0x2E].copy_from_slice(&[1, 2, 3, 0, 4, 5]);
        header
    }

    fn check(flags: u16, items: &[(u16, &[u8])], look: impl Fn(&Record<'_>)) {
        let header = header(flags);
        let parts = Parts { header: &header, payload: b"payload", items: items.iter().copied() };
        let len = parts.len_bytes().unwrap();
        let mut bytes = vec![0; len.next_multiple_of(8)];
        parts.put(&mut bytes, len);
        let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        assert!(record.is_intact());
        assert_eq!(record.payload(), b"payload");
        assert_eq!((record.thread_id(), record.process_id()), (Some(5), Some(6)));
        assert_eq!((record.raw_time(), record.provider_id()), (Ticks(77), Guid::from_bytes([9; 16])));
        look(&record);
    }

    #[test]
    fn records_have_what_windows_delivers() {
        check(0x40, &[], |record| assert_eq!(record.descriptor().id, 0x201));
        check(0x41, &[(1, &[3; 16]), (0x0B, &[4; 5])], |record| {
            assert_eq!(record.related_activity_id(), Some(Guid::from_bytes([3; 16])));
            assert_eq!(record.extended(ExtendedType::EVENT_SCHEMA_TL).unwrap().data, [4; 5]);
        });
        check(0x140, &[], |record| assert_eq!(record.descriptor().opcode, Opcode(5)));
        check(0x120, &[], |record| assert_eq!(record.pointer_size().bytes(), 4));
        check(0x48, &[], |record| assert_eq!(record.descriptor().id, 0x201));
    }

    #[test]
    fn a_record_that_is_too_large_is_none() {
        let (header, payload) = (header(0), vec![0; 65_500]);
        let items: [(u16, &[u8]); 0] = [];
        assert_eq!(Parts { header: &header, payload: &payload, items: items.into_iter() }.len_bytes(), None);
    }
}
