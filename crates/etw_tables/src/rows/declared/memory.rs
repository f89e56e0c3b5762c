//! Tables of memory: page faults, pool, heaps, counters of processes, and the lists of the memory manager.

use etw_event::Guid;
use etw_kernel_events::ids::{self, Class};

use super::{EventValue, Kinds, Scope, ValueSource, opcode};
use crate::rows::columns::{
    Address, Bytes, Count, End, Frame, Id, Process, Processor, Span, Stack, Start, Text, Thread, Time,
};

/// Microsoft-Windows-Kernel-Memory.
const KERNEL_MEMORY: Guid = Guid::from_u128(0xd1d93ef7_e1f2_4f45_9943_03d245fe6c00);
/// Bytes of a page, on all processors that Windows runs on.
const PAGE: u64 = 4096;

property_table! {
    /// One row for each page fault, resolved from memory or not.
    PAGE_FAULTS: "page_faults", "Page Faults", Scope::Machine;
    summary by ["thread.process", "type", "instruction.function"] values ["rows", "percent(rows)"];
    starts &[Kinds {
        provider: Class::PageFault.guid(),
        events: &[
            (opcode(ids::PageFault::TRANSITION_FAULT), "Transition"),
            (opcode(ids::PageFault::DEMAND_ZERO_FAULT), "DemandZero"),
            (opcode(ids::PageFault::COPY_ON_WRITE), "CopyOnWrite"),
            (opcode(ids::PageFault::GUARD_PAGE_FAULT), "GuardPage"),
            (opcode(ids::PageFault::HARD_PAGE_FAULT), "Hard"),
            (opcode(ids::PageFault::ACCESS_VIOLATION), "AccessViolation"),
        ],
        key: &[],
    }];
    stops &[];
    /// When it happened.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Processor that logged the event.
    processor: Processor = ValueSource::Start(EventValue::Processor),
    /// `Transition`, `DemandZero`, `CopyOnWrite`, `GuardPage`, `Hard` or `AccessViolation`.
    r#type: Text = ValueSource::Start(EventValue::Name),
    /// Virtual address.
    address: Address = ValueSource::Start(EventValue::Property(&["VirtualAddress"])),
    /// Instruction that accessed it.
    instruction: Frame = ValueSource::Start(EventValue::Frame(&["ProgramCounter"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for each allocation from the kernel's pools.
    POOL: "pool", "Pool", Scope::Machine;
    summary by ["tag", "type"] values ["sum(size)", "rows", "mean(lifetime)"];
    starts &[Kinds {
        provider: Class::Pool.guid(),
        events: &[
            (opcode(ids::Pool::ALLOCATEPOOL), "Allocate"),
            (opcode(ids::Pool::ALLOCATEPOOL_SESSION), "Allocate"),
        ],
        key: &["Entry"],
    }];
    stops &[Kinds {
        provider: Class::Pool.guid(),
        events: &[(opcode(ids::Pool::FREEPOOL), "Free"), (opcode(ids::Pool::FREEPOOL_SESSION), "Free")],
        key: &["Entry"],
    }];
    /// When it was allocated.
    alloc_time: Start = ValueSource::Start(EventValue::Time),
    /// When it was freed, if that was during the trace.
    free_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    lifetime: Span = ValueSource::Lasted,
    /// Thread that allocated it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Type of the pool (`POOL_TYPE`).
    r#type: Id = ValueSource::Start(EventValue::Property(&["Type"])),
    /// Tag of the allocation, four characters.
    tag: Text = ValueSource::Start(EventValue::Tag("Tag")),
    /// Number of bytes.
    size: Bytes = ValueSource::Start(EventValue::Property(&["NumberOfBytes"])),
    /// Address.
    address: Address = ValueSource::Start(EventValue::Property(&["Entry"])),
    /// Stack of the allocation.
    alloc_stack: Stack = ValueSource::Start(EventValue::Stack),
    /// Stack of the release.
    free_stack: Stack = ValueSource::Stop(EventValue::Stack),
}

property_table! {
    /// One row for each process that ends during the trace or is there at its end: what it used.
    PROCESS_COUNTERS: "process_counters", "Process Counters", Scope::Machine;
    starts &[Kinds {
        provider: Class::Process.guid(),
        events: &[
            (opcode(ids::Process::PERF_CTR), "End"),
            (opcode(ids::Process::PERF_CTR_RUNDOWN), "Rundown"),
        ],
        key: &[],
    }];
    stops &[];
    /// When the counters were read.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::OnlyProcessIn(&["ProcessId"])),
    /// `End` of the process, or `Rundown` at the end of the trace.
    event: Text = ValueSource::Start(EventValue::Name),
    /// Number of page faults.
    page_faults: Count = ValueSource::Start(EventValue::Property(&["PageFaultCount"])),
    /// Number of handles.
    handles: Count = ValueSource::Start(EventValue::Property(&["HandleCount"])),
    /// Working set.
    working_set: Bytes = ValueSource::Start(EventValue::Property(&["WorkingSetSize"])),
    /// Greatest working set.
    peak_working_set: Bytes = ValueSource::Start(EventValue::Property(&["PeakWorkingSetSize"])),
    /// Size of the address space that is used.
    virtual_size: Bytes = ValueSource::Start(EventValue::Property(&["VirtualSize"])),
    /// Greatest size of it.
    peak_virtual_size: Bytes = ValueSource::Start(EventValue::Property(&["PeakVirtualSize"])),
    /// Memory that is backed by a paging file.
    commit: Bytes = ValueSource::Start(EventValue::Property(&["PagefileUsage"])),
    /// Greatest size of it.
    peak_commit: Bytes = ValueSource::Start(EventValue::Property(&["PeakPagefileUsage"])),
    /// Charge for the paged pool.
    paged_pool: Bytes = ValueSource::Start(EventValue::Property(&["QuotaPagedPoolUsage"])),
    /// Greatest charge for it.
    peak_paged_pool: Bytes = ValueSource::Start(EventValue::Property(&["QuotaPeakPagedPoolUsage"])),
    /// Charge for the nonpaged pool.
    nonpaged_pool: Bytes = ValueSource::Start(EventValue::Property(&["QuotaNonPagedPoolUsage"])),
    /// Greatest charge for it.
    peak_nonpaged_pool: Bytes = ValueSource::Start(EventValue::Property(&["QuotaPeakNonPagedPoolUsage"])),
    /// Private memory.
    private_size: Bytes = ValueSource::Start(EventValue::Property(&["PrivatePageCount"])),
}

property_table! {
    /// One row for each time at which the memory manager counted its pages.
    UTILIZATION: "memory_utilization", "Memory Utilization", Scope::Machine;
    starts &[
        Kinds {
            provider: Class::PageFault.guid(),
            events: &[(opcode(ids::PageFault::MEMINFO), "MemInfo")],
            key: &[],
        },
        Kinds { provider: KERNEL_MEMORY, events: &[(1, "MemInfo")], key: &[] },
    ];
    stops &[];
    /// When they were counted.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Pages filled with zeros.
    zero: Bytes = ValueSource::Start(EventValue::Scaled(&["ZeroPageCount"], PAGE)),
    /// Free pages.
    free: Bytes = ValueSource::Start(EventValue::Scaled(&["FreePageCount"], PAGE)),
    /// Standby pages of all priorities.
    standby: Bytes = ValueSource::Start(EventValue::SumScaled(&["PageCountByPriority", "StandbyPageCounts"], PAGE)),
    /// Modified pages.
    modified: Bytes = ValueSource::Start(EventValue::Scaled(&["ModifiedPageCount"], PAGE)),
    /// Modified pages that are not written.
    modified_no_write: Bytes = ValueSource::Start(EventValue::Scaled(&["ModifiedNoWritePageCount"], PAGE)),
    /// Bad pages.
    bad: Bytes = ValueSource::Start(EventValue::Scaled(&["BadPageCount"], PAGE)),
    /// Pages of the paged pool.
    paged_pool: Bytes = ValueSource::Start(EventValue::Scaled(&["PagedPoolPageCount"], PAGE)),
    /// Pages of the nonpaged pool.
    nonpaged_pool: Bytes = ValueSource::Start(EventValue::Scaled(&["NonPagedPoolPageCount"], PAGE)),
    /// Pages that drivers have locked.
    mdl: Bytes = ValueSource::Start(EventValue::Scaled(&["MdlPageCount"], PAGE)),
    /// Memory that is committed.
    commit: Bytes = ValueSource::Start(EventValue::Scaled(&["CommitPageCount"], PAGE)),
}
