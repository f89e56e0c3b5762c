//! Names of inlined functions, from the streams of ids (IPI) and types (TPI).
//!
//! Both streams are scanned, which needs no index in memory. An item refers to items before it, so a scope found in one
//! scan takes another scan.

use std::collections::{BTreeSet, HashMap};

use pdb2::{FallibleIterator, IdData, IdIndex, IdInformation, PDB, TypeData};

use super::source::Bytes;

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
pub(super) fn names(pdb: &mut PDB<'static, Bytes>, wanted: &BTreeSet<u32>) -> HashMap<u32, String> {
    let mut ids = HashMap::new();
    if let Ok(information) = pdb.id_information() {
        let mut missing = wanted.clone();
        for _ in 0..MAX_SCOPES {
            find_ids(&information, &missing, &mut ids);
            missing = ids.values().filter_map(|named: &Named| named.scope.id()).collect();
            missing.retain(|id| !ids.contains_key(id));
            if missing.is_empty() {
                break;
            }
        }
    }
    let types = ids.values().filter_map(|named| named.scope.of_type()).collect();
    let types = type_names(pdb, &types);
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

fn find_ids(information: &IdInformation<'_>, wanted: &BTreeSet<u32>, found: &mut HashMap<u32, Named>) {
    let mut items = information.iter();
    let mut rest = wanted.len();
    while rest > 0
        && let Ok(Some(item)) = items.next()
    {
        let IdIndex(index) = item.index();
        if !wanted.contains(&index) {
            continue;
        }
        rest -= 1;
        let named = match item.parse() {
            Ok(IdData::Function(function)) => {
                let scope = function.scope.map_or(Scope::None, |IdIndex(scope)| Scope::Id(scope));
                Named { name: function.name.to_string().into_owned(), scope }
            }
            Ok(IdData::MemberFunction(function)) => {
                let scope = Scope::Type(function.parent.0);
                Named { name: function.name.to_string().into_owned(), scope }
            }
            Ok(IdData::String(text)) => {
                Named { name: scope_name(&text.name.to_string()), scope: Scope::None }
            }
            _ => continue,
        };
        found.insert(index, named);
    }
}

/// Returns the name of a namespace; unnamed ones are `?A0x` and a hash.
fn scope_name(name: &str) -> String {
    match name.starts_with("?A0x") {
        true => "`anonymous namespace'".to_owned(),
        false => name.to_owned(),
    }
}

fn type_names(pdb: &mut PDB<'static, Bytes>, wanted: &BTreeSet<u32>) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    if wanted.is_empty() {
        return names;
    }
    let Ok(information) = pdb.type_information() else { return names };
    let mut items = information.iter();
    let mut rest = wanted.len();
    while rest > 0
        && let Ok(Some(item)) = items.next()
    {
        let index = item.index().0;
        if !wanted.contains(&index) {
            continue;
        }
        rest -= 1;
        let name = match item.parse() {
            Ok(TypeData::Class(of)) => of.name,
            Ok(TypeData::Union(of)) => of.name,
            Ok(TypeData::Enumeration(of)) => of.name,
            _ => continue,
        };
        names.insert(index, name.to_string().into_owned());
    }
    names
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
