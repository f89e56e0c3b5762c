//! The prefix of a message: text with variables, in the syntax of `%TRACE_FORMAT_PREFIX%`.
//!
//! | variable | value |
//! |---|---|
//! | `%1` | the friendly name of the message GUID; for other events the provider |
//! | `%2` | source file and line; for other events their name |
//! | `%3` `%8` `%9` | thread, process, processor |
//! | `%4` | the time |
//! | `%5` `%6` | kernel and user time, in ticks |
//! | `%7` | sequence number |
//! | `%!FUNC!` `%!FLAGS!` `%!LEVEL!` `%!COMPNAME!` `%!SUBCOMP!` | the values in the message's format |
//!
//! A number may be followed by a printf format between exclamation marks: `%8!04X!`.
//!
//! Source: "Trace Message Prefix" in the documentation of the WDK.

use std::fmt::Write;

/// The default prefix.
pub(super) const DEFAULT: &str = "[%9!d!]%8!04X!.%3!04X!::%4!s! [%1!s!]";
/// The default prefix with the sequence number.
pub(super) const WITH_SEQUENCE: &str = "[%9!d!]%8!04X!.%3!04X!::%4!s! %7!08x! [%1!s!]";
/// Maximum width of a printf format; wider ones are cut.
const MAX_WIDTH: usize = 255;

/// The values available to a prefix.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) thread: u32,
    pub(super) time: &'a str,
    pub(super) kernel: u32,
    pub(super) user: u32,
    pub(super) sequence: u32,
    pub(super) process: u32,
    pub(super) processor: u32,
    pub(super) function: &'a str,
    pub(super) flags: &'a str,
    pub(super) level: &'a str,
    pub(super) component: &'a str,
}

/// A parsed prefix.
#[derive(Debug, PartialEq)]
pub(super) struct Prefix {
    pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    /// `%1` to `%9`.
    Variable(u8, Format),
    /// `%!FUNC!` and similar.
    Named(String),
}

/// A printf format.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Format {
    left: bool,
    zeros: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    conversion: u8,
}

impl Prefix {
    /// Parses a prefix; anything that is not a variable is text.
    pub(super) fn parse(text: &str) -> Prefix {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('%') {
            plain.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            match variable(behind) {
                Some((piece, len)) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece);
                    rest = &behind[len..];
                }
                None => {
                    let escaped = behind.chars().next().and_then(|next| match next {
                        'n' => Some('\n'),
                        't' => Some('\t'),
                        'b' => Some(' '),
                        '%' | '.' | '!' => Some(next),
                        _ => None,
                    });
                    plain.push(escaped.unwrap_or('%'));
                    rest = if escaped.is_some() { &behind[1..] } else { behind };
                }
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Prefix { pieces }
    }

    /// Appends the prefix of a message.
    pub(super) fn put(&self, out: &mut String, values: &Values<'_>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Named(name) => out.push_str(match &**name {
                    "FUNC" => values.function,
                    "FLAGS" => values.flags,
                    "LEVEL" => values.level,
                    "COMPNAME" => values.component,
                    _ => "",
                }),
                Piece::Variable(number, format) => match number {
                    1 => format.put_text(out, values.name),
                    2 => format.put_text(out, values.kind),
                    3 => format.put(out, values.thread),
                    4 => format.put_text(out, values.time),
                    5 => format.put(out, values.kernel),
                    6 => format.put(out, values.user),
                    7 => format.put(out, values.sequence),
                    8 => format.put(out, values.process),
                    _ => format.put(out, values.processor),
                },
            }
        }
    }
}

/// Parses the variable after a percent sign, and returns it with its length.
fn variable(text: &str) -> Option<(Piece, usize)> {
    let first = text.chars().next()?;
    if first == '!' {
        let name = text[1..].split('!').next()?;
        let known = ["FUNC", "FLAGS", "LEVEL", "COMPNAME", "SUBCOMP"].contains(&name);
        let ends = text[1 + name.len()..].starts_with('!');
        return (known && ends).then(|| (Piece::Named(name.to_owned()), name.len() + 2));
    }
    let number = u8::try_from(first.to_digit(10)?).ok().filter(|number| *number > 0)?;
    let Some(inside) = text[1..].strip_prefix('!') else {
        return Some((Piece::Variable(number, Format { conversion: b's', ..Format::default() }), 1));
    };
    let format = inside.split('!').next()?;
    let ends = inside[format.len()..].starts_with('!');
    ends.then(|| (Piece::Variable(number, Format::parse(format)), format.len() + 3))
}

impl Format {
    fn parse(text: &str) -> Format {
        let mut format = Format { conversion: b's', ..Format::default() };
        let mut rest = text;
        while let Some(flag) = rest.chars().next().filter(|flag| "-0#+ ".contains(*flag)) {
            format.left |= flag == '-';
            format.zeros |= flag == '0';
            format.alternate |= flag == '#';
            rest = &rest[1..];
        }
        let number = |rest: &mut &str| {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, behind) = rest.split_at(digits);
            *rest = behind;
            number.parse::<usize>().unwrap_or(0).min(MAX_WIDTH)
        };
        format.width = number(&mut rest);
        if let Some(behind) = rest.strip_prefix('.') {
            rest = behind;
            format.precision = Some(number(&mut rest));
        }
        // The characters in between are the argument size.
        if let Some(conversion) = rest.bytes().last() {
            format.conversion = conversion;
        }
        format
    }

    fn put(&self, out: &mut String, number: u32) {
        let (digits, prefix) = match self.conversion {
            b'x' => (format!("{number:x}"), "0x"),
            b'X' => (format!("{number:X}"), "0X"),
            b'o' => (format!("{number:o}"), "0"),
            _ => (number.to_string(), ""),
        };
        let digits = match self.precision {
            Some(precision) => format!("{digits:0>precision$}"),
            None => digits,
        };
        let prefix = if self.alternate { prefix } else { "" };
        let room = self.width.saturating_sub(prefix.len());
        if self.zeros && !self.left && self.precision.is_none() {
            let _ = write!(out, "{prefix}{digits:0>room$}");
        } else {
            self.pad(out, &format!("{prefix}{digits}"));
        }
    }

    fn put_text(&self, out: &mut String, text: &str) {
        match self.precision {
            Some(precision) => self.pad(out, &text.chars().take(precision).collect::<String>()),
            None => self.pad(out, text),
        }
    }

    fn pad(&self, out: &mut String, text: &str) {
        let width = self.width;
        // Writing to a string does not fail.
        let _ = if self.left { write!(out, "{text:<width$}") } else { write!(out, "{text:>width$}") };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prefix: &str, expected: &str) {
        let values = Values {
            name: "tracedrv",
            kind: "tracedrv_c258",
            thread: 0xC64,
            time: "07/25/2003-14:55:39.998",
            kernel: 3,
            user: 4,
            sequence: 0x4EA4,
            process: 0xAF4,
            processor: 1,
            function: "Dispatch",
            flags: "IO",
            level: "TRACE_LEVEL_ERROR",
            component: "Core",
        };
        let mut out = String::new();
        Prefix::parse(prefix).put(&mut out, &values);
        assert_eq!(out, expected, "{prefix}");
    }

    #[test]
    fn documented_prefixes() {
        check(DEFAULT, "[1]0AF4.0C64::07/25/2003-14:55:39.998 [tracedrv]");
        check(WITH_SEQUENCE, "[1]0AF4.0C64::07/25/2003-14:55:39.998 00004ea4 [tracedrv]");
        check(
            "%2!s!: %!FUNC!: %8!04x!.%3!04x!: %4!s!:",
            "tracedrv_c258: Dispatch: 0af4.0c64: 07/25/2003-14:55:39.998:",
        );
        check("%7!08d! %!LEVEL! %!FLAGS! %!COMPNAME!%!SUBCOMP!", "00020132 TRACE_LEVEL_ERROR IO Core");
        check("%5!s!/%6!d!", "3/4");
    }

    #[test]
    fn formats() {
        check("[%1!12s!][%1!-12s!][%1!.5s!]", "[    tracedrv][tracedrv    ][trace]");
        check(
            "%8!#x! %8!#010X! %8!6d!%8!-6d!|%8!.6u! %3!I64x! %8!o!",
            "0xaf4 0X00000AF4   28042804  |002804 c64 5364",
        );
        check("%1 100%% %n%x %!OTHER! %1!s %0", "tracedrv 100% \n%x !OTHER! %1!s %0");
        check("", "");
        check("%", "%");
        check("%9!99999999999999999999d!", &format!("{:>1}", "1"));
    }
}
