//! Reads primitives one after the other; the only place that knows variable-length integers and strings.

use std::borrow::Cow;

use etw_event::{Fields, Guid};

/// A position in bytes. Every method returns `None` past the end, and then leaves the position as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Returns the offset from the start of the bytes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.rest().get(..count)?;
        self.at += count;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = self.bytes.array_at(self.at)?;
        self.at += N;
        Some(array)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn guid(&mut self) -> Option<Guid> {
        self.array().map(Guid::from_bytes)
    }

    /// Reads seven bits per byte, least significant first; the high bit marks that another byte follows.
    #[inline]
    pub(crate) fn var_u64(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (index, byte) in self.rest().iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has one bit of 64.
            if index == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.at += index + 1;
                return Some(value);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn var_u32(&mut self) -> Option<u32> {
        let mut ahead = *self;
        let value = u32::try_from(ahead.var_u64()?).ok()?;
        *self = ahead;
        Some(value)
    }

    /// Reads a length and as many bytes of UTF-8.
    pub(crate) fn text(&mut self) -> Option<Cow<'a, str>> {
        let mut ahead = *self;
        let count = ahead.var_u32()?;
        let text = String::from_utf8_lossy(ahead.take(count as usize)?);
        *self = ahead;
        Some(text)
    }

    /// As [`Cursor::text`], owned.
    pub(crate) fn utf8(&mut self) -> Option<String> {
        self.text().map(Cow::into_owned)
    }

    /// Reads UTF-16 up to a zero.
    pub(crate) fn utf16(&mut self) -> Option<String> {
        let (units, _) = self.rest().as_chunks();
        let count = units.iter().position(|unit| *unit == [0, 0])?;
        let text = char::decode_utf16(units.iter().take(count).map(|unit| u16::from_le_bytes(*unit)))
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        self.at += 2 * count + 2;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_lengths() {
        let check = |bytes: &[u8], expected: Option<u64>| {
            let mut cursor = Cursor::new(bytes);
            assert_eq!(cursor.var_u64(), expected, "{bytes:x?}");
            assert_eq!(cursor.at(), if expected.is_some() { bytes.len() } else { 0 });
        };
        check(&[0], Some(0));
        check(&[0x7F], Some(127));
        check(&[0x80, 1], Some(128));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], Some(u64::from(u32::MAX)));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1], Some(u64::MAX));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2], None);
        check(&[0x80], None);
        check(&[], None);
        assert_eq!(Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x10]).var_u32(), None, "33 bits");
    }

    #[test]
    fn texts() {
        assert_eq!(Cursor::new(b"\x02ab").utf8().as_deref(), Some("ab"));
        assert_eq!(Cursor::new(b"\x03ab").utf8(), None);
        let mut cursor = Cursor::new(b"a\0\xE4\0\0\0b");
        assert_eq!((cursor.utf16().as_deref(), cursor.at()), (Some("aä"), 6));
        assert_eq!(cursor.utf16(), None, "no zero");
    }
}
