//! Conversion of strings in payloads to UTF-8.

use super::TextOut;

/// Size in bytes of the pieces in which text is converted to UTF-8.
const PIECE: usize = 128;

/// Appends UTF-16 little-endian text. Lone surrogates become U+FFFD; an odd last byte is ignored.
#[inline]
pub fn write_utf16(out: &mut (impl TextOut + ?Sized), bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let mut piece = [0; PIECE];
        let len = ascii_units(rest, &mut piece);
        if len != 0 {
            out.put(std::str::from_utf8(piece.get(..len).unwrap_or_default()).unwrap_or_default());
        }
        rest = rest.get(2 * len..).unwrap_or_default();
        if rest.len() < 2 {
            return;
        }
        if len < PIECE {
            rest = write_wide(out, rest);
        }
    }
}

/// Narrows the leading ASCII units of `bytes` into `piece`. Returns their number.
#[inline]
fn ascii_units(bytes: &[u8], piece: &mut [u8; PIECE]) -> usize {
    let mut len = 0;
    let (blocks, _) = bytes.as_chunks::<16>();
    for (block, narrow) in blocks.iter().zip(piece.as_chunks_mut::<8>().0) {
        let units = block.as_chunks::<2>().0;
        let mut all = 0;
        for (unit, byte) in units.iter().zip(narrow.iter_mut()) {
            let unit = u16::from_le_bytes(*unit);
            all |= unit;
            *byte = (unit & 0xFF) as u8;
        }
        if all >= 0x80 {
            break;
        }
        len += 8;
    }
    while let (Some(place), Some([low, 0])) = (piece.get_mut(len), bytes.get(2 * len..2 * len + 2)) {
        if *low >= 0x80 {
            break;
        }
        *place = *low;
        len += 1;
    }
    len
}

/// Appends units up to the next run of ASCII. Returns the rest.
fn write_wide<'a>(out: &mut (impl TextOut + ?Sized), bytes: &'a [u8]) -> &'a [u8] {
    let mut piece = [0; PIECE];
    let mut len = 0;
    let mut taken = 0;
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    let mut ascii = 0;
    for character in char::decode_utf16(units) {
        let character = match character {
            Ok(character) => {
                taken += 2 * character.len_utf16();
                character
            }
            Err(_) => {
                taken += 2;
                char::REPLACEMENT_CHARACTER
            }
        };
        if let Some(place) = piece.get_mut(len..len + 4) {
            len += character.encode_utf8(place).len();
        }
        ascii = if character.is_ascii() { ascii + 1 } else { 0 };
        if len + 4 > PIECE || ascii == 8 {
            break;
        }
    }
    out.put(std::str::from_utf8(piece.get(..len).unwrap_or_default()).unwrap_or_default());
    bytes.get(taken..).unwrap_or_default()
}

/// Appends 8-bit text: UTF-8 if valid, otherwise Windows-1252.
#[inline]
pub fn write_ansi(out: &mut (impl TextOut + ?Sized), bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.put(text),
        Err(_) => write_cp1252(out, bytes),
    }
}

#[cold]
#[expect(clippy::indexing_slicing, reason = "the table has the 32 characters of the range that is matched")]
fn write_cp1252(out: &mut (impl TextOut + ?Sized), bytes: &[u8]) {
    /// Windows-1252 from 0x80 to 0x9F. The five unassigned codes map to control characters.
    /// Source: unicode.org, `VENDORS/MICSFT/WindowsBestFit/bestfit1252.txt`.
    const HIGH: [char; 32] = [
        '\u{20AC}', '\u{81}', '\u{201A}', '\u{0192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}',
        '\u{02C6}', '\u{2030}', '\u{0160}', '\u{2039}', '\u{0152}', '\u{8D}', '\u{017D}', '\u{8F}', '\u{90}',
        '\u{2018}', '\u{2019}', '\u{201C}', '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{02DC}',
        '\u{2122}', '\u{0161}', '\u{203A}', '\u{0153}', '\u{9D}', '\u{017E}', '\u{0178}',
    ];
    for byte in bytes {
        let character = match byte {
            0x80..=0x9F => HIGH[usize::from(byte - 0x80)],
            other => char::from(*other),
        };
        out.put(character.encode_utf8(&mut [0; 4]));
    }
}

/// Appends one UTF-16 code unit, or nothing for NUL.
pub fn write_character(out: &mut (impl TextOut + ?Sized), unit: u16) {
    if unit != 0 {
        write_utf16(out, &unit.to_le_bytes());
    }
}

/// Appends text with every run of line breaks replaced by one space.
pub(crate) fn write_reduced(out: &mut (impl TextOut + ?Sized), bytes: &[u8], wide: bool) {
    let mut reduced = Reduced { out, in_break: false };
    if wide { write_utf16(&mut reduced, bytes) } else { write_ansi(&mut reduced, bytes) }
}

struct Reduced<'o, O: ?Sized> {
    out: &'o mut O,
    in_break: bool,
}

impl<O: TextOut + ?Sized> TextOut for Reduced<'_, O> {
    fn put(&mut self, text: &str) {
        for piece in text.split_inclusive(['\r', '\n']) {
            let line = piece.trim_end_matches(['\r', '\n']);
            if !line.is_empty() {
                self.out.put(line);
                self.in_break = false;
            }
            if line.len() != piece.len() && !self.in_break {
                self.out.put(" ");
                self.in_break = true;
            }
        }
    }
}

/// Returns the bytes before the first NUL.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    match memchr::memchr(0, bytes) {
        Some(len) => bytes.get(..len).unwrap_or_default(),
        None => bytes,
    }
}

/// Returns the bytes before the first NUL code unit.
pub(crate) fn until_nul16(bytes: &[u8]) -> &[u8] {
    match bytes.as_chunks::<2>().0.iter().position(|unit| *unit == [0, 0]) {
        Some(units) => bytes.get(..2 * units).unwrap_or_default(),
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_becomes_utf8() {
        let long = "Ünïcödé ".repeat(40) + &"plain ascii ".repeat(40) + "😀";
        for text in [
            "",
            "a",
            "x.exe",
            "12345678",
            "123456789abcdefgh",
            "é",
            "日本語",
            "a😀b",
            &long,
            &"x".repeat(300),
        ] {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let mut out = String::new();
            write_utf16(&mut out, &bytes);
            assert_eq!(out, text);
        }
        let check = |bytes: &[u8], text: &str| {
            let mut out = String::new();
            write_utf16(&mut out, bytes);
            assert_eq!(out, text);
        };
        check(&[0x00, 0xD8], "\u{FFFD}");
        check(&[0x00, 0xDC, b'a', 0], "\u{FFFD}a");
        check(&[0x00, 0xD8, b'a', 0, 7], "\u{FFFD}a");
        check(&[b'a', 0, 0, 0, b'b', 0], "a\0b");
    }

    #[test]
    fn eight_bit_text() {
        let check = |bytes: &[u8], text: &str| {
            let mut out = String::new();
            write_ansi(&mut out, bytes);
            assert_eq!(out, text);
        };
        check(b"plain", "plain");
        check("grüße".as_bytes(), "grüße");
        check(b"gr\xFC\xDFe \x80", "grüße €");
    }

    #[test]
    fn line_breaks_are_reduced() {
        let mut out = String::new();
        write_reduced(&mut out, b"a\r\nb\n\nc\n", false);
        assert_eq!(out, "a b c ");
    }
}
