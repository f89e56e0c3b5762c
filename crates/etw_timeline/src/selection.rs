//! Which events are written.

use etw_analysis::{Survey, ThreadIndex};
use etw_consumer::{Event, Predicate};
use etw_event::FileTime;

/// Which events are written. Names and stacks are taken from all.
///
/// Processes and threads are those that an event is about: a sample's is the one that ran. Of the others nothing is
/// written; a processor that runs them is idle.
#[derive(Clone, Default)]
pub struct Selection {
    /// The first moment.
    pub from: Option<FileTime>,
    /// The first moment behind the last.
    pub to: Option<FileTime>,
    /// What must hold for an event.
    pub predicate: Option<Predicate>,
    /// Processes by id; with `processes`, any of both.
    pub process_ids: Vec<u32>,
    /// Processes by image name, with or without `.exe`, whatever the case.
    pub processes: Vec<String>,
    /// Threads by id.
    pub thread_ids: Vec<u32>,
}

impl Selection {
    /// Whether an event is wanted, but for whom it is about.
    pub(crate) fn wants(&self, event: &Event<'_>) -> bool {
        let time = event.record.time();
        self.from.is_none_or(|from| time >= from)
            && self.to.is_none_or(|to| time < to)
            && self.predicate.as_ref().is_none_or(|predicate| predicate.matches(event))
    }

    /// Whether events about all threads are wanted.
    pub(crate) fn wants_all_threads(&self) -> bool {
        self.process_ids.is_empty() && self.processes.is_empty() && self.thread_ids.is_empty()
    }

    /// Whether events about a thread are wanted; about none, only if all are.
    pub(crate) fn wants_thread(&self, survey: &Survey, thread: Option<ThreadIndex>) -> bool {
        if self.wants_all_threads() {
            return true;
        }
        let Some(thread) = thread.and_then(|thread| survey.thread(thread)) else { return false };
        let of_thread = self.thread_ids.is_empty() || self.thread_ids.contains(&thread.id);
        let is_any = self.process_ids.is_empty() && self.processes.is_empty();
        let process = thread.process.and_then(|process| survey.process(process));
        let of_process = process.is_some_and(|(id, name)| {
            self.process_ids.contains(&id) || name.is_some_and(|name| self.has_name(name))
        });
        of_thread && (is_any || of_process)
    }

    fn has_name(&self, name: &str) -> bool {
        let plain = |name: &str| {
            let name = name.rsplit(['/', '\\']).next().unwrap_or(name).to_ascii_lowercase();
            name.strip_suffix(".exe").map_or(name.clone(), str::to_owned)
        };
        self.processes.iter().any(|wanted| plain(wanted) == plain(name))
    }
}
