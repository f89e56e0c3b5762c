//! Filters of a session besides level and keywords.

mod fields;
mod predicate;

use std::sync::atomic::AtomicU64;

use etw_event::{EventDescriptor, Keyword, Level, passes};
use etw_protocol::Filter;
use etw_sys::AtomicRef;

use crate::extras::STACK_TRACE;
use crate::payload::{Payload, PayloadWriter};
pub use predicate::PayloadCondition;

/// Bytes at the start of a payload in which conditions find their fields.
const LOOKED_AT: usize = 4096;

/// The events of a provider that a session excludes, or wants stacks of.
///
/// Checking an event takes no lock and uses only stack memory.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    /// The filters from which these were compiled.
    source: Vec<Filter>,
    ids: Vec<Ids>,
    names: Vec<Names>,
    conditions: Vec<PayloadCondition>,
    stack_ids: Vec<Ids>,
    stack_names: Vec<Names>,
    stack_levels: Vec<(bool, Levels)>,
    /// The previously created filters.
    next: AtomicRef<Filters>,
}

#[derive(Debug)]
struct Ids {
    include: bool,
    /// Sorted.
    ids: Vec<u16>,
}

#[derive(Debug)]
struct Names {
    include: bool,
    /// Levels to which these apply; events of other levels pass.
    levels: Levels,
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Levels {
    level: Level,
    any: Keyword,
    all: Keyword,
}

/// The parts of an event, apart from its payload, that filters check.
pub(crate) struct Subject<'a> {
    pub(crate) descriptor: &'a EventDescriptor,
    pub(crate) name: Option<&'a str>,
}

/// All filters ever created. They are never freed, since a writer may be using them; equal ones are shared.
static MADE: AtomicRef<Filters> = AtomicRef::none();

impl Filters {
    /// Returns the filters that the provider's process evaluates; `None` without any.
    pub(crate) fn intern(filters: &[Filter]) -> Option<&'static Filters> {
        let is_ours = |filter: &&Filter| {
            !matches!(filter, Filter::Pids(_) | Filter::ExecutableNames(_) | Filter::Data { .. })
        };
        let source: Vec<Filter> = filters.iter().filter(is_ours).cloned().collect();
        if source.is_empty() {
            return None;
        }
        let mut made = MADE.load();
        while let Some(present) = made {
            if present.source == source {
                return Some(present);
            }
            made = present.next.load();
        }
        let new = Box::leak(Box::new(Filters::new(source)));
        loop {
            let first = MADE.load();
            new.next.store(first);
            if MADE.replace(first, Some(new)) {
                return Some(new);
            }
        }
    }

    fn new(source: Vec<Filter>) -> Filters {
        let mut filters = Filters::default();
        let every = Levels { level: Level(0), any: Keyword(0), all: Keyword(0) };
        for filter in &source {
            filters.conditions.extend(PayloadCondition::new(filter));
            match filter.clone() {
                Filter::EventIds { include, ids } => filters.ids.push(Ids::new(include, ids)),
                Filter::EventNames { include, level, any, all, names } => {
                    filters.names.push(Names { include, levels: Levels { level, any, all }, names });
                }
                Filter::StackWalkIds { include, ids } => filters.stack_ids.push(Ids::new(include, ids)),
                Filter::StackWalkNames { include, names } => {
                    filters.stack_names.push(Names { include, levels: every, names });
                }
                Filter::StackWalkLevelKeyword { include, level, any, all } => {
                    filters.stack_levels.push((include, Levels { level, any, all }));
                }
                _ => {}
            }
        }
        Filters { source, ..filters }
    }

    /// Returns the properties that request extended items of this event; `None` if the session does not want it.
    pub(crate) fn look<P: Payload + ?Sized>(
        &self,
        subject: &Subject<'_>,
        schema: &[u64],
        properties: u32,
        payload: &P,
    ) -> Option<u32> {
        let descriptor = subject.descriptor;
        // Ids of TraceLogging events are meaningless.
        let ids_pass = subject.name.is_some() || self.ids.iter().all(|ids| ids.select(descriptor.id));
        let names_pass = self.names.iter().all(|names| {
            !names.levels.pass(descriptor) || subject.name.is_none_or(|name| names.select(name))
        });
        if !ids_pass || !names_pass || !self.conditions_pass(subject, schema, payload) {
            return None;
        }
        if self.stack_ids.is_empty() && self.stack_names.is_empty() && self.stack_levels.is_empty() {
            return Some(properties);
        }
        let has_stack =
            match subject.name {
                None => self.stack_ids.iter().any(|ids| ids.select(descriptor.id)),
                Some(name) => self.stack_names.iter().any(|names| names.select(name)),
            } || self.stack_levels.iter().any(|(include, levels)| levels.pass(descriptor) == *include);
        Some(if has_stack { properties | STACK_TRACE } else { properties & !STACK_TRACE })
    }

    /// Checks the conditions. They need field names, which TraceLogging events have, and others by the layouts of a
    /// condition; without these they pass.
    fn conditions_pass<P: Payload + ?Sized>(
        &self,
        subject: &Subject<'_>,
        schema: &[u64],
        payload: &P,
    ) -> bool {
        let is_checked = |condition: &PayloadCondition| !schema.is_empty() || condition.has_layouts();
        if !self.conditions.iter().any(is_checked) {
            return true;
        }
        let words = [const { AtomicU64::new(0) }; LOOKED_AT / 8];
        let mut writer = PayloadWriter::new(&words);
        payload.put(&mut writer);
        writer.finish();
        let mut bytes = [0; LOOKED_AT];
        let (chunks, _) = bytes.as_chunks_mut::<8>();
        for (chunk, word) in chunks.iter_mut().zip(&words) {
            *chunk = word.load(std::sync::atomic::Ordering::Relaxed).to_le_bytes();
        }
        let bytes = bytes.get(..payload.len_bytes().min(LOOKED_AT)).unwrap_or_default();
        self.conditions.iter().all(|condition| condition.passes_with(subject.descriptor, schema, bytes))
    }
}

/// Returns the filter data meant for the provider's own code.
pub(crate) fn filter_data(filters: Vec<Filter>) -> Vec<(u32, Vec<u8>)> {
    let data = |filter| if let Filter::Data { kind, data } = filter { Some((kind, data)) } else { None };
    filters.into_iter().filter_map(data).collect()
}

impl Ids {
    fn new(include: bool, mut ids: Vec<u16>) -> Ids {
        ids.sort_unstable();
        Ids { include, ids }
    }

    fn select(&self, id: u16) -> bool {
        self.ids.binary_search(&id).is_ok() == self.include
    }
}

impl Names {
    fn select(&self, name: &str) -> bool {
        self.names.iter().any(|other| other == name) == self.include
    }
}

impl Levels {
    fn pass(self, descriptor: &EventDescriptor) -> bool {
        passes(descriptor, self.level, self.any, self.all)
    }
}
