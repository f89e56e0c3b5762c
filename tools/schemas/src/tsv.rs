//! Lists of fields: tab-separated tables of the events of one provider.

use anyhow::{Context, Result};
use openetw::schema::{InType, OutType, Property};

/// One row of a table.
pub(super) struct Row {
    pub(super) provider: String,
    /// The class, in tables of classic events.
    pub(super) category: Option<String>,
    pub(super) id: u16,
    pub(super) version: u8,
    pub(super) name: String,
    pub(super) fields: Vec<Property>,
    pub(super) opcode: String,
    pub(super) keywords: Vec<String>,
    pub(super) task: String,
    pub(super) level: String,
}

/// Reads a table of manifest events: provider, id, version, name and fields, opcode, keywords, task, level.
pub(super) fn manifest(text: &str) -> Result<Vec<Row>> {
    rows(text, |cells| {
        let [provider, id, version, event, opcode, keywords, task, level, ..] = cells else { return None };
        let (name, fields) = event_and_fields(event, &manifest_type)?;
        Some(Row {
            provider: (*provider).to_owned(),
            category: None,
            id: id.parse().ok()?,
            version: version.parse().ok()?,
            name: name.to_owned(),
            fields,
            opcode: (*opcode).to_owned(),
            keywords: keywords.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
            task: (*task).to_owned(),
            level: (*level).to_owned(),
        })
    })
}

/// Reads a table of classic events: provider, class, event type, version, name and fields, name of the type.
pub(super) fn classic(text: &str) -> Result<Vec<Row>> {
    rows(text, |cells| {
        let [provider, category, id, version, event, event_type, ..] = cells else { return None };
        let (name, fields) = event_and_fields(event, &classic_type)?;
        Some(Row {
            provider: (*provider).to_owned(),
            category: Some((*category).to_owned()),
            id: id.parse().ok()?,
            version: version.parse().ok()?,
            name: name.to_owned(),
            fields,
            opcode: (*event_type).to_owned(),
            keywords: Vec::new(),
            task: String::new(),
            level: String::new(),
        })
    })
}

fn rows(text: &str, row: impl Fn(&[&str]) -> Option<Row>) -> Result<Vec<Row>> {
    let lines = text.lines().skip(1).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            row(&cells).with_context(|| format!("not a row of events: {line}"))
        })
        .collect()
}

/// Splits `Name(Type Field, Type Field)`. Names may contain parentheses too.
fn event_and_fields<'a>(
    text: &'a str,
    in_type: &impl Fn(&str) -> Option<InType>,
) -> Option<(&'a str, Vec<Property>)> {
    let text = text.strip_suffix(')')?;
    text.match_indices('(').find_map(|(at, _)| {
        let (name, list) = (text.get(..at)?, text.get(at + 1..)?);
        if list.is_empty() {
            return Some((name, Vec::new()));
        }
        let fields = list.split(", ").map(|field| {
            let (written, name) = field.split_once(' ')?;
            Some(Property::scalar(name, in_type(written)?, OutType::NULL))
        });
        Some((name, fields.collect::<Option<_>>()?))
    })
}

fn manifest_type(written: &str) -> Option<InType> {
    if let Ok(number) = written.parse() {
        return Some(InType(number));
    }
    match written {
        "CountedUtf16String" => Some(InType::COUNTED_UNICODE_STRING),
        "CountedMbcsString" => Some(InType::COUNTED_ANSI_STRING),
        written => (1..=25).map(InType).find(|known| known.name() == Some(written)),
    }
}

/// The types of classic events are those of CIM, which say neither the encoding of strings nor what an object is.
fn classic_type(written: &str) -> Option<InType> {
    Some(match written {
        "UInt8" => InType::UINT8,
        "UInt16" => InType::UINT16,
        "UInt32" => InType::UINT32,
        "UInt64" => InType::UINT64,
        "SInt8" => InType::INT8,
        "SInt16" => InType::INT16,
        "SInt32" => InType::INT32,
        "SInt64" => InType::INT64,
        "Char16" => InType::UNICODE_CHAR,
        "Boolean" => InType::BOOLEAN,
        "String" => InType::UNKNOWN_STRING,
        "Object" => InType::UNKNOWN_EXTENT,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_split_from_fields() {
        let check = |text, expected: Option<(&str, &[&str])>| {
            let found = event_and_fields(text, &manifest_type);
            let fields =
                found.as_ref().map(|(_, fields)| fields.iter().map(|field| &*field.name).collect::<Vec<_>>());
            assert_eq!(found.as_ref().map(|(name, _)| *name), expected.map(|(name, _)| name), "{text}");
            assert_eq!(fields.as_deref(), expected.map(|(_, fields)| fields), "{text}");
        };
        check("Started()", Some(("Started", &[])));
        check("Open(UInt32 Id, UnicodeString Name)", Some(("Open", &["Id", "Name"])));
        check("MFT(Async)_V1(Pointer Object)", Some(("MFT(Async)_V1", &["Object"])));
        check("Heap(s)()", Some(("Heap(s)", &[])));
        check("Call(29 Struct)", Some(("Call", &["Struct"])));
        check("Odd(Nothing x)", None);
    }
}
