//! Activities: the time between events of a start and a stop, and which of them are part of others.

use etw_event::{FileTime, Guid, Opcode};
use etw_machine::{HashMap, ProcessIndex, ThreadIndex};

use super::columns::{
    Activity as ActivityRef, End, EventKind, GuidValue, Level, Process, Span, Stack, Start, Thread,
};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::table;

table! {
    /// One row for each event with the opcode Start, up to the event with the opcode Stop that belongs to it.
    ActivityRow: "activities", "Activities";
    summary by ["kind.provider", "kind.event", "process"]
        values ["rows", "sum(duration)", "mean(duration)", "max(duration)"];
    /// When it started.
    start_time: Start,
    /// When it stopped, if that was during the trace.
    stop_time: Option<End>,
    /// Time between the two.
    duration: Option<Span>,
    /// Provider and name of the event that started it.
    kind: EventKind,
    /// Process that started it.
    process: Option<Process>,
    /// Thread that started it.
    start_thread: Option<Thread>,
    /// Thread that stopped it.
    stop_thread: Option<Thread>,
    /// Activity id, if the events have one.
    activity: Option<GuidValue>,
    /// Activity that it is part of.
    parent: Option<ActivityRef>,
    /// Number of activities that it is part of.
    depth: Level,
    /// Stack of the start.
    stack: Option<Stack>,
}

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
    thread: Option<ThreadIndex>,
}

#[derive(Debug)]
struct Activity {
    start: FileTime,
    stop: Option<FileTime>,
    kind: u32,
    process: Option<ProcessIndex>,
    start_thread: Option<ThreadIndex>,
    stop_thread: Option<ThreadIndex>,
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
    by_thread: HashMap<ThreadIndex, Vec<u32>>,
    by_id: HashMap<Guid, u32>,
}

impl RowSource for Activities {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        matches!(event.record().descriptor().opcode, START | STOP)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, _context: &mut RowContext<'_>) {
        let record = event.record();
        let descriptor = record.descriptor();
        if !record.kind().is_event_header() {
            return;
        }
        let id = record.activity_id().filter(|id| *id != Guid::ZERO);
        let has_name = descriptor.task == 0 && id.is_none();
        let key = Key {
            provider: record.provider_id(),
            task: descriptor.task,
            name: if has_name { name(event) } else { 0 },
            activity: id,
            thread: event.thread.filter(|_| id.is_none()),
        };
        if descriptor.opcode == START {
            self.start(key, event);
        } else {
            self.stop(key, event);
        }
    }

    /// Adds the activities in the order of their starts.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        for activity in &self.all {
            context.writer.add(ActivityRow {
                start_time: activity.start,
                stop_time: activity.stop,
                duration: activity.stop.map(|stop| between(activity.start, stop)),
                kind: activity.kind,
                process: activity.process,
                start_thread: activity.start_thread,
                stop_thread: activity.stop_thread,
                activity: activity.id,
                parent: activity.parent,
                depth: activity.depth,
                stack: activity.stack,
            });
        }
    }
}

impl Activities {
    fn start(&mut self, key: Key, event: &EventContext<'_, '_>) {
        if self.all.len() >= MAX_ACTIVITIES {
            return;
        }
        let number = self.all.len() as u32;
        let related = event.record().related_activity_id().and_then(|id| self.by_id.get(&id)).copied();
        let on_thread = || self.by_thread.get(&event.thread?)?.last().copied();
        let parent = related.or_else(on_thread);
        let depth = parent.map_or(0, |parent| self.all[parent as usize].depth.saturating_add(1));
        self.all.push(Activity {
            start: event.record().time(),
            stop: None,
            kind: event.kind,
            process: event.process,
            start_thread: event.thread,
            stop_thread: None,
            id: key.activity,
            parent,
            depth,
            stack: event.stack,
        });
        self.open.entry(key).or_default().push(number);
        if let Some(thread) = event.thread {
            self.by_thread.entry(thread).or_default().push(number);
        }
        if let Some(id) = key.activity {
            self.by_id.insert(id, number);
        }
    }

    fn stop(&mut self, key: Key, event: &EventContext<'_, '_>) {
        let Some(open) = self.open.get_mut(&key) else { return };
        let Some(number) = open.pop() else { return };
        if open.is_empty() {
            self.open.remove(&key);
        }
        let activity = &mut self.all[number as usize];
        activity.stop = Some(event.record().time());
        activity.stop_thread = event.thread;
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
}

/// Returns a number for the name of an event without `Start` or `Stop` at its end.
fn name(event: &EventContext<'_, '_>) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let name = event.event.names().event();
    let name = name.strip_suffix("Start").or_else(|| name.strip_suffix("Stop")).unwrap_or(&name);
    let mut hasher = DefaultHasher::new();
    name.trim_end_matches('/').hash(&mut hasher);
    hasher.finish()
}
