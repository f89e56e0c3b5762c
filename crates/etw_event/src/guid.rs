//! GUIDs in Windows memory order.

use std::fmt;
use std::str::FromStr;

use crate::sha1::Sha1;

/// A GUID as Windows lays it out in memory: `u32`, `u16`, `u16` little-endian, then eight raw bytes.
///
/// Text form: `{9e814aad-3204-11d2-9a82-006008a86939}`, lower case in braces; with `#` (`{:#}`) without braces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct Guid([u8; 16]);

/// The text is not a GUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a GUID; expected the form {{9e814aad-3204-11d2-9a82-006008a86939}}")]
pub struct GuidParseError(String);

impl Guid {
    /// The GUID of all zeros.
    pub const ZERO: Guid = Guid([0; 16]);

    /// Creates a GUID from the four parts shown in C headers.
    pub const fn new(data1: u32, data2: u16, data3: u16, data4: [u8; 8]) -> Guid {
        let a = data1.to_le_bytes();
        let b = data2.to_le_bytes();
        let c = data3.to_le_bytes();
        let d = data4;
        Guid([a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]])
    }

    /// Creates a GUID from a 128-bit number whose hexadecimal digits are those of the text form, in order:
    /// `Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939)`.
    pub const fn from_u128(digits: u128) -> Guid {
        let b = digits.to_be_bytes();
        Guid([
            b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
            b[15],
        ])
    }

    /// Converts to the number accepted by [`Guid::from_u128`].
    pub const fn to_u128(self) -> u128 {
        let b = self.0;
        u128::from_be_bytes([
            b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
            b[15],
        ])
    }

    /// Creates a GUID from its sixteen bytes in memory order.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 16]) -> Guid {
        Guid(bytes)
    }

    /// Returns the sixteen bytes in memory order.
    #[inline]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// Returns whether all bytes are zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }

    /// Returns the provider GUID that EventSource and TraceLogging derive from a provider's name: a name-based GUID
    /// (SHA-1, version 5) of the upper-case name in UTF-16 big-endian.
    ///
    /// Source: `TraceLoggingProvider.h`, EventSource. `MySource` gives `{a61ea624-4944-55fc-c2a8-37838829438d}`.
    pub fn from_provider_name(name: &str) -> Guid {
        let mut hash = hash_of_namespace();
        for byte in name.to_uppercase().encode_utf16().flat_map(u16::to_be_bytes) {
            hash.push(byte);
        }
        of_name(hash)
    }

    /// Returns the 36 lower-case characters of the text form without braces.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "the order is a permutation of 0 to 15, a digit is below 16, and 32 digits and 4 hyphens fill the text"
    )]
    pub fn to_text(self) -> [u8; 36] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        let mut text = [b'-'; 36];
        let mut at = 0;
        for (count, index) in ORDER.into_iter().enumerate() {
            if matches!(count, 4 | 6 | 8 | 10) {
                at += 1;
            }
            let byte = self.0[index];
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
            at += 2;
        }
        text
    }
}

/// The GUID of a provider's name as [`Guid::from_provider_name`] derives it, for constants.
///
/// # Panics
/// The name must be ASCII, since a constant function cannot convert other letters to upper case. A constant made of
/// another name does not compile; such a provider needs a GUID that is written out.
pub const fn guid_from_name(name: &str) -> Guid {
    let mut rest = name.as_bytes();
    let mut hash = hash_of_namespace();
    while let [byte, others @ ..] = rest {
        assert!(byte.is_ascii(), "a GUID is derived from ASCII names only; give this provider one");
        hash.push(0);
        hash.push(byte.to_ascii_uppercase());
        rest = others;
    }
    of_name(hash)
}

/// The hash of the namespace of provider names, `{482c2db2-c390-47c8-87f8-1a15bfc130fb}` in network order.
const fn hash_of_namespace() -> Sha1 {
    const NAMESPACE: [u8; 16] =
        [0x48, 0x2C, 0x2D, 0xB2, 0xC3, 0x90, 0x47, 0xC8, 0x87, 0xF8, 0x1A, 0x15, 0xBF, 0xC1, 0x30, 0xFB];
    let mut hash = Sha1::new();
    let mut rest = NAMESPACE.as_slice();
    while let [byte, others @ ..] = rest {
        hash.push(*byte);
        rest = others;
    }
    hash
}

/// The GUID that a hash of a namespace and a name gives.
const fn of_name(hash: Sha1) -> Guid {
    let [mut bytes @ .., _, _, _, _] = hash.finish();
    bytes[7] = (bytes[7] & 0x0F) | 0x50;
    Guid(bytes)
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_text();
        let text = std::str::from_utf8(&text).unwrap_or_default();
        if f.alternate() { f.write_str(text) } else { write!(f, "{{{text}}}") }
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = GuidParseError;

    /// Parses the text form with or without braces, in either case.
    fn from_str(text: &str) -> Result<Guid, GuidParseError> {
        let error = || GuidParseError(text.chars().take(64).collect());
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner);
        if inner.len() != 36 || !inner.is_ascii() {
            return Err(error());
        }
        let mut digits = 0u128;
        for (index, byte) in inner.bytes().enumerate() {
            if matches!(index, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(error());
                }
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or_else(error)?;
            digits = digits << 4 | u128::from(digit);
        }
        Ok(Guid::from_u128(digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let text = "{9e814aad-3204-11d2-9a82-006008a86939}";
        let guid: Guid = text.parse().unwrap();
        assert_eq!(guid.to_string(), text);
        assert_eq!(format!("{guid:#}"), &text[1..37]);
        assert_eq!(guid, "9E814AAD-3204-11D2-9A82-006008A86939".parse().unwrap());
        assert_eq!(guid, Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939));
        assert_eq!(guid.to_bytes()[..4], [0xad, 0x4a, 0x81, 0x9e]);
        assert_eq!(Guid::from_u128(guid.to_u128()), guid);
    }

    #[test]
    fn invalid_guids_are_refused() {
        for text in ["", "{}", "9e814aad-3204-11d2-9a82-00600", "9e814aad+3204-11d2-9a82-006008a86939", "é"]
        {
            assert!(text.parse::<Guid>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_hash_to_published_guids() {
        for (name, guid) in [
            ("MySource", "{a61ea624-4944-55fc-c2a8-37838829438d}"),
            ("PerfView", "{a8a71ac1-040f-54a2-07ca-00a89b5ab761}"),
        ] {
            assert_eq!(Guid::from_provider_name(name).to_string(), guid);
        }
    }

    #[test]
    fn constants_equal_what_is_derived_at_run_time() {
        const MY_SOURCE: Guid = guid_from_name("MySource");
        assert_eq!(MY_SOURCE.to_string(), "{a61ea624-4944-55fc-c2a8-37838829438d}");
        // Lengths on both sides of a block's end.
        let name = "MyCompany.MyComponent-0123456789_abcdefghijklmnopqrstuvwxyz.MyCompany.MyComponent";
        for len in 0..name.len() {
            assert_eq!(guid_from_name(&name[..len]), Guid::from_provider_name(&name[..len]), "{len}");
        }
    }
}
