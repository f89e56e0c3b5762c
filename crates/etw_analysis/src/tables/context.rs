//! The context for building tables: names, and the selected part of the trace.

use etw_event::FileTime;

use super::table::Cell;
use crate::names::Names;
use crate::processes::{ProcessIndex, Processes, ThreadIndex};
use crate::{Duration, ProcessFilter, Window};

/// The context for building tables.
pub(crate) struct Context<'a> {
    pub(crate) processes: &'a Processes,
    pub(crate) names: &'a Names,
    pub(crate) filter: &'a ProcessFilter,
    /// Running time of each process, if the trace has it.
    pub(crate) cpu: &'a [Duration],
    /// Start of the trace.
    pub(crate) start: FileTime,
    /// The window's length times the number of processors.
    pub(crate) processor_time: Duration,
    /// The window, limited to the trace.
    pub(crate) window: Window,
}

impl Context<'_> {
    /// Whether to include rows about a process.
    pub(crate) fn wants(&self, process: Option<ProcessIndex>) -> bool {
        if self.filter.has_all_processes() {
            return true;
        }
        process.map(|index| self.processes.process(index)).is_some_and(|process| {
            self.filter.ids.contains(&process.id)
                || process.name.as_deref().is_some_and(|name| self.filter.has_name(name))
        })
    }

    /// Whether a process is the idle process, whose rows come last.
    pub(crate) fn is_idle(&self, process: Option<ProcessIndex>) -> bool {
        process.is_some_and(|index| self.processes.process(index).id == 0)
    }

    /// Whether to include rows about a thread.
    pub(crate) fn wants_thread(&self, thread: ThreadIndex) -> bool {
        let thread = self.processes.thread(thread);
        let is_wanted = self.filter.threads.is_empty() || self.filter.threads.contains(&thread.id);
        is_wanted && self.wants(thread.process)
    }

    pub(crate) fn cpu_of(&self, process: ProcessIndex) -> Option<Duration> {
        self.cpu.get(process.0 as usize).copied()
    }

    /// Returns the time for which a process existed in the window.
    pub(crate) fn lifetime(&self, process: ProcessIndex) -> Duration {
        let process = self.processes.process(process);
        let start = process.start.unwrap_or(self.window.from);
        self.window.part(start, process.end.unwrap_or(self.window.to))
    }

    /// Returns a time relative to the start of the trace.
    pub(crate) fn time(&self, time: FileTime) -> Cell {
        Cell::Time(time.0.saturating_sub(self.start.0))
    }

    /// Returns the name and id of a process.
    pub(crate) fn process(&self, process: Option<ProcessIndex>) -> [Cell; 2] {
        match process.map(|index| self.processes.process(index)) {
            Some(process) => [Cell::text(process.shown_name()), Cell::Id(process.id.into())],
            None => [Cell::None, Cell::None],
        }
    }

    /// Returns the name and id of a thread's process, then the name and id of the thread.
    pub(crate) fn thread(&self, thread: ThreadIndex) -> [Cell; 4] {
        let thread = self.processes.thread(thread);
        let [process, process_id] = self.process(thread.process);
        [process, process_id, Cell::text(thread.name.as_deref()), Cell::Id(thread.id.into())]
    }

    /// Returns a process as a text, such as `make (17)`.
    pub(crate) fn process_label(&self, process: Option<ProcessIndex>) -> String {
        match process.map(|index| self.processes.process(index)) {
            Some(process) => format!("{} ({})", process.shown_name().unwrap_or("?"), process.id),
            None => "?".to_owned(),
        }
    }
}
