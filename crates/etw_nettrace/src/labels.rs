//! Labels of events: keys and values, in format 6.

use std::borrow::Cow;

use etw_event::Guid;

use crate::cursor::Cursor;

/// One label.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label<'a> {
    /// The activity of the event.
    ActivityId(Guid),
    /// The activity that caused this one.
    RelatedActivityId(Guid),
    /// The trace id of W3C's Trace Context.
    TraceId([u8; 16]),
    /// The span id of W3C's Trace Context.
    SpanId(u64),
    /// A key with a text.
    Text(Cow<'a, str>, Cow<'a, str>),
    /// A key with a number.
    Number(Cow<'a, str>, i64),
    /// The event's opcode, in place of that of its definition.
    Opcode(u8),
    /// The event's keywords, in place of those of its definition.
    Keywords(u64),
    /// The event's level, in place of that of its definition.
    Level(u8),
    /// The event's version, in place of that of its definition.
    Version(u8),
}

/// Iterator over the labels of an event.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Labels<'a> {
    pub(crate) fn new(list: &'a [u8]) -> Labels<'a> {
        Labels { cursor: Cursor::new(list) }
    }

    /// Returns whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.cursor.is_empty()
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = Label<'a>;

    fn next(&mut self) -> Option<Label<'a>> {
        let cursor = &mut self.cursor;
        let kind = cursor.u8()? & 0x7F;
        Some(match kind {
            1 => Label::ActivityId(cursor.guid()?),
            2 => Label::RelatedActivityId(cursor.guid()?),
            3 => Label::TraceId(cursor.array()?),
            4 => Label::SpanId(cursor.u64()?),
            5 => Label::Text(cursor.text()?, cursor.text()?),
            6 => {
                let (key, value) = (cursor.text()?, cursor.var_u64()?);
                Label::Number(key, (value >> 1) as i64 ^ -((value & 1) as i64))
            }
            7 => Label::Opcode(cursor.u8()?),
            8 => Label::Keywords(cursor.u64()?),
            9 => Label::Level(cursor.u8()?),
            10 => Label::Version(cursor.u8()?),
            _ => return None,
        })
    }
}

/// Returns the length in bytes of the first label list, which ends with the label whose kind has its high bit set.
pub(crate) fn list_len_bytes(bytes: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(bytes);
    loop {
        let kind = cursor.u8()?;
        match kind & 0x7F {
            1..=3 => _ = cursor.take(16)?,
            4 | 8 => _ = cursor.take(8)?,
            5 => {
                cursor.text()?;
                cursor.text()?;
            }
            6 => {
                cursor.text()?;
                cursor.var_u64()?;
            }
            7 | 9 | 10 => _ = cursor.u8()?,
            // Its length is unknown.
            _ => return None,
        }
        if kind & 0x80 != 0 {
            return Some(cursor.at());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_their_lengths() {
        let list = [&b"\x05\x01k\x01v"[..], b"\x06\x01n\x03", &[1], &[7; 16], &[0x87, 9]].concat();
        let more = [&list[..], &[0x89, 1]].concat();
        assert_eq!(list_len_bytes(&more), Some(list.len()));
        let labels: Vec<Label<'_>> = Labels::new(&list).collect();
        let expected = [
            Label::Text("k".into(), "v".into()),
            Label::Number("n".into(), -2),
            Label::ActivityId(Guid::from_bytes([7; 16])),
            Label::Opcode(9),
        ];
        assert_eq!(labels, expected);
        for len in 0..list.len() {
            assert_eq!(list_len_bytes(&list[..len]), None);
            let _ = Labels::new(&list[..len]).count();
        }
        assert_eq!(list_len_bytes(&[0x7F, 0, 0]), None);
    }
}
