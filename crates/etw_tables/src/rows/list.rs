//! The lists of all tables, and of what makes their rows.

use std::sync::LazyLock;

use etw_columns::TableSchema;

use super::labels::RowLabel;
use super::source::RowSource;
use super::summary::{Grouping, RowSummary};
use super::table::{ListedRow, RowWriter, TableRow};
use super::{
    activities, collections, commits, declared, disks, events, faults, files, frames, heaps, http, images,
    interrupts, kinds, losses, network, objects, processes, regions, registry, samples, snapshots, switches,
    syscalls, traces,
};

use crate::summary::Summary;

/// What is said of a table besides its columns.
struct About {
    schema: &'static TableSchema,
    label: Option<RowLabel>,
    summary: Option<Grouping>,
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
    disks::DiskDeviceRow,
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
    http::HttpRow,
    losses::LossRow,
    traces::TraceRow,
    traces::BufferRow,
    traces::ProcessNameRow,
}

macro_rules! sources {
    ($($module:ident::$source:ident => [$($row:ident),+],)+) => {
        /// Returns what makes rows of the tables that are written, in the order in which they get events.
        pub(super) fn sources(writer: &RowWriter) -> Vec<Box<dyn RowSource>> {
            let mut sources: Vec<Box<dyn RowSource>> = Vec::new();
            $(
                if $(writer.has::<$module::$row<'_>>())||+ {
                    sources.push(Box::<$module::$source>::default());
                }
            )+
            sources
        }
    };
}

sources! {
    objects::ObjectRows => [ObjectTypeRow, GpuContextRow],
    processes::Processes => [ProcessRow, ThreadRow],
    images::Images => [ImageRow],
    disks::Disks => [DiskDeviceRow, DiskRow, DiskQueueRow],
    heaps::Heaps => [HeapRow],
    files::Files => [FileRow, FileOperationRow],
    activities::Activities => [ActivityRow],
    commits::Commits => [CommitRow],
    registry::Registry => [RegistryRow, RegistryKeyRow],
    snapshots::Snapshots => [SnapshotRow],
    network::Network => [TransferRow, ConnectionRow],
    switches::Switches => [SwitchRow],
    samples::Samples => [SampleRow],
    faults::HardFaults => [HardFaultRow],
    interrupts::Interrupts => [InterruptRow],
    syscalls::SystemCalls => [SystemCallRow],
    collections::Collections => [CollectionRow],
    http::HttpRequests => [HttpRow],
}

macro_rules! reports {
    ($($(#[$doc:meta])+ $name:ident => $module:ident,)+) => {
        impl Summary {
            $(
                $(#[$doc])+
                pub const $name: &'static Summary = &$module::REPORT;
            )+
        }

        /// The declared tables of the report, in its order.
        pub const SUMMARIES: &[&Summary] = &[$(Summary::$name,)+];
    };
}

reports! {
    /// Waits of threads by reason.
    WAITS => switches,
    /// Disk I/O by disk, process and file.
    DISK => disks,
    /// File I/O by file and process.
    FILES => files,
    /// Network by process and endpoint.
    NETWORK => network,
    /// Hard faults by process and file.
    FAULTS => faults,
    /// Interrupts and deferred calls by routine.
    DPC_ISR => interrupts,
    /// System calls by process and name.
    SYSCALLS => syscalls,
    /// HTTP requests by host and path: of .NET programs, WinINet, WinHTTP and HTTP.sys.
    HTTP => http,
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
/// use etw_tables::row_label;
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
/// use etw_tables::row_summary;
///
/// assert_eq!(row_summary("hard_faults").map(|summary| summary.by[1]), Some("file"));
/// assert_eq!(row_summary("traces"), None);
/// ```
pub fn row_summary(table: &str) -> Option<RowSummary> {
    if let Some(summary) = SUMMARIES.iter().find(|summary| summary.table == table) {
        return Some(RowSummary::from_report(summary));
    }
    let of_declared = || declared::ALL.iter().find(|one| one.schema.name == table)?.summary.as_ref();
    let own = ABOUT.iter().find(|about| about.schema.name == table);
    let grouping = own.map_or_else(of_declared, |about| about.summary.as_ref())?;
    Some(RowSummary { by: grouping.by, values: grouping.values.to_vec() })
}

#[cfg(test)]
mod tests {
    use etw_columns::Aggregate;
    use etw_filter::Expression;

    use super::super::summary::split_value;
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
            for key in summary.by.iter() {
                assert!(is_column(schema, key), "{}: {key}", schema.name);
            }
            for value in summary.values.iter() {
                let inner = value.strip_prefix("percent(").and_then(|text| text.strip_suffix(')'));
                let (value, condition) = split_value(inner.unwrap_or(value));
                let (aggregate, column) = Aggregate::parse(value).unwrap();
                let is_there = aggregate == Aggregate::Rows || is_column(schema, column);
                assert!(is_there, "{}: {value}", schema.name);
                assert!(condition.is_none_or(|text| text.parse::<Expression>().is_ok()), "{condition:?}");
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
