//! TMF text, as written by `tracepdb` and contained line by line in a PDB's annotations.

use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Level};

use super::{WppReader, items};
use crate::{Count, EventSchema, MapEntry, MapKind, MessageStyle, Property, ValueMap};

/// Limits for hostile texts; published messages have at most 12 arguments.
const MAX_ARGUMENTS: usize = 256;
const MAX_ENUMERATIONS: usize = 1024;

/// Reads a text and adds its messages to the collection.
pub(super) fn read(text: &str, origin: &Arc<str>, into: &mut WppReader) {
    let mut reader = Reader {
        lines: text.lines().enumerate(),
        origin,
        into,
        provider: None,
        source: None,
        enums: Vec::new(),
    };
    while let Some((at, line)) = reader.lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if let Some(rest) = line.strip_prefix('#') {
            let (kind, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            match kind {
                "type" | "typev" => reader.message(at + 1, rest),
                "enumv" | "enum" => reader.enumeration(rest),
                _ => reader.into.report(origin, at + 1, "expected a message, type or GUID"),
            }
        } else {
            reader.guid_line(at + 1, line);
        }
    }
}

struct Reader<'a, 'r> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    origin: &'a Arc<str>,
    into: &'r mut WppReader,
    provider: Option<usize>,
    source: Option<Arc<str>>,
    enums: Vec<Arc<ValueMap>>,
}

impl<'a> Reader<'a, '_> {
    /// Reads `GUID NAME // SRC=FILE MJ= MN=`.
    fn guid_line(&mut self, line: usize, text: &str) {
        let (head, comment) = text.split_once("//").unwrap_or((text, ""));
        let (guid, name) = head.split_once(char::is_whitespace).unwrap_or((head, ""));
        match guid.parse::<Guid>() {
            Ok(guid) => {
                self.provider = Some(self.into.provider(guid, name.trim(), self.origin));
                self.source = value_of(comment, "SRC").map(Arc::from);
            }
            Err(_) => self.into.report(self.origin, line, "expected a message, type or GUID"),
        }
    }

    /// Reads `TAG NUMBER "FORMAT" // LEVEL=… FLAGS=… FUNC=…`, then the arguments in braces.
    fn message(&mut self, line: usize, text: &str) {
        let arguments = self.block();
        let Some(info) = self.provider.and_then(|provider| self.into.info(provider)) else {
            return self.into.report(self.origin, line, "a message before any GUID");
        };
        let mut words = text.trim_start().splitn(3, char::is_whitespace);
        let (Some(tag), Some(number), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return self.into.report(self.origin, line, "expected a tag, a number and a format");
        };
        let Ok(id) = number.parse() else {
            return self.into.report(self.origin, line, "expected a message number from 0 to 65535");
        };
        let Some((format, comment)) = quoted(rest.trim_start()) else {
            return self.into.report(self.origin, line, "expected a format in quotes");
        };
        let mut event = EventSchema::new(info, EventDescriptor { id, ..EventDescriptor::default() });
        event.name = Some(tag.into());
        event.task_name = self.source.clone();
        for (key, value) in pairs(comment) {
            match key {
                "LEVEL" => {
                    event.descriptor.level = level(value);
                    event.level_name = Some(value.into());
                }
                "FUNC" => event.opcode_name = Some(value.into()),
                "COMPNAME" => event.channel_name = Some(value.into()),
                "SRC" | "MJ" | "MN" => {}
                _ => event.keyword_names.push(value.into()),
            }
        }
        event.message = Some(named_parts(format.strip_prefix("%0").unwrap_or(&format), &event).into());
        event.message_style = MessageStyle::Wpp;
        event.properties = self.arguments(arguments);
        // There are at most MAX_ARGUMENTS.
        event.top_level = u16::try_from(event.properties.len()).unwrap_or(u16::MAX);
        if let Some(provider) = self.provider {
            self.into.add(provider, event);
        }
    }

    /// Returns the lines up to `}`, with their numbers, if the next line is `{`. Without arguments there may be no
    /// braces.
    fn block(&mut self) -> Vec<(usize, &'a str)> {
        let mut block = Vec::new();
        let mut ahead = self.lines.clone();
        let opens =
            ahead.find(|(_, line)| !line.trim().is_empty()).is_some_and(|(_, line)| line.trim() == "{");
        if !opens {
            return block;
        }
        self.lines = ahead;
        for (at, line) in self.lines.by_ref() {
            let line = line.trim();
            if line.starts_with('}') {
                break;
            }
            if !line.is_empty() {
                block.push((at + 1, line));
            }
        }
        block
    }

    /// Reads lines of `EXPRESSION, ITEM -- INDEX`. The record contains the arguments in index order, from 10.
    fn arguments(&mut self, lines: Vec<(usize, &str)>) -> Vec<Property> {
        let mut arguments = Vec::new();
        for (line, text) in lines.into_iter().take(MAX_ARGUMENTS) {
            let parts = text.rsplit_once(" -- ").and_then(|(left, index)| {
                let (name, item) = left.rsplit_once(", Item")?;
                Some((name.trim(), &left[left.len() - item.len() - 4..], index.trim().parse::<u16>().ok()?))
            });
            match parts {
                Some((name, item, index)) => arguments.push((index, line, name, item)),
                None => self.into.report(self.origin, line, "expected an argument"),
            }
        }
        arguments.sort_by_key(|(index, ..)| *index);
        let mut properties = Vec::with_capacity(arguments.len());
        for (position, (index, line, name, item)) in arguments.into_iter().enumerate() {
            if usize::from(index) != position + 10 {
                self.into.report(self.origin, line, "arguments are not numbered 10, 11, 12, …");
                break;
            }
            let Some((kind, length)) = items::item(item, &self.enums) else {
                self.into.report(self.origin, line, "an item of unknown type");
                break;
            };
            properties.push(Property { name: name.into(), kind, length, count: Count::One, tags: 0 });
        }
        properties
    }

    /// Reads an enumeration for `ItemEnum`: its name, then `NAME, VALUE` or `NAME = VALUE` lines in braces.
    fn enumeration(&mut self, text: &str) {
        let name = text.split_whitespace().next().unwrap_or_default();
        let mut entries = Vec::new();
        for (line, text) in self.block() {
            let entry =
                text.trim_end_matches(',').rsplit_once([',', '=', ' ', '\t']).and_then(|(text, value)| {
                    let text = text.trim_end_matches([',', '=', ' ', '\t']).trim();
                    Some(MapEntry { value: number(value.trim())?, text: text.into() })
                });
            match entry {
                Some(entry) => entries.push(entry),
                None => self.into.report(self.origin, line, "expected a name and a value"),
            }
        }
        if self.enums.len() == MAX_ENUMERATIONS {
            return;
        }
        self.enums.push(Arc::new(ValueMap { name: name.into(), kind: MapKind::Value, entries }));
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => {
            let value = text.parse::<i64>().ok()?;
            match i32::try_from(value) {
                // A negative enumerator is matched as the 32 bits in the record.
                Ok(negative @ ..0) => Some(u64::from(negative as u32)),
                _ => u64::try_from(value).ok(),
            }
        }
    }
}

/// Returns the text of a quoted string and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut unescaped = String::with_capacity(inside.len());
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((unescaped, inside.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => unescaped.push('\n'),
                't' => unescaped.push('\t'),
                'r' => unescaped.push('\r'),
                other => unescaped.push(other),
            },
            _ => unescaped.push(c),
        }
    }
    None
}

/// Returns the `KEY=VALUE` words of a comment. Values contain no blanks.
fn pairs(comment: &str) -> impl Iterator<Item = (&str, &str)> {
    comment.split_whitespace().filter_map(|word| word.split_once('='))
}

fn value_of<'t>(comment: &'t str, key: &str) -> Option<&'t str> {
    pairs(comment).find(|(found, _)| *found == key).map(|(_, value)| value)
}

/// Returns the value of a level named in `evntrace.h`.
fn level(name: &str) -> Level {
    Level(match name.strip_prefix("TRACE_LEVEL_").unwrap_or(name) {
        "CRITICAL" | "FATAL" => 1,
        "ERROR" => 2,
        "WARNING" => 3,
        "INFORMATION" => 4,
        "VERBOSE" => 5,
        _ => 0,
    })
}

/// Replaces `%!FUNC!`, `%!LEVEL!`, `%!FLAGS!`, `%!FILE!` and `%!LINE!` by the message's values.
fn named_parts(format: &str, event: &EventSchema) -> String {
    let mut text = String::with_capacity(format.len());
    let mut rest = format;
    while let Some(at) = rest.find("%!") {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let inside = &from[2..];
        let Some(end) = inside.find('!') else {
            text.push_str(from);
            return text;
        };
        let (name, behind) = inside.split_at(end);
        rest = &behind[1..];
        let value = match name {
            "FUNC" => event.opcode_name.as_deref(),
            "LEVEL" => event.level_name.as_deref(),
            "FLAGS" => event.keyword_names.first().map(|name| &**name),
            "FILE" => event.task_name.as_deref(),
            "LINE" => event.name.as_deref().and_then(line_of),
            "STDPREFIX" => Some(""),
            _ => None,
        };
        match value {
            // Percent signs in a name are text, not inserts.
            Some(value) => text.push_str(&value.replace('%', "%%")),
            None => text.extend(["%!", name, "!"]),
        }
    }
    text.push_str(rest);
    text
}

/// Returns the line in a tag: `DmfCore_c1793` is line 1793 of `DmfCore.c`.
fn line_of(tag: &str) -> Option<&str> {
    let digits = tag.bytes().rev().take_while(u8::is_ascii_digit).count();
    tag.get(tag.len() - digits..).filter(|digits| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InType, OutType, PropertyType};

    const GUID: &str = "0a9ab260-f7e4-311e-a23e-f8ab6856dc72 Driver // SRC=Core.c MJ= MN=\n";

    fn collect(text: &str) -> (Vec<Arc<EventSchema>>, Vec<String>) {
        let mut reader = WppReader::default();
        reader.add_tmf(text.as_bytes(), "test.tmf");
        let problems = reader.problems().iter().map(|problem| problem.to_string()).collect();
        (reader.finish().into_iter().flat_map(|provider| provider.events).collect(), problems)
    }

    #[test]
    fn a_message_with_arguments() {
        let (events, problems) = collect(&format!(
            "// PDB: x.pdb\n#enumv _STATE\n{{\n Off, 0\n On = 0x1,\n}}\n{GUID}\
             #typev Core_c17 36 \"%0[%!FUNC!:%!LINE!] \\\"%10!s!\\\" %11!08X! 100%% %!X!\" //   LEVEL=TRACE_LEVEL_ERROR FLAGS=DMF FUNC=Op%%\n\
             {{\nf(a, b), ItemListByte(Low,APC, DPC) -- 10\nx, ItemLong -- 11\ns, ItemEnum(_STATE) -- 12\n}}\n\
             #type Core_c18 37 \"bare\"\n"
        ));
        assert_eq!(problems, [""; 0]);
        let [first, second] = &*events else { panic!("two messages") };
        assert_eq!(first.message.as_deref(), Some("[Op%%%%:17] \"%10!s!\" %11!08X! 100%% %!X!"));
        assert_eq!((first.descriptor.id, first.descriptor.level.0), (36, 2));
        assert_eq!((first.name.as_deref(), first.task_name.as_deref()), (Some("Core_c17"), Some("Core.c")));
        assert_eq!(&*first.keyword_names[0], "DMF");
        assert_eq!(first.provider.name.as_ref(), "Driver");
        let shape: Vec<_> = first
            .properties
            .iter()
            .map(|property| match &property.kind {
                PropertyType::Value { in_type, map, .. } => {
                    let texts = map.iter().flat_map(|map| &map.entries).map(|entry| &*entry.text);
                    (&*property.name, *in_type, texts.collect::<Vec<_>>().join("/"))
                }
                PropertyType::Struct { .. } => panic!("no structs in WPP"),
            })
            .collect();
        assert_eq!(
            shape,
            [
                ("f(a, b)", InType::UINT8, "Low/APC/DPC".to_owned()),
                ("x", InType::INT32, String::new()),
                ("s", InType::UINT32, "Off/On".to_owned())
            ]
        );
        assert_eq!((second.descriptor.id, second.message.as_deref()), (37, Some("bare")));
    }

    #[test]
    fn all_items_are_known() {
        let check = |text: &str, in_type: InType, out_type: OutType| {
            let (kind, _) = items::item(text, &[]).unwrap_or_else(|| panic!("{text}"));
            assert!(
                matches!(kind, PropertyType::Value { in_type: i, out_type: o, .. } if (i, o) == (in_type, out_type)),
                "{text}"
            );
        };
        check("ItemPtr", InType::POINTER, OutType::NULL);
        check("ItemNTSTATUS", InType::UINT32, OutType::NTSTATUS);
        check("ItemPWString", InType::COUNTED_UNICODE_STRING, OutType::NULL);
        check("ItemSetLong(A,B)", InType::UINT32, OutType::NULL);
        check("ItemMACAddr", InType::BINARY, OutType::MAC_ADDRESS);
        assert!(items::item("ItemNonsense", &[]).is_none());
        assert!(items::item("ItemListByte", &[]).is_none());
    }

    #[test]
    fn problems_name_the_line() {
        let check = |text: &str, problem: &str| {
            assert_eq!(collect(text).1.first().map(|first| &**first), Some(problem), "{text}");
        };
        check("nothing", "test.tmf, line 1: expected a message, type or GUID");
        check("#enumv _STATE\n{\n Low, -2147483649\n}", "test.tmf, line 3: expected a name and a value");
        check("#typev a 1 \"x\"", "test.tmf, line 1: a message before any GUID");
        check(&format!("{GUID}#typev a"), "test.tmf, line 2: expected a tag, a number and a format");
        check(
            &format!("{GUID}#typev a 70000 \"x\""),
            "test.tmf, line 2: expected a message number from 0 to 65535",
        );
        check(&format!("{GUID}#typev a 1 \"x"), "test.tmf, line 2: expected a format in quotes");
        check(
            &format!("{GUID}#typev a 1 \"x\"\n{{\nx, ItemFoo -- 10\n}}"),
            "test.tmf, line 4: an item of unknown type",
        );
        check(
            &format!("{GUID}#typev a 1 \"x\"\n{{\nx ItemLong\n}}"),
            "test.tmf, line 4: expected an argument",
        );
        check(
            &format!("{GUID}#typev a 1 \"x\"\n{{\nx, ItemLong -- 11\n}}"),
            "test.tmf, line 4: arguments are not numbered 10, 11, 12, …",
        );
    }
}
