//! Text and binary data in the encodings that schemas support.

use std::convert::identity;

use super::writer::short_word;
use super::{Payload, PayloadWriter};

/// The maximum number of bytes that a `u16` count can hold.
const MAX_COUNT: usize = u16::MAX as usize;

/// UTF-8 and a zero byte (`win:AnsiString` with out-type UTF-8). Text is cut at its first zero.
#[derive(Debug, Clone, Copy)]
pub struct Nul8<T>(pub T);

/// UTF-16 and a zero (`win:UnicodeString`). Text is cut at its first zero.
#[derive(Debug, Clone, Copy)]
pub struct Nul16<T>(pub T);

/// UTF-8 after a `u16` byte count.
#[derive(Debug, Clone, Copy)]
pub struct Counted8<T>(pub T);

/// UTF-16 after a `u16` byte count.
#[derive(Debug, Clone, Copy)]
pub struct Counted16<T>(pub T);

/// Bytes after a `u16` byte count.
#[derive(Debug, Clone, Copy)]
pub struct CountedBytes<'a>(pub &'a [u8]);

/// Possibly invalid UTF-16 code units, as text.
#[derive(Debug, Clone, Copy)]
pub struct Units16<'a>(pub &'a [u16]);

/// Text that can be written as UTF-8 or UTF-16.
trait Text {
    /// Number of bytes in UTF-16.
    fn len16(&self) -> usize;
    fn put16(&self, out: &mut PayloadWriter<'_>);
}

impl Text for str {
    #[inline]
    fn len16(&self) -> usize {
        2 * if self.is_ascii() { self.len() } else { self.encode_utf16().count() }
    }

    #[inline]
    fn put16(&self, out: &mut PayloadWriter<'_>) {
        out.put_utf16(self);
    }
}

impl Text for [u16] {
    #[inline]
    fn len16(&self) -> usize {
        2 * self.len()
    }

    #[inline]
    fn put16(&self, out: &mut PayloadWriter<'_>) {
        self.iter().for_each(|unit| out.put(u64::from(*unit), 2));
    }
}

/// Returns the text up to its first zero.
#[inline(always)]
fn until_nul(text: &str) -> &str {
    if has_nul(text.as_bytes()) { cut(text) } else { text }
}

/// Cuts a text at a zero. Out of line, since this is rare and a search by characters is slow.
#[cold]
#[inline(never)]
fn cut(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

/// Returns whether any byte is zero. Checks sixteen at a time; the last sixteen may overlap the previous ones.
#[inline(always)]
fn has_nul(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk() else { return short_has_nul(bytes) };
    let in_chunk = |chunk: &[u8; 16]| chunk.iter().fold(false, |any, byte| any | (*byte == 0));
    let (chunks, rest) = bytes.as_chunks();
    chunks.iter().any(in_chunk) || !rest.is_empty() && in_chunk(last)
}

/// Returns whether any of less than sixteen bytes is zero.
#[inline(never)]
fn short_has_nul(bytes: &[u8]) -> bool {
    let in_word = |word: u64| {
        word.wrapping_sub(u64::from_le_bytes([1; 8])) & !word & u64::from_le_bytes([0x80; 8]) != 0
    };
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return in_word(u64::from_le_bytes(*first)) || in_word(u64::from_le_bytes(*last));
    }
    in_word(short_word(bytes) | u64::MAX << (8 * bytes.len() % 64))
}

#[inline]
fn units(units: Units16<'_>) -> &[u16] {
    units.0
}

#[inline]
fn units_until_nul(Units16(units): Units16<'_>) -> &[u16] {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    units.get(..end).unwrap_or(units)
}

macro_rules! forms {
    ($($form:ident($type:ty) |$text:ident| $part:expr, $len:expr, $put:expr, count: $counted:literal, nul: $nul:literal;)*) => {
        $(impl Payload for $form<$type> {
            // Out of line, the writer's state would be in memory.
            #[inline(always)]
            fn len_bytes(&self) -> usize {
                let $text = $part(self.0);
                let len: usize = $len;
                if $counted { 2 + len.min(MAX_COUNT) } else { len + $nul }
            }

            #[inline(always)]
            fn put(&self, out: &mut PayloadWriter<'_>) {
                let $text = $part(self.0);
                if $counted {
                    let len: usize = $len;
                    // A longer text does not fit into an event, which is rejected before this point.
                    out.put(len.min(MAX_COUNT) as u64, 2);
                }
                $put($text, out);
                if $nul > 0 {
                    out.put(0, $nul);
                }
            }
        })*
    };
}

#[inline(always)]
fn put8(text: &str, out: &mut PayloadWriter<'_>) {
    out.put_bytes(text.as_bytes());
}

forms! {
    Nul8(&str) |text| until_nul, text.len(), put8, count: false, nul: 1;
    Nul16(&str) |text| until_nul, text.len16(), Text::put16, count: false, nul: 2;
    Nul16(Units16<'_>) |text| units_until_nul, text.len16(), Text::put16, count: false, nul: 2;
    Counted8(&str) |text| identity, text.len(), put8, count: true, nul: 0;
    Counted16(&str) |text| identity, text.len16(), Text::put16, count: true, nul: 0;
    Counted16(Units16<'_>) |text| units, text.len16(), Text::put16, count: true, nul: 0;
}

impl Payload for CountedBytes<'_> {
    #[inline(always)]
    fn len_bytes(&self) -> usize {
        2 + self.0.len()
    }

    #[inline(always)]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        out.put(self.0.len().min(MAX_COUNT) as u64, 2);
        out.put_bytes(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Returns the bytes written after `shift` bytes.
    fn bytes(shift: usize, payload: &impl Payload) -> Vec<u8> {
        let words: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
        let mut writer = PayloadWriter::new(&words);
        (0..shift).for_each(|_| writer.put(0xFF, 1));
        payload.put(&mut writer);
        // Marks the end.
        writer.put(0xFE, 1);
        writer.finish();
        let all: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        let end = all.iter().rposition(|byte| *byte == 0xFE).unwrap();
        all[shift..end].to_vec()
    }

    #[test]
    fn texts_end_at_a_zero_wherever_it_is() {
        // Bytes next to zeros in a word are not zeros.
        let text: String = "\u{1}\u{80}x\u{7f}".chars().cycle().take(30).collect();
        let starts: Vec<usize> = (0..=text.len()).filter(|end| text.is_char_boundary(*end)).collect();
        for len in &starts {
            let whole = &text[..*len];
            for end in starts.iter().filter(|end| **end <= *len) {
                let mut cut = whole.to_owned();
                cut.insert(*end, '\0');
                let expected = [&whole.as_bytes()[..*end], &[0]].concat();
                for shift in [0, 4, 7] {
                    assert_eq!(bytes(shift, &Nul8(cut.as_str())), expected, "{len} {end}");
                }
                assert_eq!(Nul8(cut.as_str()).len_bytes(), expected.len());
                assert_eq!(bytes(0, &Nul16(cut.as_str())).len(), Nul16(cut.as_str()).len_bytes());
                // A counted text is not cut.
                let counted = Counted8(cut.as_str());
                assert_eq!(counted.len_bytes(), cut.len() + 2);
                assert_eq!(bytes(4, &counted)[2..], *cut.as_bytes());
            }
            assert_eq!(bytes(4, &Nul8(whole)), [whole.as_bytes(), &[0]].concat());
            assert_eq!(Nul8(whole).len_bytes(), whole.len() + 1);
        }
    }
}
