//! What the collections say of each provider, brought together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use etw_schema_windows::{EventLayout, Releases};
use openetw::schema::{
    Decoding, EventSchema, InType, Inferred, Property, PropertyType, Provider, ProviderInfo,
};
use openetw::{EventDescriptor, Guid, Keyword, Level, Opcode};

use super::tsv::Row;
use super::{doubt, lengths};

/// All providers.
#[derive(Default)]
pub(super) struct Collected {
    providers: BTreeMap<Guid, Gathered>,
    /// GUIDs by name; the last one is the newest.
    guids: HashMap<String, Vec<Guid>>,
    /// Names that several providers have.
    shared: HashMap<Guid, String>,
    nameless: BTreeSet<String>,
    pub(super) notes: Vec<String>,
}

/// One provider or class.
struct Gathered {
    info: ProviderInfo,
    origins: BTreeSet<String>,
    /// The layouts of each event, by id, version and, for classes, opcode.
    events: BTreeMap<(u16, u8, u8), Vec<Candidate>>,
}

/// One layout of an event.
struct Candidate {
    schema: EventSchema,
    releases: Releases,
    /// Whether the source states lengths and counts.
    is_stated: bool,
}

/// Names and types of the top-level properties.
type Signature = Vec<(String, u16)>;

impl Collected {
    /// Adds a name to those by which tables find a GUID.
    pub(super) fn name(&mut self, name: &str, guid: Guid) {
        let known = self.guids.entry(name.to_owned()).or_default();
        known.retain(|other| *other != guid);
        known.push(guid);
    }

    /// Adds a provider as a manifest describes it: one published by its authors, or one exported from a release.
    pub(super) fn add(&mut self, provider: Provider, release: Option<usize>, origin: &str) {
        let guid = provider.info.guid;
        self.name(&provider.info.name, guid);
        let gathered = self.providers.entry(guid).or_insert_with(|| Gathered::new(&provider.info));
        gathered.origins.insert(origin.to_owned());
        gathered.add_names(&provider.info);
        for event in provider.events {
            let mut schema = Arc::unwrap_or_clone(event);
            schema.message = None;
            if release.is_some() {
                let inferred = doubt::mark(&mut schema.properties);
                lengths::complete_binary(&mut schema.properties);
                schema.inferred = inferred;
                drop_made_up_names(&mut schema);
            }
            gathered.add_layout(schema, release, true);
        }
    }

    /// Adds the rows of a list of fields.
    pub(super) fn add_rows(&mut self, rows: Vec<Row>, release: usize) {
        for row in rows {
            // Of several providers with one name, the tables add the GUID to the name.
            if let Some((name, digits)) = row.provider.rsplit_once('_')
                && digits.len() == 32
                && let Ok(number) = u128::from_str_radix(digits, 16)
            {
                let name = name.to_owned();
                self.name(&row.provider, Guid::from_u128(number));
                self.shared.insert(Guid::from_u128(number), name);
            }
            let guids = self.guids.get(&row.provider);
            let (guid, owner) = match &row.category {
                Some(class) => (class.parse().ok(), guids.and_then(|guids| guids.last().copied())),
                None => (guids.and_then(|guids| guids.last().copied()), None),
            };
            let Some(guid) = guid else {
                self.nameless.insert(row.provider);
                continue;
            };
            let gathered = self.providers.entry(guid).or_insert_with(|| {
                let name = self.shared.get(&guid).unwrap_or(&row.provider);
                let mut info = ProviderInfo::new(guid, name, Decoding::BuiltIn, "");
                if row.category.is_some() {
                    info.name = class_name(&row.name).into();
                    info.class_of = Some((owner.unwrap_or(Guid::ZERO), row.provider.as_str().into()));
                }
                Gathered::new(&info)
            });
            gathered.origins.insert("lists of fields".to_owned());
            gathered.add_row(row, release);
        }
    }

    /// Removes a provider.
    pub(super) fn remove(&mut self, guid: &Guid) {
        self.providers.remove(guid);
    }

    /// Returns the providers with the layouts that are known, as the pack has them.
    pub(super) fn finish(self) -> Vec<(Arc<ProviderInfo>, Vec<EventLayout>)> {
        for name in &self.nameless {
            eprintln!("no GUID is known: {name}");
        }
        self.providers.into_values().map(Gathered::finish).collect()
    }
}

impl Gathered {
    fn new(info: &ProviderInfo) -> Gathered {
        let mut empty = ProviderInfo::new(info.guid, &info.name, Decoding::BuiltIn, "");
        empty.class_of = info.class_of.clone();
        Gathered { info: empty, origins: BTreeSet::new(), events: BTreeMap::new() }
    }

    /// Adds the names of a newer description.
    fn add_names(&mut self, newer: &ProviderInfo) {
        fn join<T: Clone, K: PartialEq>(known: &mut Vec<T>, newer: &[T], key: impl Fn(&T) -> K) {
            known.retain(|old| newer.iter().all(|new| key(new) != key(old)));
            known.extend(newer.iter().cloned());
        }
        let info = &mut self.info;
        info.name = newer.name.clone();
        join(&mut info.channels, &newer.channels, |channel| channel.value);
        join(&mut info.levels, &newer.levels, |level| level.value);
        join(&mut info.tasks, &newer.tasks, |task| task.value);
        join(&mut info.opcodes, &newer.opcodes, |opcode| (opcode.value, opcode.task));
        join(&mut info.keywords, &newer.keywords, |keyword| keyword.mask);
        join(&mut info.maps, &newer.maps, |map| map.name.clone());
        info.channels.iter_mut().for_each(|channel| channel.message = None);
        info.levels.iter_mut().for_each(|level| level.message = None);
        info.tasks.iter_mut().for_each(|task| task.message = None);
        info.opcodes.iter_mut().for_each(|opcode| opcode.message = None);
        info.keywords.iter_mut().for_each(|keyword| keyword.message = None);
        info.tasks.retain(|task| !is_made_up("task_", &task.name));
        info.opcodes.retain(|opcode| !is_made_up("opcode_", &opcode.name));
        info.keywords.retain(|keyword| !is_made_up("keyword_", &keyword.name));
    }

    /// Adds a layout, or the release to the one that is equal.
    fn add_layout(&mut self, schema: EventSchema, release: Option<usize>, is_stated: bool) {
        let descriptor = schema.descriptor;
        let opcode = if self.info.class_of.is_some() { descriptor.opcode.0 } else { 0 };
        let candidates = self.events.entry((descriptor.id, descriptor.version, opcode)).or_default();
        let place = match candidates.iter().position(|known| is_same(&known.schema, &schema)) {
            Some(place) => place,
            None => {
                candidates.push(Candidate {
                    schema: schema.clone(),
                    releases: Releases::default(),
                    is_stated,
                });
                candidates.len() - 1
            }
        };
        let Some(known) = candidates.get_mut(place) else { return };
        release.into_iter().for_each(|release| known.releases.add(release));
        // The newer source has the newer names; a list of fields lacks what manifests say of properties.
        let older = std::mem::replace(&mut known.schema, schema);
        if known.is_stated && (!is_stated || has_structs(&older)) {
            known.schema.properties = older.properties;
            known.schema.top_level = older.top_level;
            known.schema.inferred = older.inferred;
        }
        known.is_stated |= is_stated;
        if !is_stated {
            known.schema.descriptor = merge(&older.descriptor, &known.schema.descriptor);
            known.schema.channel_name = older.channel_name;
        }
    }

    fn add_row(&mut self, row: Row, release: usize) {
        let mut schema = EventSchema::new(Arc::new(self.info.clone()), EventDescriptor::default());
        schema.descriptor.id = row.id;
        schema.descriptor.version = row.version;
        schema.top_level = row.fields.len() as u16;
        schema.properties = row.fields;
        schema.name = Some(row.name.into());
        if row.category.is_some() {
            schema.descriptor.id = 0;
            schema.descriptor.opcode = Opcode(row.id as u8);
            schema.task_name = Some(self.info.name.clone());
        } else {
            let named = |name: &str| (!name.is_empty()).then(|| name.into());
            schema.task_name = named(&row.task);
            schema.opcode_name = named(&row.opcode);
            schema.descriptor.task =
                self.info.tasks.iter().find(|task| *task.name == *row.task).map_or(0, |task| task.value);
            if let Some(level) = level(&row.level) {
                schema.descriptor.level = level;
                schema.level_name = level.standard_name().map(Arc::from);
            }
            schema.descriptor.opcode = self.opcode(&row.opcode);
            for name in row.keywords {
                let known = self.info.keywords.iter().find(|keyword| *keyword.name == *name);
                schema.descriptor.keyword.0 |= known.map_or(0, |keyword| keyword.mask);
                if !is_made_up("keyword_", &name) {
                    schema.keyword_names.push(name.into());
                }
            }
        }
        drop_made_up_names(&mut schema);
        self.add_layout(schema, Some(release), false);
    }

    fn opcode(&self, name: &str) -> Opcode {
        let known = self.info.opcodes.iter().find(|opcode| *opcode.name == *name).map(|opcode| opcode.value);
        let numbered = || name.strip_prefix("opcode_")?.parse().ok();
        let standard = || (0..=240).find(|value| Opcode(*value).standard_name() == Some(name));
        Opcode(known.or_else(numbered).or_else(standard).unwrap_or(0))
    }

    fn finish(mut self) -> (Arc<ProviderInfo>, Vec<EventLayout>) {
        self.info.origin = self.origins.iter().map(String::as_str).collect::<Vec<_>>().join(", ").into();
        let info = Arc::new(self.info);
        let mut donors: HashMap<Signature, (Vec<Property>, u16, Option<Inferred>)> = HashMap::new();
        for candidate in self.events.values().flatten().filter(|candidate| candidate.is_stated) {
            let schema = &candidate.schema;
            let stated = (schema.properties.clone(), schema.top_level, schema.inferred);
            donors.entry(signature(schema)).or_insert(stated);
        }
        let mut layouts = Vec::new();
        for candidate in self.events.into_values().flatten() {
            let mut schema = candidate.schema;
            schema.provider = info.clone();
            schema.decoding = Decoding::BuiltIn;
            if !candidate.is_stated {
                match donors.get(&signature(&schema)) {
                    Some((properties, top_level, inferred)) => {
                        schema.properties = properties.clone();
                        schema.top_level = *top_level;
                        schema.inferred = *inferred;
                    }
                    None => {
                        let doubted = doubt::mark(&mut schema.properties);
                        let derived = lengths::derive(&mut schema.properties);
                        schema.inferred = [doubted, derived].into_iter().flatten().min_by_key(|it| it.from);
                    }
                }
            }
            if schema.inferred.is_some() {
                lengths::close(&mut schema.properties);
            }
            layouts.push(EventLayout { schema, releases: candidate.releases });
        }
        (info, layouts)
    }
}

/// Returns whether two descriptions are of one layout: equal names and types, where a struct equals the value as which
/// exports show it.
fn is_same(a: &EventSchema, b: &EventSchema) -> bool {
    let top = |schema: &EventSchema| usize::from(schema.top_level).min(schema.properties.len());
    let (a, b) = (a.properties.get(..top(a)), b.properties.get(..top(b)));
    let (Some(a), Some(b)) = (a, b) else { return false };
    let kind = |property: &Property| match property.kind {
        PropertyType::Value {
            in_type: InType::UNKNOWN_EXTENT | InType::UNKNOWN_STRING | InType::BINARY_TO_END,
            ..
        } => None,
        PropertyType::Value { in_type, .. } => Some(in_type),
        PropertyType::Struct { .. } => None,
    };
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let same_type = match (kind(a), kind(b)) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            };
            same_type && a.name.eq_ignore_ascii_case(&b.name)
        })
}

fn has_structs(schema: &EventSchema) -> bool {
    schema.properties.len() > usize::from(schema.top_level)
}

fn signature(schema: &EventSchema) -> Signature {
    let top = schema.properties.iter().take(schema.top_level.into());
    top.map(|property| {
        let number = match property.kind {
            PropertyType::Value { in_type, .. } => in_type.0,
            PropertyType::Struct { .. } => InType::STRUCT.0,
        };
        (property.name.to_ascii_lowercase(), number)
    })
    .collect()
}

/// Returns a descriptor with what a list of fields says, completed by what a manifest says.
fn merge(stated: &EventDescriptor, listed: &EventDescriptor) -> EventDescriptor {
    EventDescriptor {
        channel: stated.channel,
        task: if listed.task == 0 { stated.task } else { listed.task },
        opcode: if listed.opcode.0 == 0 { stated.opcode } else { listed.opcode },
        keyword: Keyword(listed.keyword.0 | stated.keyword.0),
        ..*listed
    }
}

fn level(name: &str) -> Option<Level> {
    let value = match name {
        "Always" => 0,
        "Critical" => 1,
        "Error" => 2,
        "Warning" => 3,
        "Informational" => 4,
        "Verbose" => 5,
        _ => return None,
    };
    Some(Level(value))
}

/// Removes the names that the exporter makes where the provider has none: `task_0`, `opcode_192`.
fn drop_made_up_names(schema: &mut EventSchema) {
    let is_task = |name: &Arc<str>| is_made_up("task_", name);
    if schema.task_name.as_ref().is_some_and(is_task) {
        schema.task_name = None;
        // The symbol is made from the task's name, the opcode's and the id.
        schema.name = None;
    }
    if schema.opcode_name.as_ref().is_some_and(|name| is_made_up("opcode_", name)) {
        schema.opcode_name = None;
    }
    schema.keyword_names.retain(|name| !is_made_up("keyword_", name));
}

fn is_made_up(prefix: &str, name: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Returns the name of a class from that of one of its types: `AMLIEvalData1_TypeGroup1`.
fn class_name(of_type: &str) -> &str {
    of_type.split("_TypeGroup").next().unwrap_or(of_type)
}
