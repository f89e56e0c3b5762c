//! Names of inlined functions, from the streams of ids (IPI) and types (TPI).
//!
//! Both streams are scanned, which needs no index in memory. An item refers to items before it, so a scope found in one
//! scan takes another scan. Source of the layouts: `cvinfo.h` of Microsoft's `microsoft-pdb`.

use std::collections::{BTreeSet, HashMap};

use etw_event::Fields;
use pdb2::PDB;

use super::records::{Streams, text};
use super::source::Bytes;

/// Kinds of ids: functions, methods of classes, and names of namespaces.
const FUNC_ID: u16 = 0x1601;
const MFUNC_ID: u16 = 0x1602;
const STRING_ID: u16 = 0x1605;
/// Kinds of types that functions lie in.
const CLASS: u16 = 0x1504;
const STRUCTURE: u16 = 0x1505;
const UNION: u16 = 0x1506;
const ENUM: u16 = 0x1507;
const INTERFACE: u16 = 0x1519;
const CLASS2: u16 = 0x1608;
const STRUCTURE2: u16 = 0x1609;
const UNION2: u16 = 0x160A;
const INTERFACE2: u16 = 0x160B;
/// Maximum number of scopes around a function.
const MAX_SCOPES: usize = 8;

/// A function or scope, and the scope around it.
struct Named {
    name: String,
    scope: Scope,
}

enum Scope {
    None,
    Id(u32),
    Type(u32),
}

/// Returns the qualified names of functions, as far as the file has them.
pub(super) fn names(
    pdb: &mut PDB<'static, Bytes>,
    streams: &Streams<'_>,
    wanted: &BTreeSet<u32>,
) -> HashMap<u32, String> {
    let mut ids = HashMap::new();
    let mut missing = wanted.clone();
    for _ in 0..MAX_SCOPES {
        find_ids(pdb, streams, &missing, &mut ids);
        missing = ids.values().filter_map(|named: &Named| named.scope.id()).collect();
        missing.retain(|id| !ids.contains_key(id));
        if missing.is_empty() {
            break;
        }
    }
    let types = ids.values().filter_map(|named| named.scope.of_type()).collect();
    let types = type_names(pdb, streams, &types);
    wanted.iter().filter_map(|id| Some((*id, qualified(*id, &ids, &types)?))).collect()
}

impl Scope {
    fn id(&self) -> Option<u32> {
        match self {
            Scope::Id(id) => Some(*id),
            Scope::None | Scope::Type(_) => None,
        }
    }

    fn of_type(&self) -> Option<u32> {
        match self {
            Scope::Type(index) => Some(*index),
            Scope::None | Scope::Id(_) => None,
        }
    }
}

fn find_ids(
    pdb: &mut PDB<'static, Bytes>,
    streams: &Streams<'_>,
    wanted: &BTreeSet<u32>,
    found: &mut HashMap<u32, Named>,
) {
    let mut items = streams.ids(pdb);
    let mut rest = wanted.len();
    while rest > 0
        && let Some((index, kind, fields)) = items.next()
    {
        if wanted.contains(&index) {
            rest -= 1;
            found.extend(id(kind, fields).map(|named| (index, named)));
        }
    }
}

/// Returns what an id stands for; `None` if that has no name.
fn id(kind: u16, fields: &[u8]) -> Option<Named> {
    let (scope, name) = match kind {
        // Scope, type.
        FUNC_ID => match fields.u32_at(0)? {
            0 => (Scope::None, text(fields.get(8..)?)),
            scope => (Scope::Id(scope), text(fields.get(8..)?)),
        },
        MFUNC_ID => (Scope::Type(fields.u32_at(0)?), text(fields.get(8..)?)),
        // A list of parts of the text.
        STRING_ID => (Scope::None, scope_name(&text(fields.get(4..)?))),
        _ => return None,
    };
    Some(Named { name, scope })
}

/// Returns the name of a namespace; unnamed ones are `?A0x` and a hash.
fn scope_name(name: &str) -> String {
    match name.starts_with("?A0x") {
        true => "`anonymous namespace'".to_owned(),
        false => name.to_owned(),
    }
}

fn type_names(
    pdb: &mut PDB<'static, Bytes>,
    streams: &Streams<'_>,
    wanted: &BTreeSet<u32>,
) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    if wanted.is_empty() {
        return names;
    }
    let mut items = streams.types(pdb);
    let mut rest = wanted.len();
    while rest > 0
        && let Some((index, kind, fields)) = items.next()
    {
        if wanted.contains(&index) {
            rest -= 1;
            names.extend(type_name(kind, fields).map(|name| (index, name)));
        }
    }
    names
}

/// Returns the name of a class or another type that functions lie in.
fn type_name(kind: u16, fields: &[u8]) -> Option<String> {
    let rest = match kind {
        // Number of members, properties, members, base class, virtual functions; size.
        CLASS | STRUCTURE | INTERFACE => after_number(fields.get(16..)?)?,
        // Properties of 32 bits, and the number of members after the virtual functions.
        CLASS2 | STRUCTURE2 | INTERFACE2 => after_number(fields.get(18..)?)?,
        // Number of members, properties, members; size.
        UNION => after_number(fields.get(8..)?)?,
        UNION2 => after_number(fields.get(10..)?)?,
        // Number of values, properties, underlying type, values.
        ENUM => fields.get(12..)?,
        _ => return None,
    };
    Some(text(rest))
}

/// Returns what comes after a number, which has 16 bits or a kind and a value.
fn after_number(fields: &[u8]) -> Option<&[u8]> {
    let value_bytes = match fields.u16_at(0)? {
        ..0x8000 => 0,
        0x8000 => 1,
        0x8001 | 0x8002 => 2,
        0x8003 | 0x8004 => 4,
        0x8009 | 0x800A => 8,
        _ => return None,
    };
    fields.get(2 + value_bytes..)
}

/// Returns a function's name after the names of its scopes.
fn qualified(id: u32, ids: &HashMap<u32, Named>, types: &HashMap<u32, String>) -> Option<String> {
    let mut named = ids.get(&id)?;
    let mut name = named.name.clone();
    for _ in 0..MAX_SCOPES {
        let scope = match named.scope {
            Scope::None => break,
            Scope::Type(index) => types.get(&index)?,
            Scope::Id(scope) => {
                named = ids.get(&scope)?;
                &named.name
            }
        };
        name = match name.as_str() {
            "{ctor}" => format!("{scope}::{}", class_name(scope)),
            "{dtor}" => format!("{scope}::~{}", class_name(scope)),
            name => format!("{scope}::{name}"),
        };
        if matches!(named.scope, Scope::Type(_)) {
            break;
        }
    }
    Some(name)
}

/// Returns a class's name without its scopes and template arguments.
fn class_name(qualified: &str) -> &str {
    let mut depth = 0_u32;
    let is_outside = |(_, c): &(usize, char)| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' => return depth == 0,
            _ => {}
        }
        false
    };
    let start = qualified.char_indices().filter(is_outside).last().map_or(0, |(colon, _)| colon + 1);
    let name = qualified.get(start..).unwrap_or_default();
    name.split('<').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        let check = |kind, fields: &[u8], expected: Option<&str>| {
            assert_eq!(type_name(kind, fields).as_deref(), expected, "{kind:#x} {fields:?}");
        };
        let class = [0; 16];
        check(STRUCTURE, &[&class[..], &[8, 0], b"a::B\0.?AUB@a@@\0"].concat(), Some("a::B"));
        check(CLASS, &[&class[..], &[0x04, 0x80, 1, 0, 1, 0], b"Large\0"].concat(), Some("Large"));
        check(CLASS, &[&class[..], &[0x0A, 0x80, 0, 0, 0, 0, 1, 0, 0, 0], b"Huge\0"].concat(), Some("Huge"));
        check(CLASS, &[&class[..], &[0x0B, 0x80], b"Odd\0"].concat(), None);
        check(CLASS2, &[&[0; 18][..], &[8, 0], b"New\0"].concat(), Some("New"));
        check(UNION, &[&[0; 8][..], &[8, 0], b"U\0"].concat(), Some("U"));
        check(UNION2, &[&[0; 10][..], &[8, 0], b"U\0"].concat(), Some("U"));
        check(ENUM, &[&[0; 12][..], b"E\0"].concat(), Some("E"));
        check(ENUM, &[0; 11], None);
        check(0x1002, &[0; 40], None);
    }

    #[test]
    fn names_of_constructors() {
        let check = |qualified: &str, expected: &str| assert_eq!(class_name(qualified), expected);
        check("Thing", "Thing");
        check("a::b::Thing", "Thing");
        check("std::vector<int,std::allocator<int> >", "vector");
        check("std::basic_ostream<char,std::char_traits<char> >::sentry", "sentry");
        check("a<b::c", "a");
        check("", "");
        check("a::", "");
    }
}
