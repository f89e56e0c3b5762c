//! The selection of processes and threads for tables.

use crate::control_groups::ControlGroupNames;
use crate::processes::Process;

/// The processes and threads to show in tables; an empty filter selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// By id.
    pub ids: Vec<u32>,
    /// By name, ignoring case; `.exe` is optional.
    pub names: Vec<String>,
    /// By container: its name, the first digits of its id, or its pod (`POD`, `NAMESPACE/POD`).
    pub containers: Vec<String>,
    /// By control group: its path, which selects the groups below too; without a slash at its start, names at any place of the
    /// path.
    pub control_groups: Vec<String>,
    /// Threads by id, of the selected processes. Only tables that have rows about threads, or about what they did, can
    /// select them (`TableKind::has_threads`).
    pub threads: Vec<u32>,
}

impl ProcessFilter {
    /// Whether the filter selects all processes and threads.
    pub fn is_empty(&self) -> bool {
        self.has_all_processes() && self.threads.is_empty()
    }

    /// Whether the filter selects all processes.
    pub fn has_all_processes(&self) -> bool {
        self.names.is_empty() && self.ids.is_empty() && self.has_all_groups()
    }

    /// Whether the filter selects no container and no control group.
    pub fn has_all_groups(&self) -> bool {
        self.containers.is_empty() && self.control_groups.is_empty()
    }

    /// Whether the filter selects a process.
    pub fn has(&self, process: &Process) -> bool {
        self.has_all_processes()
            || self.ids.contains(&process.id)
            || process.name.as_deref().is_some_and(|name| self.has_name(name))
            || process.control_group.as_deref().is_some_and(|group| self.has_group(&group.names()))
    }

    /// Whether the filter selects the processes of a control group, all by itself.
    pub fn has_group(&self, group: &ControlGroupNames<'_>) -> bool {
        self.containers.iter().any(|wanted| group.is_container(wanted))
            || self.control_groups.iter().any(|wanted| group.is_below(wanted))
    }

    /// Whether the filter names this one, ignoring case and `.exe`.
    pub fn has_name(&self, name: &str) -> bool {
        let stem = |name: &str| name.to_ascii_lowercase().trim_end_matches(".exe").to_owned();
        self.names.iter().any(|wanted| stem(wanted) == stem(name))
    }
}
