//! Rows that events refer to by number until the next sequence point: stacks and label lists.

use std::ops::Range;

/// Rows of varying size with consecutive numbers, block by block. Needs four bytes of memory for each row.
#[derive(Debug, Default)]
pub(crate) struct Rows<'a> {
    blocks: Vec<RowBlock<'a>>,
    /// The ends of the rows of all blocks, relative to the first row of each.
    ends: Vec<u32>,
}

#[derive(Debug)]
struct RowBlock<'a> {
    first: u32,
    bytes: &'a [u8],
    /// The ends of its rows.
    ends: Range<usize>,
}

impl<'a> Rows<'a> {
    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.ends.clear();
    }

    /// Adds at most `count` rows, numbered from `first`. `len` returns the length of the row at the start of the bytes.
    /// Returns whether all rows were there, within the first 4 GiB: damage can make a block longer.
    pub(crate) fn add(
        &mut self,
        first: u32,
        count: u32,
        bytes: &'a [u8],
        mut len: impl FnMut(&'a [u8]) -> Option<usize>,
    ) -> bool {
        let start = self.ends.len();
        let (mut at, mut rows) = (0, 0);
        while rows < count
            && let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty())
            && let Some(len) = len(rest).filter(|len| (1..=rest.len()).contains(len))
            && let Ok(end) = u32::try_from(at + len)
        {
            at += len;
            rows += 1;
            self.ends.push(end);
        }
        if rows > 0 {
            self.blocks.push(RowBlock { first, bytes, ends: start..self.ends.len() });
        }
        rows == count
    }

    /// Returns the row with a number. If it was defined more than once, the last one counts.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&'a [u8]> {
        // Numbers are ascending, unless the file is damaged.
        let after = self.blocks.partition_point(|block| block.first <= number);
        let block = self.blocks.get(after.checked_sub(1)?)?;
        let ends = self.ends.get(block.ends.clone())?;
        let index = (number - block.first) as usize;
        let end = *ends.get(index)? as usize;
        let start = match index.checked_sub(1) {
            Some(before) => *ends.get(before)? as usize,
            None => 0,
        };
        block.bytes.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_number() {
        let len = |rest: &[u8]| rest.first().map(|len| 1 + usize::from(*len));
        let mut rows = Rows::default();
        assert!(rows.add(1, 2, b"\x01a\x02bc", len));
        assert!(rows.add(3, 1, b"\x00", len));
        assert!(!rows.add(9, 2, b"\x01x\x05y", len), "cut");
        for (number, expected) in [
            (0, None),
            (1, Some(&b"\x01a"[..])),
            (2, Some(b"\x02bc")),
            (3, Some(b"\0")),
            (4, None),
            (9, Some(b"\x01x")),
            (10, None),
        ] {
            assert_eq!(rows.get(number), expected, "{number}");
        }
        rows.clear();
        assert_eq!(rows.get(1), None);
    }
}
