//! The text of values, by in-type, out-type and map, as TDH shows them; written without allocating.
//!
//! Where TDH depends on the machine (time zone, texts of errors, number formats), this text does not: times are UTC
//! with seven digits, errors their number with their symbolic name, GUIDs lower-case in braces.

mod address;
mod errors;
mod number;
mod string;

use std::fmt;

use etw_event::FileTime;

use crate::layout::Format;
use crate::value::Value;
use crate::{MapKind, ValueMap};

pub use errors::{hresult_name, ntstatus_name, win32_error_name};
pub(crate) use number::{put_hex_digits, write_fraction, write_octal};
pub use number::{write_decimal, write_float, write_hex, write_signed};
pub(crate) use string::{until_nul, until_nul16};
pub use string::{write_ansi, write_character, write_utf16};

/// Where text goes: a `String`, or a `Vec<u8>` that takes it as UTF-8.
pub trait TextOut {
    /// Appends text.
    fn put(&mut self, text: &str);

    /// Appends ASCII of numbers, GUIDs and times: digits, letters and the marks between them, which no form of output
    /// escapes.
    #[inline]
    fn put_plain(&mut self, ascii: &[u8]) {
        self.put(std::str::from_utf8(ascii).unwrap_or_default());
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

/// Text into any [`fmt::Write`]; an error of it is kept.
pub struct FmtOut<W> {
    inner: W,
    result: fmt::Result,
}

impl<W: fmt::Write> FmtOut<W> {
    /// Text into `inner`.
    pub fn new(inner: W) -> FmtOut<W> {
        FmtOut { inner, result: Ok(()) }
    }

    /// The first error of the writer.
    ///
    /// # Errors
    /// The writer failed.
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

/// A value's text, for `{}`. Arrays are `[a, b]`, structs `{Name=a, Other=b}`.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub(crate) value: Value<'a>,
    pub(crate) format: Format,
    pub(crate) map: Option<&'a ValueMap>,
}

impl<'a> Text<'a> {
    /// The text of a value shown as `format` says, with names from `map`.
    pub fn new(value: Value<'a>, format: Format, map: Option<&'a ValueMap>) -> Text<'a> {
        Text { value, format, map }
    }

    /// Appends the text.
    #[inline]
    pub fn write_to(&self, out: &mut (impl TextOut + ?Sized)) {
        write_value(out, &self.value, self.format, self.map);
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = FmtOut::new(f);
        self.write_to(&mut out);
        out.finish()
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes that the text of one array, one struct or one message may have. What is in the payload takes less by far, but
/// names come again with each element, and inserts with each place where they are named.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Text that ends with `…` where it becomes too long.
pub(crate) struct Limited<'o, O: ?Sized> {
    out: &'o mut O,
    left: usize,
}

impl<'o, O: TextOut + ?Sized> Limited<'o, O> {
    pub(crate) fn new(out: &'o mut O) -> Limited<'o, O> {
        Limited { out, left: MAX_TEXT_BYTES }
    }

    /// Takes room for a part; the first one that has none is shown as `…`.
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
}

/// Appends the text of a value. Arrays and structs of more than 4 MB of text end with `…`.
pub fn write_value(
    out: &mut (impl TextOut + ?Sized),
    value: &Value<'_>,
    format: Format,
    map: Option<&ValueMap>,
) {
    match value {
        Value::Array(_) | Value::Struct(_) => write_parts(&mut Limited::new(out), value, format, map),
        _ => write_one(out, value, format, map),
    }
}

/// Appends the elements of an array, the members of a struct, or a value that has no parts.
fn write_parts<O: TextOut + ?Sized>(
    out: &mut Limited<'_, O>,
    value: &Value<'_>,
    format: Format,
    map: Option<&ValueMap>,
) {
    match value {
        Value::Array(array) => {
            out.put("[");
            for (index, element) in array.iter().enumerate() {
                if out.left == 0 {
                    break;
                }
                if index != 0 {
                    out.put(", ");
                }
                write_parts(out, &element, format, map);
            }
            out.put("]");
        }
        Value::Struct(members) => {
            out.put("{");
            for (index, member) in members.iter().enumerate() {
                if out.left == 0 {
                    break;
                }
                if index != 0 {
                    out.put(", ");
                }
                out.put(member.name());
                out.put("=");
                write_parts(out, &member.value(), member.format(), member.map());
            }
            out.put("}");
        }
        _ => write_one(out, value, format, map),
    }
}

fn write_one(out: &mut (impl TextOut + ?Sized), value: &Value<'_>, format: Format, map: Option<&ValueMap>) {
    if let (Some(map), Some(bits)) = (map, value.as_bits())
        && write_mapped(out, map, bits)
    {
        return;
    }
    write_scalar(out, value, format);
}

/// Appends the text of a value that is neither array nor struct, whatever its map.
pub fn write_scalar(out: &mut (impl TextOut + ?Sized), value: &Value<'_>, format: Format) {
    match *value {
        Value::Null | Value::Array(_) | Value::Struct(_) => {}
        Value::F32(value) => write_float(out, value.into()),
        Value::F64(value) => write_float(out, value),
        Value::Bool(value) => out.put(if value { "true" } else { "false" }),
        Value::Utf16(bytes) if format == Format::ReducedText => string::write_reduced(out, bytes, true),
        Value::Ansi(bytes) if format == Format::ReducedText => string::write_reduced(out, bytes, false),
        Value::Utf16(bytes) => write_utf16(out, bytes),
        Value::Ansi(bytes) => write_ansi(out, bytes),
        Value::Char16(unit) => write_character(out, unit),
        Value::Char8(byte) => string::write_ansi(out, &[byte]),
        Value::Guid(guid) => write_guid(out, guid),
        Value::FileTime(time) | Value::RawTime(_, time) => write_time(out, time),
        Value::SystemTime(time) => match time.to_filetime() {
            Some(time) => write_time(out, time),
            None => out.put("(invalid time)"),
        },
        Value::Sid(sid) => write_sid(out, sid),
        Value::Binary(bytes) if format == Format::MacAddress && bytes.len() == 6 => {
            address::write_mac(out, bytes)
        }
        Value::Binary(bytes) => number::write_bytes(out, bytes),
        Value::Ipv4(address) => address::write_ipv4(out, address),
        Value::Ipv6(address) => address::write_ipv6(out, address),
        Value::SocketAddress(bytes) => address::write_socket_address(out, bytes),
        _ => write_integer(out, value, format),
    }
}

fn write_integer(out: &mut (impl TextOut + ?Sized), value: &Value<'_>, format: Format) {
    let bits = value.as_bits().unwrap_or(0);
    match format {
        Format::Hex => write_hex(out, bits),
        Format::Win32Error => errors::write_win32(out, bits),
        Format::NtStatus => errors::write_hex_code(out, bits, ntstatus_name(bits as u32)),
        Format::HResult => errors::write_hex_code(out, bits, hresult_name(bits as u32)),
        Format::FourCharacters => string::write_ansi(out, until_nul(&(bits as u32).to_le_bytes())),
        Format::Duration => number::write_duration(out, value.as_integer().unwrap_or(0) as i64),
        _ => match *value {
            Value::I8(value) => write_signed(out, value.into()),
            Value::I16(value) => write_signed(out, value.into()),
            Value::I32(value) => write_signed(out, value.into()),
            Value::I64(value) => write_signed(out, value),
            _ => write_decimal(out, bits),
        },
    }
}

/// Appends the names that a map gives a value; whether it gives any. A value map names a value as a whole; a bit map
/// names its bits, joined by ` | `, with unknown bits in hexadecimal.
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

/// Whether a map names a value, wholly or in part.
pub fn is_mapped(map: &ValueMap, bits: u64) -> bool {
    map.entries.iter().any(|entry| match map.kind {
        MapKind::Value => entry.value == bits,
        MapKind::Bits => entry.value == bits || (entry.value != 0 && bits & entry.value == entry.value),
        MapKind::BitPositions => entry.value < 64 && bits >> entry.value & 1 == 1,
    })
}

/// Appends a GUID, lower-case in braces.
pub fn write_guid(out: &mut (impl TextOut + ?Sized), guid: etw_event::Guid) {
    out.put("{");
    out.put_plain(&guid.to_text());
    out.put("}");
}

/// Appends a time, RFC 3339 in UTC with seven digits.
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
        // Twelve digits, as Windows writes authorities of 2^32 and more.
        out.put("0x");
        number::put_hex_digits(out, authority, 12, false);
    }
    for part in bytes.get(8..).unwrap_or_default().chunks_exact(4) {
        out.put("-");
        write_decimal(out, part.u32_at(0).unwrap_or(0).into());
    }
}
