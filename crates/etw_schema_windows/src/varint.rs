//! Numbers as LEB128, and strings by number.

use std::collections::HashMap;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends bytes after their count.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Values in the order in which they first came, each once.
pub(crate) struct Interned<T> {
    pub(crate) values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Interned<T> {
    pub(crate) fn new() -> Interned<T> {
        Interned { values: Vec::new(), numbers: HashMap::new() }
    }

    /// Returns the number of a value, adding it if it is new.
    pub(crate) fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }
}

/// Reads numbers and bytes. Every method returns `None` at the end or for a number out of range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if *byte < 0x80 {
                return T::try_from(value).ok();
            }
        }
        None
    }

    /// Reads a count of items that each take at least one byte.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count: usize = self.number()?;
        (count <= self.rest.len()).then_some(count)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn column<T: TryFrom<u64>>(&mut self, count: usize) -> Option<Vec<T>> {
        (0..count).map(|_| self.number()).collect()
    }
}
