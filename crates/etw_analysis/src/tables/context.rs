//! What tables are written with: names, and what of the trace is wanted.

use etw_event::FileTime;

use super::table::Cell;
use crate::names::Names;
use crate::processes::{ProcessIndex, Processes, ThreadIndex};
use crate::{Duration, ProcessFilter};

/// What tables are written with.
pub(crate) struct Context<'a> {
    pub(crate) processes: &'a Processes,
    pub(crate) names: &'a Names,
    pub(crate) filter: &'a ProcessFilter,
    /// How long each process ran, if the trace tells.
    pub(crate) cpu: &'a [Duration],
    /// When the trace begins.
    pub(crate) start: FileTime,
    /// The window's length times the number of processors.
    pub(crate) processor_time: Duration,
}

impl Context<'_> {
    /// Whether rows about a process are wanted.
    pub(crate) fn wants(&self, process: Option<ProcessIndex>) -> bool {
        if self.filter.is_empty() {
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

    /// Whether rows about a thread are wanted.
    pub(crate) fn wants_thread(&self, thread: ThreadIndex) -> bool {
        self.wants(self.processes.thread(thread).process)
    }

    pub(crate) fn cpu_of(&self, process: ProcessIndex) -> Option<Duration> {
        self.cpu.get(process.0 as usize).copied()
    }

    /// A moment, from the start of the trace.
    pub(crate) fn time(&self, time: FileTime) -> Cell {
        Cell::Time(time.0.saturating_sub(self.start.0))
    }

    /// Name and id of a process.
    pub(crate) fn process(&self, process: Option<ProcessIndex>) -> [Cell; 2] {
        match process.map(|index| self.processes.process(index)) {
            Some(process) => [Cell::text(process.name.as_deref()), Cell::Id(process.id.into())],
            None => [Cell::None, Cell::None],
        }
    }

    /// Name and id of a thread's process, then name and id of the thread.
    pub(crate) fn thread(&self, thread: ThreadIndex) -> [Cell; 4] {
        let thread = self.processes.thread(thread);
        let [process, process_id] = self.process(thread.process);
        [process, process_id, Cell::text(thread.name.as_deref()), Cell::Id(thread.id.into())]
    }

    /// A process as a text: `make (17)`.
    pub(crate) fn process_label(&self, process: Option<ProcessIndex>) -> String {
        match process.map(|index| self.processes.process(index)) {
            Some(process) => format!("{} ({})", process.name.as_deref().unwrap_or("?"), process.id),
            None => "?".to_owned(),
        }
    }
}
