//! Numbers and blobs of metadata.

/// Reads numbers from bytes in sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'b>(pub(super) &'b [u8]);

impl<'b> Cursor<'b> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads an index, which has four bytes if it is wide.
    pub(super) fn index(&mut self, is_wide: bool) -> Option<u32> {
        match is_wide {
            true => self.u32(),
            false => self.u16().map(u32::from),
        }
    }

    /// Reads a compressed number of one, two or four bytes (ECMA-335, II.23.2).
    pub(super) fn number(&mut self) -> Option<u32> {
        self.compressed().map(|(value, _)| value)
    }

    /// Reads a compressed number with a sign, which is its lowest bit.
    pub(super) fn signed(&mut self) -> Option<i32> {
        let (value, bits) = self.compressed()?;
        let magnitude = (value >> 1) as i32;
        Some(if value & 1 == 0 { magnitude } else { magnitude - (1 << (bits - 1)) })
    }

    /// Reads a compressed number; returns it and the number of its bits.
    fn compressed(&mut self) -> Option<(u32, u32)> {
        let first = u32::from(self.u8()?);
        match first {
            0..0x80 => Some((first, 7)),
            0x80..0xC0 => Some(((first & 0x3F) << 8 | u32::from(self.u8()?), 14)),
            0xC0..0xE0 => {
                let rest = self.array::<3>()?;
                let [second, third, fourth] = rest.map(u32::from);
                Some(((first & 0x1F) << 24 | second << 16 | third << 8 | fourth, 29))
            }
            _ => None,
        }
    }
}

/// Returns the blob at an offset of the heap of blobs.
pub(super) fn blob(heap: &[u8], offset: u32) -> Option<&[u8]> {
    let mut cursor = Cursor(heap.get(usize::try_from(offset).ok()?..)?);
    let len = cursor.number()?;
    cursor.take(usize::try_from(len).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_numbers() {
        // The examples of ECMA-335, II.23.2.
        let unsigned: [(&[u8], u32); 8] = [
            (&[0x03], 0x03),
            (&[0x7F], 0x7F),
            (&[0x80, 0x80], 0x80),
            (&[0xAE, 0x57], 0x2E57),
            (&[0xBF, 0xFF], 0x3FFF),
            (&[0xC0, 0x00, 0x40, 0x00], 0x4000),
            (&[0xDF, 0xFF, 0xFF, 0xFE], 0x1FFF_FFFE),
            (&[0xDF, 0xFF, 0xFF, 0xFF], 0x1FFF_FFFF),
        ];
        for (bytes, expected) in unsigned {
            assert_eq!(Cursor(bytes).number(), Some(expected), "{bytes:x?}");
        }
        let signed: [(&[u8], i32); 8] = [
            (&[0x06], 3),
            (&[0x7B], -3),
            (&[0x80, 0x80], 64),
            (&[0x01], -64),
            (&[0xC0, 0x00, 0x40, 0x00], 8192),
            (&[0x80, 0x01], -8192),
            (&[0xDF, 0xFF, 0xFF, 0xFE], 268_435_455),
            (&[0xC0, 0x00, 0x00, 0x01], -268_435_456),
        ];
        for (bytes, expected) in signed {
            assert_eq!(Cursor(bytes).signed(), Some(expected), "{bytes:x?}");
        }
        for bytes in [&[][..], &[0x80], &[0xC0, 0, 0], &[0xE0, 0, 0, 0], &[0xFF]] {
            assert_eq!(Cursor(bytes).number(), None, "{bytes:x?}");
        }
    }
}
