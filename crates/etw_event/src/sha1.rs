//! SHA-1 (FIPS 180-4) as constant functions, so that the compiler can derive GUIDs from names.
//!
//! It works byte by byte, which is fast enough for names; the digests identify providers and protect nothing.

/// SHA-1 of the bytes pushed so far.
pub(crate) struct Sha1 {
    state: [u32; 5],
    block: [u8; 64],
    len_bytes: usize,
}

impl Sha1 {
    /// SHA-1 of no bytes.
    pub(crate) const fn new() -> Sha1 {
        Sha1 {
            state: [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0],
            block: [0; 64],
            len_bytes: 0,
        }
    }

    /// Appends a byte.
    #[expect(clippy::indexing_slicing, reason = "the index is below 64, the length of the block")]
    pub(crate) const fn push(&mut self, byte: u8) {
        self.block[self.len_bytes % 64] = byte;
        self.len_bytes += 1;
        if self.len_bytes.is_multiple_of(64) {
            self.mix();
        }
    }

    /// Returns the digest.
    #[expect(clippy::indexing_slicing, reason = "the 20 bytes of the digest are the five words of the state")]
    pub(crate) const fn finish(mut self) -> [u8; 20] {
        let bits = (self.len_bytes as u64 * 8).to_be_bytes();
        self.push(0x80);
        while self.len_bytes % 64 != 56 {
            self.push(0);
        }
        let mut rest = bits.as_slice();
        while let [byte, others @ ..] = rest {
            self.push(*byte);
            rest = others;
        }
        let mut digest = [0; 20];
        let mut at = 0;
        while at < 20 {
            digest[at] = self.state[at / 4].to_be_bytes()[at % 4];
            at += 1;
        }
        digest
    }

    #[expect(clippy::indexing_slicing, reason = "the indices are below 80, those of the block below 16 * 4")]
    const fn mix(&mut self) {
        let mut words = [0u32; 80];
        let mut at = 0;
        while at < 80 {
            words[at] = if at < 16 {
                let byte = at * 4;
                u32::from_be_bytes([
                    self.block[byte],
                    self.block[byte + 1],
                    self.block[byte + 2],
                    self.block[byte + 3],
                ])
            } else {
                (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1)
            };
            at += 1;
        }
        let [mut a, mut b, mut c, mut d, mut e] = self.state;
        at = 0;
        while at < 80 {
            let (mixed, constant) = match at / 20 {
                0 => ((b & c) | (!b & d), 0x5A82_7999),
                1 => (b ^ c ^ d, 0x6ED9_EBA1),
                2 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
                _ => (b ^ c ^ d, 0xCA62_C1D6),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(words[at]);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
            at += 1;
        }
        let state = self.state;
        self.state = [
            state[0].wrapping_add(a),
            state[1].wrapping_add(b),
            state[2].wrapping_add(c),
            state[3].wrapping_add(d),
            state[4].wrapping_add(e),
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let check = |bytes: &[u8], expected: &str| {
            let mut hash = Sha1::new();
            bytes.iter().for_each(|byte| hash.push(*byte));
            let digest: String = hash.finish().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, expected, "{} bytes", bytes.len());
        };
        // FIPS 180-4, examples of SHA-1: no bytes, one block, two blocks, many blocks.
        check(b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        check(b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        );
        check(&[b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
