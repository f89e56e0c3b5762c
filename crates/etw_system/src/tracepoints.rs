//! The kernel's tracepoints as events of a provider.
//!
//! A session enables the provider Linux-Tracepoint and selects tracepoints by the names of their events, in which `*` and
//! `?` are wildcards (`EVENT_FILTER_TYPE_EVENT_NAME`). A condition on the events of a name is data for the provider
//! (`EVENT_FILTER_TYPE_SCHEMATIZED`): the name, a zero byte, and the condition in the kernel's filter language.
//!
//! ```
//! use etw_controller::Enable;
//! use etw_system::tracepoints::{TracepointSelection, filters_of, selection_of};
//!
//! let patterns = vec![("sched:*".parse()?, Some("common_pid != 0".to_owned()))];
//! let selection = TracepointSelection { patterns };
//! let enable = Enable { filters: filters_of(&selection), ..Enable::default() };
//! assert_eq!(selection_of(&enable)?, selection);
//! # Ok::<(), String>(())
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use etw_capture::tracepoints::TracepointRings;
use etw_controller::{Enable, Filter};
use etw_etl::encode::provider_traits;
use etw_event::{Keyword, Level};

pub use etw_capture::tracepoints::{
    FieldKind, FieldPlace, SelectedTracepoint, TracepointField, TracepointFormat, TracepointName,
    TracepointPattern, TracepointSelection, Tracepoints,
};
pub use etw_kernel_events::providers::{TRACEPOINT_PROVIDER, TRACEPOINT_PROVIDER_NAME};

/// Size in bytes of each processor's ring of a session.
const RING_BYTES: usize = 4 << 20;

/// The kind of data for a provider (`EVENT_FILTER_TYPE_SCHEMATIZED`, `evntprov.h`).
const SCHEMATIZED: u32 = 0x8000_0000;

/// Systems whose events are the work of the thread in which they occur, so that those of the tracing itself would cause more
/// of them.
const SYSTEMS_OF_THREADS: [&str; 3] = ["syscalls", "raw_syscalls", "exceptions"];

/// The layouts of a session's tracepoints, by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct TracepointLayouts(HashMap<u32, Arc<TracepointLayout>>);

/// How events of a tracepoint are written.
#[derive(Debug)]
pub(crate) struct TracepointLayout {
    pub(crate) format: TracepointFormat,
    pub(crate) metadata: Vec<u8>,
    pub(crate) traits: Vec<u8>,
    /// Whether its events are left out for the processes that do the tracing.
    pub(crate) is_of_thread: bool,
}

/// What becomes of the tracepoints of a session.
pub(crate) enum TracepointChange {
    Keep,
    Replace(Option<TracepointRings>),
}

/// Returns the filters by which an enable request of the provider selects tracepoints.
pub fn filters_of(selection: &TracepointSelection) -> Vec<Filter> {
    let mut names = Vec::new();
    let mut filters = Vec::new();
    for (pattern, condition) in &selection.patterns {
        let name = pattern.to_string();
        let same = || selection.patterns.iter().filter(|(other, _)| other == pattern);
        if let Some(condition) = condition
            && same().all(|(_, condition)| condition.is_some())
        {
            let data = [name.as_bytes(), condition.as_bytes()].join(&0);
            filters.push(Filter::Data { kind: SCHEMATIZED, data });
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let (level, any, all) = (Level::LOG_ALWAYS, Keyword(0), Keyword(0));
    filters.push(Filter::EventNames { include: true, level, any, all, names });
    filters
}

/// Returns the tracepoints that an enable request of the provider selects.
///
/// # Errors
///
/// Fails if it selects none, or if a name or a condition is invalid.
pub fn selection_of(enable: &Enable) -> Result<TracepointSelection, String> {
    let names = enable.filters.iter().filter_map(|filter| match filter {
        Filter::EventNames { include: true, names, .. } => Some(names),
        _ => None,
    });
    let mut conditions = Vec::new();
    for filter in &enable.filters {
        if let Filter::Data { kind: SCHEMATIZED, data } = filter {
            let text = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\0'));
            conditions.push(text.ok_or("a condition of tracepoints is not a name, a zero byte and a text")?);
        }
    }
    let mut patterns = Vec::new();
    for name in names.flatten() {
        let pattern: TracepointPattern = name.parse()?;
        let own = conditions.iter().filter(|(of, _)| of == name);
        let before = patterns.len();
        patterns.extend(own.map(|(_, condition)| (pattern.clone(), Some((*condition).to_owned()))));
        if patterns.len() == before {
            patterns.push((pattern, None));
        }
    }
    if patterns.is_empty() {
        return Err(format!(
            "{TRACEPOINT_PROVIDER_NAME}: no tracepoints are selected; name some, such as tracepoint:sched:sched_switch"
        ));
    }
    Ok(TracepointSelection { patterns })
}

/// Opens the tracepoints of a selection. Returns their rings if there are any, their layouts, and one line for each part
/// that is missing.
pub(crate) fn open(
    selection: &TracepointSelection,
    has_stacks: bool,
) -> (Option<TracepointRings>, TracepointLayouts, Vec<String>) {
    let all = match Tracepoints::of_this_machine() {
        Ok(all) => all,
        Err(error) => return (None, TracepointLayouts::default(), vec![error.to_string()]),
    };
    let (selected, mut missing) = selection.select(&all);
    let opened = selected.iter().filter_map(|one| Some((one, one.event()?)));
    let (selected, events): (Vec<_>, Vec<_>) = opened.map(|(one, event)| (one.clone(), event)).unzip();
    let rings = match TracepointRings::open(&events, RING_BYTES, has_stacks) {
        Ok((rings, failed)) => {
            let named = failed.iter().filter_map(|(at, error)| Some((&selected.get(*at)?.name, error)));
            missing.extend(named.map(|(name, error)| format!("tracepoint:{name}: {error}")));
            Some(rings).filter(|_| failed.len() < events.len())
        }
        Err(error) => {
            missing.push(format!("tracepoints: {error}"));
            None
        }
    };
    (rings, TracepointLayouts::new(&selected), missing)
}

impl TracepointLayouts {
    /// Creates the layouts of tracepoints.
    pub(crate) fn new(tracepoints: &[SelectedTracepoint]) -> TracepointLayouts {
        let layout = |tracepoint: &SelectedTracepoint| {
            (tracepoint.format.id, Arc::new(TracepointLayout::new(tracepoint)))
        };
        TracepointLayouts(tracepoints.iter().map(layout).collect())
    }

    /// Returns the layout of the tracepoint with a number.
    pub(crate) fn get(&self, id: u32) -> Option<&TracepointLayout> {
        self.0.get(&id).map(|layout| &**layout)
    }

    /// Adds those of `others` that it lacks.
    pub(crate) fn add(&mut self, others: &TracepointLayouts) {
        for (id, layout) in &others.0 {
            self.0.entry(*id).or_insert_with(|| layout.clone());
        }
    }
}

impl TracepointLayout {
    fn new(tracepoint: &SelectedTracepoint) -> TracepointLayout {
        TracepointLayout {
            format: tracepoint.format.clone(),
            metadata: tracepoint.format.metadata(&tracepoint.name),
            traits: provider_traits(TRACEPOINT_PROVIDER_NAME),
            is_of_thread: SYSTEMS_OF_THREADS.contains(&&*tracepoint.name.system),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_filters() {
        let check = |patterns: &[(&str, Option<&str>)], expected: &[(&str, Option<&str>)]| {
            let selection = |patterns: &[(&str, Option<&str>)]| TracepointSelection {
                patterns: patterns
                    .iter()
                    .map(|(pattern, condition)| (pattern.parse().unwrap(), condition.map(str::to_owned)))
                    .collect(),
            };
            let enable = Enable { filters: filters_of(&selection(patterns)), ..Enable::default() };
            assert_eq!(selection_of(&enable).unwrap(), selection(expected));
        };
        check(&[("a:b", None)], &[("a:b", None)]);
        check(&[("a:b", Some("x == 1")), ("c", None)], &[("a:b", Some("x == 1")), ("c:*", None)]);
        check(&[("a:b", Some("x")), ("a:b", Some("y"))], &[("a:b", Some("x")), ("a:b", Some("y"))]);
        check(&[("a:b", Some("x")), ("a:b", None)], &[("a:b", None)]);
    }

    #[test]
    fn invalid_selections_are_refused() {
        let names = |names: &[&str]| Filter::EventNames {
            include: true,
            level: Level(0),
            any: Keyword(0),
            all: Keyword(0),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let data = |data: &[u8]| Filter::Data { kind: SCHEMATIZED, data: data.to_vec() };
        let check = |filters: Vec<Filter>, expected: &str| {
            let error = selection_of(&Enable { filters, ..Enable::default() }).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(vec![], "no tracepoints are selected");
        check(vec![names(&["a/b"])], "'a/b' is not a tracepoint");
        check(vec![names(&["a:b"]), data(b"a:b")], "a condition of tracepoints");
        check(vec![names(&["a:b"]), data(b"a:b\0\xff")], "a condition of tracepoints");
    }
}
