//! Escaping text for JSON, XML, CSV and lines of text.
//!
//! Texts in payloads are UTF-16 or 8-bit bytes and mostly plain ASCII. Each function therefore copies blocks that need
//! no escape as a whole, and checks single characters only in the other blocks.

use std::marker::PhantomData;

use etw_schema::text::{TextOut, is_disruptive};

/// An output format and the characters it has to escape.
pub(crate) trait Escape {
    /// Returns whether an ASCII character needs no escape.
    fn plain(byte: u8) -> bool;
    /// Returns the high bit of each of eight ASCII characters that needs an escape other than [`Escape::led`].
    fn special(word: u64) -> u64;
    /// Returns the high bit of each of eight ASCII characters that is escaped by [`Escape::LEAD`] before it.
    #[inline]
    fn led(_word: u64) -> u64 {
        0
    }
    /// The byte written before such characters.
    const LEAD: u8 = 0;
    /// Writes the escape of an ASCII character that needs one.
    fn escape(out: &mut Vec<u8>, byte: u8);
    /// Writes a character above ASCII.
    fn wide(out: &mut Vec<u8>, character: char) {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Inside a JSON string (RFC 8259). What could disrupt a terminal is escaped too; readers get the same string.
pub(crate) struct Json;

impl Escape for Json {
    #[inline]
    fn plain(byte: u8) -> bool {
        matches!(byte, 0x20..0x7F) & (byte != b'"') & (byte != b'\\')
    }

    const LEAD: u8 = b'\\';

    #[inline]
    fn special(word: u64) -> u64 {
        control(word) | equal(word, 0x7F)
    }

    #[inline]
    fn led(word: u64) -> u64 {
        equal(word, b'"') | equal(word, b'\\')
    }

    #[cold]
    fn escape(out: &mut Vec<u8>, byte: u8) {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[Self::LEAD, byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            _ => put_escape(out, byte.into()),
        }
    }

    fn wide(out: &mut Vec<u8>, character: char) {
        put_wide(out, character);
    }
}

/// Inside XML text and attribute values. What could disrupt a terminal is a character reference; characters that XML 1.0
/// cannot represent become U+FFFD.
pub(crate) struct Xml;

impl Escape for Xml {
    #[inline]
    fn plain(byte: u8) -> bool {
        matches!(byte, 0x20..0x7F)
            & (byte != b'&')
            & (byte != b'<')
            & (byte != b'>')
            & (byte != b'"')
            & (byte != b'\'')
    }

    #[inline]
    fn special(word: u64) -> u64 {
        let marks = [b'&', b'<', b'>', b'"', b'\''];
        marks.into_iter().fold(control(word) | equal(word, 0x7F), |found, mark| found | equal(word, mark))
    }

    #[cold]
    fn escape(out: &mut Vec<u8>, byte: u8) {
        out.extend_from_slice(match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'\'' => b"&apos;",
            b'\t' => b"&#9;",
            b'\n' => b"&#10;",
            b'\r' => b"&#13;",
            0x7F => b"&#127;",
            _ => "\u{FFFD}".as_bytes(),
        });
    }

    fn wide(out: &mut Vec<u8>, character: char) {
        let character = match character {
            '\u{FFFE}' | '\u{FFFF}' => '\u{FFFD}',
            other if is_disruptive(other) => {
                out.extend_from_slice(format!("&#{};", u32::from(other)).as_bytes());
                return;
            }
            other => other,
        };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Inside a quoted CSV field (RFC 4180): quotes are doubled, all other characters are unchanged.
pub(crate) struct Csv;

impl Escape for Csv {
    #[inline]
    fn plain(byte: u8) -> bool {
        (byte < 0x80) & (byte != b'"')
    }

    const LEAD: u8 = b'"';

    #[inline]
    fn special(_word: u64) -> u64 {
        0
    }

    #[inline]
    fn led(word: u64) -> u64 {
        equal(word, b'"')
    }

    #[cold]
    fn escape(out: &mut Vec<u8>, byte: u8) {
        out.extend_from_slice(&[byte, byte]);
    }
}

/// On a human-readable line: characters that could disrupt a terminal or break the line are written as escapes, which are
/// those of JSON.
pub(crate) struct Line;

impl Escape for Line {
    #[inline]
    fn plain(byte: u8) -> bool {
        matches!(byte, 0x20..0x7F)
    }

    #[inline]
    fn special(word: u64) -> u64 {
        control(word) | equal(word, 0x7F)
    }

    #[cold]
    fn escape(out: &mut Vec<u8>, byte: u8) {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => put_escape(out, byte.into()),
        }
    }

    fn wide(out: &mut Vec<u8>, character: char) {
        put_wide(out, character);
    }
}

/// Appends a character above ASCII, or its escape if it is disruptive.
fn put_wide(out: &mut Vec<u8>, character: char) {
    match is_disruptive(character) {
        true => put_escape(out, character),
        false => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Appends the escape of JSON for a character of the Basic Multilingual Plane, as all disruptive ones are.
#[cold]
pub(crate) fn put_escape(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
}

/// Appends UTF-8 text.
pub(crate) fn text<E: Escape>(out: &mut Vec<u8>, text: &str) {
    // Collects blocks of ASCII, including characters escaped by a mark.
    let mut room = [0u8; 128];
    let mut filled = 0;
    let mut rest = text;
    while let Some(block) = rest.as_bytes().first_chunk::<8>() {
        let word = u64::from_le_bytes(*block);
        let is_simple = word & eight(0x80) == 0 && E::special(word) == 0;
        if filled + BLOCK > room.len() || !is_simple {
            out.extend_from_slice(room.get(..filled).unwrap_or_default());
            filled = 0;
        }
        if !is_simple {
            rest = characters::<E>(out, rest, 8);
            continue;
        }
        rest = rest.get(8..).unwrap_or_default();
        if let Some(place) = room.get_mut(filled..).and_then(|place| place.first_chunk_mut::<BLOCK>()) {
            filled += put_led::<E>(place, word, E::led(word));
        }
    }
    out.extend_from_slice(room.get(..filled).unwrap_or_default());
    // Short texts, such as those of maps, come here at once.
    match rest.bytes().all(E::plain) {
        true => out.extend_from_slice(rest.as_bytes()),
        false => {
            characters::<E>(out, rest, usize::MAX);
        }
    }
}

/// Appends characters until at least `limit` bytes are taken. Returns the rest.
fn characters<'t, E: Escape>(out: &mut Vec<u8>, text: &'t str, limit: usize) -> &'t str {
    let mut characters = text.chars();
    while text.len() - characters.as_str().len() < limit
        && let Some(character) = characters.next()
    {
        match u8::try_from(character) {
            Ok(byte) if E::plain(byte) => out.push(byte),
            Ok(byte) if byte.is_ascii() => E::escape(out, byte),
            _ => E::wide(out, character),
        }
    }
    characters.as_str()
}

/// A writer that escapes text into a buffer.
pub(crate) struct Escaping<'o, E>(&'o mut Vec<u8>, PhantomData<E>);

impl<'o, E: Escape> Escaping<'o, E> {
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Escaping<'o, E> {
        Escaping(out, PhantomData)
    }
}

impl<E: Escape> TextOut for Escaping<'_, E> {
    #[inline]
    fn put(&mut self, part: &str) {
        text::<E>(self.0, part);
    }

    #[inline]
    fn put_plain(&mut self, ascii: &[u8]) {
        self.0.extend_from_slice(ascii);
    }

    #[inline]
    fn put_utf16(&mut self, bytes: &[u8]) {
        utf16::<E>(self.0, bytes);
    }
}

impl<E: Escape> std::fmt::Write for Escaping<'_, E> {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        text::<E>(self.0, part);
        Ok(())
    }
}

/// Appends the `Display` text of a value.
pub(crate) fn display<E: Escape>(out: &mut Vec<u8>, shown: impl std::fmt::Display) {
    // Writing to a vector cannot fail.
    let _ = std::fmt::Write::write_fmt(&mut Escaping::<E>::new(out), format_args!("{shown}"));
}

/// Returns a word with the same byte eight times.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Returns the high bit of each of eight ASCII characters that equals `byte`.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    // No carry crosses a byte, since both terms have their high bits clear.
    !((word ^ eight(byte)) + eight(0x7F)) & eight(0x80)
}

/// Returns the high bit of each of eight ASCII characters that is below a blank.
#[inline]
fn control(word: u64) -> u64 {
    !(word + eight(0x80 - 0x20)) & eight(0x80)
}

/// Packs the low bytes of four units whose high bytes are zero.
#[inline]
fn narrow(units: u64) -> u64 {
    let pairs = units | units >> 8;
    pairs & 0xFFFF | (pairs >> 16) & 0xFFFF_0000
}

/// Room for eight characters: their maximum size, plus the bytes that may be written after them.
const BLOCK: usize = 24;

/// Writes eight characters, with [`Escape::LEAD`] before those marked in `led`. Returns the number of bytes used.
#[inline]
fn put_led<E: Escape>(place: &mut [u8; BLOCK], mut word: u64, mut led: u64) -> usize {
    let mut put = |at: usize, word: u64| {
        if let Some(place) = place.get_mut(at..at + 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    };
    put(0, word);
    let mut len = 8;
    let mut at = 0;
    // The characters from a marked one on are rewritten after the mark.
    while led != 0 {
        let plain = led.trailing_zeros() as usize / 8;
        word >>= 8 * plain;
        led = (led >> (8 * plain)) & !0xFF;
        put(at + plain, u64::from(E::LEAD));
        put(at + plain + 1, word);
        at += plain + 1;
        len += 1;
    }
    len
}

/// Appends UTF-8 with quotation marks doubled.
pub(crate) fn doubled_quotes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut room = [0u8; 256];
    let mut filled = 0;
    let (blocks, rest) = bytes.as_chunks::<8>();
    for block in blocks {
        if filled + BLOCK > room.len() {
            out.extend_from_slice(room.get(..filled).unwrap_or_default());
            filled = 0;
        }
        let word = u64::from_le_bytes(*block);
        // Bytes above ASCII are not quotes, whatever their lower bits.
        let led = Csv::led(word & eight(0x7F)) & !word;
        if let Some(place) = room.get_mut(filled..).and_then(|place| place.first_chunk_mut::<BLOCK>()) {
            filled += put_led::<Csv>(place, word, led);
        }
    }
    out.extend_from_slice(room.get(..filled).unwrap_or_default());
    for byte in rest {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
}

/// Appends UTF-16 little-endian text. An odd last byte is ignored; a lone surrogate becomes U+FFFD.
pub(crate) fn utf16<E: Escape>(out: &mut Vec<u8>, bytes: &[u8]) {
    const NOT_ASCII: u64 = 0xFF80_FF80_FF80_FF80;
    // Collects blocks of ASCII, including characters escaped by a mark.
    let mut room = [0u8; 128];
    let mut filled = 0;
    let mut rest = bytes;
    while let Some((block, tail)) = rest.split_first_chunk::<16>() {
        let units = u128::from_le_bytes(*block);
        let (low, high) = (units as u64, (units >> 64) as u64);
        let word = narrow(low) | narrow(high) << 32;
        let is_simple = (low | high) & NOT_ASCII == 0 && E::special(word) == 0;
        if filled + BLOCK > room.len() || !is_simple {
            out.extend_from_slice(room.get(..filled).unwrap_or_default());
            filled = 0;
        }
        if !is_simple {
            rest = utf16_units::<E>(out, rest, 8);
            continue;
        }
        rest = tail;
        let Some(place) = room.get_mut(filled..).and_then(|place| place.first_chunk_mut::<BLOCK>()) else {
            continue;
        };
        filled += put_led::<E>(place, word, E::led(word));
    }
    out.extend_from_slice(room.get(..filled).unwrap_or_default());
    utf16_units::<E>(out, rest, usize::MAX);
}

/// Appends at most `limit` units (one more if a surrogate pair would be split). Returns the rest.
fn utf16_units<'a, E: Escape>(out: &mut Vec<u8>, bytes: &'a [u8], limit: usize) -> &'a [u8] {
    let mut rest = bytes;
    let mut count = 0;
    while count < limit
        && let Some((unit, tail)) = rest.split_first_chunk::<2>()
    {
        rest = tail;
        count += 1;
        let unit = u16::from_le_bytes(*unit);
        match unit {
            0..0x80 if E::plain(unit as u8) => out.push(unit as u8),
            0..0x80 => E::escape(out, unit as u8),
            0xD800..0xDC00 => {
                let low = rest.first_chunk::<2>().map(|low| u16::from_le_bytes(*low));
                match low {
                    Some(low @ 0xDC00..=0xDFFF) => {
                        let code = 0x10000 + ((u32::from(unit) - 0xD800) << 10) + (u32::from(low) - 0xDC00);
                        E::wide(out, char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        rest = rest.get(2..).unwrap_or_default();
                    }
                    _ => E::wide(out, char::REPLACEMENT_CHARACTER),
                }
            }
            _ => E::wide(out, char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
    rest
}

/// Writes a text as a quoted field of CSV.
pub(crate) fn quoted(out: &mut Vec<u8>, field: &str) {
    out.push(b'"');
    text::<Csv>(out, field);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<E: Escape>(input: &str, expected: &str) {
        let mut out = Vec::new();
        text::<E>(&mut out, input);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{input:?} as UTF-8");
        let bytes: Vec<u8> = input.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut out = Vec::new();
        utf16::<E>(&mut out, &bytes);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{input:?} as UTF-16");
    }

    #[test]
    fn json_strings() {
        check::<Json>("", "");
        check::<Json>("plain text that is longer than one block", "plain text that is longer than one block");
        check::<Json>(r#"C:\dir\"x""#, r#"C:\\dir\\\"x\""#);
        check::<Json>("0123456789abcde\u{1F600}é\n", "0123456789abcde\u{1F600}é\\n");
        check::<Json>("\u{0}\u{1f}\t\r\u{7f}\u{9b}\u{202E}", "\\u0000\\u001f\\t\\r\\u007f\\u009b\\u202e");
        check::<Json>("0123456\u{1F600}89abcdef\u{1F600}", "0123456\u{1F600}89abcdef\u{1F600}");
    }

    #[test]
    fn xml_texts() {
        check::<Xml>("\u{7f}\u{9b}\u{202E}", "&#127;&#155;&#8238;");
        check::<Xml>("a<b>&\"'\u{0}\u{FFFF}\n", "a&lt;b&gt;&amp;&quot;&apos;\u{FFFD}\u{FFFD}&#10;");
    }

    #[test]
    fn csv_fields_and_lines() {
        check::<Csv>("say \"a\", b\n", "say \"\"a\"\", b\n");
        check::<Line>("a\u{1b}[31m\u{202E}b\n", "a\\u001b[31m\\u202eb\\n");
    }

    #[test]
    fn every_character_in_every_place() {
        fn both<E: Escape>(input: &str) {
            let mut expected = Vec::new();
            input.chars().for_each(|character| text::<E>(&mut expected, character.encode_utf8(&mut [0; 4])));
            check::<E>(input, std::str::from_utf8(&expected).unwrap());
        }
        for character in (0..0x100).filter_map(char::from_u32).chain(['\u{2022}', '\u{5C22}']) {
            for place in 0..17 {
                let mut input = ["a"; 24].map(str::to_owned);
                input[place] = character.into();
                both::<Json>(&input.concat());
                both::<Xml>(&input.concat());
                both::<Csv>(&input.concat());
                both::<Line>(&input.concat());
                input[place + 1] = "\\".into();
                input[place + 3] = "\"".into();
                both::<Json>(&input.concat());
                both::<Csv>(&input.concat());
                let input = input.concat();
                let mut out = Vec::new();
                doubled_quotes(&mut out, input.as_bytes());
                assert_eq!(String::from_utf8(out).unwrap(), input.replace('"', "\"\""));
            }
        }
        let mut out = Vec::new();
        doubled_quotes(&mut out, &[b'"'; 300]);
        assert_eq!(out, [b'"'; 600]);
        check::<Json>(&"\\".repeat(100), &"\\\\".repeat(100));
    }

    #[test]
    fn broken_utf16() {
        let mut out = Vec::new();
        utf16::<Json>(&mut out, &[0x3D, 0xD8, 0x41, 0, 0x00, 0xDC, 0x42]);
        assert_eq!(String::from_utf8(out).unwrap(), "\u{FFFD}A\u{FFFD}");
        let units: Vec<u8> = std::iter::repeat_n([0x3D, 0xD8], 9).flatten().collect();
        let mut out = Vec::new();
        utf16::<Json>(&mut out, &units);
        assert_eq!(String::from_utf8(out).unwrap(), "\u{FFFD}".repeat(9));
    }
}
