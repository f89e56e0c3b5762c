//! Text of schema files in any supported encoding.

use std::borrow::Cow;

/// Decodes UTF-16 with a byte order mark, else UTF-8 with or without one. Invalid sequences become U+FFFD.
pub(crate) fn source_text(bytes: &[u8]) -> Cow<'_, str> {
    encoding_rs::UTF_8.decode(bytes).0
}

#[cfg(test)]
mod tests {
    use super::source_text;

    #[test]
    fn encodings() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(source_text(bytes), expected);
        check(b"plain", "plain");
        check(b"\xEF\xBB\xBFmarked", "marked");
        check(b"\xFF\xFEa\0\xE4\0", "a\u{e4}");
        check(b"\xFE\xFF\0a", "a");
        check(b"\xE4", "\u{fffd}");
    }
}
