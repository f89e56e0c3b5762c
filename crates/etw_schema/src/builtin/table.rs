//! Parser of the notation of the built-in schemas.
//!
//! A file consists of blocks of lines; `#` starts a comment line.
//!
//! ```text
//! of GUID NAME                          provider of the classes below
//! class NAME GUID                       starts a block: a class of classic events
//! provider NAME GUID                    starts a block: a provider
//! channel NUMBER NAME
//! keyword HEX NAME
//! task NUMBER NAME
//! opcode [TASK/]NUMBER NAME
//! values NAME NUMBER TEXT | …           a value map
//! bits NAME HEX TEXT | …                a bit map
//! VERSION CLASS | OPCODE NAME, … | FIELDS                                   event types of a class ("-": no class)
//! ID.VERSION NAME | task N opcode N level N keywords HEX | FIELDS           an event of a provider
//! reader NAME OPCODE…                    a typed reader of events (`etw_kernel_events::read`)
//! message ID[.VERSION] TEXT              the message of an event, or of those of its versions without a line
//! ```
//!
//! `as NAME` after an opcode's number names it for this event only. In the text of a message, `{FIELD}` is the value
//! of a top-level field. The texts are this project's own.
//!
//! Fields are `NAME TYPE [=MAP]`, separated by `;`, in payload order, packed. A type is one of [`TYPES`], or
//! `{ FIELDS }` for a struct. `:OUT` (one of [`OUT_TYPES`]), `(LENGTH)` and `[COUNT]` may follow. Length and count are
//! a number or the name of an earlier field; `[]` extends to the payload's end.

use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode};

use super::message::MessageLine;
use crate::{
    ChannelName, Count, Decoding, EventSchema, InType, KeywordName, Length, MapEntry, MapKind, OpcodeName,
    OutType, Property, PropertyType, Provider, ProviderInfo, TaskName, ValueMap,
};

/// Names of the types, with their encoding and text form.
const TYPES: &[(&str, InType, OutType)] = &[
    ("u8", InType::UINT8, OutType::NULL),
    ("i8", InType::INT8, OutType::NULL),
    ("u16", InType::UINT16, OutType::NULL),
    ("i16", InType::INT16, OutType::NULL),
    ("u32", InType::UINT32, OutType::NULL),
    ("i32", InType::INT32, OutType::NULL),
    ("u64", InType::UINT64, OutType::NULL),
    ("i64", InType::INT64, OutType::NULL),
    ("u8x", InType::UINT8, OutType::HEX_INT8),
    ("u16x", InType::UINT16, OutType::HEX_INT16),
    ("u32x", InType::UINT32, OutType::HEX_INT32),
    ("i32x", InType::INT32, OutType::HEX_INT32),
    ("u64x", InType::UINT64, OutType::HEX_INT64),
    ("x32", InType::HEX_INT32, OutType::NULL),
    ("x64", InType::HEX_INT64, OutType::NULL),
    ("f32", InType::FLOAT, OutType::NULL),
    ("f64", InType::DOUBLE, OutType::NULL),
    ("bool", InType::BOOLEAN, OutType::NULL),
    ("bool8", InType::UINT8, OutType::BOOLEAN),
    ("ptr", InType::POINTER, OutType::NULL),
    ("size", InType::SIZE_T, OutType::NULL),
    ("wstr", InType::UNICODE_STRING, OutType::NULL),
    ("astr", InType::ANSI_STRING, OutType::NULL),
    ("guid", InType::GUID, OutType::NULL),
    ("ft", InType::FILETIME, OutType::NULL),
    ("st", InType::SYSTEMTIME, OutType::NULL),
    ("time", InType::WMI_TIME, OutType::NULL),
    ("sid", InType::SID, OutType::NULL),
    ("usersid", InType::WBEM_SID, OutType::NULL),
    ("ip4", InType::UINT32, OutType::IPV4),
    ("ip6", InType::BINARY, OutType::IPV6),
    ("port", InType::UINT16, OutType::PORT),
    ("bin", InType::BINARY, OutType::NULL),
];

/// Names of the out-types.
const OUT_TYPES: &[(&str, OutType)] = &[
    ("hex", OutType::HEX_INT64),
    ("pid", OutType::PID),
    ("tid", OutType::TID),
    ("ntstatus", OutType::NTSTATUS),
    ("win32", OutType::WIN32_ERROR),
    ("hresult", OutType::HRESULT),
];

/// Limit of the nesting depth of structs.
const MAX_DEPTH: usize = 8;

/// An error in a line of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} in \"{line}\"")]
pub(super) struct TableError {
    what: &'static str,
    line: String,
}

/// The unparsed lines of one provider or class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) guid: Guid,
    pub(super) name: &'static str,
    pub(super) is_class: bool,
    class_of: Option<(Guid, &'static str)>,
    body: &'static str,
}

/// Returns the blocks of a table.
pub(super) fn blocks(text: &'static str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut class_of = None;
    let mut body_start = 0;
    let mut at = 0;
    let close = |blocks: &mut Vec<Block>, from: usize, to: usize| {
        if let Some(last) = blocks.last_mut().filter(|last| last.body.is_empty()) {
            last.body = text.get(from..to).unwrap_or_default();
        }
    };
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let (kind, rest) = line.trim_end().split_once(' ').unwrap_or_default();
        match kind {
            "of" => class_of = rest.split_once(' ').and_then(|(guid, name)| Some((guid.parse().ok()?, name))),
            "class" | "provider" => {
                let Some((name, guid)) = rest.rsplit_once(' ') else { continue };
                let Ok(guid) = guid.parse() else { continue };
                close(&mut blocks, body_start, start);
                body_start = at;
                let is_class = kind == "class";
                let class_of = class_of.filter(|_| is_class);
                blocks.push(Block { guid, name, is_class, class_of, body: "" });
            }
            _ => {}
        }
    }
    close(&mut blocks, body_start, text.len());
    blocks
}

impl Block {
    /// Parses the provider that the lines describe.
    pub(super) fn parse(&self) -> Result<Provider, TableError> {
        let mut info = ProviderInfo::new(self.guid, self.name, Decoding::BuiltIn, "built in");
        info.class_of = self.class_of.map(|(guid, name)| (guid, name.into()));
        let mut rows = Vec::new();
        let mut messages = Vec::new();
        for line in self.body.lines() {
            let fail = |what| TableError { what, line: line.to_owned() };
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                // Lines `reader` are for the typed readers of `etw_kernel_events`.
                "" | "#" | "of" | "reader" => {}
                "channel" => {
                    let (value, name) = number_and_name(rest, 10).ok_or_else(|| fail("no channel"))?;
                    let value = u8::try_from(value).map_err(|_| fail("no channel"))?;
                    info.channels.push(ChannelName { value, name: name.into(), message: None });
                }
                "keyword" => {
                    let (mask, name) = number_and_name(rest, 16).ok_or_else(|| fail("no mask"))?;
                    info.keywords.push(KeywordName { mask, name: name.into(), message: None });
                }
                "task" => {
                    let (value, name) = number_and_name(rest, 10).ok_or_else(|| fail("no task"))?;
                    let value = u16::try_from(value).map_err(|_| fail("no task"))?;
                    info.tasks.push(TaskName { value, name: name.into(), message: None, event_guid: None });
                }
                "opcode" => {
                    let (task, rest) = match rest.split_once('/') {
                        Some((task, rest)) => (Some(task.parse().map_err(|_| fail("no task"))?), rest),
                        None => (None, rest),
                    };
                    let (value, name) = number_and_name(rest, 10).ok_or_else(|| fail("no opcode"))?;
                    let value = u8::try_from(value).map_err(|_| fail("no opcode"))?;
                    info.opcodes.push(OpcodeName { value, task, name: name.into(), message: None });
                }
                "values" | "bits" => {
                    let map = value_map(word == "bits", rest).ok_or_else(|| fail("no map"))?;
                    info.maps.push(Arc::new(map));
                }
                "message" => messages.push(MessageLine::parse(rest).ok_or_else(|| fail("no event"))?),
                _ => rows.push(line),
            }
        }
        let info = Arc::new(info);
        let mut events = Vec::new();
        for line in rows {
            let fail = |what| TableError { what, line: line.to_owned() };
            let mut columns = line.splitn(3, '|').map(str::trim);
            let (head, middle, fields) = (columns.next(), columns.next(), columns.next());
            let (Some(head), Some(middle), Some(fields)) = (head, middle, fields) else {
                return Err(fail("not three columns"));
            };
            let (key, name) = head.split_once(' ').ok_or_else(|| fail("no name"))?;
            let (properties, top_level) = properties(fields, &info.maps).map_err(fail)?;
            let schema = |descriptor| EventSchema {
                name: Some(name).filter(|name| *name != "-").map(Into::into),
                properties: properties.clone(),
                top_level,
                ..EventSchema::new(info.clone(), descriptor)
            };
            if self.is_class {
                let version = key.parse().map_err(|_| fail("no version"))?;
                for pair in middle.split(", ") {
                    let (opcode, name) = number_and_name(pair, 10).ok_or_else(|| fail("no opcode"))?;
                    let opcode = Opcode(u8::try_from(opcode).map_err(|_| fail("no opcode"))?);
                    let mut schema =
                        schema(EventDescriptor { version, opcode, ..EventDescriptor::default() });
                    schema.task_name = Some(info.name.clone());
                    schema.opcode_name = Some(name.into());
                    events.push(Arc::new(schema));
                }
            } else {
                let (descriptor, opcode_name) =
                    descriptor(key, middle).ok_or_else(|| fail("no descriptor"))?;
                let mut schema = schema(descriptor);
                name_parts(&mut schema);
                if let Some(name) = opcode_name {
                    schema.opcode_name = Some(name.into());
                }
                if let Some(message) = MessageLine::find(&messages, &descriptor) {
                    schema.message = Some(message.numbered(&schema).map_err(fail)?);
                }
                events.push(Arc::new(schema));
            }
        }
        Ok(Provider { info, events })
    }
}

fn number_and_name(text: &str, radix: u32) -> Option<(u64, &str)> {
    let (number, name) = text.trim().split_once(' ')?;
    Some((u64::from_str_radix(number, radix).ok()?, name.trim()))
}

fn value_map(is_bits: bool, text: &str) -> Option<ValueMap> {
    let (name, entries) = text.split_once(' ')?;
    let (kind, radix) = if is_bits { (MapKind::Bits, 16) } else { (MapKind::Value, 10) };
    let entries = entries
        .split(" | ")
        .map(|entry| number_and_name(entry, radix).map(|(value, text)| MapEntry { value, text: text.into() }))
        .collect::<Option<Vec<_>>>()?;
    Some(ValueMap { name: name.into(), kind, entries })
}

/// Parses the descriptor of an event, and the opcode's name if it has one of its own.
fn descriptor<'a>(key: &str, words: &'a str) -> Option<(EventDescriptor, Option<&'a str>)> {
    let (id, version) = key.split_once('.')?;
    let mut descriptor = EventDescriptor {
        id: id.parse().ok()?,
        version: version.parse().ok()?,
        ..EventDescriptor::default()
    };
    let mut opcode_name = None;
    let mut words = words.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word {
            "task" => descriptor.task = value.parse().ok()?,
            "opcode" => descriptor.opcode = Opcode(value.parse().ok()?),
            "as" => opcode_name = Some(value),
            "level" => descriptor.level = Level(value.parse().ok()?),
            "keywords" => descriptor.keyword = Keyword(u64::from_str_radix(value, 16).ok()?),
            _ => return None,
        }
    }
    Some((descriptor, opcode_name))
}

/// Fills in the names for the numbers in a manifest event's descriptor.
fn name_parts(schema: &mut EventSchema) {
    let info = schema.provider.clone();
    let EventDescriptor { task, opcode, level, keyword, .. } = schema.descriptor;
    schema.task_name = info.tasks.iter().find(|name| name.value == task).map(|task| task.name.clone());
    let opcodes = || info.opcodes.iter().filter(|name| name.value == opcode.0);
    schema.opcode_name = opcodes()
        .find(|name| name.task == Some(task))
        .or_else(|| opcodes().find(|name| name.task.is_none()))
        .map(|name| name.name.clone())
        .or_else(|| opcode.standard_name().map(Into::into));
    schema.level_name = level.standard_name().map(Into::into);
    schema.keyword_names = info
        .keywords
        .iter()
        .filter(|name| name.mask & keyword.0 == name.mask)
        .map(|name| name.name.clone())
        .collect();
}

/// A field as written in the table.
struct Field<'a> {
    name: &'a str,
    kind: Kind<'a>,
    length: Option<&'a str>,
    count: Option<&'a str>,
    map: Option<&'a str>,
}

enum Kind<'a> {
    Value(InType, OutType),
    Struct(Vec<Field<'a>>),
}

/// Parses a list of fields. Returns the properties and the number of top-level ones.
fn properties(text: &str, maps: &[Arc<ValueMap>]) -> Result<(Vec<Property>, u16), &'static str> {
    let mut cursor = Cursor { rest: text };
    let fields = cursor.fields(0)?;
    if !cursor.rest.is_empty() {
        return Err("text after the fields");
    }
    let mut properties = Vec::new();
    let mut waiting = std::collections::VecDeque::new();
    let top_level = append(fields, maps, &mut properties, &mut waiting)?;
    while let Some((at, members)) = waiting.pop_front() {
        let first = u16::try_from(properties.len()).map_err(|_| "too many fields")?;
        let members = append(members, maps, &mut properties, &mut waiting)?;
        if let Some(property) = properties.get_mut(at) {
            property.kind = PropertyType::Struct { first, members };
        }
    }
    Ok((properties, top_level))
}

/// Appends the fields of one level. Structs are queued with their property's index until their members are appended.
fn append<'a>(
    fields: Vec<Field<'a>>,
    maps: &[Arc<ValueMap>],
    properties: &mut Vec<Property>,
    waiting: &mut std::collections::VecDeque<(usize, Vec<Field<'a>>)>,
) -> Result<u16, &'static str> {
    let start = properties.len();
    let number = u16::try_from(fields.len()).map_err(|_| "too many fields")?;
    for field in fields {
        let index_of = |name: &str| {
            let siblings = properties.iter().enumerate().skip(start);
            let found = siblings.rev().find(|(_, property)| &*property.name == name).map(|(at, _)| at);
            found.and_then(|at| u16::try_from(at).ok()).ok_or("no such field before")
        };
        let length = match field.length {
            None => Length::Natural,
            Some(text) => match text.parse() {
                Ok(fixed) => Length::Fixed(fixed),
                Err(_) => Length::Property(index_of(text)?),
            },
        };
        let count = match field.count {
            None => Count::One,
            Some("") => Count::ToEnd,
            Some(text) => match text.parse() {
                Ok(fixed) => Count::Fixed(fixed),
                Err(_) => Count::Property(index_of(text)?),
            },
        };
        let map = match field.map {
            None => None,
            Some(name) => Some(maps.iter().find(|map| &*map.name == name).ok_or("no such map")?.clone()),
        };
        let kind = match field.kind {
            Kind::Struct(members) => {
                waiting.push_back((properties.len(), members));
                PropertyType::Struct { first: 0, members: 0 }
            }
            Kind::Value(in_type, out_type) => PropertyType::Value { in_type, out_type, map },
        };
        properties.push(Property { name: field.name.into(), kind, length, count, tags: 0 });
    }
    Ok(number)
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn fields(&mut self, depth: usize) -> Result<Vec<Field<'a>>, &'static str> {
        if depth > MAX_DEPTH {
            return Err("structs nested too deeply");
        }
        let mut fields = Vec::new();
        while let Some(name) = self.word() {
            fields.push(self.field(name, depth)?);
            if !self.accept(';') {
                break;
            }
        }
        Ok(fields)
    }

    fn field(&mut self, name: &'a str, depth: usize) -> Result<Field<'a>, &'static str> {
        let kind;
        let mut length = None;
        if self.accept('{') {
            kind = Kind::Struct(self.fields(depth + 1)?);
            if !self.accept('}') {
                return Err("unterminated struct");
            }
        } else {
            let word = self.word().ok_or("no type")?;
            let (_, mut in_type, mut out_type) =
                *TYPES.iter().find(|(name, ..)| *name == word).ok_or("no such type")?;
            if self.accept(':') {
                let word = self.word().ok_or("no out-type")?;
                out_type = OUT_TYPES.iter().find(|(name, _)| *name == word).ok_or("no such out-type")?.1;
            }
            length = self.between('(', ')')?;
            if word == "ip6" {
                length = Some("16");
            } else if word == "bin" && length.is_none() {
                in_type = InType::BINARY_TO_END;
            }
            kind = Kind::Value(in_type, out_type);
        }
        let count = self.between('[', ']')?;
        let map = if self.accept('=') { Some(self.word().ok_or("no map's name")?) } else { None };
        Ok(Field { name, kind, length, count, map })
    }

    fn word(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let end =
            self.rest.find(|c: char| !(c.is_alphanumeric() || "_.-".contains(c))).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    fn accept(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn between(&mut self, open: char, close: char) -> Result<Option<&'a str>, &'static str> {
        if !self.accept(open) {
            return Ok(None);
        }
        let (inside, rest) = self.rest.split_once(close).ok_or("no closing bracket")?;
        self.rest = rest;
        Ok(Some(inside.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let shape = |text: &str| {
            let (properties, top_level) = properties(text, &[]).unwrap();
            let kinds = properties.iter().map(|property| match property.kind {
                PropertyType::Struct { first, members } => format!("{}>{first}+{members}", property.name),
                PropertyType::Value { in_type, .. } => {
                    format!("{}:{}{:?}{:?}", property.name, in_type.0, property.length, property.count)
                }
            });
            (top_level, kinds.collect::<Vec<_>>().join(" "))
        };
        let check =
            |text, top_level, expected: &str| assert_eq!(shape(text), (top_level, expected.to_owned()));
        check("", 0, "");
        check("A u32", 1, "A:8NaturalOne");
        check("N u16; D bin(N); E bin", 3, "N:6NaturalOne D:14Property(0)One E:32770NaturalOne");
        check(
            "N u32; S { A u8; B ptr[A] }[N]; T u8",
            3,
            "N:8NaturalOne S>3+2 T:4NaturalOne A:4NaturalOne B:16NaturalProperty(3)",
        );
        check("S wstr(32); F ptr[]; G u16[8]", 3, "S:1Fixed(32)One F:16NaturalToEnd G:6NaturalFixed(8)");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text, expected| assert_eq!(properties(text, &[]).unwrap_err(), expected, "{text}");
        check("A", "no type");
        check("A u33", "no such type");
        check("A u32:loud", "no such out-type");
        check("A bin(N)", "no such field before");
        check("A u32 =Map", "no such map");
        check("A { B u32", "unterminated struct");
        check("A u32[3", "no closing bracket");
        check("A u32 B u32", "text after the fields");
        check(&"A { ".repeat(20), "structs nested too deeply");
    }
}
