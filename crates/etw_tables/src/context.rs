//! The context for building tables: names, and the selected part of the trace.

use etw_event::FileTime;
use etw_machine::{Duration, Names, ProcessFilter, ProcessIndex, Processes, ThreadIndex, Window};

use crate::cell::Cell;

/// The context for building tables.
pub struct ReportContext<'a> {
    /// The processes and threads of the trace.
    pub processes: &'a Processes,
    /// The names of addresses.
    pub names: &'a Names,
    /// The processes and threads to include.
    pub filter: &'a ProcessFilter,
    /// Running time of each process, if the trace has it.
    pub cpu: &'a [Duration],
    /// Start of the trace.
    pub start: FileTime,
    /// The window's length times the number of processors.
    pub processor_time: Duration,
    /// The window, limited to the trace.
    pub window: Window,
}

impl ReportContext<'_> {
    /// Whether to include rows about a process.
    pub fn wants(&self, process: Option<ProcessIndex>) -> bool {
        self.filter.has_all_processes()
            || process.is_some_and(|index| self.filter.has(self.processes.process(index)))
    }

    /// Whether a process is the idle process, whose rows come last.
    pub fn is_idle(&self, process: Option<ProcessIndex>) -> bool {
        process.is_some_and(|index| self.processes.process(index).id == 0)
    }

    /// Whether to include rows about a thread.
    pub fn wants_thread(&self, thread: ThreadIndex) -> bool {
        let thread = self.processes.thread(thread);
        let is_wanted = self.filter.threads.is_empty() || self.filter.threads.contains(&thread.id);
        is_wanted && self.wants(thread.process)
    }

    /// Returns how long a process ran, if the trace has it.
    pub fn cpu_of(&self, process: ProcessIndex) -> Option<Duration> {
        self.cpu.get(process.0 as usize).copied()
    }

    /// Returns the time for which a process existed in the window.
    pub fn lifetime(&self, process: ProcessIndex) -> Duration {
        let process = self.processes.process(process);
        let start = process.start.unwrap_or(self.window.from);
        self.window.part(start, process.end.unwrap_or(self.window.to))
    }

    /// Returns a time relative to the start of the trace.
    pub fn time(&self, time: FileTime) -> Cell {
        Cell::Time(time.0.saturating_sub(self.start.0))
    }

    /// Returns the name and id of a process.
    pub fn process(&self, process: Option<ProcessIndex>) -> [Cell; 2] {
        match process.map(|index| self.processes.process(index)) {
            Some(process) => [Cell::text(process.shown_name()), Cell::Id(process.id.into())],
            None => [Cell::None, Cell::None],
        }
    }

    /// Returns the name and id of a thread's process, then the name and id of the thread.
    pub fn thread(&self, thread: ThreadIndex) -> [Cell; 4] {
        let thread = self.processes.thread(thread);
        let [process, process_id] = self.process(thread.process);
        [process, process_id, Cell::text(thread.name.as_deref()), Cell::Id(thread.id.into())]
    }

    /// Returns a process as a text, such as `make (17)`.
    pub fn process_label(&self, process: Option<ProcessIndex>) -> String {
        match process.map(|index| self.processes.process(index)) {
            Some(process) => format!("{} ({})", process.shown_name().unwrap_or("?"), process.id),
            None => "?".to_owned(),
        }
    }
}
