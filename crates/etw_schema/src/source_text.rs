//! Text of schema files in whatever encoding they were saved.

use std::borrow::Cow;

/// UTF-16 with a byte order mark, else UTF-8 with or without one; bytes that are neither become U+FFFD.
pub(crate) fn source_text(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|pair| unit(*pair)).collect();
        Cow::Owned(String::from_utf16_lossy(&units))
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(bytes),
    }
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
        check(b"\xFE\xFF\0a\0", "a");
        check(b"\xE4", "\u{fffd}");
    }
}
