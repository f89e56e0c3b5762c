//! Encoder for plain XPRESS.

/// Maximum distance of a match in bytes.
const WINDOW: usize = 8192;
/// Minimum length of a match.
const MIN_MATCH: usize = 3;
/// Number of bits of the hash of three bytes.
const HASH_BITS: u32 = 13;
/// Maximum number of earlier positions with the same hash to try.
const MAX_TRIES: usize = 16;
/// Length at which a match is used without searching for a longer one.
const GOOD_MATCH: usize = 64;
/// Number of bytes at each end of a long match whose positions are indexed; most repetitions start there.
const REMEMBERED: usize = 16;

/// Compressor of buffers, whose tables are allocated once.
///
/// Equal input gives equal output.
#[derive(Debug, Clone)]
pub struct Compressor {
    /// Last position for each hash, counted from 1; 0 if none.
    heads: Vec<u32>,
    /// Previous position with the same hash, for each position in the window.
    chain: Vec<u32>,
}

impl Default for Compressor {
    fn default() -> Compressor {
        Compressor { heads: vec![0; 1 << HASH_BITS], chain: vec![0; WINDOW] }
    }
}

impl Compressor {
    /// Appends the compressed form of `input` to `out`; it is at most one eighth and eight bytes longer than the input.
    ///
    /// Inputs must be smaller than 4 GiB; a trace buffer has at most 64 MiB.
    #[expect(clippy::indexing_slicing, reason = "`at` is below the length of the input")]
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) {
        self.heads.fill(0);
        let mut stream = Stream::new(out);
        let mut at = 0;
        while at < input.len() {
            let (distance, len) = self.longest_match(input, at);
            let step = if len < MIN_MATCH {
                stream.literal(input[at]);
                1
            } else {
                stream.copy(distance, len);
                len
            };
            let end = at + step;
            let (head, tail) = match step > 2 * REMEMBERED {
                true => (at + REMEMBERED, end - REMEMBERED),
                false => (end, end),
            };
            for place in (at..head).chain(tail..end) {
                self.insert(input, place);
            }
            at = end;
        }
        stream.end();
    }

    /// Returns the distance and length of the longest match at `at`; the length is 0 if there is no match.
    #[expect(
        clippy::indexing_slicing,
        reason = "a hash has HASH_BITS, places are taken modulo WINDOW, and positions in the tables are before `at`"
    )]
    fn longest_match(&self, input: &[u8], at: usize) -> (usize, usize) {
        let mut best = (0, 0);
        let Some(hash) = hash(input, at) else { return best };
        let mut candidate = self.heads[hash] as usize;
        for _ in 0..MAX_TRIES {
            // Positions are counted from 1; the table may contain positions outside the window.
            if candidate == 0 || at - (candidate - 1) > WINDOW {
                break;
            }
            let from = candidate - 1;
            // A longer match must also contain the byte after the best match.
            if input.get(from + best.1) == input.get(at + best.1) {
                let len = common_len(&input[from..], &input[at..]);
                if len > best.1 {
                    best = (at - from, len);
                    if len >= GOOD_MATCH {
                        break;
                    }
                }
            }
            let before = self.chain[from % WINDOW] as usize;
            if before >= candidate {
                break;
            }
            candidate = before;
        }
        best
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "a hash has HASH_BITS, places are taken modulo WINDOW and below 4 GiB"
    )]
    fn insert(&mut self, input: &[u8], place: usize) {
        if let Some(hash) = hash(input, place) {
            self.chain[place % WINDOW] = self.heads[hash];
            self.heads[hash] = place as u32 + 1;
        }
    }
}

fn hash(input: &[u8], at: usize) -> Option<usize> {
    let bytes = input.get(at..)?.first_chunk::<3>()?;
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    Some((word.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize)
}

#[expect(clippy::indexing_slicing, reason = "both have the bytes that were compared")]
fn common_len(earlier: &[u8], later: &[u8]) -> usize {
    let mut len = 0;
    while let (Some(a), Some(b)) = (earlier[len..].first_chunk::<8>(), later[len..].first_chunk::<8>()) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return len + (differing.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    len + earlier[len..].iter().zip(&later[len..]).take_while(|(a, b)| a == b).count()
}

/// Output with positions to fill in later.
struct Stream<'o> {
    out: &'o mut Vec<u8>,
    /// Position of the flags of the current group.
    flags_at: usize,
    flags: u32,
    count: u32,
    /// Position of a byte with an unused upper half.
    nibble_at: Option<usize>,
}

impl<'o> Stream<'o> {
    fn new(out: &'o mut Vec<u8>) -> Stream<'o> {
        let flags_at = out.len();
        out.extend([0; 4]);
        Stream { out, flags_at, flags: 0, count: 0, nibble_at: None }
    }

    fn flag(&mut self, is_match: bool) {
        self.flags = self.flags << 1 | u32::from(is_match);
        self.count += 1;
        if self.count == 32 {
            self.put_flags();
            self.flags_at = self.out.len();
            self.out.extend([0; 4]);
            (self.flags, self.count) = (0, 0);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "four bytes were appended at the position")]
    fn put_flags(&mut self) {
        self.out[self.flags_at..self.flags_at + 4].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn literal(&mut self, byte: u8) {
        self.out.push(byte);
        self.flag(false);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "a distance is at most WINDOW, of 13 bits; lengths are cut or below 4 GiB; the nibble's byte was appended"
    )]
    fn copy(&mut self, distance: usize, len: usize) {
        let stored = len - MIN_MATCH;
        let token = (distance - 1) as u16 * 8 + stored.min(7) as u16;
        self.out.extend(token.to_le_bytes());
        if let Some(more) = stored.checked_sub(7) {
            let nibble = more.min(15) as u8;
            match self.nibble_at.take() {
                Some(at) => self.out[at] |= nibble << 4,
                None => {
                    self.nibble_at = Some(self.out.len());
                    self.out.push(nibble);
                }
            }
            if let Some(more) = more.checked_sub(15) {
                self.out.push(more.min(255) as u8);
                if more >= 255 {
                    match u16::try_from(stored) {
                        Ok(stored) => self.out.extend(stored.to_le_bytes()),
                        Err(_) => {
                            self.out.extend([0; 2]);
                            self.out.extend((stored as u32).to_le_bytes());
                        }
                    }
                }
            }
        }
        self.flag(true);
    }

    /// Sets unused flags to 1, a match at the end of the input.
    fn end(mut self) {
        let unused = 32 - self.count;
        self.flags = self.flags.checked_shl(unused).unwrap_or(0) | u32::MAX >> self.count;
        self.put_flags();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xpress::decompress;

    fn check(input: &[u8], at_most: usize) {
        let mut compressed = Vec::new();
        let mut compressor = Compressor::default();
        compressor.compress(input, &mut compressed);
        assert!(compressed.len() <= at_most, "{} > {at_most}", compressed.len());
        let mut again = Vec::new();
        compressor.compress(input, &mut again);
        assert_eq!(again, compressed, "equal input, equal output");
        let mut out = vec![0; input.len()];
        decompress(&compressed, &mut out).unwrap();
        assert!(out == input);
    }

    #[test]
    fn what_is_compressed_comes_back() {
        check(b"", 4);
        check(b"a", 5);
        check(b"abcdefghijklmnopqrstuvwxyz", 30);
        check(&b"abc".repeat(100), 16);
        check(&b"x".repeat(32), 16);
        check(&[0; 70_000], 20);
        check(&[7; 24], 10);
        check(&[7; 26], 10);
        check(&[7; 280], 11);
        check(&[7; 282], 13);
        let mut noise = Vec::new();
        let mut state = 1u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.push((state >> 24) as u8);
        }
        check(&noise, noise.len() + noise.len() / 8 + 8);
        let far = [&noise[..9000], &noise[..9000]].concat();
        check(&far, far.len() + far.len() / 8 + 8);
    }

    #[test]
    fn the_published_example() {
        // MS-XCA, section 3.1.
        let mut compressed = Vec::new();
        Compressor::default().compress(b"abcdefghijklmnopqrstuvwxyz", &mut compressed);
        assert_eq!(compressed[..4], [0x3F, 0, 0, 0]);
        compressed.clear();
        Compressor::default().compress(&b"abc".repeat(100), &mut compressed);
        assert_eq!(compressed, [0xFF, 0xFF, 0xFF, 0x1F, 0x61, 0x62, 0x63, 0x17, 0, 0x0F, 0xFF, 0x26, 0x01]);
    }
}
