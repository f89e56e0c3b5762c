//! The packed offsets of a stream's buffers.
//!
//! They take one byte a buffer in uncompressed files and about three in compressed ones, so that the index of a
//! terabyte of small buffers takes a few megabytes.

/// The offsets of a stream's buffers in their file, read once from the first one.
#[derive(Debug, Clone)]
pub struct Offsets {
    /// Distances between buffers as little-endian base-128 numbers. The lowest bit is 0 for a distance in units and 1
    /// for one in bytes.
    packed: Vec<u8>,
    unit: u64,
    last_pushed: u64,
    read: usize,
    last_read: u64,
}

impl Offsets {
    /// Returns an empty list. Distances that are multiples of `unit` bytes take less memory.
    pub(super) fn new(unit: u64) -> Offsets {
        Offsets { packed: Vec::new(), unit: unit.max(1), last_pushed: 0, read: 0, last_read: 0 }
    }

    /// Appends an offset, which is not below the previous one.
    pub(super) fn push(&mut self, offset: u64) {
        let distance = offset.saturating_sub(self.last_pushed);
        self.last_pushed = offset;
        let mut code = match distance % self.unit {
            0 => distance / self.unit * 2,
            _ => distance * 2 + 1,
        };
        while code >= 0x80 {
            self.packed.push(code as u8 | 0x80);
            code >>= 7;
        }
        self.packed.push(code as u8);
    }

    /// Takes all offsets.
    pub(super) fn end(&mut self) {
        self.read = self.packed.len();
    }

    /// Returns the next offset without taking it.
    pub fn peek(&self) -> Option<u64> {
        Some(self.after(self.last_read, self.read)?.0)
    }

    /// Returns the offset after the next one without taking it.
    pub(crate) fn peek_second(&self) -> Option<u64> {
        let (offset, read) = self.after(self.last_read, self.read)?;
        Some(self.after(offset, read)?.0)
    }

    /// Returns the offset at position `read`, which follows the offset `last`, and the position of the one after it.
    fn after(&self, last: u64, mut read: usize) -> Option<(u64, usize)> {
        let mut code = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.packed.get(read)?;
            read += 1;
            code |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        let distance = if code & 1 == 0 { code / 2 * self.unit } else { code / 2 };
        Some((last + distance, read))
    }
}

impl Iterator for Offsets {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (offset, read) = self.after(self.last_read, self.read)?;
        (self.last_read, self.read) = (offset, read);
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_come_back() {
        let check = |unit: u64, offsets: &[u64], bytes: usize| {
            let mut list = Offsets::new(unit);
            offsets.iter().for_each(|offset| list.push(*offset));
            assert_eq!(list.packed.len(), bytes);
            for (index, offset) in offsets.iter().enumerate() {
                assert_eq!(list.peek_second(), offsets.get(index + 1).copied());
                assert_eq!(list.peek(), Some(*offset));
                assert_eq!(list.next(), Some(*offset));
            }
            assert_eq!((list.peek(), list.peek_second()), (None, None));
        };
        check(0x10000, &[0, 0x10000, 0x80000, 0x90000], 4);
        check(0x10000, &[0x48, 0x123, 0x10123, 1 << 40, (1 << 40) + 1], 2 + 2 + 1 + 6 + 1);
        check(0, &[5, 5, 6], 3);
        check(4096, &[], 0);
    }
}
