//! The lists of all tables, and of what makes their rows.

use std::sync::LazyLock;

use etw_columns::TableSchema;

use super::labels::RowLabel;
use super::source::RowSource;
use super::summary::RowSummary;
use super::table::{ListedRow, TableRow};
use super::{
    activities, collections, commits, declared, disks, events, faults, files, frames, heaps, images,
    interrupts, kinds, losses, network, objects, processes, regions, registry, samples, snapshots, switches,
    syscalls, traces,
};

/// What is said of a table besides its columns.
struct About {
    schema: &'static TableSchema,
    label: Option<RowLabel>,
    summary: Option<RowSummary>,
}

macro_rules! tables {
    ($($module:ident::$row:ident,)+) => {
        /// Places of tables in lists.
        #[expect(clippy::enum_variant_names, reason = "they are the names of the structs")]
        enum Number {
            $($row,)+
        }

        $(
            impl ListedRow for $module::$row<'_> {
                const NUMBER: usize = Number::$row as usize;
            }
        )+

        /// The tables whose rows are structs.
        pub(super) static TYPED: &[&TableSchema] = &[$($module::$row::SCHEMA,)+];

        /// What is said of these tables besides their columns.
        static ABOUT: &[About] = &[$(About {
            schema: $module::$row::SCHEMA,
            label: $module::$row::LABEL,
            summary: $module::$row::SUMMARY,
        },)+];
    };
}

tables! {
    events::EventRow,
    kinds::EventKindRow,
    processes::ProcessRow,
    processes::ThreadRow,
    images::ImageRow,
    files::FileRow,
    frames::FrameRow,
    samples::SampleRow,
    switches::SwitchRow,
    disks::DiskRow,
    disks::DiskQueueRow,
    files::FileOperationRow,
    faults::HardFaultRow,
    interrupts::InterruptRow,
    syscalls::SystemCallRow,
    network::TransferRow,
    network::ConnectionRow,
    registry::RegistryRow,
    registry::RegistryKeyRow,
    commits::CommitRow,
    snapshots::SnapshotRow,
    heaps::HeapRow,
    objects::ObjectTypeRow,
    activities::ActivityRow,
    regions::RegionRow,
    objects::GpuContextRow,
    collections::CollectionRow,
    losses::LossRow,
    traces::TraceRow,
    traces::BufferRow,
    traces::ProcessNameRow,
}

/// Returns what makes rows of events, in the order in which they get these.
pub(super) fn sources() -> Vec<Box<dyn RowSource>> {
    vec![
        Box::<objects::ObjectRows>::default(),
        Box::<processes::Processes>::default(),
        Box::<images::Images>::default(),
        Box::<disks::Disks>::default(),
        Box::<heaps::Heaps>::default(),
        Box::<files::Files>::default(),
        Box::<activities::Activities>::default(),
        Box::<commits::Commits>::default(),
        Box::<registry::Registry>::default(),
        Box::<snapshots::Snapshots>::default(),
        Box::<network::Network>::default(),
        Box::<switches::Switches>::default(),
        Box::<samples::Samples>::default(),
        Box::<faults::HardFaults>::default(),
        Box::<interrupts::Interrupts>::default(),
        Box::<syscalls::SystemCalls>::default(),
        Box::<collections::Collections>::default(),
    ]
}

/// All tables.
static ALL: LazyLock<Vec<&'static TableSchema>> =
    LazyLock::new(|| TYPED.iter().copied().chain(declared::ALL.iter().map(|table| table.schema)).collect());

/// Returns the declarations of all tables.
pub fn row_tables() -> impl ExactSizeIterator<Item = &'static TableSchema> {
    ALL.iter().copied()
}

/// Returns what the rows of a table are called; `None` if they have only numbers.
///
/// ```
/// use etw_analysis::row_label;
///
/// assert_eq!(row_label("files").map(|label| label.text), Some("path"));
/// assert_eq!(row_label("disk"), None);
/// ```
pub fn row_label(table: &str) -> Option<&'static RowLabel> {
    ABOUT.iter().find(|about| about.schema.name == table)?.label.as_ref()
}

/// Returns how the rows of a table are grouped at first; `None` if they are shown row by row.
///
/// ```
/// use etw_analysis::row_summary;
///
/// assert_eq!(row_summary("hard_faults").map(|summary| summary.by), Some(&["thread.process", "file"][..]));
/// assert_eq!(row_summary("traces"), None);
/// ```
pub fn row_summary(table: &str) -> Option<&'static RowSummary> {
    let of_declared = || declared::ALL.iter().find(|one| one.schema.name == table)?.summary.as_ref();
    match ABOUT.iter().find(|about| about.schema.name == table) {
        Some(about) => about.summary.as_ref(),
        None => of_declared(),
    }
}

#[cfg(test)]
mod tests {
    use etw_columns::Aggregate;

    use super::*;

    fn is_column(schema: &TableSchema, path: &str) -> bool {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let column = schema.column(first).and_then(|number| schema.columns.get(number));
        match (column, rest) {
            (Some(column), Some(rest)) => row_tables()
                .find(|schema| schema.name == column.table)
                .is_some_and(|schema| is_column(schema, rest)),
            (column, _) => column.is_some(),
        }
    }

    #[test]
    fn summaries_have_columns_that_are_there() {
        let mut count = 0;
        for schema in row_tables() {
            let Some(summary) = row_summary(&schema.name) else { continue };
            count += 1;
            for key in summary.by {
                assert!(is_column(schema, key), "{}: {key}", schema.name);
            }
            for value in summary.values {
                let inner = value.strip_prefix("percent(").and_then(|text| text.strip_suffix(')'));
                let (aggregate, column) = Aggregate::parse(inner.unwrap_or(value)).unwrap();
                let is_there = aggregate == Aggregate::Rows || is_column(schema, column);
                assert!(is_there, "{}: {value}", schema.name);
            }
        }
        assert!(count > 30, "{count}");
    }

    #[test]
    fn references_lead_to_tables() {
        for schema in row_tables() {
            for column in schema.columns.iter().filter(|column| !column.table.is_empty()) {
                assert!(row_tables().any(|other| other.name == column.table), "{}", column.name);
            }
        }
    }
}
