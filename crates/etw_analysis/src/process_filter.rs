//! The selection of processes for tables.

/// The processes to show in tables; an empty filter selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// By id.
    pub ids: Vec<u32>,
    /// By name, ignoring case; `.exe` is optional.
    pub names: Vec<String>,
}

impl ProcessFilter {
    /// Whether the filter selects all processes.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.names.is_empty()
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        let stem = |name: &str| name.to_ascii_lowercase().trim_end_matches(".exe").to_owned();
        self.names.iter().any(|wanted| stem(wanted) == stem(name))
    }
}
