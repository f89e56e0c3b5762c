//! The selection of processes and threads for tables.

/// The processes and threads to show in tables; an empty filter selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// By id.
    pub ids: Vec<u32>,
    /// By name, ignoring case; `.exe` is optional.
    pub names: Vec<String>,
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
        self.ids.is_empty() && self.names.is_empty()
    }

    /// Whether the filter names this one, ignoring case and `.exe`.
    pub fn has_name(&self, name: &str) -> bool {
        let stem = |name: &str| name.to_ascii_lowercase().trim_end_matches(".exe").to_owned();
        self.names.iter().any(|wanted| stem(wanted) == stem(name))
    }
}
