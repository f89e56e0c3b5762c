//! What is counted by stack.

use crate::call_tree::WeightUnit;

/// What enables stacks of switches.
const SWITCHES: &str = "PROC_THREAD+LOADER+CSWITCH with --stackwalk CSwitch";
/// What enables stacks of switches, and of what ends waits.
const CHAINS: &str = "PROC_THREAD+LOADER+CSWITCH+DISPATCHER with --stackwalk CSwitch+ReadyThread";
/// What enables exceptions and allocations of .NET with their stacks.
const EXCEPTIONS: &str = "Microsoft-Windows-DotNETRuntime:4::0x40008000 (Exception, Stack)";
const ALLOCATIONS: &str = "Microsoft-Windows-DotNETRuntime:5::0x40000001 (GC, Stack)";
/// End of the names of tables by function.
const BY_FUNCTION: &str = "-by-function";

/// What is counted by stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StackWeight {
    /// Time that threads ran, from switches: by the stack of the switch to the thread (Windows), or of the one away from
    /// it (Linux).
    Running,
    /// Time that threads waited, by the stack at which they did: that of the switch to the thread (Windows), or of the
    /// one away from it (Linux).
    Waits,
    /// Time that threads waited, by the stack at which they did, and further by what ended the wait: its stack, and
    /// where it had waited itself before.
    WaitChains,
    /// Time that threads did not run, whether they waited or were ready to run, by the stacks of waits.
    OffCpu,
    /// Times that a thread made another ready, by its stack.
    Ready,
    /// Bytes of disk requests, by the stack that sent them.
    Disk,
    /// Bytes of reads and writes of files, and other operations with no bytes.
    Files,
    /// Bytes sent and received over TCP and UDP.
    Network,
    /// Time that hard faults took.
    Faults,
    /// Number of page faults that need no disk: for pages that are in memory already, new ones, and copies.
    SoftFaults,
    /// Bytes of address space that was allocated (VirtualAlloc).
    Memory,
    /// Bytes that were allocated in heaps of Windows.
    Heap,
    /// Number of system calls.
    Syscalls,
    /// Time of interrupts and deferred calls.
    Interrupts,
    /// Number of exceptions of .NET.
    Exceptions,
    /// Bytes that .NET programs allocated (sampled).
    Allocations,
    /// Number of samples of .NET's threads, running or not (Microsoft-DotNETCore-SampleProfiler in EventPipe traces).
    DotNet,
    /// Number of events of every kind that have a stack.
    Events,
}

impl StackWeight {
    /// All that can be counted, in the order of reports.
    pub const ALL: [StackWeight; 18] = [
        StackWeight::Running,
        StackWeight::Waits,
        StackWeight::WaitChains,
        StackWeight::OffCpu,
        StackWeight::Ready,
        StackWeight::Disk,
        StackWeight::Files,
        StackWeight::Network,
        StackWeight::Faults,
        StackWeight::SoftFaults,
        StackWeight::Memory,
        StackWeight::Heap,
        StackWeight::Syscalls,
        StackWeight::Interrupts,
        StackWeight::Exceptions,
        StackWeight::Allocations,
        StackWeight::DotNet,
        StackWeight::Events,
    ];

    /// Returns the name for programs: `wait-chains`.
    pub fn name(self) -> &'static str {
        self.table_name().strip_suffix(BY_FUNCTION).unwrap_or_default()
    }

    /// Returns the weight with a name.
    pub fn of_name(name: &str) -> Option<StackWeight> {
        StackWeight::ALL.into_iter().find(|weight| weight.name() == name)
    }

    /// Returns what is counted, as a phrase.
    pub fn about(self) -> &'static str {
        self.info().about
    }

    /// Returns the column that has the weight in the table of [`StackWeight::rows`], or `rows` if each row counts
    /// once; `None` if no column has it.
    pub fn column(self) -> Option<&'static str> {
        self.info().column
    }

    /// Returns the name of the table by function.
    pub fn table_name(self) -> &'static str {
        self.info().table
    }

    /// Returns the title of the table by function.
    pub fn title(self) -> &'static str {
        self.info().title
    }

    /// Returns what enables the events: kernel flags by their names in xperf, or a provider with its keywords.
    pub fn flags(self) -> &'static str {
        self.info().flags
    }

    /// Returns what is summed up.
    pub fn unit(self) -> WeightUnit {
        self.info().unit
    }

    /// Returns the table that has the events one by one, if there is one.
    pub fn rows(self) -> Option<&'static str> {
        self.info().rows
    }

    fn info(self) -> Info {
        match self {
            StackWeight::Running => Info {
                table: "running-by-function",
                title: "CPU by function (switches)",
                about: "time that threads ran, from switches",
                flags: SWITCHES,
                unit: WeightUnit::Time,
                rows: Some("cpu_precise"),
                column: None,
            },
            StackWeight::Waits => Info {
                table: "waits-by-function",
                title: "Waits by function",
                about: "time that threads waited",
                flags: SWITCHES,
                unit: WeightUnit::Time,
                rows: Some("cpu_precise"),
                column: Some("waits"),
            },
            StackWeight::WaitChains => Info {
                table: "wait-chains-by-function",
                title: "Wait chains by function",
                about: "time that threads waited, further by what ended the waits, and what that had waited for",
                flags: CHAINS,
                unit: WeightUnit::Time,
                rows: Some("cpu_precise"),
                column: None,
            },
            StackWeight::OffCpu => Info {
                table: "offcpu-by-function",
                title: "Time off the processor by function",
                about: "time that threads did not run: they waited or were ready to run",
                flags: SWITCHES,
                unit: WeightUnit::Time,
                rows: Some("cpu_precise"),
                column: None,
            },
            StackWeight::Ready => Info {
                table: "ready-by-function",
                title: "Threads made ready by function",
                about: "threads that were made ready",
                flags: "PROC_THREAD+LOADER+CSWITCH+DISPATCHER with --stackwalk ReadyThread",
                unit: WeightUnit::Count,
                rows: Some("cpu_precise"),
                column: None,
            },
            StackWeight::Disk => Info {
                table: "disk-by-function",
                title: "Disk I/O by function",
                about: "bytes of disk requests",
                flags: "PROC_THREAD+LOADER+DISK_IO+DISK_IO_INIT with --stackwalk DiskReadInit+DiskWriteInit",
                unit: WeightUnit::Bytes,
                rows: Some("disk"),
                column: Some("size"),
            },
            StackWeight::Files => Info {
                table: "files-by-function",
                title: "File I/O by function",
                about: "bytes of reads and writes of files, and other operations",
                flags: "PROC_THREAD+LOADER+FILE_IO_INIT with --stackwalk FileRead+FileWrite",
                unit: WeightUnit::Bytes,
                rows: Some("file_io"),
                column: Some("size"),
            },
            StackWeight::Network => Info {
                table: "network-by-function",
                title: "Network by function",
                about: "bytes sent and received",
                flags: "PROC_THREAD+LOADER+NETWORKTRACE with stacks of its events",
                unit: WeightUnit::Bytes,
                rows: Some("network"),
                column: Some("size"),
            },
            StackWeight::Faults => Info {
                table: "faults-by-function",
                title: "Hard faults by function",
                about: "time of hard faults",
                flags: "PROC_THREAD+LOADER+HARD_FAULTS with --stackwalk HardFault",
                unit: WeightUnit::Time,
                rows: Some("hard_faults"),
                column: Some("duration"),
            },
            StackWeight::SoftFaults => Info {
                table: "soft-faults-by-function",
                title: "Soft faults by function",
                about: "page faults without a disk",
                flags: "PROC_THREAD+LOADER+ALL_FAULTS with stacks of its events",
                unit: WeightUnit::Count,
                rows: Some("page_faults"),
                column: Some("rows"),
            },
            StackWeight::Memory => Info {
                table: "memory-by-function",
                title: "Allocated address space by function",
                about: "bytes of allocated address space",
                flags: "PROC_THREAD+LOADER+VIRT_ALLOC with --stackwalk VirtualAlloc",
                unit: WeightUnit::Bytes,
                rows: Some("virtual_alloc"),
                column: Some("size"),
            },
            StackWeight::Heap => Info {
                table: "heap-by-function",
                title: "Heap allocations by function",
                about: "bytes allocated in heaps of Windows",
                flags: "the heaps of a process (xperf -start -heap -pids) with stacks of HeapAlloc",
                unit: WeightUnit::Bytes,
                rows: Some("heap"),
                column: Some("size"),
            },
            StackWeight::Syscalls => Info {
                table: "syscalls-by-function",
                title: "System calls by function",
                about: "system calls",
                flags: "PROC_THREAD+LOADER+SYSCALL with --stackwalk SyscallEnter",
                unit: WeightUnit::Count,
                rows: Some("syscalls"),
                column: None,
            },
            StackWeight::Interrupts => Info {
                table: "interrupts-by-function",
                title: "Interrupts and DPCs by function",
                about: "time of interrupts and deferred calls",
                flags: "PROC_THREAD+LOADER+DPC+INTERRUPT with stacks of its events",
                unit: WeightUnit::Time,
                rows: Some("dpc_isr"),
                column: None,
            },
            StackWeight::Exceptions => Info {
                table: "exceptions-by-function",
                title: ".NET: exceptions by function",
                about: "exceptions of .NET",
                flags: EXCEPTIONS,
                unit: WeightUnit::Count,
                rows: Some("exceptions"),
                column: Some("rows"),
            },
            StackWeight::Allocations => Info {
                table: "allocations-by-function",
                title: ".NET: allocations by function (sampled)",
                about: "bytes that .NET programs allocated",
                flags: ALLOCATIONS,
                unit: WeightUnit::Bytes,
                rows: Some("allocations"),
                column: Some("size"),
            },
            StackWeight::DotNet => Info {
                table: "dotnet-by-function",
                title: ".NET: samples of threads by function",
                about: "samples of .NET's threads in EventPipe traces, running or not",
                flags: "Microsoft-DotNETCore-SampleProfiler, in traces of .NET's EventPipe",
                unit: WeightUnit::Count,
                rows: None,
                column: None,
            },
            StackWeight::Events => Info {
                table: "events-by-function",
                title: "Events by function",
                about: "all events with a stack",
                flags: "any event with --stackwalk, or a provider with --stacks",
                unit: WeightUnit::Count,
                rows: Some("events"),
                column: Some("rows"),
            },
        }
    }
}

/// What there is to say about a weight.
struct Info {
    /// The name of its table by function.
    table: &'static str,
    title: &'static str,
    about: &'static str,
    flags: &'static str,
    unit: WeightUnit,
    rows: Option<&'static str>,
    column: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_end_alike() {
        for weight in StackWeight::ALL {
            assert!(weight.table_name().ends_with(BY_FUNCTION), "{weight:?}");
            assert_eq!(StackWeight::of_name(weight.name()), Some(weight));
        }
    }
}
