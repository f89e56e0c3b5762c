//! Message texts with inserts, in the syntax of `FormatMessage` and WPP.
//!
//! | text | becomes |
//! |---|---|
//! | `%1` … `%99` | the text of a top-level property, counted from 1; in WPP `%10` is the first |
//! | `%1!08x!` | the same in a printf format; `!s!` is the default |
//! | `%n` `%r` `%t` `%b` `%%` `%.` `%!` | line feed, carriage return, tab, space, and the characters themselves |
//! | `%0` | the end of the message, without a line break |
//!
//! Source: `FormatMessage` (`winbase.h`); for WPP the formats in published TMF files.
//!
//! ```
//! use etw_schema::message::Message;
//! use etw_schema::{MessageStyle, Properties};
//!
//! fn text(event: &Properties<'_>) -> String {
//!     let mut out = String::new();
//!     Message::parse("process %1 ended with %2!08x!%n", MessageStyle::FormatMessage)
//!         .write_to(&mut out, event);
//!     out
//! }
//! ```

use crate::properties::{Properties, PropertyValue};
use crate::text::{
    Limited, TextOut, put_hex_digits, write_decimal, write_float, write_fraction, write_octal,
};
use crate::value::Value;
use crate::{MessageStyle, PropertyIndex, text};

/// A parsed message text.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(Box<str>),
    /// Index of a top-level property, and the insert as written, for events that lack the property.
    Insert {
        index: u16,
        written: Box<str>,
        printf: Option<Printf>,
    },
}

/// A printf format: `-08.3lX`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Printf {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: u16,
    precision: Option<u16>,
    conversion: u8,
}

/// Upper limit of width and precision, so that a hostile text cannot cause megabytes of padding.
const MAX_WIDTH: u16 = 255;

impl Message {
    /// Parses a text. Trailing white space, which message tables leave, is removed.
    pub fn parse(source: &str, style: MessageStyle) -> Message {
        let first = match style {
            MessageStyle::FormatMessage => 1,
            MessageStyle::Wpp => 10,
        };
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = source.trim_end();
        while let Some((before, behind)) = rest.split_once('%') {
            text.push_str(before);
            let mut characters = behind.chars();
            let Some(character) = characters.next() else {
                text.push('%');
                rest = "";
                break;
            };
            rest = characters.as_str();
            match character {
                '0' if style == MessageStyle::FormatMessage || text.is_empty() && pieces.is_empty() => {
                    if style == MessageStyle::FormatMessage {
                        rest = "";
                        break;
                    }
                    // WPP: the position of the standard prefix.
                }
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                'b' => text.push(' '),
                '1'..='9' => {
                    let second = rest.chars().next().and_then(|digit| digit.to_digit(10));
                    let first_digit = character.to_digit(10).unwrap_or(0);
                    let number = second.map_or(first_digit, |second| 10 * first_digit + second);
                    #[expect(clippy::cast_possible_truncation, reason = "it has at most two digits")]
                    let number = number as u16;
                    if second.is_some() {
                        rest = rest.get(1..).unwrap_or_default();
                    }
                    let printf = rest.strip_prefix('!').and_then(|format| format.split_once('!'));
                    let printf = printf.map(|(format, after)| {
                        rest = after;
                        Printf::parse(format)
                    });
                    let written = behind.strip_suffix(rest).unwrap_or_default();
                    if let Some(index) = number.checked_sub(first) {
                        if !text.is_empty() {
                            pieces.push(Piece::Text(std::mem::take(&mut text).into()));
                        }
                        pieces.push(Piece::Insert { index, written: format!("%{written}").into(), printf });
                    }
                    // The parts of WPP's prefix are already in the event's header.
                }
                other => text.push(other),
            }
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text.into()));
        }
        Message { pieces }
    }

    /// Appends the message of an event. Inserts without a property stay as written. Messages longer than 4 MB are cut
    /// and end with `…`.
    pub fn write_to(&self, out: &mut impl TextOut, event: &Properties<'_>) {
        let out = &mut Limited::new(out);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.put(text),
                Piece::Insert { index, written, printf } => match (event.at(PropertyIndex(*index)), printf) {
                    (Some(property), None) => property.write_text(out),
                    (Some(property), Some(printf)) => printf.write(out, &property),
                    (None, _) => out.put(written),
                },
            }
        }
    }
}

impl Printf {
    fn parse(format: &str) -> Printf {
        let mut printf = Printf::default();
        let mut bytes = format.bytes().peekable();
        while let Some(flag) = bytes.next_if(|byte| b"-0+ #".contains(byte)) {
            match flag {
                b'-' => printf.left = true,
                b'0' => printf.zeros = true,
                b'+' => printf.plus = true,
                b' ' => printf.space = true,
                _ => printf.alternate = true,
            }
        }
        let mut number = || {
            let mut number = 0u16;
            while let Some(digit) = bytes.next_if(u8::is_ascii_digit) {
                number = number.saturating_mul(10).saturating_add(u16::from(digit - b'0'));
            }
            (number.min(MAX_WIDTH), bytes.peek().copied())
        };
        let (width, next) = number();
        printf.width = width;
        if next == Some(b'.') {
            bytes.next();
            let mut precision = 0u16;
            while let Some(digit) = bytes.next_if(u8::is_ascii_digit) {
                precision = precision.saturating_mul(10).saturating_add(u16::from(digit - b'0'));
            }
            printf.precision = Some(precision.min(MAX_WIDTH));
        }
        // The size (h, l, ll, w, I, I32, I64) is ignored: the value's type implies it.
        printf.conversion = bytes.rfind(u8::is_ascii_alphabetic).unwrap_or(b's');
        printf
    }

    fn write(&self, out: &mut impl TextOut, property: &PropertyValue<'_>) {
        let value = property.value();
        let bits = value.as_bits();
        match (self.conversion, bits) {
            (b'd' | b'i', Some(bits)) => {
                let signed = sign_extended(&value, bits);
                let sign = match signed {
                    ..0 => "-",
                    _ if self.plus => "+",
                    _ if self.space => " ",
                    _ => "",
                };
                self.number(out, sign, |out| write_decimal(out, signed.unsigned_abs()));
            }
            (b'u', Some(bits)) => self.number(out, "", |out| write_decimal(out, bits)),
            (b'x' | b'X', Some(bits)) => {
                let upper = self.conversion == b'X';
                let prefix = match (self.alternate && bits != 0, upper) {
                    (false, _) => "",
                    (true, false) => "0x",
                    (true, true) => "0X",
                };
                self.number(out, prefix, |out| put_hex_digits(out, bits, 1, upper));
            }
            (b'o', Some(bits)) => self.number(out, "", |out| write_octal(out, bits)),
            (b'p', Some(bits)) => {
                let digits = if let Value::Pointer(_, size) = value { 2 * size.bytes() } else { 16 };
                self.padded(out, |out| put_hex_digits(out, bits, digits, true));
            }
            (b'c' | b'C', Some(bits)) => {
                self.padded(out, |out| text::write_character(out, (bits & 0xFFFF) as u16));
            }
            (b'f' | b'F' | b'g' | b'G' | b'e' | b'E', None) if float(&value).is_some() => {
                let number = float(&value).unwrap_or(0.0);
                let decimals = self.precision.unwrap_or(6).into();
                self.padded(out, |out| match self.conversion {
                    b'f' | b'F' => write_fraction(out, number, decimals),
                    _ => write_float(out, number),
                });
            }
            _ => self.padded(out, |out| match self.precision {
                Some(most) => property.text().write_to(&mut Cut { out, left: most.into() }),
                None => property.write_text(out),
            }),
        }
    }

    /// Writes a number with its sign or prefix, padded with spaces or zeros.
    fn number(&self, out: &mut impl TextOut, prefix: &str, digits: impl Fn(&mut dyn PutText)) {
        let len = counted(&digits);
        let least = match self.precision {
            Some(precision) => precision.into(),
            None if self.zeros && !self.left => usize::from(self.width).saturating_sub(prefix.len()),
            None => 0,
        };
        let zeros = least.saturating_sub(len);
        let padding = usize::from(self.width).saturating_sub(prefix.len() + zeros + len);
        if !self.left {
            repeat(out, " ", padding);
        }
        out.put(prefix);
        repeat(out, "0", zeros);
        digits(&mut Direct(out));
        if self.left {
            repeat(out, " ", padding);
        }
    }

    fn padded(&self, out: &mut impl TextOut, text: impl Fn(&mut dyn PutText)) {
        let padding =
            if self.width == 0 { 0 } else { usize::from(self.width).saturating_sub(counted(&text)) };
        if !self.left {
            repeat(out, " ", padding);
        }
        text(&mut Direct(out));
        if self.left {
            repeat(out, " ", padding);
        }
    }
}

/// Sign-extends the bits from the width of the value, as `%d` requires.
#[expect(clippy::cast_possible_truncation, reason = "the bits are those of a value of this width")]
fn sign_extended(value: &Value<'_>, bits: u64) -> i64 {
    match value {
        Value::I8(_) | Value::U8(_) => i64::from(bits as i8),
        Value::I16(_) | Value::U16(_) => i64::from(bits as i16),
        Value::I32(_) | Value::U32(_) => i64::from(bits as i32),
        _ => bits as i64,
    }
}

fn float(value: &Value<'_>) -> Option<f64> {
    match *value {
        Value::F32(value) => Some(value.into()),
        Value::F64(value) => Some(value),
        _ => None,
    }
}

fn repeat(out: &mut impl TextOut, text: &str, times: usize) {
    for _ in 0..times {
        out.put(text);
    }
}

/// An object-safe [`TextOut`], so that the same code can first count a text and then write it.
trait PutText {
    fn put_text(&mut self, text: &str);
}

impl TextOut for dyn PutText + '_ {
    fn put(&mut self, text: &str) {
        self.put_text(text);
    }
}

struct Direct<'o, O>(&'o mut O);

impl<O: TextOut> PutText for Direct<'_, O> {
    fn put_text(&mut self, text: &str) {
        self.0.put(text);
    }
}

struct Counter(usize);

impl PutText for Counter {
    fn put_text(&mut self, text: &str) {
        self.0 += text.chars().count();
    }
}

fn counted(text: &impl Fn(&mut dyn PutText)) -> usize {
    let mut counter = Counter(0);
    text(&mut counter);
    counter.0
}

/// Passes on at most `left` characters.
struct Cut<'o> {
    out: &'o mut dyn PutText,
    left: usize,
}

impl TextOut for Cut<'_> {
    fn put(&mut self, text: &str) {
        for character in text.chars().take(self.left) {
            self.left -= 1;
            self.out.put_text(character.encode_utf8(&mut [0; 4]));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use etw_event::{EventDescriptor, Guid, Origin, Record, Ticks};

    use super::*;
    use crate::{CompiledSchema, Decoding, EventSchema, InType, Located, OutType, Property, ProviderInfo};

    /// Formats a message with the arguments 255 (UInt32), -2 (Int32), "text", 1.5, a pointer and status 0xC0000005.
    fn message(text: &str, style: MessageStyle) -> String {
        let mut schema = EventSchema::new(
            Arc::new(ProviderInfo::new(Guid::ZERO, "P", Decoding::Manifest, "")),
            EventDescriptor::default(),
        );
        let types = [
            (InType::UINT32, OutType::NULL),
            (InType::INT32, OutType::NULL),
            (InType::ANSI_STRING, OutType::NULL),
            (InType::DOUBLE, OutType::NULL),
            (InType::POINTER, OutType::NULL),
            (InType::UINT32, OutType::NTSTATUS),
        ];
        schema.properties =
            types.iter().map(|(in_type, out)| Property::scalar("p", *in_type, *out)).collect();
        schema.top_level = 6;
        schema.message = Some(text.into());
        schema.message_style = style;
        let mut bytes = vec![0u8; 80];
        bytes.extend(255u32.to_le_bytes());
        bytes.extend((-2i32).to_le_bytes());
        bytes.extend(b"text\0");
        bytes.extend(1.5f64.to_le_bytes());
        bytes.extend(0xABCDu64.to_le_bytes());
        bytes.extend(0xC000_0005u32.to_le_bytes());
        let len = bytes.len() as u8;
        bytes[..4].copy_from_slice(&[len, 0, 0x13, 0xC0]);
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let compiled = CompiledSchema::new(Arc::new(schema));
        let mut located = Located::new();
        let mut out = String::new();
        assert!(compiled.locate(&record, &mut located).write_message(&mut out));
        out
    }

    #[test]
    fn format_message() {
        let check = |text: &str, expected: &str| {
            assert_eq!(message(text, MessageStyle::FormatMessage), expected, "{text}");
        };
        check("plain", "plain");
        check("", "");
        check("%1 and %3.", "255 and text.");
        check("%1!x! %1!08X! %1!#x! %1!o!", "ff 000000FF 0xff 377");
        check("%2!d! %2!u! %2!x! %1!+d! %1!5d!|%1!-5d!|", "-2 4294967294 fffffffe +255   255|255  |");
        check("%2!05d! %1!.5d!", "-0002 00255");
        check("%3!s! %3!10s!|%3!-10s!|%3!.2s! %3!ls!", "text       text|text      |te text");
        check("%4!f! %4!.1f! %4!g! %4", "1.500000 1.5 1.5 1.5");
        check("%5!p! %5", "000000000000ABCD 0xABCD");
        check("%6 %6!x!", "0xC0000005 (STATUS_ACCESS_VIOLATION) c0000005");
        check("100%% %!ok%! a%nb%tc%bd%.", "100% !ok! a\nb\tc d.");
        check("ends here%0 not this", "ends here");
        check("%7 %99!d! %", "%7 %99!d! %");
        check("line\r\n", "line");
        check("%1!unclosed", "255!unclosed");
        check("%1!99999d!", &format!("{:>255}", 255));
    }

    #[test]
    fn wpp() {
        let check =
            |text: &str, expected: &str| assert_eq!(message(text, MessageStyle::Wpp), expected, "{text}");
        check("%0%10!s! is %11!d!", "255 is -2");
        check("%10!08X! %12!s! %15!s!", "000000FF text 0xC0000005 (STATUS_ACCESS_VIOLATION)");
        check("[%9!d!] %16!s!", "[] %16!s!");
    }
}
