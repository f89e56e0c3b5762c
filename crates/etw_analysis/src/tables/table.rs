//! Tables: the results of an analysis.

use crate::Duration;
use crate::by_stack::StackWeight;

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
    /// HTTP requests by host and path: of .NET programs, WinINet, WinHTTP and HTTP.sys.
    Http,
    /// Waits with what ended them, and what that had waited for; not in [`TableKind::ALL`], since it needs
    /// [`StackWeight::WaitChains`].
    WaitChains,
    /// A weight by the functions in the stacks of its events; not in [`TableKind::ALL`].
    ByFunction(StackWeight),
}

impl TableKind {
    /// All kinds that one pass over the events makes, in report order.
    pub const ALL: [TableKind; 19] = [
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
        TableKind::GcProcesses,
        TableKind::Gc,
        TableKind::Jit,
        TableKind::Allocations,
        TableKind::Exceptions,
        TableKind::Contention,
        TableKind::ThreadPool,
        TableKind::Http,
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
            TableKind::GcProcesses => "gc-processes",
            TableKind::Gc => "gc",
            TableKind::Jit => "jit",
            TableKind::Allocations => "allocations",
            TableKind::Exceptions => "exceptions",
            TableKind::Contention => "contention",
            TableKind::ThreadPool => "threadpool",
            TableKind::Http => "http",
            TableKind::WaitChains => "wait-chains",
            TableKind::ByFunction(weight) => match weight {
                StackWeight::Running => "running-by-function",
                StackWeight::Waits => "waits-by-function",
                StackWeight::WaitChains => "wait-chains-by-function",
                StackWeight::OffCpu => "offcpu-by-function",
                StackWeight::SoftFaults => "soft-faults-by-function",
                StackWeight::Heap => "heap-by-function",
                StackWeight::Interrupts => "interrupts-by-function",
                StackWeight::Exceptions => "exceptions-by-function",
                StackWeight::Allocations => "allocations-by-function",
                StackWeight::Ready => "ready-by-function",
                StackWeight::Disk => "disk-by-function",
                StackWeight::Files => "files-by-function",
                StackWeight::Network => "network-by-function",
                StackWeight::Faults => "faults-by-function",
                StackWeight::Memory => "memory-by-function",
                StackWeight::Syscalls => "syscalls-by-function",
                StackWeight::DotNet => "dotnet-by-function",
                StackWeight::Events => "events-by-function",
            },
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
            TableKind::GcProcesses => ".NET: garbage collections by process",
            TableKind::Gc => ".NET: garbage collections",
            TableKind::Jit => ".NET: methods compiled",
            TableKind::Allocations => ".NET: allocations (sampled)",
            TableKind::Exceptions => ".NET: exceptions",
            TableKind::Contention => ".NET: lock contention",
            TableKind::ThreadPool => ".NET: thread pools",
            TableKind::Http => "HTTP requests",
            TableKind::WaitChains => "Wait chains",
            TableKind::ByFunction(weight) => match weight {
                StackWeight::Running => "CPU by function (switches)",
                StackWeight::Waits => "Waits by function",
                StackWeight::WaitChains => "Wait chains by function",
                StackWeight::OffCpu => "Time off the processor by function",
                StackWeight::SoftFaults => "Soft faults by function",
                StackWeight::Heap => "Heap allocations by function",
                StackWeight::Interrupts => "Interrupts and DPCs by function",
                StackWeight::Exceptions => ".NET: exceptions by function",
                StackWeight::Allocations => ".NET: allocations by function (sampled)",
                StackWeight::Ready => "Threads made ready by function",
                StackWeight::Disk => "Disk I/O by function",
                StackWeight::Files => "File I/O by function",
                StackWeight::Network => "Network by function",
                StackWeight::Faults => "Hard faults by function",
                StackWeight::Memory => "Allocated address space by function",
                StackWeight::Syscalls => "System calls by function",
                StackWeight::DotNet => ".NET: samples of threads by function",
                StackWeight::Events => "Events by function",
            },
        }
    }

    /// Returns whether reports for people have the table unless others are chosen. Threads repeat what processes show.
    pub fn is_default(self) -> bool {
        self != TableKind::Threads
    }

    /// Returns whether the rows are about threads, or about what threads did, so that threads can be selected.
    pub fn has_threads(self) -> bool {
        matches!(
            self,
            TableKind::Threads
                | TableKind::Functions
                | TableKind::Waits
                | TableKind::WaitChains
                | TableKind::ByFunction(_)
        )
    }

    /// Returns what enables the events for the table: kernel flags by xperf's names, or a provider with its keywords.
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
            TableKind::GcProcesses | TableKind::Gc => "Microsoft-Windows-DotNETRuntime:4::0x1 (GC)",
            TableKind::Jit => "Microsoft-Windows-DotNETRuntime:5::0x1000000018 (Loader, Jit, Compilation)",
            TableKind::Allocations => "Microsoft-Windows-DotNETRuntime:5::0x40000001 (GC, Stack)",
            TableKind::Exceptions => "Microsoft-Windows-DotNETRuntime:4::0x40008000 (Exception, Stack)",
            TableKind::Contention => "Microsoft-Windows-DotNETRuntime:4::0x40004000 (Contention, Stack)",
            TableKind::ThreadPool => "Microsoft-Windows-DotNETRuntime:5::0x10000 (Threading)",
            TableKind::Http => {
                "System.Net.Http, Microsoft.AspNetCore.Hosting and System.Threading.Tasks.TplEventSource:0x80:4; on \
                 Windows Microsoft-Windows-WinINet, Microsoft-Windows-WebIO and Microsoft-Windows-HttpService"
            }
            TableKind::WaitChains => CHAINS,
            TableKind::ByFunction(weight) => match weight {
                StackWeight::WaitChains => CHAINS,
                StackWeight::SoftFaults => "PROC_THREAD+LOADER+ALL_FAULTS with stacks of its events",
                StackWeight::Heap => {
                    "the heaps of a process (xperf -start -heap -pids) with stacks of HeapAlloc"
                }
                StackWeight::Interrupts => "PROC_THREAD+LOADER+DPC+INTERRUPT with stacks of its events",
                StackWeight::Exceptions => TableKind::Exceptions.flags(),
                StackWeight::Allocations => TableKind::Allocations.flags(),
                StackWeight::Running | StackWeight::Waits | StackWeight::OffCpu => {
                    "PROC_THREAD+LOADER+CSWITCH with --stackwalk CSwitch"
                }
                StackWeight::Ready => "PROC_THREAD+LOADER+CSWITCH+DISPATCHER with --stackwalk ReadyThread",
                StackWeight::Disk => {
                    "PROC_THREAD+LOADER+DISK_IO+DISK_IO_INIT with --stackwalk DiskReadInit+DiskWriteInit"
                }
                StackWeight::Files => "PROC_THREAD+LOADER+FILE_IO_INIT with --stackwalk FileRead+FileWrite",
                StackWeight::Network => "PROC_THREAD+LOADER+NETWORKTRACE with stacks of its events",
                StackWeight::Faults => "PROC_THREAD+LOADER+HARD_FAULTS with --stackwalk HardFault",
                StackWeight::Memory => "PROC_THREAD+LOADER+VIRT_ALLOC with --stackwalk VirtualAlloc",
                StackWeight::Syscalls => "PROC_THREAD+LOADER+SYSCALL with --stackwalk SyscallEnter",
                StackWeight::DotNet => "Microsoft-DotNETCore-SampleProfiler, in traces of .NET's EventPipe",
                StackWeight::Events => "any event with --stackwalk, or a provider with --stacks",
            },
        }
    }
}

const CHAINS: &str = "PROC_THREAD+LOADER+CSWITCH+DISPATCHER with --stackwalk CSwitch+ReadyThread";

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
