//! Tables: the results of an analysis.

use crate::Duration;

/// The kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// Processes with their start, end and exit status.
    Processes,
    /// Processor time by process.
    Cpu,
    /// Processor time by thread.
    Threads,
    /// Samples by function.
    Functions,
    /// Waits of threads by reason.
    Waits,
    /// Disk I/O by disk, process and file.
    Disk,
    /// File I/O by file and process.
    Files,
    /// Network by process and endpoint.
    Network,
    /// Hard faults by process and file.
    Faults,
    /// Interrupts and deferred calls by routine.
    DpcIsr,
    /// System calls by process and name.
    Syscalls,
}

impl TableKind {
    /// All kinds, in report order.
    pub const ALL: [TableKind; 11] = [
        TableKind::Processes,
        TableKind::Cpu,
        TableKind::Threads,
        TableKind::Functions,
        TableKind::Waits,
        TableKind::Disk,
        TableKind::Files,
        TableKind::Network,
        TableKind::Faults,
        TableKind::DpcIsr,
        TableKind::Syscalls,
    ];

    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        match self {
            TableKind::Processes => "processes",
            TableKind::Cpu => "cpu",
            TableKind::Threads => "threads",
            TableKind::Functions => "functions",
            TableKind::Waits => "waits",
            TableKind::Disk => "disk",
            TableKind::Files => "files",
            TableKind::Network => "network",
            TableKind::Faults => "faults",
            TableKind::DpcIsr => "dpcisr",
            TableKind::Syscalls => "syscalls",
        }
    }

    /// Returns the title for display.
    pub fn title(self) -> &'static str {
        match self {
            TableKind::Processes => "Processes",
            TableKind::Cpu => "CPU by process",
            TableKind::Threads => "CPU by thread",
            TableKind::Functions => "CPU by function (sampled)",
            TableKind::Waits => "Waits",
            TableKind::Disk => "Disk I/O",
            TableKind::Files => "File I/O",
            TableKind::Network => "Network",
            TableKind::Faults => "Hard faults",
            TableKind::DpcIsr => "Interrupts and DPCs",
            TableKind::Syscalls => "System calls",
        }
    }

    /// Returns whether reports for people have the table unless others are chosen. Threads repeat what processes show.
    pub fn is_default(self) -> bool {
        self != TableKind::Threads
    }

    /// Returns the kernel flags, by xperf's names, that enable the events for the table.
    pub fn flags(self) -> &'static str {
        match self {
            TableKind::Processes => "PROC_THREAD",
            TableKind::Cpu | TableKind::Threads => "PROC_THREAD+PROFILE or PROC_THREAD+CSWITCH",
            TableKind::Functions => "PROC_THREAD+LOADER+PROFILE",
            TableKind::Waits => "PROC_THREAD+CSWITCH+DISPATCHER",
            TableKind::Disk => "PROC_THREAD+DISK_IO",
            TableKind::Files => "PROC_THREAD+FILE_IO+FILE_IO_INIT",
            TableKind::Network => "PROC_THREAD+NETWORKTRACE",
            TableKind::Faults => "PROC_THREAD+HARD_FAULTS",
            TableKind::DpcIsr => "DPC+INTERRUPT",
            TableKind::Syscalls => "PROC_THREAD+SYSCALL+CSWITCH",
        }
    }
}

/// A table with its rows, the heaviest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The kind of table.
    pub kind: TableKind,
    /// The columns.
    pub columns: &'static [Column],
    /// The rows; each has a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Notes needed to interpret the table, in whole sentences.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name for programs; durations end in `_ns`.
    pub key: &'static str,
    /// Heading for display; empty if the column is for programs only.
    pub heading: &'static str,
}

/// Returns a displayed column.
pub(crate) const fn shown(key: &'static str, heading: &'static str) -> Column {
    Column { key, heading }
}

/// Returns a column for programs only.
pub(crate) const fn hidden(key: &'static str) -> Column {
    Column { key, heading: "" }
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cell {
    /// The value is not in the trace.
    None,
    /// Text.
    Text(String),
    /// The number of a process, thread or disk.
    Id(u64),
    /// A signed number.
    Number(i64),
    /// A count.
    Count(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A duration.
    Duration(Duration),
    /// A time from the start of the trace, in units of 100 ns.
    Time(i64),
    /// A percentage, 0 to 100.
    Percent(f64),
}

impl Cell {
    pub(crate) fn text(text: Option<&str>) -> Cell {
        text.map_or(Cell::None, |text| Cell::Text(text.to_owned()))
    }

    pub(crate) fn id(id: Option<u32>) -> Cell {
        id.map_or(Cell::None, |id| Cell::Id(id.into()))
    }

    pub(crate) fn duration(duration: Option<Duration>) -> Cell {
        duration.map_or(Cell::None, Cell::Duration)
    }

    /// Returns a percentage, or no value if the whole is zero.
    pub(crate) fn percent(part: u64, whole: u64) -> Cell {
        match whole {
            0 => Cell::None,
            whole => Cell::Percent(part as f64 * 100.0 / whole as f64),
        }
    }
}
