//! Activities: the time between events of a start and a stop, and which of them are part of others.

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, Role, TableId, TableSchema};
use etw_event::{FileTime, Guid, Opcode};

use super::columns::{duration, end_of, id, process, stack, start_of, thread};
use super::seen::Seen;
use crate::maps::HashMap;

pub(super) static ACTIVITIES: TableSchema = TableSchema::new(
    "activities",
    "Activities",
    "One row for each event with the opcode Start, up to the event with the opcode Stop that belongs to it.",
    columns![
        start_of("start_time", "When it started."),
        end_of("stop_time", "When it stopped, if that was during the trace."),
        duration("duration", "Time between the two."),
        Column::row_of("event_kinds", "kind", "Provider and name of the event that started it."),
        process("process", "Process that started it."),
        thread("start_thread", "Thread that started it."),
        thread("stop_thread", "Thread that stopped it."),
        Column::new("activity", ColumnType::Guid, "Activity id, if the events have one."),
        Column::row_of("activities", "parent", "Activity that it is part of."),
        id("depth", "Number of activities that it is part of.").role(Role::Key),
        stack("stack", "Stack of the start."),
    ],
);

const START: Opcode = Opcode(1);
const STOP: Opcode = Opcode(2);
/// Maximum number of activities; further ones are left out.
const MAX_ACTIVITIES: usize = 1 << 22;

/// What a start and its stop have in common: the provider, the task, and the activity or else the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    provider: Guid,
    task: u16,
    /// The kind, for events without a task and without an activity.
    name: u64,
    activity: Option<Guid>,
    thread: Option<u32>,
}

#[derive(Debug)]
struct Activity {
    start: FileTime,
    stop: Option<FileTime>,
    kind: u32,
    process: Option<u32>,
    start_thread: Option<u32>,
    stop_thread: Option<u32>,
    id: Option<Guid>,
    parent: Option<u32>,
    depth: u32,
    stack: Option<u32>,
}

/// The activities of a trace.
#[derive(Debug, Default)]
pub(super) struct Activities {
    all: Vec<Activity>,
    /// Those that have not stopped, the last one last.
    open: HashMap<Key, Vec<u32>>,
    by_thread: HashMap<u32, Vec<u32>>,
    by_id: HashMap<Guid, u32>,
}

impl Activities {
    /// Adds an event.
    pub(super) fn event(&mut self, seen: &Seen<'_, '_>) {
        let record = seen.record();
        let descriptor = record.descriptor();
        if !record.kind().is_event_header() || !matches!(descriptor.opcode, START | STOP) {
            return;
        }
        let id = record.activity_id().filter(|id| *id != Guid::ZERO);
        let has_name = descriptor.task == 0 && id.is_none();
        let key = Key {
            provider: record.provider_id(),
            task: descriptor.task,
            name: if has_name { name(seen) } else { 0 },
            activity: id,
            thread: seen.thread.filter(|_| id.is_none()),
        };
        if descriptor.opcode == START {
            self.start(key, seen);
        } else {
            self.stop(key, seen);
        }
    }

    fn start(&mut self, key: Key, seen: &Seen<'_, '_>) {
        if self.all.len() >= MAX_ACTIVITIES {
            return;
        }
        let number = self.all.len() as u32;
        let related = seen.record().related_activity_id().and_then(|id| self.by_id.get(&id)).copied();
        let on_thread = || self.by_thread.get(&seen.thread?)?.last().copied();
        let parent = related.or_else(on_thread);
        let depth = parent.map_or(0, |parent| self.all[parent as usize].depth.saturating_add(1));
        self.all.push(Activity {
            start: seen.record().time(),
            stop: None,
            kind: seen.kind,
            process: seen.process,
            start_thread: seen.thread,
            stop_thread: None,
            id: key.activity,
            parent,
            depth,
            stack: seen.stack,
        });
        self.open.entry(key).or_default().push(number);
        if let Some(thread) = seen.thread {
            self.by_thread.entry(thread).or_default().push(number);
        }
        if let Some(id) = key.activity {
            self.by_id.insert(id, number);
        }
    }

    fn stop(&mut self, key: Key, seen: &Seen<'_, '_>) {
        let Some(open) = self.open.get_mut(&key) else { return };
        let Some(number) = open.pop() else { return };
        if open.is_empty() {
            self.open.remove(&key);
        }
        let activity = &mut self.all[number as usize];
        activity.stop = Some(seen.record().time());
        activity.stop_thread = seen.thread;
        if let Some(thread) = activity.start_thread
            && let Some(open) = self.by_thread.get_mut(&thread)
        {
            // Usually the last one.
            if let Some(place) = open.iter().rposition(|other| *other == number) {
                open.remove(place);
            }
        }
        if let Some(id) = key.activity
            && self.by_id.get(&id) == Some(&number)
        {
            self.by_id.remove(&id);
        }
    }

    /// Writes the activities in the order of their starts.
    pub(super) fn write(&self, table: TableId, writer: &mut IndexWriter) -> Result<(), ColumnsError> {
        for activity in &self.all {
            let mut row = writer.row(table)?;
            row.time(0, activity.start).code(3, activity.kind).u32(9, activity.depth);
            if let Some(stop) = activity.stop {
                row.time(1, stop).duration(2, stop.0.saturating_sub(activity.start.0).saturating_mul(100));
            }
            if let Some(id) = activity.id {
                row.guid(7, id);
            }
            let codes = [
                (4, activity.process),
                (5, activity.start_thread),
                (6, activity.stop_thread),
                (8, activity.parent),
                (10, activity.stack),
            ];
            for (column, code) in codes {
                if let Some(code) = code {
                    row.code(column, code);
                }
            }
            row.end()?;
        }
        Ok(())
    }
}

/// Returns a number for the name of an event without `Start` or `Stop` at its end.
fn name(seen: &Seen<'_, '_>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let name = seen.event.names().event();
    let name = name.strip_suffix("Start").or_else(|| name.strip_suffix("Stop")).unwrap_or(&name);
    let mut hasher = DefaultHasher::new();
    name.trim_end_matches('/').hash(&mut hasher);
    hasher.finish()
}
