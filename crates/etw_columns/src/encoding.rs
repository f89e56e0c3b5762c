//! The bytes of one column of one chunk: differences to the least value, in 0, 1, 2, 4 or 8 bytes each.

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
    /// Returns the bytes of each difference.
    pub(crate) fn width(&self) -> usize {
        match self.max.wrapping_sub(self.min) {
            0 => 0,
            1..=0xFF => 1,
            0x100..=0xFFFF => 2,
            0x1_0000..=0xFFFF_FFFF => 4,
            _ => 8,
        }
    }

    /// Returns true if some values are missing, but not all.
    pub(crate) fn has_bitmap(&self, rows: usize) -> bool {
        self.nulls > 0 && (self.nulls as usize) < rows
    }

    /// Returns the size of the block: the differences, then one bit for each row that is set if the value is there.
    pub(crate) fn len(&self, rows: usize) -> usize {
        rows * self.width() + if self.has_bitmap(rows) { rows.div_ceil(8) } else { 0 }
    }

    /// Decodes the words of `range`. A missing value has the word `min`.
    pub(crate) fn words(&self, bytes: &[u8], range: Range<usize>, out: &mut Vec<u64>) {
        let base = self.min;
        let width = self.width();
        let bytes = bytes.get(range.start * width..range.end * width).unwrap_or_default();
        out.clear();
        match width {
            0 => out.resize(range.len(), base),
            1 => out.extend(bytes.iter().map(|byte| base + u64::from(*byte))),
            2 => out.extend(bytes.as_chunks().0.iter().map(|b| base + u64::from(u16::from_le_bytes(*b)))),
            4 => out.extend(bytes.as_chunks().0.iter().map(|b| base + u64::from(u32::from_le_bytes(*b)))),
            _ => out.extend(bytes.as_chunks().0.iter().map(|b| base.wrapping_add(u64::from_le_bytes(*b)))),
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
            let bits = bytes.get(rows * self.width() + range.start / 8..).unwrap_or_default();
            for byte in bits.iter().take(range.len().div_ceil(8)) {
                out.extend((0..8).map(|bit| byte >> bit & 1));
            }
        }
        out.resize(range.len(), 0);
    }

    /// Returns what is wrong with the bytes of the block beyond their checksum.
    pub(crate) fn defect(&self, bytes: &[u8], rows: usize) -> Option<&'static str> {
        let span = self.max.wrapping_sub(self.min);
        let values = &bytes[..rows * self.width()];
        let greatest = match self.width() {
            0 => 0,
            1 => values.iter().copied().max().map_or(0, u64::from),
            2 => values.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).max().map_or(0, u64::from),
            4 => values.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).max().map_or(0, u64::from),
            _ => values.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).max().unwrap_or(0),
        };
        if greatest > span {
            return Some("value greater than the chunk's maximum");
        }
        if self.has_bitmap(rows) {
            let bits = &bytes[rows * self.width()..];
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
    match block.width() {
        0 => (),
        1 => out.extend(words.iter().map(|word| (word - min) as u8)),
        2 => out.extend(words.iter().flat_map(|word| ((word - min) as u16).to_le_bytes())),
        4 => out.extend(words.iter().flat_map(|word| ((word - min) as u32).to_le_bytes())),
        _ => out.extend(words.iter().flat_map(|word| (word - min).to_le_bytes())),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[Option<u64>], width: usize) {
        let mut words: Vec<u64> = values.iter().map(|value| value.unwrap_or(77)).collect();
        let missing = (0..).zip(values).filter(|(_, value)| value.is_none());
        let missing: Vec<u32> = missing.map(|(row, _)| row).collect();
        let mut bytes = Vec::new();
        let block = encode(&mut words, &missing, &mut bytes);
        assert_eq!((block.width(), bytes.len()), (width, block.len(values.len())), "{values:?}");
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
        check(&[None, None, Some(5), None, Some(9)], 1);
        check(&[Some(u64::MAX); 9], 0);
        let base = u64::MAX - (1 << 40);
        for (span, width) in
            [(0xFF, 1), (0x100, 2), (0xFFFF, 2), (0x1_0000, 4), (0xFFFF_FFFF, 4), (1 << 32, 8)]
        {
            for base in [0, 5, base] {
                check(&[Some(base), Some(base + span), Some(base + span / 2)], width);
                check(&[Some(base), None, Some(base + span), None], width);
            }
        }
        check(&[Some(0), Some(u64::MAX)], 8);
        let many: Vec<Option<u64>> = (0..1000).map(|row| (row % 3 != 1).then_some(row * 7 % 251)).collect();
        check(&many, 1);
    }

    #[test]
    fn values_beyond_the_maximum_are_a_defect() {
        let mut bytes = Vec::new();
        let block = encode(&mut [10, 20, 30], &[1], &mut bytes);
        let good = bytes.clone();
        bytes[0] = 21;
        assert!(block.defect(&bytes, 3).is_some());
        for bits in [0b111, 0b1, 0b1001] {
            bytes.clone_from(&good);
            bytes[3] = bits;
            assert!(block.defect(&bytes, 3).is_some(), "{bits:b}");
        }
    }
}
