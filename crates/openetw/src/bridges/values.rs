//! The values of an event, collected before it is written.

use std::cell::Cell;
use std::fmt::{self, Write};

use etw_provider::fields;
use etw_provider::fields::support::FieldType;

/// Longer texts are cut, since they would make the event too large and lose all of it.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// The most memory that a thread keeps for its next event.
const MAX_SPARE_BYTES: usize = 64 << 10;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    I64,
    U64,
    F64,
    Bool,
    Text,
}

impl Kind {
    /// The field's type.
    pub(super) fn field(self) -> FieldType {
        match self {
            Kind::I64 => fields::i64::FIELD,
            Kind::U64 => fields::u64::FIELD,
            Kind::F64 => fields::f64::FIELD,
            Kind::Bool => fields::bool8::FIELD,
            Kind::Text => fields::str8::FIELD,
        }
    }
}

/// A field's name and type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

impl Named {
    /// Whether it is the same type, and the name of the same place in the program.
    pub(super) fn is(&self, other: &Named) -> bool {
        std::ptr::eq(self.name, other.name) && self.kind == other.kind
    }
}

/// Fields in the order in which they were reported, and their values as they stand in a payload.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) fields: Vec<Named>,
    pub(super) bytes: Vec<u8>,
}

thread_local! {
    /// What the thread's last event has used.
    static SPARE: Cell<Values> = const { Cell::new(Values { fields: Vec::new(), bytes: Vec::new() }) };
}

/// Calls a function with no values yet, in memory of the thread that was used before.
///
/// The function may come here again, since what formats a value may log too: that one takes memory of its own.
pub(super) fn with_values<R>(function: impl FnOnce(&mut Values) -> R) -> R {
    let mut values = SPARE.try_with(Cell::take).unwrap_or_default();
    values.fields.clear();
    values.bytes.clear();
    let result = function(&mut values);
    if values.bytes.capacity() <= MAX_SPARE_BYTES {
        // At the thread's end it is gone.
        let _ = SPARE.try_with(|spare| spare.set(values));
    }
    result
}

impl Values {
    /// Adds a value of a fixed size.
    #[inline]
    pub(super) fn add<const N: usize>(&mut self, name: &'static str, kind: Kind, value: [u8; N]) {
        self.fields.push(Named { name, kind });
        self.bytes.extend_from_slice(&value);
    }

    /// Adds a text.
    pub(super) fn add_text(&mut self, name: &'static str, text: impl fmt::Display) {
        self.fields.push(Named { name, kind: Kind::Text });
        put_text(&mut self.bytes, text);
    }

    /// Adds what others hold.
    pub(super) fn append(&mut self, others: &Values) {
        self.fields.extend_from_slice(&others.fields);
        self.bytes.extend_from_slice(&others.bytes);
    }
}

/// Puts a text behind a `u16` with the number of its bytes.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: impl fmt::Display) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 2]);
    let mut out = Text { bytes, room: MAX_TEXT_BYTES };
    // A value that fails to be formatted says what it said before.
    let _ = write!(out, "{text}");
    let len = bytes.len() - start - 2;
    if let Some(count) = bytes.get_mut(start..start + 2) {
        count.copy_from_slice(&(len as u16).to_le_bytes());
    }
}

/// A text that ends at the last character that has room.
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
        // What comes behind a cut is left out too.
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
        // In pieces, of which the second does not fit as a whole, and the third would.
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
