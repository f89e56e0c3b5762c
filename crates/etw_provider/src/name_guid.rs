//! Provider GUIDs from names, while the program is compiled.

use etw_event::Guid;

/// Namespace of provider names, `{482c2db2-c390-47c8-87f8-1a15bfc130fb}` in network order.
const NAMESPACE: [u8; 16] =
    [0x48, 0x2C, 0x2D, 0xB2, 0xC3, 0x90, 0x47, 0xC8, 0x87, 0xF8, 0x1A, 0x15, 0xBF, 0xC1, 0x30, 0xFB];

/// The GUID that EventSource and TraceLogging derive from a provider's name, as [`Guid::from_provider_name`] does at
/// run time.
///
/// The name must be ASCII: upper case of other letters is not known to the compiler. Anything else does not compile
/// where the GUID is a constant; such a provider is given its GUID by hand.
pub const fn guid_from_name(name: &str) -> Guid {
    let name = name.as_bytes();
    let mut hash = Sha1::new();
    let mut at = 0;
    while at < NAMESPACE.len() {
        hash.push(NAMESPACE[at]);
        at += 1;
    }
    at = 0;
    while at < name.len() {
        assert!(name[at].is_ascii(), "a GUID is derived from ASCII names only; give this provider one");
        hash.push(0);
        hash.push(name[at].to_ascii_uppercase());
        at += 1;
    }
    let digest = hash.finish();
    let mut bytes = [0; 16];
    at = 0;
    while at < 16 {
        bytes[at] = digest[at];
        at += 1;
    }
    bytes[7] = (bytes[7] & 0x0F) | 0x50;
    Guid::from_bytes(bytes)
}

/// SHA-1 (FIPS 180-4), byte by byte; for constants only.
struct Sha1 {
    state: [u32; 5],
    block: [u8; 64],
    len_bytes: usize,
}

impl Sha1 {
    const fn new() -> Sha1 {
        Sha1 {
            state: [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0],
            block: [0; 64],
            len_bytes: 0,
        }
    }

    const fn push(&mut self, byte: u8) {
        self.block[self.len_bytes % 64] = byte;
        self.len_bytes += 1;
        if self.len_bytes.is_multiple_of(64) {
            self.mix();
        }
    }

    const fn finish(mut self) -> [u8; 20] {
        let bits = (self.len_bytes as u64 * 8).to_be_bytes();
        self.push(0x80);
        while self.len_bytes % 64 != 56 {
            self.push(0);
        }
        let mut at = 0;
        while at < 8 {
            self.push(bits[at]);
            at += 1;
        }
        let mut digest = [0; 20];
        at = 0;
        while at < 20 {
            digest[at] = self.state[at / 4].to_be_bytes()[at % 4];
            at += 1;
        }
        digest
    }

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
        let mixed = [a, b, c, d, e];
        at = 0;
        while at < 5 {
            self.state[at] = self.state[at].wrapping_add(mixed[at]);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_equal_what_is_hashed_at_run_time() {
        const MY_SOURCE: Guid = guid_from_name("MySource");
        assert_eq!(MY_SOURCE.to_string(), "{a61ea624-4944-55fc-c2a8-37838829438d}");
        // Lengths on both sides of a block's end.
        let name = "MyCompany.MyComponent-0123456789_abcdefghijklmnopqrstuvwxyz.MyCompany.MyComponent";
        for len in 0..name.len() {
            assert_eq!(guid_from_name(&name[..len]), Guid::from_provider_name(&name[..len]), "{len}");
        }
    }
}
