//! The text form of values, including arrays and structs.

use std::fmt;

use crate::ValueMap;
use crate::layout::Format;
use crate::text::{
    FmtOut, Limited, TextOut, address, errors, hresult_name, ntstatus_name, number, string, until_nul,
    write_ansi, write_character, write_decimal, write_float, write_guid, write_hex, write_mapped, write_sid,
    write_signed, write_time,
};
use crate::value::Value;

/// A value's text, as `Display`. Arrays are written `[a, b]`, structs `{Name=a, Other=b}`.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub(crate) value: Value<'a>,
    pub(crate) format: Format,
    pub(crate) map: Option<&'a ValueMap>,
}

impl<'a> Text<'a> {
    /// Creates the text of a value in the given format, with names from `map`.
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

/// Appends the text of a value. Arrays and structs longer than 4 MB of text are cut and end with `…`.
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

/// Appends the elements of an array, the members of a struct, or a scalar.
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
                if out.is_full() {
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
                if out.is_full() {
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

/// Appends the text of a scalar, ignoring any map.
pub fn write_scalar(out: &mut (impl TextOut + ?Sized), value: &Value<'_>, format: Format) {
    match *value {
        Value::Null | Value::Array(_) | Value::Struct(_) => {}
        Value::F32(value) => write_float(out, value.into()),
        Value::F64(value) => write_float(out, value),
        Value::Bool(value) => out.put(if value { "true" } else { "false" }),
        Value::Utf16(bytes) if format == Format::ReducedText => string::write_reduced(out, bytes, true),
        Value::Ansi(bytes) if format == Format::ReducedText => string::write_reduced(out, bytes, false),
        Value::Utf16(bytes) => out.put_utf16(bytes),
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
        Format::NtStatus => errors::write_hex_code(out, bits, ntstatus_name),
        Format::HResult => errors::write_hex_code(out, bits, hresult_name),
        Format::FourCharacters => {
            string::write_ansi(out, until_nul(&((bits & 0xFFFF_FFFF) as u32).to_le_bytes()));
        }
        Format::Duration => number::write_duration(out, value.as_integer().unwrap_or(0)),
        _ => match *value {
            Value::I8(value) => write_signed(out, value.into()),
            Value::I16(value) => write_signed(out, value.into()),
            Value::I32(value) => write_signed(out, value.into()),
            Value::I64(value) => write_signed(out, value),
            _ => write_decimal(out, bits),
        },
    }
}
