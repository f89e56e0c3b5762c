//! What the TraceLogging events about symbols share: in-types and texts.

/// In-types of fields (`TlgIn*`).
pub(crate) const ANSI_STRING: u8 = 2;
pub(crate) const UINT8: u8 = 4;
pub(crate) const UINT16: u8 = 6;
pub(crate) const UINT32: u8 = 8;
pub(crate) const GUID: u8 = 15;
pub(crate) const HEX_INT32: u8 = 20;
pub(crate) const HEX_INT64: u8 = 21;
/// Out-type of a text in UTF-8 (`TlgOutUTF8`).
pub(crate) const UTF8: u8 = 35;

/// Returns the start of a text, of at most `max_bytes`.
pub(crate) fn cut(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Adds the start of a text, of at most `max_bytes`, and a zero byte to a payload.
pub(crate) fn put_text(text: &str, max_bytes: usize, payload: &mut Vec<u8>) {
    payload.extend(cut(text, max_bytes).bytes().filter(|byte| *byte != 0).chain([0]));
}
