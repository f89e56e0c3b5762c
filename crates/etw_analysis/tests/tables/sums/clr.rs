//! Garbage collections, and activities.

use std::collections::HashMap;

use etw_event::{Guid, Opcode};

use super::said::{CLR, Expected, Part, Said, nanos};

/// Reasons of suspensions: for a collection, and for its preparation.
const FOR_COLLECTIONS: [i128; 2] = [1, 6];
const BACKGROUND: i128 = 1;

#[derive(Default)]
struct Runtime {
    collections: Vec<Collection>,
    suspension: Option<Suspension>,
}

struct Collection {
    number: i128,
    is_background: bool,
    start: i64,
    end: Option<i64>,
    end_thread: i128,
    has_stats: bool,
}

struct Suspension {
    thread: i128,
    begin: i64,
    /// Number of collections before it.
    collections: usize,
}

/// Collections by process and number of the runtime.
#[derive(Default)]
pub(super) struct Collections {
    runtimes: HashMap<(i128, i128), Runtime>,
}

impl Part for Collections {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let (CLR, id @ (1..=4 | 9)) = said.kind() else { return };
        let (process, thread, time) = (said.process(), said.thread(), said.time());
        let key = (process, said.number(&["ClrInstanceID"]).unwrap_or(0));
        let Runtime { collections, suspension } = self.runtimes.entry(key).or_default();
        let count = said.number(&["Count"]);
        let open = |collections: &mut Vec<Collection>, is: &dyn Fn(&Collection) -> bool| {
            collections.iter().rposition(is)
        };
        match (id, count) {
            (9, _) if said.number(&["Reason"]).is_some_and(|reason| FOR_COLLECTIONS.contains(&reason)) => {
                *suspension = Some(Suspension { thread, begin: time, collections: collections.len() });
            }
            // Runtimes may log the start in two versions.
            (1, Some(number)) if collections.last().is_none_or(|last| last.number != number) => {
                let is_background = said.number(&["Type"]) == Some(BACKGROUND);
                let (end, end_thread, has_stats) = (None, -1, false);
                collections.push(Collection {
                    number,
                    is_background,
                    start: time,
                    end,
                    end_thread,
                    has_stats,
                });
                expected.row("gc");
                expected.add("gc", "number", number);
            }
            (2, Some(number)) => {
                let of_number = |other: &Collection| other.number == number && other.end.is_none();
                if let Some(place) = open(collections, &of_number) {
                    let ended = &mut collections[place];
                    (ended.end, ended.end_thread) = (Some(time), thread);
                    expected.add("gc", "duration", nanos(time - ended.start));
                }
            }
            (3, _) => {
                let Some(ended) = suspension.take_if(|suspension| suspension.thread == thread) else {
                    return;
                };
                // A pause without a collection is one of the background collection.
                let is_open = |other: &Collection| other.is_background && other.end.is_none();
                if collections.len() > ended.collections || open(collections, &is_open).is_some() {
                    expected.add("gc", "pause", nanos(time - ended.begin));
                }
            }
            (4, _) => {
                let Some(place) = open(collections, &|other| other.end_thread == thread) else { return };
                if !std::mem::replace(&mut collections[place].has_stats, true) {
                    for number in 0..5 {
                        let get = |name: &str| said.number(&[&format!("{name}{number}")]).unwrap_or(0);
                        expected.add("gc", "size_after", get("GenerationSize"));
                        expected.add("gc", "promoted", get("TotalPromotedSize"));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Provider, task, activity or else thread, and the name of events without a task and an activity.
type Key = (Guid, u16, Option<Guid>, i128, String);

/// The starts without a stop, the last one last.
#[derive(Default)]
pub(super) struct Activities {
    open: HashMap<Key, Vec<i64>>,
}

impl Part for Activities {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let (record, descriptor) = (said.0.record, said.0.record.descriptor());
        if !record.kind().is_event_header() || !matches!(descriptor.opcode, Opcode(1 | 2)) {
            return;
        }
        let id = record.activity_id().filter(|id| *id != Guid::ZERO);
        let thread = if id.is_none() { said.thread() } else { 0 };
        let mut name = String::new();
        if descriptor.task == 0 && id.is_none() {
            let whole = said.0.names().event();
            let rest = whole.strip_suffix("Start").or(whole.strip_suffix("Stop")).unwrap_or(&whole);
            name = rest.trim_end_matches('/').to_owned();
        }
        let open = self.open.entry((record.provider_id(), descriptor.task, id, thread, name)).or_default();
        if descriptor.opcode == Opcode(1) {
            expected.row("activities");
            open.push(said.time());
        } else if let Some(start) = open.pop() {
            expected.add("activities", "duration", nanos(said.time() - start));
        }
    }
}
