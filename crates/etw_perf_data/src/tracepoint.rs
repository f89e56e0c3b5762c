//! The formats of tracepoints (`/sys/kernel/tracing/events/*/*/format`), as perf copies them into its files.
//!
//! Source: `tools/perf/util/trace-event-info.c` and `trace-event-read.c`.

use std::collections::HashMap;

use crate::cursor::{ByteOrder, Cursor};

/// The first bytes of tracing data.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Maximum number of fields of a tracepoint that are read.
const MAX_FIELDS: usize = 120;
/// Fields that each tracepoint has.
const COMMON: &str = "common_";

/// The tracepoints of a file by their numbers, which are the `config` of attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracepoints {
    by_number: HashMap<u64, Tracepoint>,
}

/// A tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracepoint {
    /// The system that it belongs to: `sched`.
    pub system: String,
    /// Its name: `sched_switch`.
    pub name: String,
    /// Its fields, without those that all tracepoints have.
    pub fields: Vec<TracepointField>,
}

/// A field of a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointField {
    /// Name.
    pub name: String,
    /// Position in the payload in bytes.
    pub offset: usize,
    /// Size in the payload in bytes. An array has it for all elements, one elsewhere that of its place.
    pub len_bytes: usize,
    /// The form of its value.
    pub kind: FieldKind,
}

/// The form of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldKind {
    /// A number.
    Number {
        /// Whether it may be negative.
        is_signed: bool,
        /// Whether it is an address.
        is_address: bool,
    },
    /// A text of a fixed size that ends at a zero byte.
    Text,
    /// A text elsewhere in the payload: the low half is its position, the high half its size. `is_relative` counts from
    /// the end of the field.
    TextElsewhere {
        /// Whether the position counts from the end of the field.
        is_relative: bool,
    },
    /// Elements of a number of bytes each.
    Array {
        /// Size of an element in bytes; 0 if unknown.
        element_bytes: usize,
        /// Whether elements may be negative.
        is_signed: bool,
    },
    /// The same elsewhere in the payload.
    ArrayElsewhere {
        /// Size of an element in bytes; 0 if unknown.
        element_bytes: usize,
        /// Whether elements may be negative.
        is_signed: bool,
        /// Whether the position counts from the end of the field.
        is_relative: bool,
    },
}

impl Tracepoints {
    /// Reads the tracing data of a file. Formats after a damaged place are missing.
    pub fn read(tracing_data: &[u8]) -> Tracepoints {
        let mut tracepoints = Tracepoints::default();
        tracepoints.add_all(tracing_data);
        tracepoints
    }

    /// Returns the tracepoint with a number.
    pub fn get(&self, number: u64) -> Option<&Tracepoint> {
        self.by_number.get(&number)
    }

    fn add_all(&mut self, data: &[u8]) -> Option<()> {
        let mut cursor = Cursor::new(data.strip_prefix(MAGIC)?, ByteOrder::Little);
        cursor.text()?;
        let order = match cursor.take(1)? {
            [0] => ByteOrder::Little,
            _ => ByteOrder::Big,
        };
        let mut cursor = Cursor::new(cursor.rest(), order);
        // The size of `long`, and that of a page.
        cursor.take(5)?;
        for _ in ["header_page", "header_event"] {
            cursor.text()?;
            let len = cursor.u64()?;
            cursor.take_u64(len)?;
        }
        for _ in 0..cursor.u32()? {
            self.add(b"ftrace", &mut cursor)?;
        }
        for _ in 0..cursor.u32()? {
            let system = cursor.text()?;
            for _ in 0..cursor.u32()? {
                self.add(system, &mut cursor)?;
            }
        }
        Some(())
    }

    fn add(&mut self, system: &[u8], cursor: &mut Cursor<'_>) -> Option<()> {
        let len = cursor.u64()?;
        let text = String::from_utf8_lossy(cursor.take_u64(len)?);
        if let Some((number, tracepoint)) = Tracepoint::parse(&String::from_utf8_lossy(system), &text) {
            self.by_number.insert(number, tracepoint);
        }
        Some(())
    }
}

impl Tracepoint {
    /// Parses the text of a format, and returns it with the tracepoint's number.
    pub fn parse(system: &str, text: &str) -> Option<(u64, Tracepoint)> {
        let mut lines = text.lines().map(str::trim);
        let value = |line: Option<&str>, name: &str| Some(line?.strip_prefix(name)?.trim().to_owned());
        let name = value(lines.next(), "name:")?;
        let number = value(lines.next(), "ID:")?.parse().ok()?;
        let fields =
            lines.take_while(|line| !line.starts_with("print fmt")).filter_map(TracepointField::parse);
        let fields = fields.filter(|field| !field.name.starts_with(COMMON)).take(MAX_FIELDS).collect();
        Some((number, Tracepoint { system: system.to_owned(), name, fields }))
    }

    /// Returns a field.
    pub fn field(&self, name: &str) -> Option<&TracepointField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl TracepointField {
    /// Parses `field:char prev_comm[16]; offset:8; size:16; signed:0;`.
    fn parse(line: &str) -> Option<TracepointField> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let mut number = |name: &str| parts.next()?.strip_prefix(name)?.parse::<usize>().ok();
        let (offset, len_bytes) = (number("offset:")?, number("size:")?);
        let is_signed = number("signed:").is_some_and(|signed| signed != 0);
        let (declared, count) = match declaration.rsplit_once('[') {
            Some((declared, count)) if count.ends_with(']') => (declared, Some(count.trim_end_matches(']'))),
            _ => (declaration, None),
        };
        let (type_name, name) = declared.trim_end().rsplit_once(|c: char| c == '*' || c.is_whitespace())?;
        // `__data_loc char[] name` has its brackets before the name.
        let type_name = type_name.trim_end();
        let is_pointer = declared.contains('*') && !declared.contains("__data_loc");
        let kind = match type_name.split_once(' ') {
            Some((place @ ("__data_loc" | "__rel_loc"), element)) => {
                let is_relative = place == "__rel_loc";
                match element.trim_end_matches("[]").trim() {
                    "char" => FieldKind::TextElsewhere { is_relative },
                    element => {
                        FieldKind::ArrayElsewhere { element_bytes: len_of(element), is_signed, is_relative }
                    }
                }
            }
            _ if count.is_some() && matches!(type_name, "char" | "const char") => FieldKind::Text,
            _ if count.is_some() || !matches!(len_bytes, 1 | 2 | 4 | 8) => {
                let count = count.and_then(|count| count.parse::<usize>().ok());
                let by_count = count.filter(|count| *count > 0).map(|count| len_bytes / count);
                FieldKind::Array { element_bytes: by_count.unwrap_or_else(|| len_of(type_name)), is_signed }
            }
            _ => FieldKind::Number { is_signed, is_address: is_pointer },
        };
        Some(TracepointField { name: name.to_owned(), offset, len_bytes, kind })
    }

    /// Returns the bytes of the field's value in a payload, wherever they are.
    pub fn value<'p>(&self, payload: &'p [u8], order: ByteOrder) -> Option<&'p [u8]> {
        let end = self.offset.checked_add(self.len_bytes)?;
        let own = payload.get(self.offset..end)?;
        let is_relative = match self.kind {
            FieldKind::TextElsewhere { is_relative } | FieldKind::ArrayElsewhere { is_relative, .. } => {
                is_relative
            }
            _ => return Some(own),
        };
        let place = order.number(own);
        let (position, len) =
            (usize::try_from(place & 0xFFFF).ok()?, usize::try_from(place >> 16 & 0xFFFF).ok()?);
        let start = if is_relative { end.checked_add(position)? } else { position };
        payload.get(start..start.checked_add(len)?)
    }
}

/// Returns the size of a type of C in bytes; 0 if it is not known.
fn len_of(type_name: &str) -> usize {
    match type_name.trim_start_matches("const ").trim() {
        "char" | "unsigned char" | "u8" | "s8" | "__u8" | "__s8" | "bool" => 1,
        "short" | "unsigned short" | "u16" | "s16" | "__u16" | "__s16" => 2,
        "int" | "unsigned int" | "unsigned" | "u32" | "s32" | "__u32" | "__s32" => 4,
        "long" | "unsigned long" | "u64" | "s64" | "__u64" | "__s64" | "long long" | "unsigned long long" => {
            8
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:const void * where;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc u32[] list;\toffset:44;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned long args[6];\toffset:48;\tsize:48;\tsigned:0;\n\n\
        print fmt: \"%s field:int no;\", REC->prev_comm\n";

    #[test]
    fn formats_are_parsed() {
        let (number, tracepoint) = Tracepoint::parse("sched", FORMAT).unwrap();
        assert_eq!((number, &*tracepoint.name, tracepoint.fields.len()), (316, "sched_switch", 6));
        let check =
            |name: &str, kind: FieldKind| assert_eq!(tracepoint.field(name).unwrap().kind, kind, "{name}");
        check("prev_comm", FieldKind::Text);
        check("prev_pid", FieldKind::Number { is_signed: true, is_address: false });
        check("where", FieldKind::Number { is_signed: false, is_address: true });
        check("name", FieldKind::TextElsewhere { is_relative: false });
        check("list", FieldKind::ArrayElsewhere { element_bytes: 4, is_signed: false, is_relative: true });
        check("args", FieldKind::Array { element_bytes: 8, is_signed: false });
    }

    #[test]
    fn values_elsewhere_are_found() {
        let (_, tracepoint) = Tracepoint::parse("sched", FORMAT).unwrap();
        let mut payload = vec![0; 96];
        payload[40..48].copy_from_slice(&[96, 0, 3, 0, 51, 0, 4, 0]);
        payload.extend(b"ab\0\x01\x02\x03\x04");
        let value = |name: &str| tracepoint.field(name).unwrap().value(&payload, ByteOrder::Little);
        assert_eq!(value("name"), Some(&b"ab\0"[..]));
        assert_eq!(value("list"), Some(&[1, 2, 3, 4][..]));
        payload[42] = 200;
        assert_eq!(tracepoint.field("name").unwrap().value(&payload, ByteOrder::Little), None);
    }
}
