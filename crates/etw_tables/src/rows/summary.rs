//! How the rows of a table are grouped at first.

use crate::summary::{ColumnSource, Summary};

/// How the rows of a table are grouped unless something else is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowSummary {
    /// The columns, or paths to columns of other tables, to group by.
    pub by: &'static [&'static str],
    /// What to count of each group, the first one being what groups are sorted by: what [`row_value`](crate::row_value)
    /// takes, such as `rows` and `sum(COLUMN)`, or `percent(…)` of one of these: its share of all.
    pub values: Vec<&'static str>,
}

/// The same, as tables declare it.
#[derive(Debug, Clone, Copy)]
pub(in crate::rows) struct Grouping {
    pub(in crate::rows) by: &'static [&'static str],
    pub(in crate::rows) values: &'static [&'static str],
}

impl RowSummary {
    /// Returns the groups of a table of the report, with what it shows of them. Without a number of rows, the heaviest groups
    /// are first.
    pub(in crate::rows) fn from_report(summary: &'static Summary) -> RowSummary {
        let values = summary.columns.iter().filter_map(|column| match column.source {
            ColumnSource::Value { value, .. } => {
                let is_shown = !column.heading.is_empty() || split_value(value).1.is_none();
                is_shown.then_some(value)
            }
            _ => None,
        });
        let values: Vec<&str> = values.collect();
        let heaviest = summary.order.first().copied().filter(|_| !values.contains(&"rows"));
        let others = values.into_iter().filter(|value| Some(*value) != heaviest);
        RowSummary { by: summary.by, values: heaviest.into_iter().chain(others).collect() }
    }
}

/// Returns the aggregate and the condition of what is counted.
pub(in crate::rows) fn split_value(text: &str) -> (&str, Option<&str>) {
    match text.split_once(" where ") {
        Some((value, condition)) => (value, Some(condition)),
        None => (text, None),
    }
}
