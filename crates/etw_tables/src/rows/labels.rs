//! What the rows of tables are called where others refer to them.

/// The name of the rows of a table, made of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowLabel {
    /// The columns of the name, in order; those without a value are left out.
    pub columns: &'static [&'static str],
    /// The text between them.
    pub separator: &'static str,
    /// The column that is shown if the name is empty.
    pub otherwise: Option<&'static str>,
    /// The column, or path, by whose text rows are found.
    pub text: &'static str,
    /// Whether rows with one text are one group.
    pub is_group: bool,
    /// The column whose text means the same in every trace, if there is one: ids do not.
    pub in_all_traces: Option<&'static str>,
}

impl RowLabel {
    /// Returns a name of one column, where rows with one text are one group.
    pub(in crate::rows) const fn single(column: &'static [&'static str; 1]) -> RowLabel {
        RowLabel {
            columns: column,
            separator: "",
            otherwise: None,
            text: column[0],
            is_group: true,
            in_all_traces: Some(column[0]),
        }
    }
}
