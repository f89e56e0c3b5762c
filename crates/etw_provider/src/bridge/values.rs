//! The values of an event, collected before it is written.

use std::cell::Cell;
use std::fmt::{self, Write};

use crate::fields;
use crate::fields::support::FieldType;

/// Maximum length of a text in bytes; longer ones are cut, since they would make the whole event too large.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Maximum number of bytes that a thread keeps for its next event.
const MAX_SPARE_BYTES: usize = 64 << 10;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A signed integer of 8 bytes.
    I64,
    /// An unsigned integer of 8 bytes.
    U64,
    /// A floating-point number of 8 bytes.
    F64,
    /// A truth value of 1 byte.
    Bool,
    /// UTF-8 after its length in bytes, as [`put_text`] writes it.
    Text,
}

impl FieldKind {
    /// Returns the type for the event's description.
    pub fn field(self) -> FieldType {
        match self {
            FieldKind::I64 => fields::i64::FIELD,
            FieldKind::U64 => fields::u64::FIELD,
            FieldKind::F64 => fields::f64::FIELD,
            FieldKind::Bool => fields::bool8::FIELD,
            FieldKind::Text => fields::str8::FIELD,
        }
    }
}

/// The name and type of a field.
#[derive(Debug, Clone, Copy)]
pub struct NamedField {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: FieldKind,
}

impl NamedField {
    /// Returns whether the types are equal and the names are the same string in memory.
    ///
    /// Names are compared by address, which suffices for fields of one logging statement.
    #[inline]
    pub fn is(&self, other: &NamedField) -> bool {
        std::ptr::eq(self.name, other.name) && self.kind == other.kind
    }
}

/// The fields of an event in the order in which they were reported, and their values as a payload.
#[derive(Debug, Default)]
pub struct Values {
    /// The fields.
    pub fields: Vec<NamedField>,
    /// Their values, without padding.
    pub bytes: Vec<u8>,
}

thread_local! {
    /// Memory of the thread's last event.
    static SPARE: Cell<Values> = const { Cell::new(Values { fields: Vec::new(), bytes: Vec::new() }) };
}

/// Calls a function with empty [`Values`], in memory that the thread reuses from event to event.
///
/// The function may call this recursively, since code that formats a value may log too; the inner call uses other
/// memory.
pub fn with_values<R>(function: impl FnOnce(&mut Values) -> R) -> R {
    let mut values = SPARE.try_with(Cell::take).unwrap_or_default();
    values.fields.clear();
    values.bytes.clear();
    let result = function(&mut values);
    if values.bytes.capacity() <= MAX_SPARE_BYTES {
        // Fails while the thread ends; the memory is freed anyway.
        let _ = SPARE.try_with(|spare| spare.set(values));
    }
    result
}

impl Values {
    /// Adds a field and its value, which must have the size of the type.
    #[inline]
    pub fn add<const N: usize>(&mut self, name: &'static str, kind: FieldKind, value: [u8; N]) {
        self.fields.push(NamedField { name, kind });
        self.bytes.extend_from_slice(&value);
    }

    /// Adds a field of type [`FieldKind::Text`].
    pub fn add_text(&mut self, name: &'static str, text: impl fmt::Display) {
        self.fields.push(NamedField { name, kind: FieldKind::Text });
        put_text(&mut self.bytes, text);
    }

    /// Adds the fields and values of `others`.
    pub fn append(&mut self, others: &Values) {
        self.fields.extend_from_slice(&others.fields);
        self.bytes.extend_from_slice(&others.bytes);
    }
}

/// Appends a text as a `u16` length in bytes and UTF-8. Text longer than 16 KiB is cut at a character boundary.
pub fn put_text(bytes: &mut Vec<u8>, text: impl fmt::Display) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 2]);
    let mut out = Text { bytes, room: MAX_TEXT_BYTES };
    // If formatting fails, the text written before the failure stays.
    let _ = write!(out, "{text}");
    let len = bytes.len() - start - 2;
    if let Some(count) = bytes.get_mut(start..start + 2) {
        count.copy_from_slice(&(len as u16).to_le_bytes());
    }
}

/// Text that is cut at the last character that fits.
struct Text<'a> {
    bytes: &'a mut Vec<u8>,
    room: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = self.room.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes.extend_from_slice(text.get(..end).unwrap_or_default().as_bytes());
        // Nothing is written after a cut.
        self.room = if end < text.len() { 0 } else { self.room - end };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: impl fmt::Display, expected: &str) {
        let mut bytes = Vec::new();
        put_text(&mut bytes, text);
        assert_eq!(bytes[..2], (expected.len() as u16).to_le_bytes());
        assert!(bytes[2..] == *expected.as_bytes());
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let full = "x".repeat(MAX_TEXT_BYTES);
        check("", "");
        check(format_args!("{}-{}", 1, "ä"), "1-ä");
        check(&full, &full);
        check(format_args!("{full}y"), &full);
        // In pieces: the second does not fit as a whole, and the third would.
        check(format_args!("{}{}{}", &full[1..], "ä", "z"), &full[1..]);
        check("ä".repeat(MAX_TEXT_BYTES), &"ä".repeat(MAX_TEXT_BYTES / 2));
    }

    #[test]
    fn memory_is_used_again_but_not_by_two_at_once() {
        struct Nested;
        impl fmt::Display for Nested {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                with_values(|values| {
                    values.add_text("inner", "inner");
                    assert_eq!(values.bytes, b"\x05\0inner");
                });
                f.write_str("outer")
            }
        }
        let first = with_values(|values| {
            values.add_text("a", Nested);
            assert_eq!(values.bytes, b"\x05\0outer");
            values.bytes.as_ptr().addr()
        });
        with_values(|values| {
            assert!(values.fields.is_empty() && values.bytes.is_empty());
            assert_eq!(values.bytes.as_ptr().addr(), first);
            values.bytes.resize(MAX_SPARE_BYTES + 1, 0);
        });
        with_values(|values| assert_eq!(values.bytes.capacity(), 0));
    }
}
