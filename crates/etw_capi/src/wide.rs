//! Text of C: 8 bits, UTF-16, and the 32-bit characters that are `wchar_t` on Linux.

// UNSAFETY: reads texts through pointers of callers, up to their zero.
#![expect(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};

/// Longest text that is read, in characters; longer ones are cut.
const MAX_CHARACTERS: usize = 1 << 20;

/// The characters of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    /// 8 bits, UTF-8.
    Narrow,
    /// UTF-16.
    Wide16,
    /// 32 bits.
    Wide32,
}

impl Width {
    /// Returns the bytes of a character.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Width::Narrow => 1,
            Width::Wide16 => 2,
            Width::Wide32 => 4,
        }
    }

    /// Returns the text at a pointer; `None` if it is null.
    ///
    /// # Safety
    ///
    /// The pointer is null, or points to characters of this width up to a zero.
    pub(crate) unsafe fn read(self, text: *const c_void) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the caller's promise, for each of the three.
        unsafe {
            Some(match self {
                Width::Narrow => CStr::from_ptr(text.cast::<c_char>()).to_string_lossy().into_owned(),
                Width::Wide16 => String::from_utf16_lossy(&until_zero(text.cast::<u16>())),
                Width::Wide32 => until_zero(text.cast::<u32>()).into_iter().map(character).collect(),
            })
        }
    }

    /// Appends a text and its zero.
    pub(crate) fn append(self, out: &mut Vec<u8>, text: &str) {
        let text = text.split('\0').next().unwrap_or_default();
        match self {
            Width::Narrow => out.extend(text.bytes().chain([0])),
            Width::Wide16 => out.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes)),
            Width::Wide32 => out.extend(text.chars().map(u32::from).chain([0]).flat_map(u32::to_le_bytes)),
        }
    }

    /// Returns a text and its zero.
    pub(crate) fn encode(self, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(&mut out, text);
        out
    }
}

/// Returns the character with this number, or U+FFFD if there is no such character.
pub(crate) fn character(unit: u32) -> char {
    char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// # Safety
///
/// The pointer points to readable units up to a zero. They need not be aligned.
unsafe fn until_zero<T: Copy + Default + PartialEq>(text: *const T) -> Vec<T> {
    let mut units = Vec::new();
    while units.len() < MAX_CHARACTERS {
        // SAFETY: no zero was before this unit.
        let unit = unsafe { text.add(units.len()).read_unaligned() };
        if unit == T::default() {
            break;
        }
        units.push(unit);
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_widths_come_back() {
        for width in [Width::Narrow, Width::Wide16, Width::Wide32] {
            for text in ["", "abc", "äöü €", "𝄞 and more"] {
                let bytes = width.encode(text);
                assert_eq!(bytes.len() % width.bytes(), 0);
                // SAFETY: the text has its zero.
                assert_eq!(unsafe { width.read(bytes.as_ptr().cast()) }.as_deref(), Some(text));
            }
            // SAFETY: null is allowed.
            assert_eq!(unsafe { width.read(std::ptr::null()) }, None);
        }
        assert_eq!(character(0xD800), '\u{FFFD}');
        assert_eq!(Width::Wide16.encode("a\0b"), [b'a', 0, 0, 0]);
    }
}
