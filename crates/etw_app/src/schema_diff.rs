//! What changed in a provider's events between two releases of Windows.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Result, bail};
use openetw::schema::{EventSchema, Property};
use openetw::windows::{Block, Pack, Release};
use serde_json::{Value, json};

use crate::description::{event_label, type_text};

/// A release of Windows as asked for, and the release whose schemas stand for it.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The build that was asked for.
    pub build: u32,
    /// Number of the release in the pack.
    pub number: usize,
    /// The release.
    pub release: &'a Release,
}

impl<'a> Side<'a> {
    /// Finds a release by build or name: the last release that is not later.
    ///
    /// # Errors
    ///
    /// Fails if the text is neither a build nor the name of a release.
    pub fn find(pack: &'a Pack<'_>, text: &str) -> Result<Side<'a>> {
        let found = pack.build_of(text).and_then(|build| {
            let number = pack.nearest_release(build);
            Some(Side { build, number, release: pack.releases().get(number)? })
        });
        let Some(side) = found else {
            let names = pack.releases().iter().map(|release| format!("{} ({})", release.name, release.build));
            let names: Vec<String> = names.collect();
            bail!("unknown release '{text}'; name a build number or one of {}", names.join(", "));
        };
        Ok(side)
    }

    /// Returns the release's name and build, and the build that was asked for if it is another.
    pub fn text(&self) -> String {
        let Release { build, name } = self.release;
        match self.build == *build {
            true => format!("{name} ({build})"),
            false => format!("{name} ({build}, nearest to {})", self.build),
        }
    }

    fn json(&self) -> Value {
        json!({"Name": self.release.name, "Build": self.release.build})
    }
}

/// Id, or opcode of a classic event, and version.
type Key = (u16, u8, u8);

/// The differences of one provider's events.
#[derive(Debug)]
pub struct Differences<'a> {
    block: &'a Block,
    from: Side<'a>,
    to: Side<'a>,
    added: Vec<Added>,
    gone: Vec<EventSchema>,
    changed: Vec<(EventSchema, Fields)>,
}

/// A new event, or a new version of an event.
#[derive(Debug)]
struct Added {
    schema: EventSchema,
    /// The latest version before it in the earlier release, and what differs from it.
    since: Option<(u8, Fields)>,
}

/// Differences between two lists of fields.
#[derive(Debug, Default)]
struct Fields {
    /// Name and type.
    added: Vec<(String, String)>,
    gone: Vec<(String, String)>,
    /// Name, type before and type after.
    changed: Vec<(String, String, String)>,
    /// The fields in both have another order.
    is_reordered: bool,
}

impl<'a> Differences<'a> {
    /// Compares a provider's events in two releases.
    pub fn new(block: &'a Block, from: Side<'a>, to: Side<'a>) -> Differences<'a> {
        let mut before = events(block, from.number);
        let mut differences =
            Differences { block, from, to, added: Vec::new(), gone: Vec::new(), changed: Vec::new() };
        let earlier = before.clone();
        for (key, schema) in events(block, to.number) {
            match before.remove(&key) {
                Some(old) => {
                    let fields = Fields::between(&old, &schema);
                    if !fields.is_empty() {
                        differences.changed.push((schema, fields));
                    }
                }
                None => {
                    let (id, version, opcode) = key;
                    let of_id = |known: &&Key| known.0 == id && (!block.is_class() || known.2 == opcode);
                    let older = earlier.keys().filter(of_id).filter(|known| known.1 < version).max();
                    let since = older
                        .and_then(|known| Some((known.1, Fields::between(earlier.get(known)?, &schema))));
                    differences.added.push(Added { schema, since });
                }
            }
        }
        differences.gone = before.into_values().collect();
        differences
    }

    /// Writes the differences as text.
    ///
    /// # Errors
    ///
    /// Never fails: writing to memory succeeds.
    pub fn put_text(&self, out: &mut Vec<u8>) -> Result<()> {
        let info = self.block.info();
        writeln!(out, "{} {}", info.name, info.guid)?;
        writeln!(out, "  Windows {} to {}", self.from.text(), self.to.text())?;
        if self.added.is_empty() && self.gone.is_empty() && self.changed.is_empty() {
            writeln!(out, "  no difference")?;
        }
        for Added { schema, since } in &self.added {
            writeln!(out, "+ {}", self.title(schema))?;
            match since {
                Some((version, fields)) => {
                    let same = if fields.is_empty() { ": same fields" } else { "" };
                    writeln!(out, "      since version {version}{same}")?;
                    fields.put_text(out)?;
                }
                None => {
                    for (name, kind) in fields(schema) {
                        writeln!(out, "      {name:<24} {kind}")?;
                    }
                }
            }
        }
        for schema in &self.gone {
            writeln!(out, "- {}", self.title(schema))?;
        }
        for (schema, fields) in &self.changed {
            writeln!(out, "~ {}", self.title(schema))?;
            fields.put_text(out)?;
        }
        Ok(())
    }

    /// Returns the differences as JSON.
    pub fn json(&self) -> Value {
        let info = self.block.info();
        let event = |schema: &EventSchema| {
            let mut object = json!({"Version": schema.descriptor.version, "Name": event_label(schema)});
            match self.block.is_class() {
                true => object["Opcode"] = schema.descriptor.opcode.0.into(),
                false => object["EventID"] = schema.descriptor.id.into(),
            }
            object
        };
        let added = self.added.iter().map(|Added { schema, since }| {
            let mut object = event(schema);
            object["Fields"] = pairs(&fields(schema));
            if let Some((version, fields)) = since {
                object["Since"] = json!({"Version": version, "Fields": fields.json()});
            }
            object
        });
        let changed = self.changed.iter().map(|(schema, fields)| {
            let mut object = event(schema);
            object["Fields"] = fields.json();
            object
        });
        json!({
            "Name": &*info.name,
            "Guid": info.guid.to_string(),
            "From": self.from.json(),
            "To": self.to.json(),
            "Added": added.collect::<Vec<Value>>(),
            "Gone": self.gone.iter().map(event).collect::<Vec<Value>>(),
            "Changed": changed.collect::<Vec<Value>>(),
        })
    }

    fn title(&self, schema: &EventSchema) -> String {
        let d = &schema.descriptor;
        let id = match self.block.is_class() {
            true => format!("type {}", d.opcode.0),
            false => d.id.to_string(),
        };
        format!("{id} version {}  {}", d.version, event_label(schema)).trim_end().to_owned()
    }
}

/// Returns the events that a release has.
fn events(block: &Block, release: usize) -> BTreeMap<Key, EventSchema> {
    let layouts = block.layouts().filter(|layout| layout.releases.contains(release));
    layouts
        .map(|layout| {
            let d = &layout.schema.descriptor;
            // The opcode belongs to the identity of classic events only; manifest events may change it.
            let opcode = if block.is_class() { d.opcode.0 } else { 0 };
            ((d.id, d.version, opcode), layout.schema)
        })
        .collect()
}

/// Returns names and types of an event's fields, and of the members of structs as `Struct.Member`.
fn fields(schema: &EventSchema) -> Vec<(String, String)> {
    // A struct may contain itself.
    const MAX_DEPTH: usize = 8;
    fn put(
        schema: &EventSchema,
        list: &[Property],
        prefix: &str,
        depth: usize,
        out: &mut Vec<(String, String)>,
    ) {
        for property in list {
            let name = format!("{prefix}{}", property.name);
            out.push((name.clone(), type_text(schema, property)));
            if let Some(members) = crate::description::members(schema, property)
                && depth < MAX_DEPTH
            {
                put(schema, members, &format!("{name}."), depth + 1, out);
            }
        }
    }
    let mut out = Vec::new();
    let top_level = schema.properties.get(..schema.top_level.into()).unwrap_or_default();
    put(schema, top_level, "", 0, &mut out);
    out
}

/// Whether two types differ in what both state. Lists of fields do not state how values are shown.
fn differ(was: &str, kind: &str) -> bool {
    match (was.split_once(" as "), kind.split_once(" as ")) {
        (Some((was, _)), None) => was != kind,
        (None, Some((kind, _))) => was != kind,
        _ => was != kind,
    }
}

impl Fields {
    fn between(before: &EventSchema, after: &EventSchema) -> Fields {
        let (before, after) = (fields(before), fields(after));
        let has = |list: &[(String, String)], name: &str| list.iter().any(|(known, _)| known == name);
        let only = |list: &[(String, String)], other: &[(String, String)]| {
            list.iter().filter(|(name, _)| !has(other, name)).cloned().collect()
        };
        let common = |list: &[(String, String)], other: &[(String, String)]| -> Vec<(String, String)> {
            list.iter().filter(|(name, _)| has(other, name)).cloned().collect()
        };
        let (old, new) = (common(&before, &after), common(&after, &before));
        let is_reordered = old.iter().map(|(name, _)| name).ne(new.iter().map(|(name, _)| name));
        let changed = new.iter().filter_map(|(name, kind)| {
            let (_, was) = old.iter().find(|(known, _)| known == name)?;
            differ(was, kind).then(|| (name.clone(), was.clone(), kind.clone()))
        });
        Fields {
            changed: changed.collect(),
            added: only(&after, &before),
            gone: only(&before, &after),
            is_reordered,
        }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.gone.is_empty() && self.changed.is_empty() && !self.is_reordered
    }

    fn put_text(&self, out: &mut Vec<u8>) -> Result<()> {
        for (name, kind) in &self.added {
            writeln!(out, "    + {name:<24} {kind}")?;
        }
        for (name, kind) in &self.gone {
            writeln!(out, "    - {name:<24} {kind}")?;
        }
        for (name, was, kind) in &self.changed {
            writeln!(out, "    ~ {name:<24} {was} -> {kind}")?;
        }
        if self.is_reordered {
            writeln!(out, "    the fields have another order")?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let changed =
            self.changed.iter().map(|(name, was, kind)| json!({"Name": name, "From": was, "To": kind}));
        json!({
            "Added": pairs(&self.added),
            "Gone": pairs(&self.gone),
            "Changed": changed.collect::<Vec<Value>>(),
            "Reordered": self.is_reordered,
        })
    }
}

fn pairs(fields: &[(String, String)]) -> Value {
    fields.iter().map(|(name, kind)| json!({"Name": name, "Type": kind})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_out_type_that_only_one_release_states_is_no_change() {
        assert!(!differ("UInt32 as win:ErrorCode", "UInt32"));
        assert!(!differ("UInt32", "UInt32 as xs:unsignedInt"));
        assert!(differ("UInt32 as win:ErrorCode", "UInt32 as xs:unsignedInt"));
        assert!(differ("UInt32 as win:ErrorCode", "UInt64"));
    }
}
