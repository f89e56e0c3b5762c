//! Packing bytes into the words of a record.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Writes values without gaps into the words of a record.
///
/// Bytes that do not fit are dropped. The memory is shared with the logger, so each word is stored whole and only once.
#[derive(Debug)]
pub struct PayloadWriter<'r> {
    words: &'r [AtomicU64],
    next: usize,
    /// Bytes that do not fill a word yet.
    pending: u64,
    /// Number of bits used in `pending`; less than 64.
    bits: u32,
}

impl<'r> PayloadWriter<'r> {
    /// Creates a writer to these words.
    #[inline(always)]
    pub fn new(words: &'r [AtomicU64]) -> PayloadWriter<'r> {
        PayloadWriter { words, next: 0, pending: 0, bits: 0 }
    }

    /// Writes the `len_bytes` (1 to 8) low bytes of `value`, whose other bytes must be zero.
    #[inline(always)]
    pub fn put(&mut self, value: u64, len_bytes: u32) {
        let filled = self.bits + 8 * len_bytes;
        self.pending |= value << self.bits;
        if filled < 64 {
            self.bits = filled;
            return;
        }
        self.store(self.pending);
        // Two steps, since a shift by 64 is not defined.
        self.pending = (value >> 1) >> (63 - self.bits);
        self.bits = filled - 64;
    }

    /// Writes bytes unchanged.
    #[inline(always)]
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let end = self.next.saturating_add(chunks.len());
        if let Some(words) = self.words.get(self.next..end) {
            self.next = end;
            let mut pending = self.pending;
            for (word, chunk) in words.iter().zip(chunks) {
                let value = u64::from_le_bytes(*chunk);
                word.store(pending | value << self.bits, Relaxed);
                // Two steps, since a shift by 64 is not defined.
                pending = (value >> 1) >> (63 - self.bits);
            }
            self.pending = pending;
        }
        if !rest.is_empty() {
            let len_bytes = rest.len() as u32;
            // The last eight bytes contain the rest.
            let last = match bytes.last_chunk() {
                Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * len_bytes),
                None => short_word(rest),
            };
            self.put(last, len_bytes);
        }
    }

    /// Writes `len_bytes` bytes of words. The rest of the last word is zero.
    ///
    /// At the start of a payload this is a plain copy.
    #[inline(always)]
    pub fn put_words(&mut self, words: &[u64], len_bytes: usize) {
        let (whole, rest) = words.split_at(words.len().min(len_bytes / 8));
        if self.bits == 0 {
            let places = self.words.get(self.next..).unwrap_or_default();
            for (place, word) in places.iter().zip(whole) {
                place.store(*word, Relaxed);
            }
            self.next += whole.len();
        } else {
            whole.iter().for_each(|word| self.put(*word, 8));
        }
        if let (Some(last), len @ 1..) = (rest.first(), len_bytes as u32 % 8) {
            self.put(*last, len);
        }
    }

    /// Writes a text as UTF-16.
    #[inline]
    pub fn put_utf16(&mut self, text: &str) {
        let (chunks, rest) = text.as_bytes().as_chunks::<4>();
        if !text.is_ascii() {
            for unit in text.encode_utf16() {
                self.put(unit.into(), 2);
            }
            return;
        }
        for [a, b, c, d] in chunks.iter().map(|chunk| chunk.map(u64::from)) {
            self.put(a | b << 16 | c << 32 | d << 48, 8);
        }
        for byte in rest {
            self.put(u64::from(*byte), 2);
        }
    }

    /// Stores the last, partly filled word.
    #[inline(always)]
    pub fn finish(mut self) {
        if self.bits != 0 {
            self.store(self.pending);
        }
    }

    #[inline(always)]
    fn store(&mut self, word: u64) {
        if let Some(place) = self.words.get(self.next) {
            place.store(word, Relaxed);
        }
        self.next += 1;
    }
}

/// Returns up to seven bytes as the low bytes of a word; the others are zero. No loop: overlapping parts are equal.
#[inline(always)]
pub(super) fn short_word(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first))
            | u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4) % 64);
    }
    let middle = bytes.len() / 2;
    match (bytes.first(), bytes.get(middle), bytes.last()) {
        (Some(a), Some(b), Some(c)) => {
            u64::from(*a) | u64::from(*b) << (8 * middle) | u64::from(*c) << (8 * (bytes.len() - 1))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(put: impl Fn(&mut PayloadWriter<'_>)) -> Vec<u8> {
        let words: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
        let mut writer = PayloadWriter::new(&words);
        put(&mut writer);
        let len = writer.next * 8 + writer.bits as usize / 8;
        writer.finish();
        let all: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        assert!(all[len..].iter().all(|byte| *byte == 0), "nothing behind the end");
        all[..len].to_vec()
    }

    #[test]
    fn bytes_come_in_order_at_every_shift() {
        let text: Vec<u8> = (1..=60).collect();
        for shift in 0..9 {
            for len in 0..40 {
                let put = |writer: &mut PayloadWriter<'_>| {
                    (0..shift).for_each(|_| writer.put(0xFF, 1));
                    writer.put_bytes(&text[..len]);
                    writer.put(u64::MAX, 8);
                    writer.put(0x8877_6655_4433_2211, 8);
                };
                let expected =
                    [&vec![0xFF; shift], &text[..len], &[0xFF; 8], &0x8877_6655_4433_2211u64.to_le_bytes()];
                assert_eq!(bytes(put), expected.concat(), "{shift} {len}");
            }
        }
    }

    #[test]
    fn words_come_as_bytes_at_every_shift() {
        let words = [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09, 0x0000_1211];
        let all: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        for shift in 0..9 {
            for len in [0, 1, 7, 8, 9, 16, 18] {
                let put = |writer: &mut PayloadWriter<'_>| {
                    (0..shift).for_each(|_| writer.put(0xFF, 1));
                    let mut cut: Vec<u64> = words[..usize::div_ceil(len, 8)].to_vec();
                    if let (Some(last), 1..) = (cut.last_mut(), len % 8) {
                        *last &= (1 << (8 * (len % 8))) - 1;
                    }
                    writer.put_words(&cut, len);
                    writer.put(0xEE, 1);
                };
                assert_eq!(bytes(put), [&vec![0xFF; shift], &all[..len], &[0xEE]].concat(), "{shift} {len}");
            }
        }
    }

    #[test]
    fn text_becomes_utf16() {
        for text in ["", "a", "abc", "abcd", "abcdefghi", "aé", "𝄞 and €"] {
            let expected: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(bytes(|writer| writer.put_utf16(text)), expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let words: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
        let mut writer = PayloadWriter::new(&words);
        writer.put_bytes(&[1; 100]);
        writer.put_bytes(&[2; 3]);
        (0..5).for_each(|_| writer.put(3, 8));
        writer.finish();
        assert_eq!(words[0].load(Relaxed), 0x0302_0202_0101_0101);
        assert_eq!(words[1].load(Relaxed), 0x0300_0000_0000_0000);
    }
}
