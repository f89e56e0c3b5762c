//! Search for the ends of null-terminated strings.

use etw_event::Fields;

/// Returns the length in bytes of UTF-16 text before its NUL, or `None` if it has no NUL. Ignores an odd last byte.
#[inline]
pub(super) fn utf16_len(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0001_0001_0001_0001;
    const HIGHS: u64 = 0x8000_8000_8000_8000;
    let (blocks, rest) = bytes.as_chunks::<8>();
    // The lowest zero unit has its high bit set here. The borrow may also set those of higher units.
    let zeros = |block: &[u8; 8]| {
        let word = u64::from_le_bytes(*block);
        word.wrapping_sub(ONES) & !word & HIGHS
    };
    let mut at = 0;
    let (quads, tail) = blocks.as_chunks::<4>();
    for quad in quads {
        let [a, b, c, d] = quad;
        let found = [zeros(a), zeros(b), zeros(c), zeros(d)];
        if found[0] | found[1] | found[2] | found[3] != 0 {
            #[expect(clippy::indexing_slicing, reason = "the index is the position of one of them")]
            return found
                .iter()
                .position(|zero| *zero != 0)
                .map(|index| at + 8 * index + (found[index].trailing_zeros() as usize / 16) * 2);
        }
        at += 32;
    }
    for block in tail {
        let zero = zeros(block);
        if zero != 0 {
            return Some(at + (zero.trailing_zeros() as usize / 16) * 2);
        }
        at += 8;
    }
    let mut offset = 0;
    while let Some(unit) = rest.u16_at(offset) {
        if unit == 0 {
            return Some(at + offset);
        }
        offset += 2;
    }
    None
}

/// Returns the length in bytes of 8-bit text before its NUL, or `None` if it has no NUL.
#[inline]
pub(super) fn ansi_len(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Image names are too short for the vectorized search to pay off.
    let mut at = 0;
    for block in bytes.as_chunks::<8>().0.iter().take(4) {
        let word = u64::from_le_bytes(*block);
        let zero = word.wrapping_sub(ONES) & !word & HIGHS;
        if zero != 0 {
            return Some(at + zero.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr(0, bytes.get(at..)?).map(|index| at + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_strings() {
        for units in 0..70usize {
            for behind in 0..12usize {
                let mut wide: Vec<u8> = (0..units)
                    .flat_map(|unit| (0x0100 * (unit as u16 % 3) + 1 + unit as u16).to_le_bytes())
                    .collect();
                let mut narrow = vec![b'x'; units];
                assert_eq!((utf16_len(&wide), ansi_len(&narrow)), (None, None));
                wide.extend([0, 0]);
                narrow.push(0);
                wide.extend(vec![1; behind]);
                narrow.extend(vec![0; behind]);
                assert_eq!((utf16_len(&wide), ansi_len(&narrow)), (Some(2 * units), Some(units)));
            }
        }
        // Zero bytes in halves of different units are not a terminator, nor is an odd byte at the end.
        assert_eq!(utf16_len(&[1, 0, 0, 1, 0, 2, 3, 0, 0]), None);
        assert_eq!(utf16_len(&[0, 1, 0, 0x80, 0, 0]), Some(4));
    }
}
