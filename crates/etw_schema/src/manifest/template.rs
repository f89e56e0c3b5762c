//! Templates: the items of the payload in order, followed by the members of structs.

use std::collections::HashMap;
use std::sync::Arc;

use super::document::{Document, Element};
use super::provider::{Problems, number};
use super::{ProblemKind, winmeta};
use crate::{Count, InType, Length, OutType, Property, PropertyType, ValueMap};

/// The payload described by a template.
#[derive(Default)]
pub(super) struct Template {
    pub(super) properties: Vec<Property>,
    pub(super) top_level: u16,
    pub(super) user_data: bool,
}

/// Limit of items in a template; the message compiler and `EventWrite` stop at 128.
pub const MAX_ITEMS: usize = 1024;

/// Reads a template. The payload after an invalid item cannot be located, so the template ends before it and the
/// problem is reported.
pub(super) fn read(
    document: &Document,
    at: usize,
    maps: &HashMap<&str, Arc<ValueMap>>,
    problems: &mut Problems,
) -> Template {
    let mut silent = Problems::default();
    let mut builder = Builder { document, maps, problems, items: Vec::new(), scopes: Vec::new(), bad: None };
    let mut top_level = builder.run(at, usize::MAX);
    if let Some(first_bad) = builder.bad {
        builder = Builder {
            document,
            maps,
            problems: &mut silent,
            items: Vec::new(),
            scopes: Vec::new(),
            bad: None,
        };
        top_level = builder.run(at, first_bad);
    }
    Template {
        properties: builder.items,
        top_level: u16::try_from(top_level).unwrap_or(u16::MAX),
        user_data: document.children(at).any(|(_, child)| child.name == "UserData"),
    }
}

/// One list of items: those of the template, or the members of one struct.
struct Scope<'a> {
    element: usize,
    /// Index of the struct's own property and of the enclosing scope.
    owner: Option<(usize, usize)>,
    /// Index of the enclosing top-level item.
    root: usize,
    names: Vec<(&'a str, usize)>,
}

struct Builder<'a, 'b> {
    document: &'a Document,
    maps: &'b HashMap<&'b str, Arc<ValueMap>>,
    problems: &'b mut Problems,
    items: Vec<Property>,
    scopes: Vec<Scope<'a>>,
    /// Index of the first invalid top-level item.
    bad: Option<usize>,
}

impl<'a> Builder<'a, '_> {
    /// Reads at most `limit` top-level items and their members. Returns the number of top-level items.
    fn run(&mut self, at: usize, limit: usize) -> usize {
        self.scopes.push(Scope { element: at, owner: None, root: 0, names: Vec::new() });
        let mut top_level = 0;
        let mut scope = 0;
        while let Some(element) = self.scopes.get(scope).map(|scope| scope.element) {
            let first = self.items.len();
            for (index, child) in self.document.children(element) {
                if !matches!(child.name, "data" | "struct" | "binary") {
                    continue;
                }
                let place = self.items.len();
                if scope == 0 && place >= limit {
                    break;
                }
                let root =
                    if scope == 0 { place } else { self.scopes.get(scope).map_or(0, |scope| scope.root) };
                if place >= MAX_ITEMS {
                    self.problems.add(child.at, ProblemKind::TooMany("template items"));
                    self.refuse(root);
                    break;
                }
                let Some(item) = self.item(child, scope) else {
                    self.refuse(root);
                    break;
                };
                if child.name == "struct" {
                    self.scopes.push(Scope {
                        element: index,
                        owner: Some((place, scope)),
                        root,
                        names: Vec::new(),
                    });
                }
                if let (Some(scope), Some(name)) = (self.scopes.get_mut(scope), child.attribute("name")) {
                    scope.names.push((name, place));
                }
                self.items.push(item);
            }
            if scope == 0 {
                top_level = self.items.len();
            } else {
                self.set_members(scope, first);
            }
            scope += 1;
        }
        top_level
    }

    fn refuse(&mut self, root: usize) {
        self.bad = Some(self.bad.map_or(root, |bad| bad.min(root)));
    }

    fn set_members(&mut self, scope: usize, first: usize) {
        let members = self.items.len() - first;
        let owner = self.scopes.get(scope).and_then(|scope| scope.owner);
        if let Some(item) = owner.and_then(|(place, _)| self.items.get_mut(place)) {
            let (first, members) = (u16::try_from(first), u16::try_from(members));
            item.kind = PropertyType::Struct {
                first: first.unwrap_or(u16::MAX),
                members: members.unwrap_or(u16::MAX),
            };
        }
    }

    fn item(&mut self, element: &'a Element, scope: usize) -> Option<Property> {
        let name = element.attribute("name").unwrap_or_default();
        let count = self.count(element, scope)?;
        let length = self.length(element, scope)?;
        let kind = match element.name {
            "struct" => PropertyType::Struct { first: 0, members: 0 },
            "binary" => PropertyType::Value {
                in_type: if length == Length::Natural { InType::BINARY_TO_END } else { InType::BINARY },
                out_type: OutType::HEX_BINARY,
                map: None,
            },
            _ => self.value(element)?,
        };
        Some(Property { name: name.into(), kind, length, count, tags: 0 })
    }

    fn value(&mut self, element: &Element) -> Option<PropertyType> {
        let Some(written) = element.attribute("inType") else {
            self.problems
                .add(element.at, ProblemKind::Missing { element: element.name, attribute: "inType" });
            return None;
        };
        let found = winmeta::in_type(written);
        if !matches!(found, Some((_, true))) {
            self.problems.unknown(element.at, "inType", written);
        }
        let (in_type, _) = found?;
        let mut out_type = default_out_type(in_type);
        if let Some(written) = element.attribute("outType") {
            match winmeta::out_type(written) {
                Some(found) => out_type = found,
                None => self.problems.unknown(element.at, "outType", written),
            }
        }
        let map = element.attribute("map").and_then(|name| {
            let map = self.maps.get(name).cloned();
            if map.is_none() {
                self.problems.unknown(element.at, "map", name);
            }
            map
        });
        Some(PropertyType::Value { in_type, out_type, map })
    }

    fn length(&mut self, element: &'a Element, scope: usize) -> Option<Length> {
        let Some(written) = element.attribute("length").filter(|text| !text.is_empty()) else {
            return Some(Length::Natural);
        };
        match number::<u16>(written) {
            Some(0) => Some(Length::Natural),
            Some(length) => Some(Length::Fixed(length)),
            None => self.reference(element, "length", written, scope).map(Length::Property),
        }
    }

    fn count(&mut self, element: &'a Element, scope: usize) -> Option<Count> {
        let Some(written) = element.attribute("count").filter(|text| !text.is_empty()) else {
            return Some(Count::One);
        };
        match number::<u16>(written) {
            Some(0) => {
                self.problems.invalid(element, "count", written);
                Some(Count::One)
            }
            Some(count) => Some(Count::Fixed(count)),
            None => self.reference(element, "count", written, scope).map(Count::Property),
        }
    }

    /// Returns the index of an earlier item by name: in the same list, or in an enclosing one before the struct.
    fn reference(
        &mut self,
        element: &Element,
        attribute: &'static str,
        name: &str,
        scope: usize,
    ) -> Option<u16> {
        let (mut scope, mut before) = (scope, usize::MAX);
        while let Some(list) = self.scopes.get(scope) {
            let found = list.names.iter().rev().find(|(known, place)| *known == name && *place < before);
            if let Some((_, place)) = found {
                return u16::try_from(*place).ok();
            }
            let Some((place, around)) = list.owner else { break };
            (before, scope) = (place, around);
        }
        let (element, at) = (element.name, element.at);
        self.problems.add(at, ProblemKind::NotBefore { element, attribute, name: super::cut(name) });
        None
    }
}

/// Returns the out-type of a value without an explicit one, as the message compiler chooses it; `NULL` for in-types that
/// manifests do not have.
///
/// ```
/// use etw_schema::{InType, OutType, manifest};
/// assert_eq!(manifest::default_out_type(InType::GUID), OutType::GUID);
/// ```
pub fn default_out_type(in_type: InType) -> OutType {
    match in_type {
        InType::UNICODE_STRING
        | InType::ANSI_STRING
        | InType::SID
        | InType::COUNTED_UNICODE_STRING
        | InType::COUNTED_ANSI_STRING => OutType::STRING,
        InType::INT8 => OutType::BYTE,
        InType::UINT8 => OutType::UNSIGNED_BYTE,
        InType::INT16 => OutType::SHORT,
        InType::UINT16 => OutType::UNSIGNED_SHORT,
        InType::INT32 => OutType::INT,
        InType::UINT32 => OutType::UNSIGNED_INT,
        InType::INT64 => OutType::LONG,
        InType::UINT64 => OutType::UNSIGNED_LONG,
        InType::FLOAT => OutType::FLOAT,
        InType::DOUBLE => OutType::DOUBLE,
        InType::BOOLEAN => OutType::BOOLEAN,
        InType::BINARY | InType::COUNTED_BINARY => OutType::HEX_BINARY,
        InType::GUID => OutType::GUID,
        InType::POINTER | InType::HEX_INT64 => OutType::HEX_INT64,
        InType::FILETIME | InType::SYSTEMTIME => OutType::DATETIME,
        InType::HEX_INT32 => OutType::HEX_INT32,
        _ => OutType::NULL,
    }
}
