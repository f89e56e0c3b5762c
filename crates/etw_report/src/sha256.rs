//! SHA-256 (FIPS 180-4) in base64, by which a content security policy names the script of a page.
//!
//! It is computed by the compiler, over the page's own script.

/// Maximum length of a base64 text of a hash.
const TEXT_LEN: usize = 44;

/// The first bits of the fractional parts of the cube roots of the first 64 primes.
const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// Returns the hash of a text in base64.
pub(super) const fn base64(text: &str) -> [u8; TEXT_LEN] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let hash = hash(text.as_bytes());
    let mut out = [b'='; TEXT_LEN];
    let (mut from, mut to) = (0, 0);
    while from < hash.len() {
        let left = hash.len() - from;
        let second = if left > 1 { hash[from + 1] } else { 0 };
        let third = if left > 2 { hash[from + 2] } else { 0 };
        let bits = (hash[from] as usize) << 16 | (second as usize) << 8 | third as usize;
        out[to] = ALPHABET[bits >> 18];
        out[to + 1] = ALPHABET[bits >> 12 & 63];
        out[to + 2] = ALPHABET[bits >> 6 & 63];
        if left > 2 {
            out[to + 3] = ALPHABET[bits & 63];
        }
        (from, to) = (from + 3, to + 4);
    }
    out
}

const fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut state =
        [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19_u32];
    let len = bytes.len();
    // One bit, zeros, and the length in bits as eight bytes.
    let padded = (len + 9).div_ceil(64) * 64;
    let mut block = 0;
    while block < padded {
        let mut words = [0_u32; 64];
        let mut index = 0;
        while index < 64 {
            let at = block + index;
            let byte = if at < len {
                bytes[at]
            } else if at == len {
                0x80
            } else if at >= padded - 8 {
                ((len as u64 * 8) >> (8 * (padded - 1 - at))) as u8
            } else {
                0
            };
            words[index / 4] |= (byte as u32) << (24 - 8 * (index % 4));
            index += 1;
        }
        state = add_block(state, words);
        block += 64;
    }
    let mut out = [0; 32];
    let mut index = 0;
    while index < 32 {
        out[index] = (state[index / 4] >> (24 - 8 * (index % 4))) as u8;
        index += 1;
    }
    out
}

const fn add_block(mut state: [u32; 8], mut words: [u32; 64]) -> [u32; 8] {
    let mut index = 16;
    while index < 64 {
        let (near, far) = (words[index - 2], words[index - 15]);
        let one = far.rotate_right(7) ^ far.rotate_right(18) ^ (far >> 3);
        let two = near.rotate_right(17) ^ near.rotate_right(19) ^ (near >> 10);
        words[index] = words[index - 16].wrapping_add(one).wrapping_add(words[index - 7]).wrapping_add(two);
        index += 1;
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    index = 0;
    while index < 64 {
        let one = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first =
            h.wrapping_add(one).wrapping_add(choice).wrapping_add(ROUNDS[index]).wrapping_add(words[index]);
        let two = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        (h, g, f, e, d, c, b, a) =
            (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(two).wrapping_add(majority));
        index += 1;
    }
    let added = [a, b, c, d, e, f, g, h];
    index = 0;
    while index < 8 {
        state[index] = state[index].wrapping_add(added[index]);
        index += 1;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples that NIST publishes for the algorithm, in base64.
    #[test]
    fn examples_of_the_standard() {
        let check = |text: &str, expected: &str| {
            assert_eq!(base64(text).as_slice(), expected.as_bytes(), "{text}");
        };
        check("", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        check("abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
        let two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        check(two_blocks, "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
    }
}
