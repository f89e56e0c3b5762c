//! The bytes of one column of one chunk: differences to the least value, each in as many bits as the greatest needs.

use std::ops::Range;

/// Rows of a chunk; the last chunk of a table may have fewer.
pub(crate) const CHUNK_ROWS: usize = 1 << 16;

/// Where the values of one column in one chunk lie, and what is known of them without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Least word, to which the stored differences are added. 0 if all values are missing.
    pub(crate) min: u64,
    /// Greatest word. 0 if all values are missing.
    pub(crate) max: u64,
    /// Number of missing values.
    pub(crate) nulls: u32,
    /// CRC-32 of the bytes.
    pub(crate) checksum: u32,
}

impl Block {
    /// Returns the bits of each difference.
    ///
    /// Numbers of bits just below those of machine words are rounded up, since these are faster to read; so are those
    /// above 56, of which eight bytes may hold a part only.
    pub(crate) fn bits(&self) -> usize {
        match 64 - self.max.wrapping_sub(self.min).leading_zeros() {
            15 => 16,
            30 | 31 => 32,
            57.. => 64,
            bits => bits as usize,
        }
    }

    /// Returns the bytes of the differences of a number of rows.
    fn values_len(&self, rows: usize) -> usize {
        (rows * self.bits()).div_ceil(8)
    }

    /// Returns true if some values are missing, but not all.
    pub(crate) fn has_bitmap(&self, rows: usize) -> bool {
        self.nulls > 0 && (self.nulls as usize) < rows
    }

    /// Returns the size of the block: the differences, then one bit for each row that is set if the value is there.
    pub(crate) fn len(&self, rows: usize) -> usize {
        self.values_len(rows) + if self.has_bitmap(rows) { rows.div_ceil(8) } else { 0 }
    }

    /// Decodes the words of `range`. A missing value has the word `min`.
    pub(crate) fn words(&self, bytes: &[u8], range: Range<usize>, out: &mut Vec<u64>) {
        let base = self.min;
        let bits = self.bits();
        out.clear();
        // Whole bytes, of words that the processor can load.
        let whole = || bytes.get(range.start * bits / 8..range.end * bits / 8).unwrap_or_default();
        match bits {
            0 => out.resize(range.len(), base),
            8 => out.extend(whole().iter().map(|byte| base + u64::from(*byte))),
            16 => out.extend(whole().as_chunks().0.iter().map(|b| base + u64::from(u16::from_le_bytes(*b)))),
            32 => out.extend(whole().as_chunks().0.iter().map(|b| base + u64::from(u32::from_le_bytes(*b)))),
            64 => out.extend(whole().as_chunks().0.iter().map(|b| base.wrapping_add(u64::from_le_bytes(*b)))),
            // A damaged block is found before; adding cannot overflow in an intact one.
            _ => out.extend(range.map(|row| base.wrapping_add(unpack(bytes, bits, row)))),
        }
    }

    /// Decodes for each row of `range` whether the value is there, as 1 or 0. Leaves `out` empty if all are there.
    ///
    /// `range` starts at a multiple of 8.
    pub(crate) fn validity(&self, bytes: &[u8], rows: usize, range: Range<usize>, out: &mut Vec<u8>) {
        out.clear();
        if self.nulls == 0 {
            return;
        }
        if self.has_bitmap(rows) {
            let bits = bytes.get(self.values_len(rows) + range.start / 8..).unwrap_or_default();
            for byte in bits.iter().take(range.len().div_ceil(8)) {
                out.extend((0..8).map(|bit| byte >> bit & 1));
            }
        }
        out.resize(range.len(), 0);
    }

    /// Returns what is wrong with the bytes of the block beyond their checksum.
    pub(crate) fn defect(&self, bytes: &[u8], rows: usize) -> Option<&'static str> {
        let span = self.max.wrapping_sub(self.min);
        let values = &bytes[..self.values_len(rows)];
        let bits = self.bits();
        let greatest = match bits {
            0 => 0,
            8 => values.iter().copied().max().map_or(0, u64::from),
            16 => values.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).max().map_or(0, u64::from),
            32 => values.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).max().map_or(0, u64::from),
            64 => values.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).max().unwrap_or(0),
            _ => (0..rows).map(|row| unpack(values, bits, row)).max().unwrap_or(0),
        };
        if greatest > span {
            return Some("value greater than the chunk's maximum");
        }
        if self.has_bitmap(rows) {
            let bits = &bytes[self.values_len(rows)..];
            let there: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
            // Bits after the last row are zero.
            let after = bits.last().map_or(0, |byte| u32::from(*byte) >> ((rows + 7) % 8 + 1));
            if there as usize + self.nulls as usize != rows || after != 0 {
                return Some("wrong number of missing values");
            }
        }
        None
    }
}

/// Appends the words of a chunk to `out`, and returns their block, of which the offset is still 0.
///
/// `missing` has the rows without a value in ascending order. Their words may be anything and are changed.
pub(crate) fn encode(words: &mut [u64], missing: &[u32], out: &mut Vec<u8>) -> Block {
    let rows = words.len();
    // The first row with a value is the first whose number is not at its own place in the list.
    let first = missing
        .iter()
        .zip(0..)
        .find(|(row, place)| *row != place)
        .map_or(missing.len(), |(_, row)| row as usize);
    let any = words.get(first).copied().unwrap_or(0);
    missing.iter().for_each(|row| words[*row as usize] = any);
    let (mut min, mut max) = (any, any);
    for word in words.iter() {
        min = min.min(*word);
        max = max.max(*word);
    }
    missing.iter().for_each(|row| words[*row as usize] = min);
    let mut block = Block { offset: 0, min, max, nulls: missing.len() as u32, checksum: 0 };
    let start = out.len();
    match block.bits() {
        0 => (),
        8 => out.extend(words.iter().map(|word| (word - min) as u8)),
        16 => out.extend(words.iter().flat_map(|word| ((word - min) as u16).to_le_bytes())),
        32 => out.extend(words.iter().flat_map(|word| ((word - min) as u32).to_le_bytes())),
        64 => out.extend(words.iter().flat_map(|word| (word - min).to_le_bytes())),
        bits => pack(words.iter().map(|word| word - min), bits, out),
    }
    if block.has_bitmap(rows) {
        let bits = out.len();
        out.resize(bits + rows / 8, 0xFF);
        if !rows.is_multiple_of(8) {
            out.push((1 << (rows % 8)) - 1);
        }
        missing.iter().for_each(|row| out[bits + *row as usize / 8] &= !(1 << (row % 8)));
    }
    block.checksum = crc32fast::hash(&out[start..]);
    block
}

/// Returns the value of a row, of values with `bits` bits each, at most 56.
#[inline]
fn unpack(bytes: &[u8], bits: usize, row: usize) -> u64 {
    let bit = row * bits;
    let rest = bytes.get(bit / 8..).unwrap_or_default();
    let word = match rest.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    word >> (bit % 8) & ((1 << bits) - 1)
}

/// Appends values with `bits` bits each, at most 56, the lowest first.
fn pack(values: impl Iterator<Item = u64>, bits: usize, out: &mut Vec<u8>) {
    // At most 63 bits of earlier values, and one value.
    let (mut held, mut count) = (0_u128, 0);
    for value in values {
        held |= u128::from(value) << count;
        count += bits;
        if count >= 64 {
            out.extend((held as u64).to_le_bytes());
            held >>= 64;
            count -= 64;
        }
    }
    out.extend(held.to_le_bytes().into_iter().take(count.div_ceil(8)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[Option<u64>], bits: usize) {
        let mut words: Vec<u64> = values.iter().map(|value| value.unwrap_or(77)).collect();
        let missing = (0..).zip(values).filter(|(_, value)| value.is_none());
        let missing: Vec<u32> = missing.map(|(row, _)| row).collect();
        let mut bytes = Vec::new();
        let block = encode(&mut words, &missing, &mut bytes);
        assert_eq!((block.bits(), bytes.len()), (bits, block.len(values.len())), "{values:?}");
        assert_eq!(block.defect(&bytes, values.len()), None);
        assert_eq!(block.min, values.iter().flatten().min().copied().unwrap_or(0));
        assert_eq!(block.max, values.iter().flatten().max().copied().unwrap_or(0));
        for start in (0..values.len()).step_by(8) {
            let range = start..values.len();
            let (mut words, mut valid) = (Vec::new(), Vec::new());
            block.words(&bytes, range.clone(), &mut words);
            block.validity(&bytes, values.len(), range.clone(), &mut valid);
            assert_eq!(valid.is_empty(), block.nulls == 0);
            for (index, value) in values[range.clone()].iter().enumerate() {
                assert_eq!(valid.get(index).is_none_or(|valid| *valid == 1), value.is_some());
                assert_eq!(words[index], value.unwrap_or(block.min));
            }
        }
    }

    #[test]
    fn every_width_with_and_without_missing_values() {
        check(&[], 0);
        check(&[None, None, None], 0);
        check(&[None, None, Some(5), None, Some(9)], 3);
        check(&[Some(u64::MAX); 9], 0);
        let base = u64::MAX - (1 << 40);
        for (span, bits) in [
            (1, 1),
            (0xFF, 8),
            (0x100, 9),
            (0x7FFF, 16),
            (0xFFFF, 16),
            (0x1_0000, 17),
            (0x3FFF_FFFF, 32),
            (0xFFFF_FFFF, 32),
            (1 << 32, 33),
        ] {
            for base in [0, 5, base] {
                check(&[Some(base), Some(base + span), Some(base + span / 2)], bits);
                check(&[Some(base), None, Some(base + span), None], bits);
            }
        }
        check(&[Some(0), Some(u64::MAX)], 64);
        for bits in 1..=64 {
            let greatest = u64::MAX >> (64 - bits);
            let value =
                |row: u64| (row % 3 != 1).then_some(row.wrapping_mul(0x9E37_79B9_7F4A_7C15) & greatest);
            let many: Vec<Option<u64>> = (0..1000).map(value).chain([Some(0), Some(greatest)]).collect();
            let stored = match bits {
                15 => 16,
                30 | 31 => 32,
                57.. => 64,
                bits => bits,
            };
            check(&many, stored as usize);
        }
    }

    #[test]
    fn values_beyond_the_maximum_are_a_defect() {
        let mut bytes = Vec::new();
        let block = encode(&mut [10, 20, 30], &[1], &mut bytes);
        let good = bytes.clone();
        // Five bits each: 21 is more than the greatest difference, 20.
        bytes[0] = 21;
        assert!(block.defect(&bytes, 3).is_some());
        for bits in [0b111, 0b1, 0b1001] {
            bytes.clone_from(&good);
            bytes[2] = bits;
            assert!(block.defect(&bytes, 3).is_some(), "{bits:b}");
        }
    }
}
