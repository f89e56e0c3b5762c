//! The text form of values, as TDH shows them by in-type, out-type and map. Writing does not allocate.
//!
//! TDH's text depends on the machine (time zone, error texts, number formats); this text does not. Times are UTC with
//! seven digits, errors are a number with the symbolic name, and GUIDs are lower-case in braces.
//!
//! ```
//! use etw_event::Guid;
//! use etw_schema::text::write_guid;
//!
//! let mut text = String::new();
//! write_guid(&mut text, Guid::ZERO);
//! assert_eq!(text, "{00000000-0000-0000-0000-000000000000}");
//! ```

pub(crate) mod address;
pub(crate) mod errors;
pub(crate) mod number;
pub(crate) mod string;

use std::fmt;

use etw_event::FileTime;

use crate::{MapKind, ValueMap};

pub use errors::{hresult_name, ntstatus_name, win32_error_name};
pub(crate) use number::{put_hex_digits, write_fraction, write_octal};
pub use number::{write_decimal, write_float, write_hex, write_signed};
pub(crate) use string::{until_nul, until_nul16};
pub use string::{write_ansi, write_character, write_utf16};

pub use crate::value_text::{Text, write_scalar, write_value};

/// Returns whether a character changes what a terminal shows besides itself: it moves the cursor or gives a command (the
/// controls C0, DEL and C1), reverses the text around it (Unicode's bidirectional formatting), or ends the line.
///
/// Texts of traces are shown without them, so that no program can forge or hide what is shown of others.
#[inline]
pub fn is_disruptive(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}'
        | '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text for elements and attributes of XML, with character references for marks, line breaks and what is disruptive
/// ([`is_disruptive`]). Characters that XML cannot represent become U+FFFD.
///
/// ```
/// assert_eq!(etw_schema::text::xml_text("a<b>\u{1}\n"), "a&lt;b&gt;\u{FFFD}&#10;");
/// ```
pub fn xml_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            other if is_disruptive(other) => out.push_str(&format!("&#{};", u32::from(other))),
            other => out.push(other),
        }
    }
    out
}

/// A destination of text: a `String`, or a `Vec<u8>` that receives UTF-8.
pub trait TextOut {
    /// Appends text.
    fn put(&mut self, text: &str);

    /// Appends ASCII of numbers, GUIDs and times: digits, letters and the marks between them. No output format has to
    /// escape these.
    #[inline]
    fn put_plain(&mut self, ascii: &[u8]) {
        self.put(std::str::from_utf8(ascii).unwrap_or_default());
    }

    /// Appends UTF-16 little-endian text, as [`write_utf16`] does.
    #[inline]
    fn put_utf16(&mut self, bytes: &[u8]) {
        write_utf16(self, bytes);
    }
}

impl TextOut for String {
    #[inline]
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl TextOut for Vec<u8> {
    #[inline]
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn put_plain(&mut self, ascii: &[u8]) {
        self.extend_from_slice(ascii);
    }
}

/// A [`TextOut`] that writes to any [`fmt::Write`] and keeps the first error.
pub struct FmtOut<W> {
    inner: W,
    result: fmt::Result,
}

impl<W: fmt::Write> FmtOut<W> {
    /// Creates an output that writes to `inner`.
    pub fn new(inner: W) -> FmtOut<W> {
        FmtOut { inner, result: Ok(()) }
    }

    /// Returns the first error of the writer.
    ///
    /// # Errors
    ///
    /// Fails if the writer failed.
    pub fn finish(self) -> fmt::Result {
        self.result
    }
}

impl<W: fmt::Write> TextOut for FmtOut<W> {
    fn put(&mut self, text: &str) {
        if self.result.is_ok() {
            self.result = self.inner.write_str(text);
        }
    }
}

/// Limit of the text of one array, struct or message. Payloads are far smaller, but names repeat for each element, and
/// an insert may occur many times.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Text that is cut, with a final `…`, at a limit.
pub(crate) struct Limited<'o, O: ?Sized> {
    out: &'o mut O,
    left: usize,
}

impl<'o, O: TextOut + ?Sized> Limited<'o, O> {
    pub(crate) fn new(out: &'o mut O) -> Limited<'o, O> {
        Limited { out, left: MAX_TEXT_BYTES }
    }

    /// Returns whether the text has been cut.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Reserves room for a part. Writes `…` for the first part that does not fit.
    #[inline]
    fn has_room(&mut self, len: usize) -> bool {
        match self.left.checked_sub(len) {
            Some(left) => {
                self.left = left;
                return true;
            }
            None if self.left > 0 => {
                self.left = 0;
                self.out.put("…");
            }
            None => {}
        }
        false
    }
}

impl<O: TextOut + ?Sized> TextOut for Limited<'_, O> {
    #[inline]
    fn put(&mut self, text: &str) {
        if self.has_room(text.len()) {
            self.out.put(text);
        }
    }

    #[inline]
    fn put_plain(&mut self, ascii: &[u8]) {
        if self.has_room(ascii.len()) {
            self.out.put_plain(ascii);
        }
    }

    /// Counts the characters; those above ASCII take up to three bytes.
    #[inline]
    fn put_utf16(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len() / 2) {
            self.out.put_utf16(bytes);
        }
    }
}

/// Appends the names that a map has for a value. Returns whether it has any. A value map names the whole value; a bit
/// map names its bits, joined by ` | `, with unknown bits in hexadecimal.
pub fn write_mapped(out: &mut (impl TextOut + ?Sized), map: &ValueMap, bits: u64) -> bool {
    let mask_of = |value: u64| match map.kind {
        MapKind::BitPositions => 1u64.checked_shl(u32::try_from(value).unwrap_or(u32::MAX)).unwrap_or(0),
        _ => value,
    };
    if let Some(entry) = map.entries.iter().find(|entry| match map.kind {
        MapKind::Value | MapKind::Bits => entry.value == bits,
        MapKind::BitPositions => false,
    }) {
        out.put(entry.text.trim_end());
        return true;
    }
    if map.kind == MapKind::Value {
        return false;
    }
    let mut unknown = bits;
    let mut any = false;
    for entry in &map.entries {
        let mask = mask_of(entry.value);
        if mask != 0 && bits & mask == mask {
            if any {
                out.put(" | ");
            }
            out.put(entry.text.trim_end());
            unknown &= !mask;
            any = true;
        }
    }
    if any && unknown != 0 {
        out.put(" | ");
        write_hex(out, unknown);
    }
    any
}

/// Returns whether a map names a value or some of its bits.
pub fn is_mapped(map: &ValueMap, bits: u64) -> bool {
    map.entries.iter().any(|entry| match map.kind {
        MapKind::Value => entry.value == bits,
        MapKind::Bits => entry.value == bits || (entry.value != 0 && bits & entry.value == entry.value),
        MapKind::BitPositions => entry.value < 64 && bits >> entry.value & 1 == 1,
    })
}

/// Appends a GUID in lower case and braces.
pub fn write_guid(out: &mut (impl TextOut + ?Sized), guid: etw_event::Guid) {
    out.put("{");
    out.put_plain(&guid.to_text());
    out.put("}");
}

/// Appends a time in RFC 3339 format, in UTC with seven digits.
pub fn write_time(out: &mut (impl TextOut + ?Sized), time: FileTime) {
    out.put_plain(time.to_text().as_bytes());
}

/// Appends a SID: `S-1-5-18`.
pub fn write_sid(out: &mut (impl TextOut + ?Sized), sid: etw_event::Sid<'_>) {
    use etw_event::Fields;
    let bytes = sid.as_bytes();
    let authority =
        bytes.get(2..8).unwrap_or_default().iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    out.put("S-");
    write_decimal(out, bytes.u8_at(0).unwrap_or(0).into());
    out.put("-");
    if authority >> 32 == 0 {
        write_decimal(out, authority);
    } else {
        // Twelve digits, as Windows writes authorities from 2^32 on.
        out.put("0x");
        number::put_hex_digits(out, authority, 12, false);
    }
    for part in bytes.get(8..).unwrap_or_default().chunks_exact(4) {
        out.put("-");
        write_decimal(out, part.u32_at(0).unwrap_or(0).into());
    }
}
