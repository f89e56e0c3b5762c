//! The text form of numbers, bytes and durations.

use std::fmt::{self, Write};

use super::TextOut;

/// Appends a number in decimal.
#[inline]
pub fn write_decimal(out: &mut (impl TextOut + ?Sized), number: u64) {
    write_decimal_padded(out, number, 1);
}

/// Appends a signed number in decimal.
#[inline]
pub fn write_signed(out: &mut (impl TextOut + ?Sized), number: i64) {
    if number < 0 {
        out.put("-");
    }
    write_decimal(out, number.unsigned_abs());
}

/// Appends a number in decimal with at least `width` digits (at most 20).
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "a number of 64 bits has at most 20 digits, and a pair is below 100"
)]
pub(crate) fn write_decimal_padded(out: &mut (impl TextOut + ?Sized), mut number: u64, width: usize) {
    const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    let mut digits = [b'0'; 20];
    let mut at = 20;
    while number >= 100 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    }
    if number >= 10 {
        let pair = number as usize * 2;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    } else {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    out.put_plain(&digits[at.min(20 - width.clamp(1, 20))..]);
}

/// Appends `0x` and upper-case hexadecimal digits without padding.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "a number of 64 bits has at most 16 digits, and two characters are before"
)]
pub fn write_hex(out: &mut (impl TextOut + ?Sized), mut number: u64) {
    let mut text = [b'0'; 18];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b"0123456789ABCDEF"[(number & 15) as usize];
        number >>= 4;
        if number == 0 {
            break;
        }
    }
    text[at - 1] = b'x';
    out.put_plain(&text[at - 2..]);
}

/// Appends hexadecimal digits, at least `width` (at most 16).
#[expect(clippy::indexing_slicing, reason = "a number of 64 bits has at most 16 digits")]
pub(crate) fn put_hex_digits(out: &mut (impl TextOut + ?Sized), mut number: u64, width: usize, upper: bool) {
    let table: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut digits = [b'0'; 16];
    let mut at = 16;
    while number != 0 {
        at -= 1;
        digits[at] = table[(number & 15) as usize];
        number >>= 4;
    }
    out.put_plain(&digits[at.min(16 - width.clamp(1, 16))..]);
}

/// Appends a number in octal.
pub(crate) fn write_octal(out: &mut (impl TextOut + ?Sized), number: u64) {
    out.put(Small::from_text(format_args!("{number:o}")).as_str());
}

/// Appends a floating-point number with a given number of decimals (at most 20), as `%f` does.
pub(crate) fn write_fraction(out: &mut (impl TextOut + ?Sized), number: f64, decimals: usize) {
    let decimals = decimals.min(20);
    if number.abs() < 1e30 {
        out.put(Small::from_text(format_args!("{number:.decimals$}")).as_str());
    } else {
        write_float(out, number);
    }
}

/// Appends `0x` and the bytes in upper-case hexadecimal; nothing for no bytes.
#[expect(clippy::indexing_slicing, reason = "half a byte is below 16, and a chunk has at most 32 bytes")]
pub(crate) fn write_bytes(out: &mut (impl TextOut + ?Sized), bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    out.put("0x");
    for chunk in bytes.chunks(32) {
        let mut digits = [0; 64];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(chunk) {
            const TABLE: &[u8; 16] = b"0123456789ABCDEF";
            *pair = [TABLE[usize::from(byte >> 4)], TABLE[usize::from(byte & 15)]];
        }
        out.put_plain(&digits[..2 * chunk.len()]);
    }
}

/// Appends 100 ns units as `1~02:03:04.0000005`. The part up to the tilde is the number of days, omitted if zero.
pub(crate) fn write_duration(out: &mut (impl TextOut + ?Sized), units: i128) {
    // Integers of payloads have at most 64 bits.
    let mut left = u64::try_from(units.unsigned_abs()).unwrap_or(u64::MAX);
    let mut part = |size: u64| {
        let part = left / size;
        left %= size;
        part
    };
    const SECOND: u64 = 10_000_000;
    let (days, hours) = (part(86_400 * SECOND), part(3600 * SECOND));
    let (minutes, seconds) = (part(60 * SECOND), part(SECOND));
    if units < 0 {
        out.put("-");
    }
    if days != 0 {
        write_decimal(out, days);
        out.put("~");
    }
    write_decimal_padded(out, hours, 2);
    out.put(":");
    write_decimal_padded(out, minutes, 2);
    out.put(":");
    write_decimal_padded(out, seconds, 2);
    out.put(".");
    write_decimal_padded(out, left, 7);
}

/// A small text on the stack.
pub(crate) struct Small {
    bytes: [u8; 64],
    len: usize,
}

impl Small {
    pub(crate) fn from_text(text: fmt::Arguments<'_>) -> Small {
        let mut small = Small { bytes: [0; 64], len: 0 };
        // Longer text is cut; no caller writes any.
        let _ = small.write_fmt(text);
        small
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.bytes.get(..self.len).unwrap_or_default()).unwrap_or_default()
    }
}

impl Write for Small {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Appends a floating-point number as C's `%g` does: six significant digits, without trailing zeros.
pub fn write_float(out: &mut (impl TextOut + ?Sized), number: f64) {
    if number.is_nan() {
        return out.put("nan");
    }
    if number.is_infinite() {
        return out.put(if number < 0.0 { "-inf" } else { "inf" });
    }
    // Most numbers are short: their shortest exact text equals the rounded one.
    if (1e-4..1e6).contains(&number.abs()) {
        let shortest = Small::from_text(format_args!("{number}"));
        let digits = shortest.as_str().trim_start_matches(['-', '0', '.']);
        if digits.bytes().filter(u8::is_ascii_digit).count() <= 6 {
            return out.put(shortest.as_str());
        }
    }
    let scientific = Small::from_text(format_args!("{number:.5e}"));
    let (mantissa, exponent) = scientific.as_str().split_once('e').unwrap_or(("0", "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        out.put(without_zeros(mantissa));
        out.put(if exponent < 0 { "e-" } else { "e+" });
        return write_decimal_padded(out, exponent.unsigned_abs().into(), 2);
    }
    let decimals = (5 - exponent) as usize;
    out.put(without_zeros(Small::from_text(format_args!("{number:.decimals$}")).as_str()));
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let check = |number: u64, decimal: &str, hex: &str| {
            let (mut a, mut b) = (String::new(), String::new());
            write_decimal(&mut a, number);
            write_hex(&mut b, number);
            assert_eq!((a.as_str(), b.as_str()), (decimal, hex));
        };
        check(0, "0", "0x0");
        check(9, "9", "0x9");
        check(10, "10", "0xA");
        check(100, "100", "0x64");
        check(12345, "12345", "0x3039");
        check(u64::MAX, "18446744073709551615", "0xFFFFFFFFFFFFFFFF");
        let mut signed = String::new();
        write_signed(&mut signed, i64::MIN);
        assert_eq!(signed, i64::MIN.to_string());
    }

    #[test]
    fn floats_as_percent_g() {
        let check = |number: f64, text: &str| {
            let mut out = String::new();
            write_float(&mut out, number);
            assert_eq!(out, text);
        };
        check(0.0, "0");
        check(-0.0, "-0");
        check(1.0, "1");
        check(100000.0, "100000");
        check(1000000.0, "1e+06");
        check(999999.5, "1e+06");
        check(123456.7, "123457");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(std::f64::consts::PI, "3.14159");
        check(-2.5e-300, "-2.5e-300");
        check(-12.25, "-12.25");
        check(0.00012345, "0.00012345");
        check(0.1 + 0.2, "0.3");
        check(123456.0, "123456");
        check(1.0 / 3.0, "0.333333");
        check(1.0 - 1e-9, "1");
        check(f64::NAN, "nan");
        check(f64::NEG_INFINITY, "-inf");
    }

    #[test]
    fn durations_and_bytes() {
        let mut out = String::new();
        write_duration(&mut out, 86_400 * 10_000_000 + 2 * 36_000_000_000 + 5);
        assert_eq!(out, "1~02:00:00.0000005");
        out.clear();
        write_duration(&mut out, -10_000_000);
        assert_eq!(out, "-00:00:01.0000000");
        out.clear();
        write_duration(&mut out, u64::MAX.into());
        assert_eq!(out, "21350398~05:36:10.9551615");
        out.clear();
        write_bytes(&mut out, &[0xAB; 33]);
        assert_eq!(out, format!("0x{}", "AB".repeat(33)));
    }
}
