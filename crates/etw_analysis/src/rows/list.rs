//! The lists of all tables, and of what makes their rows.

use std::sync::LazyLock;

use etw_columns::TableSchema;

use super::labels::RowLabel;
use super::source::RowSource;
use super::table::{ListedRow, TableRow};
use super::{
    activities, collections, commits, declared, disks, events, faults, files, frames, heaps, images,
    interrupts, kinds, losses, network, objects, processes, regions, registry, samples, snapshots, switches,
    syscalls, traces,
};

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

        /// The names of tables, with what their rows are called.
        static LABELS: &[(&TableSchema, Option<RowLabel>)] = &[$(($module::$row::SCHEMA, $module::$row::LABEL),)+];
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
    LABELS.iter().find(|(schema, _)| schema.name == table)?.1.as_ref()
}
