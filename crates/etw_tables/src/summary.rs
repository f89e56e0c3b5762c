//! Tables of the report that are declared: the rows of a table, grouped.

use etw_machine::Model;

use crate::cell::Cell;

/// A table of the report that is the rows of a table ([`row_tables`](crate::row_tables)), grouped.
#[derive(Debug)]
pub struct Summary {
    /// Name for programs.
    pub name: &'static str,
    /// Title for display.
    pub title: &'static str,
    /// What the rows are, as a phrase.
    pub about: &'static str,
    /// What enables the events that it is made of: kernel flags by xperf's names.
    pub recorded_by: &'static str,
    /// The table whose rows are grouped.
    pub table: &'static str,
    /// What rows are grouped by, besides what columns show: columns, or paths to columns of other tables.
    pub by: &'static [&'static str],
    /// Which rows count, in the filter language; all if it is empty.
    pub condition: &'static str,
    /// Path to the process of a row, which `--process` and `--pid` compare; empty if rows have no process.
    pub process: &'static str,
    /// Path to the thread of a row, which `--tid` compares; empty if threads cannot be selected.
    pub thread: &'static str,
    /// The columns.
    pub columns: &'static [Column],
    /// What makes a group heavy: the heaviest ones are first.
    pub order: &'static [&'static str],
    /// The columns by which a row is heavy; the first one with values is also shown as bars.
    pub weights: &'static [&'static str],
    /// Returns notes needed to interpret the table, which has rows or not.
    pub(crate) notes: fn(&Model, bool) -> Vec<String>,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Name for programs; durations end in `_ns`.
    pub key: &'static str,
    /// Heading for display; empty if the column is for programs only.
    pub heading: &'static str,
    /// Where its values come from.
    pub(crate) source: ColumnSource,
}

impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        (self.key, self.heading) == (other.key, other.heading)
    }
}

impl Eq for Column {}

/// The source of a column's values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnSource {
    /// Code of the table.
    Code,
    /// A column or path that rows are grouped by; or several, from which the function makes one cell.
    Key { paths: &'static [&'static str], format: Option<fn(&[Cell]) -> Cell> },
    /// An aggregate of a group: `rows` or `sum(COLUMN)`, also with a condition (`rows where COLUMN == VALUE`). Missing in all
    /// groups if `known_by` is 0 for the whole table, as it is where the events lack the value.
    Value { value: &'static str, known_by: &'static str },
    /// A time as a share of that of all processors.
    ProcessorShare(&'static str),
    /// All distinct values of a column of whole numbers, from which the function makes one text.
    All { column: &'static str, format: fn(&[u32]) -> Option<String> },
}

impl Column {
    /// Returns a displayed column whose values are code of its table.
    pub const fn shown(key: &'static str, heading: &'static str) -> Column {
        Column { key, heading, source: ColumnSource::Code }
    }

    /// Returns a column for programs only.
    pub const fn hidden(key: &'static str) -> Column {
        Column::shown(key, "")
    }

    const fn with(mut self, source: ColumnSource) -> Column {
        self.source = source;
        self
    }

    /// Shows what rows are grouped by.
    pub(crate) const fn key(self, paths: &'static [&'static str; 1]) -> Column {
        self.with(ColumnSource::Key { paths, format: None })
    }

    /// Shows what rows are grouped by, made of several values.
    pub(crate) const fn key_of(self, paths: &'static [&'static str], format: fn(&[Cell]) -> Cell) -> Column {
        self.with(ColumnSource::Key { paths, format: Some(format) })
    }

    /// Shows what is counted of a group.
    pub(crate) const fn value(self, value: &'static str) -> Column {
        self.value_known_by(value, "")
    }

    /// Shows what is counted of a group, if the events have what `known_by` counts.
    pub(crate) const fn value_known_by(self, value: &'static str, known_by: &'static str) -> Column {
        self.with(ColumnSource::Value { value, known_by })
    }

    /// Shows a time as a share of that of all processors.
    pub(crate) const fn processor_share(self, value: &'static str) -> Column {
        self.with(ColumnSource::ProcessorShare(value))
    }

    /// Shows all different values of a column.
    pub(crate) const fn all(self, column: &'static str, format: fn(&[u32]) -> Option<String>) -> Column {
        self.with(ColumnSource::All { column, format })
    }
}

/// Returns no notes.
pub(crate) fn no_notes(_model: &Model, _has_rows: bool) -> Vec<String> {
    Vec::new()
}

// Names are unique.
impl PartialEq for Summary {
    fn eq(&self, other: &Summary) -> bool {
        self.name == other.name
    }
}

impl Eq for Summary {}

impl PartialOrd for Summary {
    fn partial_cmp(&self, other: &Summary) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Summary {
    fn cmp(&self, other: &Summary) -> std::cmp::Ordering {
        self.name.cmp(other.name)
    }
}

impl std::hash::Hash for Summary {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
