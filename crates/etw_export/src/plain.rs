//! Text without characters that could disrupt a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use etw_schema::text::is_disruptive;

use crate::escape::{self, Line, put_escape};

/// Returns a text for one line. Characters that could disrupt a terminal or end the line are written as JSON escapes them
/// ([`etw_schema::text::is_disruptive`]).
///
/// ```
/// use etw_export::plain_line;
///
/// assert_eq!(plain_line("a\u{1b}[2Jb\n"), r"a\u001b[2Jb\n");
/// ```
pub fn plain_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_disruptive) {
        return text.into();
    }
    let mut out = Vec::new();
    escape::text::<Line>(&mut out, text);
    String::from_utf8_lossy(&out).into_owned().into()
}

/// A writer of UTF-8 text that escapes what could disrupt a terminal, except line breaks and tabs.
///
/// The escapes are those of JSON, so that JSON stays the same value. Bytes that are not UTF-8 become U+FFFD.
///
/// ```
/// use std::io::Write;
///
/// let mut out = etw_export::PlainWriter::new(Vec::new());
/// out.write_all("a\u{202e}b\tc\r\n".as_bytes())?;
/// assert_eq!(out.into_inner()?, b"a\\u202eb\tc\r\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PlainWriter<W> {
    inner: W,
    /// The start of a character or line break whose end is not written yet.
    open: Vec<u8>,
    escaped: Vec<u8>,
}

impl<W: Write> PlainWriter<W> {
    /// Returns a writer to `inner`.
    pub fn new(inner: W) -> PlainWriter<W> {
        PlainWriter { inner, open: Vec::new(), escaped: Vec::new() }
    }

    /// Writes what is left of an incomplete character, and returns the inner writer.
    ///
    /// # Errors
    ///
    /// Returns the error of the inner writer.
    pub fn into_inner(mut self) -> io::Result<W> {
        let open = std::mem::take(&mut self.open);
        self.escaped.clear();
        self.put(&open, true);
        self.inner.write_all(&self.escaped)?;
        Ok(self.inner)
    }

    /// Escapes bytes, and keeps what is incomplete at their end unless they are the last ones.
    fn put(&mut self, bytes: &[u8], is_last: bool) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (text, wrong) = match std::str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (valid, _) = rest.split_at(error.valid_up_to());
                    (std::str::from_utf8(valid).unwrap_or_default(), Some(error.error_len()))
                }
            };
            let is_open = text.ends_with('\r') && text.len() == rest.len() && !is_last;
            let ended = if is_open { &text[..text.len() - 1] } else { text };
            put_text(&mut self.escaped, ended);
            rest = rest.get(ended.len()..).unwrap_or_default();
            match wrong {
                Some(Some(length)) => {
                    put_text(&mut self.escaped, "\u{FFFD}");
                    rest = rest.get(length..).unwrap_or_default();
                }
                Some(None) if is_last => {
                    put_text(&mut self.escaped, "\u{FFFD}");
                    return;
                }
                None if !is_open => return,
                _ => {
                    self.open.extend_from_slice(rest);
                    return;
                }
            }
        }
    }
}

impl<W: Write> Write for PlainWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The usual text is passed on as it is.
        if self.open.is_empty() && bytes.iter().all(|byte| matches!(byte, b'\n' | b'\t' | 0x20..0x7F)) {
            return self.inner.write(bytes);
        }
        let mut whole = std::mem::take(&mut self.open);
        whole.extend_from_slice(bytes);
        self.escaped.clear();
        self.put(&whole, false);
        self.inner.write_all(&self.escaped)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_break =
            matches!(character, '\n' | '\t') || character == '\r' && characters.peek() == Some(&'\n');
        match is_disruptive(character) && !is_break {
            true => put_escape(out, character),
            false => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_however_they_are_divided() {
        let check = |bytes: &[u8], expected: &str| {
            for len in 1..=bytes.len() {
                let mut out = PlainWriter::new(Vec::new());
                bytes.chunks(len).for_each(|chunk| out.write_all(chunk).unwrap());
                let found = String::from_utf8(out.into_inner().unwrap()).unwrap();
                assert_eq!(found, expected, "by {len}");
            }
        };
        check(b"plain\ttext\r\nand\nlines", "plain\ttext\r\nand\nlines");
        check("h\u{e9}\u{1F600}\u{9b}2J\u{2028}".as_bytes(), "h\u{e9}\u{1F600}\\u009b2J\\u2028");
        check(b"a\rb\x1b\x7f\0", "a\\u000db\\u001b\\u007f\\u0000");
        check(b"a\xffb\xe2\x80", "a\u{FFFD}b\u{FFFD}");
        check(b"end\r", "end\\u000d");
    }

    #[test]
    fn json_stays_the_same_value() {
        let text: String = (0..0x3000).filter_map(char::from_u32).collect();
        let json = serde_json::to_string(&text).unwrap();
        let mut out = PlainWriter::new(Vec::new());
        out.write_all(json.as_bytes()).unwrap();
        let written = String::from_utf8(out.into_inner().unwrap()).unwrap();
        assert!(!written.contains(is_disruptive));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        let line = plain_line(&text);
        assert!(!line.contains(is_disruptive));
    }
}
