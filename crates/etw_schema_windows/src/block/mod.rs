//! One provider of a pack: its names, and each layout of each of its events.
//!
//! A block holds, as LEB128 numbers: its strings; the provider's names; value maps; lists of keyword names; lists of
//! properties; and the events' columns, sorted by id, version, opcode and first release. Equal lists are kept once.
//! Only the columns are read when a block is opened. An event's schema is made when it is asked for.

mod read;
mod write;

use std::ops::Range;
use std::sync::Arc;

use etw_event::{EventDescriptor, Opcode};
use etw_schema::{
    EventSchema, Found, InType, Inference, Inferred, OtherLayouts, PropertyType, ProviderInfo, ValueMap,
};

use crate::release::{self, Release, Releases};

/// One layout of an event, and the releases that have it.
#[derive(Debug, Clone, PartialEq)]
pub struct EventLayout {
    /// The schema.
    pub schema: EventSchema,
    /// The releases with this layout.
    pub releases: Releases,
}

/// A provider of a pack.
#[derive(Debug)]
pub struct Block {
    bytes: Arc<[u8]>,
    strings: Vec<Range<u32>>,
    info: Arc<ProviderInfo>,
    maps: Vec<Arc<ValueMap>>,
    /// Offsets of the lists of properties.
    templates: Vec<u32>,
    keyword_lists: Vec<Vec<u32>>,
    rows: Vec<Row>,
    builds: Vec<u32>,
}

/// One layout. Templates and keyword lists are given by number, names by number plus 1; 0 means no name.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    descriptor: EventDescriptor,
    releases: Releases,
    template: u32,
    keywords: u32,
    name: u32,
    task: u32,
    opcode: u32,
    level: u32,
    channel: u32,
    inferred: Option<Inferred>,
}

impl Block {
    /// Returns the provider's names.
    pub fn info(&self) -> &Arc<ProviderInfo> {
        &self.info
    }

    /// Returns whether this is a class of classic events rather than a provider.
    pub fn is_class(&self) -> bool {
        self.info.class_of.is_some()
    }

    /// Returns the number of layouts.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether no event of the provider is known.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns every layout, sorted by id, version, opcode and first release.
    pub fn layouts(&self) -> impl Iterator<Item = EventLayout> {
        self.rows.iter().map(|row| EventLayout { schema: self.schema(row), releases: row.releases })
    }

    /// Returns each event as a build has it, or the nearest release. 0 is the latest.
    pub fn events_of_build(&self, build: u32) -> impl Iterator<Item = EventSchema> {
        let key = |row: &Row| (row.descriptor.id, row.descriptor.version, row.descriptor.opcode);
        self.rows
            .chunk_by(move |a, b| key(a) == key(b))
            .filter_map(move |layouts| self.nearest(layouts, build))
            .map(|row| self.schema(row))
    }

    /// Finds a manifest event as a build has it, or the nearest release; 0 is the latest. If the version is unknown,
    /// the nearest version before it is taken, with all its properties inferred.
    pub fn event(&self, id: u16, version: u8, build: u32) -> Found {
        let from = self.rows.partition_point(|row| row.descriptor.id < id);
        let to = self.rows.partition_point(|row| row.descriptor.id <= id);
        let of_id = self.rows.get(from..to).unwrap_or_default();
        let before = of_id.partition_point(|row| row.descriptor.version <= version);
        let known = of_id.get(..before).unwrap_or_default();
        let Some(nearest) = known.last().map(|row| row.descriptor.version) else {
            return Found::NoEvent { other_versions: !of_id.is_empty() };
        };
        let first = known.partition_point(|row| row.descriptor.version < nearest);
        let Some(row) = self.nearest(known.get(first..).unwrap_or_default(), build) else {
            return Found::NoEvent { other_versions: true };
        };
        Found::Event(Arc::new(self.schema_as(row, version)))
    }

    /// Returns the schema of a layout for a version of its event.
    fn schema_as(&self, row: &Row, version: u8) -> EventSchema {
        let mut schema = self.schema(row);
        let known = row.descriptor.version;
        if known != version {
            schema.descriptor.version = version;
            schema.inferred = Some(Inferred { from: 0, what: Inference::Version(known) });
            // Every payload ends where its rest ends, so that this would prove nothing.
            for property in &mut schema.properties {
                if let PropertyType::Value { in_type: in_type @ InType::BINARY_TO_END, .. } =
                    &mut property.kind
                {
                    *in_type = InType::UNKNOWN_EXTENT;
                }
            }
        }
        schema
    }

    /// Returns the other layouts of an event, nearest to a build first, and whether the build has the event as it is,
    /// if it is one of this provider's.
    pub(crate) fn other_layouts(&self, event: &EventSchema, build: u32) -> OtherLayouts {
        let descriptor = &event.descriptor;
        let version = match event.inferred {
            Some(Inferred { what: Inference::Version(known), .. }) => known,
            _ => descriptor.version,
        };
        let opcode = if self.is_class() { descriptor.opcode } else { Opcode(0) };
        let key = |row: &Row| {
            let opcode = if self.is_class() { row.descriptor.opcode } else { Opcode(0) };
            (row.descriptor.id, row.descriptor.version, opcode)
        };
        let wanted = (descriptor.id, version, opcode);
        let from = self.rows.partition_point(|row| key(row) < wanted);
        let to = self.rows.partition_point(|row| key(row) <= wanted);
        let mut rows: Vec<&Row> = self.rows.get(from..to).unwrap_or_default().iter().collect();
        let number = self.number(build);
        rows.sort_by_key(|row| row.releases.distance(number));
        // Only the first one, the nearest, is what `event` and `events_of_build` return.
        let is_own = Arc::ptr_eq(&event.provider, &self.info);
        let is_certain = match rows.first() {
            Some(nearest) if is_own => {
                let same = release::same_layouts(build);
                nearest
                    .releases
                    .numbers()
                    .any(|number| self.builds.get(number).is_some_and(|it| same.contains(it)))
            }
            _ => true,
        };
        let others = rows.iter().skip(usize::from(is_own));
        let layouts = others.map(|row| Arc::new(self.schema_as(row, descriptor.version))).collect();
        OtherLayouts { layouts, is_certain: is_certain || rows.len() < 2 }
    }

    /// Returns the number of the release with a build, or of the nearest one; 0 is the latest.
    fn number(&self, build: u32) -> usize {
        match build {
            0 => self.builds.len().saturating_sub(1),
            build => release::nearest(self.builds.iter().copied(), build),
        }
    }

    fn nearest<'r>(&self, layouts: &'r [Row], build: u32) -> Option<&'r Row> {
        let number = self.number(build);
        layouts.iter().min_by_key(|row| row.releases.distance(number))
    }
}

/// Returns the build numbers of releases.
fn builds(releases: &[Release]) -> Vec<u32> {
    releases.iter().map(|release| release.build).collect()
}
