//! Text and binary data in the forms that schemas have for them.

use std::convert::identity;

use super::{Payload, PayloadWriter};

/// The most bytes that a `u16` in front of them can count.
const MAX_COUNT: usize = u16::MAX as usize;

/// UTF-8 and a zero byte (`win:AnsiString` with out-type UTF-8). A text with a zero in it ends there.
#[derive(Debug, Clone, Copy)]
pub struct Nul8<T>(pub T);

/// UTF-16 and a zero (`win:UnicodeString`). A text with a zero in it ends there.
#[derive(Debug, Clone, Copy)]
pub struct Nul16<T>(pub T);

/// UTF-8 behind a `u16` with the number of its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Counted8<T>(pub T);

/// UTF-16 behind a `u16` with the number of its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Counted16<T>(pub T);

/// Bytes behind a `u16` with their number.
#[derive(Debug, Clone, Copy)]
pub struct CountedBytes<'a>(pub &'a [u8]);

/// UTF-16 code units that need not be valid, as text.
#[derive(Debug, Clone, Copy)]
pub struct Units16<'a>(pub &'a [u16]);

/// Text that can be put as UTF-8 or UTF-16.
trait Text {
    /// Bytes as UTF-16.
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

/// The part of a text in front of a zero.
#[inline]
fn until_nul(text: &str) -> &str {
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let has_nul = |word: u64| {
        word.wrapping_sub(u64::from_le_bytes([1; 8])) & !word & u64::from_le_bytes([0x80; 8]) != 0
    };
    // Eight bytes at a time: texts with a zero in them are rare, and a search by characters costs more than the rest.
    if chunks.iter().any(|chunk| has_nul(u64::from_le_bytes(*chunk))) || rest.contains(&0) {
        return text.split('\0').next().unwrap_or_default();
    }
    text
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
            #[inline]
            fn len_bytes(&self) -> usize {
                let $text = $part(self.0);
                let len: usize = $len;
                if $counted { 2 + len.min(MAX_COUNT) } else { len + $nul }
            }

            #[inline]
            fn put(&self, out: &mut PayloadWriter<'_>) {
                let $text = $part(self.0);
                if $counted {
                    let len: usize = $len;
                    // A longer text does not fit into an event, which is refused before anything is put.
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
    #[inline]
    fn len_bytes(&self) -> usize {
        2 + self.0.len()
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        out.put(self.0.len().min(MAX_COUNT) as u64, 2);
        out.put_bytes(self.0);
    }
}
