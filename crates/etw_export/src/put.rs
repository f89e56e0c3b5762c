//! Appends numbers, GUIDs, times and hexadecimal to a byte buffer without allocating.

use etw_event::{FileTime, Guid};

/// Limit in bytes of the output for the payload of one event. A payload has at most 64 KiB, but names repeat for each
/// element of an array of structs, so a hostile trace could require gigabytes.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 16 << 20;

/// Appends a signed number in decimal.
#[inline]
pub(crate) fn signed(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends an unsigned number in decimal.
#[inline]
pub(crate) fn unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a number below 2^32 in decimal. Most header fields are.
#[inline]
pub(crate) fn unsigned32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `0x` and lower-case hexadecimal digits without leading zeros.
#[inline]
pub(crate) fn hex(out: &mut Vec<u8>, value: u64) {
    let mut text = *b"0x0000000000000000";
    let (_, digits) = text.split_at_mut(2);
    for (pair, byte) in digits.chunks_exact_mut(2).zip(value.to_be_bytes()) {
        pair.copy_from_slice(&PAIRS[usize::from(byte)]);
    }
    // Skips leading zero nibbles; one digit always remains.
    let skip = (value | 1).leading_zeros() as usize / 4;
    out.extend_from_slice(b"0x");
    out.extend_from_slice(text.get(2 + skip..).unwrap_or_default());
}

/// Appends bytes as pairs of lower-case hexadecimal digits.
pub(crate) fn hex_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(2 * bytes.len());
    for part in bytes.chunks(16) {
        let mut text = [[0; 2]; 16];
        for (pair, byte) in text.iter_mut().zip(part) {
            *pair = PAIRS[usize::from(*byte)];
        }
        out.extend_from_slice(text.get(..part.len()).unwrap_or_default().as_flattened());
    }
}

/// Appends a GUID in braces.
#[inline]
pub(crate) fn guid(out: &mut Vec<u8>, guid: Guid) {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    const AT: [usize; 16] = [1, 3, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27, 29, 31, 33, 35];
    let bytes = guid.to_bytes();
    let mut text = *b"{00000000-0000-0000-0000-000000000000}";
    for (from, at) in ORDER.into_iter().zip(AT) {
        let [high, low] = PAIRS[usize::from(bytes[from])];
        text[at] = high;
        text[at + 1] = low;
    }
    out.extend_from_slice(&text);
}

/// Writes times, computing the civil date only once per second: most times are within a few seconds, since event times
/// increase slowly and times in payloads repeat.
#[derive(Debug, Clone)]
pub(crate) struct TimeWriter {
    /// Seconds since 1601 with their `2026-01-02T03:04:05.`, each at the index given by its lowest bits.
    known: [(i64, [u8; 20]); 16],
}

impl TimeWriter {
    pub(crate) fn new() -> TimeWriter {
        TimeWriter { known: [(i64::MIN, [0; 20]); 16] }
    }

    /// Appends a time in RFC 3339 format with seven digits, in UTC.
    #[inline]
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, time: FileTime) {
        let second = time.0.div_euclid(FileTime::PER_SECOND);
        let known = &mut self.known[second as usize % 16];
        if second != known.0 {
            let text = time.to_text();
            match text.as_bytes().first_chunk::<20>() {
                // Only years of four digits fit in the prefix.
                Some(prefix) if prefix[19] == b'.' => *known = (second, *prefix),
                _ => return out.extend_from_slice(text.as_bytes()),
            }
        }
        let mut text = [b'Z'; 28];
        text[..20].copy_from_slice(&known.1);
        let mut fraction = time.0.rem_euclid(FileTime::PER_SECOND) as u32;
        for digit in text[20..27].iter_mut().rev() {
            *digit = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        out.extend_from_slice(&text);
    }
}

/// The two hexadecimal digits of every byte value.
static PAIRS: [[u8; 2]; 256] = {
    let digits = *b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        assert_eq!(text(|out| unsigned(out, u64::MAX)), "18446744073709551615");
        assert_eq!(text(|out| signed(out, i64::MIN)), "-9223372036854775808");
        for value in [0, 1, 0xF, 0x10, 0xABC, 0xFFFF_8000_1234_5678, u64::MAX] {
            assert_eq!(text(|out| hex(out, value)), format!("{value:#x}"));
        }
        assert_eq!(text(|out| hex_bytes(out, &[0, 0xAB, 0xFF])), "00abff");
    }

    #[test]
    fn guids() {
        let id = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
        assert_eq!(text(|out| guid(out, id)), id.to_string());
    }

    #[test]
    fn times() {
        let mut writer = TimeWriter::new();
        for ticks in [0, 5, 132_760_000_001_234_567, 132_760_000_001_234_568, i64::MAX, -1, 7, i64::MIN] {
            let mut out = Vec::new();
            writer.put(&mut out, FileTime(ticks));
            assert_eq!(String::from_utf8(out).unwrap(), FileTime(ticks).to_string());
        }
    }
}
