//! Tables: the results of an analysis.

use etw_stacks::StackWeight;
use etw_tables::{Cell, Column, SUMMARIES, Summary};

/// The kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TableKind {
    /// Processes with their start, end and exit status.
    Processes,
    /// Processor time by process.
    Cpu,
    /// Processor time by thread.
    Threads,
    /// Processor time by container of Linux.
    Containers,
    /// Samples by function.
    Functions,
    /// The rows of a table, grouped.
    Summary(&'static Summary),
    /// .NET garbage collections by process.
    GcProcesses,
    /// .NET garbage collections.
    Gc,
    /// Methods that the JIT compiler of .NET compiled.
    Jit,
    /// Allocations of .NET by type and stack.
    Allocations,
    /// Exceptions of .NET by type and stack.
    Exceptions,
    /// Waits for locks of .NET by stack.
    Contention,
    /// Thread pools of .NET by process.
    ThreadPool,
    /// Waits with what ended them, and what that had waited for; not in [`TableKind::ALL`], since it needs
    /// [`StackWeight::WaitChains`].
    WaitChains,
    /// A weight by the functions in the stacks of its events; not in [`TableKind::ALL`].
    ByFunction(StackWeight),
}

/// The tables that come before the declared ones, and those that come after them.
const BEFORE: [TableKind; 5] =
    [TableKind::Processes, TableKind::Cpu, TableKind::Threads, TableKind::Containers, TableKind::Functions];
const AFTER: [TableKind; 7] = [
    TableKind::GcProcesses,
    TableKind::Gc,
    TableKind::Jit,
    TableKind::Allocations,
    TableKind::Exceptions,
    TableKind::Contention,
    TableKind::ThreadPool,
];

impl TableKind {
    /// All kinds that one pass over the events makes, in report order.
    pub const ALL: &'static [TableKind] = &{
        let mut all = [TableKind::Processes; BEFORE.len() + SUMMARIES.len() + AFTER.len()];
        let mut next = 0;
        while next < all.len() {
            all[next] = match next.checked_sub(BEFORE.len()) {
                None => BEFORE[next],
                Some(declared) if declared < SUMMARIES.len() => TableKind::Summary(SUMMARIES[declared]),
                Some(later) => AFTER[later - SUMMARIES.len()],
            };
            next += 1;
        }
        all
    };

    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the title for display.
    pub fn title(self) -> &'static str {
        self.info().title
    }

    /// Returns what the rows are, as a phrase.
    pub fn about(self) -> &'static str {
        self.info().about
    }

    /// Returns what enables the events for the table: kernel flags by xperf's names, or a provider with its keywords.
    pub fn flags(self) -> &'static str {
        self.info().flags
    }

    /// Returns the columns by which a row is heavy; the first one with values is also shown as bars.
    pub fn weights(self) -> &'static [&'static str] {
        self.info().weights
    }

    /// Returns the table that has the events one by one ([`row_tables`](etw_tables::row_tables)), if there is one.
    pub fn rows(self) -> Option<&'static str> {
        self.info().rows
    }

    /// Returns whether reports for people have the table unless others are chosen. Threads repeat what processes show.
    pub fn is_default(self) -> bool {
        self != TableKind::Threads
    }

    /// Returns whether the rows are about threads, or about what threads did, so that threads can be selected.
    pub fn has_threads(self) -> bool {
        match self {
            TableKind::Summary(summary) => !summary.thread.is_empty(),
            TableKind::Threads | TableKind::Functions | TableKind::WaitChains | TableKind::ByFunction(_) => {
                true
            }
            _ => false,
        }
    }

    fn info(self) -> Info {
        match self {
            TableKind::Summary(summary) => Info {
                name: summary.name,
                title: summary.title,
                about: summary.about,
                flags: summary.recorded_by,
                weights: summary.weights,
                rows: Some(summary.table),
            },
            TableKind::Processes => Info {
                name: "processes",
                title: "Processes",
                about: "start, end and exit status of processes",
                flags: "PROC_THREAD",
                weights: &["cpu_ns"],
                rows: Some("processes"),
            },
            TableKind::Cpu => Info {
                name: "cpu",
                title: "CPU by process",
                about: "processor time by process",
                flags: "PROC_THREAD+PROFILE or PROC_THREAD+CSWITCH",
                weights: &["cpu_ns", "weight_ns"],
                rows: Some("cpu_sampled"),
            },
            TableKind::Threads => Info {
                name: "threads",
                title: "CPU by thread",
                about: "processor time by thread",
                flags: "PROC_THREAD+PROFILE or PROC_THREAD+CSWITCH",
                weights: &["cpu_ns", "weight_ns"],
                rows: Some("cpu_sampled"),
            },
            TableKind::Containers => Info {
                name: "containers",
                title: "CPU by container",
                about: "processor time by container of Linux",
                flags: "PROC_THREAD+PROFILE or PROC_THREAD+CSWITCH",
                weights: &["cpu_ns", "weight_ns"],
                rows: Some("cpu_sampled"),
            },
            TableKind::Functions => Info {
                name: "functions",
                title: "CPU by function (sampled)",
                about: "samples by function",
                flags: "PROC_THREAD+LOADER+PROFILE",
                weights: &["exclusive_weight_ns"],
                rows: Some("cpu_sampled"),
            },
            TableKind::WaitChains => Info {
                name: "wait-chains",
                title: "Wait chains",
                about: "waits with what ended them, and what that had waited for itself",
                flags: StackWeight::WaitChains.flags(),
                weights: &["wait_ns"],
                rows: Some("cpu_precise"),
            },
            TableKind::GcProcesses => Info {
                name: "gc-processes",
                title: ".NET: garbage collections by process",
                about: ".NET garbage collections by process",
                flags: "Microsoft-Windows-DotNETRuntime:4::0x1 (GC)",
                weights: &["pause_ns"],
                rows: Some("gc"),
            },
            TableKind::Gc => Info {
                name: "gc",
                title: ".NET: garbage collections",
                about: ".NET garbage collections one by one",
                flags: "Microsoft-Windows-DotNETRuntime:4::0x1 (GC)",
                weights: &["pause_ns"],
                rows: Some("gc"),
            },
            TableKind::Jit => Info {
                name: "jit",
                title: ".NET: methods compiled",
                about: "methods that the JIT compiler of .NET compiled",
                flags: "Microsoft-Windows-DotNETRuntime:5::0x1000000018 (Loader, Jit, Compilation)",
                weights: &["time_ns"],
                rows: Some("jit"),
            },
            TableKind::Allocations => Info {
                name: "allocations",
                title: ".NET: allocations (sampled)",
                about: "allocations of .NET by type and stack",
                flags: StackWeight::Allocations.flags(),
                weights: &["bytes"],
                rows: Some("allocations"),
            },
            TableKind::Exceptions => Info {
                name: "exceptions",
                title: ".NET: exceptions",
                about: "exceptions of .NET by type and stack",
                flags: StackWeight::Exceptions.flags(),
                weights: &["count"],
                rows: Some("exceptions"),
            },
            TableKind::Contention => Info {
                name: "contention",
                title: ".NET: lock contention",
                about: "waits for locks of .NET by stack",
                flags: "Microsoft-Windows-DotNETRuntime:4::0x40004000 (Contention, Stack)",
                weights: &["time_ns"],
                rows: Some("contention"),
            },
            TableKind::ThreadPool => Info {
                name: "threadpool",
                title: ".NET: thread pools",
                about: "thread pools of .NET by process",
                flags: "Microsoft-Windows-DotNETRuntime:5::0x10000 (Threading)",
                weights: &["enqueued", "thread_starts"],
                rows: Some("threadpool"),
            },
            TableKind::ByFunction(weight) => Info {
                name: weight.table_name(),
                title: weight.title(),
                about: weight.about(),
                flags: weight.flags(),
                weights: &["exclusive_time_ns", "exclusive_bytes", "exclusive_count"],
                rows: weight.rows(),
            },
        }
    }
}

/// What there is to say about a kind of table.
struct Info {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    flags: &'static str,
    weights: &'static [&'static str],
    rows: Option<&'static str>,
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
