//! The selection of events to write.

use etw_analysis::Survey;
use etw_consumer::{Event, Predicate};
use etw_event::FileTime;
use etw_machine::ThreadIndex;

/// The events to write. Names and stacks always come from all events.
///
/// Processes and threads are those that an event is about; for a sample, this is the running thread. Events of
/// unselected threads are left out, and a processor that runs one is shown as idle.
#[derive(Clone, Default)]
pub struct Selection {
    /// Lower time limit.
    pub from: Option<FileTime>,
    /// Upper time limit, exclusive.
    pub to: Option<FileTime>,
    /// The condition on events.
    pub predicate: Option<Predicate>,
    /// Processes by id. If `processes` is set too, a match with either is enough.
    pub process_ids: Vec<u32>,
    /// Processes by image name, ignoring case; `.exe` is optional.
    pub processes: Vec<String>,
    /// Threads by id.
    pub thread_ids: Vec<u32>,
}

impl Selection {
    /// Whether an event is selected, apart from its process and thread.
    pub(crate) fn wants(&self, event: &Event<'_>) -> bool {
        let time = event.record.time();
        self.from.is_none_or(|from| time >= from)
            && self.to.is_none_or(|to| time < to)
            && self.predicate.as_ref().is_none_or(|predicate| predicate.matches(event))
    }

    /// Whether events of all threads are selected.
    pub(crate) fn wants_all_threads(&self) -> bool {
        self.process_ids.is_empty() && self.processes.is_empty() && self.thread_ids.is_empty()
    }

    /// Whether events of a thread are selected; events without a thread are only if all threads are.
    pub(crate) fn wants_thread(&self, survey: &Survey, thread: Option<ThreadIndex>) -> bool {
        if self.wants_all_threads() {
            return true;
        }
        let Some(thread) = thread.and_then(|thread| survey.thread(thread)) else { return false };
        let of_thread = self.thread_ids.is_empty() || self.thread_ids.contains(&thread.own_id);
        let is_any = self.process_ids.is_empty() && self.processes.is_empty();
        let process = thread.process.and_then(|process| survey.own_process(process));
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
