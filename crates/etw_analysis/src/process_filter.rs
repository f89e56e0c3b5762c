//! Which processes tables are about.

/// The processes that tables are to be about; all if none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// By id.
    pub ids: Vec<u32>,
    /// By name, whatever its case; `.exe` may be left out.
    pub names: Vec<String>,
}

impl ProcessFilter {
    /// Whether all processes are wanted.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.names.is_empty()
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        let stem = |name: &str| name.to_ascii_lowercase().trim_end_matches(".exe").to_owned();
        self.names.iter().any(|wanted| stem(wanted) == stem(name))
    }
}
