//! Reads primitives one after the other, in the byte order of the file.

/// The byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Returns the number in these bytes; the low 64 bits if there are more than eight.
    pub fn number(self, bytes: &[u8]) -> u64 {
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match self {
            ByteOrder::Little => bytes.iter().rev().fold(0, join),
            ByteOrder::Big => bytes.iter().fold(0, join),
        }
    }
}

/// A position in bytes. Every method returns `None` past the end, and then leaves the position as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], order: ByteOrder) -> Cursor<'a> {
        Cursor { rest: bytes, order }
    }

    /// Returns a cursor over other bytes of the same file.
    pub(crate) fn within(&self, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, order: self.order }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// Takes as many bytes as a number in the file says.
    pub(crate) fn take_u64(&mut self, count: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(count).ok()?)
    }

    /// Takes this many words.
    pub(crate) fn words(&mut self, count: u64) -> Option<Words<'a>> {
        Some(Words { bytes: self.take_u64(count.checked_mul(8)?)?, order: self.order })
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let bytes = self.number()?;
        Some(match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = self.number()?;
        Some(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let bytes = self.number()?;
        Some(match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }

    /// Takes a text up to a zero byte, which is skipped.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.take(len)?;
        self.take(1)?;
        Some(text)
    }

    /// Takes a text with a `u32` length before it, which includes the zero bytes at its end.
    pub(crate) fn counted_text(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        Some(until_zero(self.take_u64(len.into())?))
    }
}

/// Returns the bytes before the first zero byte.
pub(crate) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Words of 64 bits in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Words<'a> {
    /// Returns the word at an index.
    pub fn get(&self, index: usize) -> Option<u64> {
        let bytes = self.bytes.get(index.checked_mul(8)?..)?.get(..8)?;
        Some(self.order.number(bytes))
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Returns whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Iterates over the words.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let order = self.order;
        self.bytes.chunks_exact(8).map(move |word| order.number(word))
    }
}
