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

/// A label of one column, whose rows with one text are one group.
const fn single(column: &'static [&'static str; 1]) -> RowLabel {
    RowLabel {
        columns: column,
        separator: "",
        otherwise: None,
        text: column[0],
        is_group: true,
        in_all_traces: Some(column[0]),
    }
}

/// The tables whose rows have names.
const LABELS: [(&str, RowLabel); 9] = [
    ("processes", RowLabel { in_all_traces: Some("name"), ..single(&["process"]) }),
    (
        "threads",
        RowLabel {
            columns: &["process", "thread_id"],
            separator: " / ",
            otherwise: None,
            text: "process.process",
            is_group: false,
            in_all_traces: Some("name"),
        },
    ),
    (
        "event_kinds",
        RowLabel {
            columns: &["provider", "event"],
            separator: "/",
            otherwise: None,
            text: "event",
            is_group: false,
            in_all_traces: Some("event"),
        },
    ),
    ("files", single(&["path"])),
    ("frames", RowLabel { otherwise: Some("address"), ..single(&["function"]) }),
    ("registry_keys", single(&["name"])),
    ("object_types", single(&["object_type"])),
    // A region may be inside of one of the same name.
    ("regions_of_interest", RowLabel { is_group: false, ..single(&["path"]) }),
    ("traces", RowLabel { in_all_traces: None, ..single(&["trace"]) }),
];

/// Returns what the rows of a table are called; `None` if they have only numbers.
///
/// ```
/// use etw_analysis::row_label;
///
/// assert_eq!(row_label("files").map(|label| label.text), Some("path"));
/// assert_eq!(row_label("disk"), None);
/// ```
pub fn row_label(table: &str) -> Option<&'static RowLabel> {
    LABELS.iter().find(|(name, _)| *name == table).map(|(_, label)| label)
}
