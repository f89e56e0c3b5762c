//! How the rows of a table are grouped at first.

/// How the rows of a table are grouped unless something else is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowSummary {
    /// The columns, or paths to columns of other tables, to group by.
    pub by: &'static [&'static str],
    /// What to count of each group, the first one being what groups are sorted by: `rows`, `sum(COLUMN)` and others as
    /// [`Aggregate::parse`](etw_columns::Aggregate::parse) takes them, or `percent(…)` of one of these: its share of all.
    pub values: &'static [&'static str],
}
