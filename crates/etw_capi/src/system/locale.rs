//! Dates, times, addresses and messages as text, independent of the machine.

// UNSAFETY: reads and writes texts of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::net::{Ipv4Addr, Ipv6Addr};

use windows_sys::Win32::Foundation::SYSTEMTIME;

use crate::error::{ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_PARAMETER, SetLastError};
use crate::wide::Width;

macro_rules! dates {
    ($($(#[$doc:meta])* $name:ident, $width:expr, $default:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                _locale: u32,
                _flags: u32,
                time: *const SYSTEMTIME,
                format: *const c_void,
                text: *mut c_void,
                size: i32,
            ) -> i32 {
                // SAFETY: the caller's promise.
                unsafe { write_date(time, format, text, size, $width, $default) }
            }
        )*
    };
}

dates! {
    /// Writes a date by a format, or as in ISO 8601.
    GetDateFormatW, Width::Wide16, "yyyy-MM-dd";
    /// [`GetDateFormatW`] with characters of 32 bits.
    GetDateFormatW32, Width::Wide32, "yyyy-MM-dd";
    /// [`GetDateFormatW`] with 8-bit text.
    GetDateFormatA, Width::Narrow, "yyyy-MM-dd";
    /// Writes a time by a format, or as in ISO 8601.
    GetTimeFormatW, Width::Wide16, "HH:mm:ss";
    /// [`GetTimeFormatW`] with characters of 32 bits.
    GetTimeFormatW32, Width::Wide32, "HH:mm:ss";
    /// [`GetTimeFormatW`] with 8-bit text.
    GetTimeFormatA, Width::Narrow, "HH:mm:ss";
}

macro_rules! addresses {
    ($($(#[$doc:meta])* $name:ident, $width:expr, $bytes:literal => $address:ty;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(address: *const [u8; $bytes], text: *mut c_void) -> *mut c_void {
                if address.is_null() || text.is_null() {
                    return text;
                }
                // SAFETY: the caller's promise: an address, and room for its text.
                unsafe {
                    let bytes = $width.encode(&<$address>::from(address.read()).to_string());
                    text.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                    text.byte_add(bytes.len() - $width.bytes())
                }
            }
        )*
    };
}

addresses! {
    /// Writes an address of IPv4; returns where its text ends.
    RtlIpv4AddressToStringW, Width::Wide16, 4 => Ipv4Addr;
    /// [`RtlIpv4AddressToStringW`] with characters of 32 bits.
    RtlIpv4AddressToStringW32, Width::Wide32, 4 => Ipv4Addr;
    /// [`RtlIpv4AddressToStringW`] with 8-bit text.
    RtlIpv4AddressToStringA, Width::Narrow, 4 => Ipv4Addr;
    /// Writes an address of IPv6; returns where its text ends.
    RtlIpv6AddressToStringW, Width::Wide16, 16 => Ipv6Addr;
    /// [`RtlIpv6AddressToStringW`] with characters of 32 bits.
    RtlIpv6AddressToStringW32, Width::Wide32, 16 => Ipv6Addr;
    /// [`RtlIpv6AddressToStringW`] with 8-bit text.
    RtlIpv6AddressToStringA, Width::Narrow, 16 => Ipv6Addr;
}

/// # Safety
///
/// The pointers are null or valid; `text` has room for `size` characters.
unsafe fn write_date(
    time: *const SYSTEMTIME,
    format: *const c_void,
    text: *mut c_void,
    size: i32,
    width: Width,
    default: &str,
) -> i32 {
    // SAFETY: the caller's promise.
    let format = unsafe { width.read(format) }.unwrap_or_else(|| default.to_owned());
    let mut now = SYSTEMTIME::default();
    // SAFETY: the caller's promise; without a time it is now, in UTC.
    unsafe {
        match time.is_null() {
            true => crate::time::GetSystemTime(&mut now),
            false => now = time.read_unaligned(),
        }
    }
    let bytes = width.encode(&formatted(&format, &now));
    let count = (bytes.len() / width.bytes()) as i32;
    if size == 0 {
        return count;
    }
    if text.is_null() || size < count {
        SetLastError(if text.is_null() { ERROR_INVALID_PARAMETER } else { ERROR_INSUFFICIENT_BUFFER });
        return 0;
    }
    // SAFETY: there is room for this many characters.
    unsafe { text.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    count
}

/// Writes the parts that letters stand for; text in quotes is itself.
fn formatted(format: &str, time: &SYSTEMTIME) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let quoted = &rest[1..];
            let end = quoted.find('\'').unwrap_or(quoted.len());
            out += &quoted[..end];
            rest = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        let run = rest.chars().take_while(|letter| *letter == first).count();
        let number = match first {
            'y' => Some(if run > 2 { time.wYear } else { time.wYear % 100 }),
            'M' => Some(time.wMonth),
            'd' => Some(time.wDay),
            'H' => Some(time.wHour),
            'h' => Some((time.wHour + 11) % 12 + 1),
            'm' => Some(time.wMinute),
            's' => Some(time.wSecond),
            _ => None,
        };
        match number {
            Some(number) if run >= 2 => {
                out += &format!("{number:0width$}", width = if run > 2 && first == 'y' { 4 } else { 2 })
            }
            Some(number) => out += &number.to_string(),
            None if first == 't' => out += if time.wHour < 12 { "AM" } else { "PM" },
            None => out.extend(std::iter::repeat_n(first, run)),
        }
        rest = rest.get(run * first.len_utf8()..).unwrap_or_default();
    }
    out
}

/// Replaces the inserts of a message (`%1`, `%2!d!`) by arguments, as `FormatMessage` does.
pub(super) fn message(text: &str, mut argument: impl FnMut(usize, &str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let Some(next) = rest.next() else { break };
        match next {
            '0' => break,
            'n' => out += "\r\n",
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'b' => out.push(' '),
            '1'..='9' => {
                let mut number = next.to_digit(10).unwrap_or(0);
                if let Some(digit) = rest.peek().and_then(|digit| digit.to_digit(10)) {
                    number = 10 * number + digit;
                    rest.next();
                }
                let mut format = String::new();
                if rest.peek() == Some(&'!') {
                    rest.next();
                    format.extend(rest.by_ref().take_while(|letter| *letter != '!'));
                }
                out += &argument(number as usize, &format);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_by_their_format() {
        let time = SYSTEMTIME {
            wYear: 2026,
            wMonth: 3,
            wDay: 9,
            wHour: 15,
            wMinute: 4,
            wSecond: 5,
            ..SYSTEMTIME::default()
        };
        for (format, expected) in [
            ("yyyy'-'MM'-'dd", "2026-03-09"),
            ("HH':'mm':'ss", "15:04:05"),
            ("d/M/yy h:m tt", "9/3/26 3:4 PM"),
            ("'open", "open"),
        ] {
            assert_eq!(formatted(format, &time), expected);
        }
    }

    #[test]
    fn inserts_of_messages() {
        let insert = |index: usize, format: &str| format!("<{index}{format}>");
        for (text, expected) in [
            ("a %1, %12!d! and 100%%%n", "a <1>, <12d> and 100%\r\n"),
            ("%1!open", "<1open>"),
            ("end%0 of it", "end"),
            ("%", ""),
        ] {
            assert_eq!(message(text, insert), expected);
        }
    }
}
