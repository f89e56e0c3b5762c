//! Tables of memory: page faults, pool, heaps, counters of processes, and the lists of the memory manager.

use etw_columns::TableSchema;
use etw_event::Guid;
use etw_kernel_events::ids::{self, Class};

use super::{Declared, Fill, Kinds, Of, Scope, opcode};
use crate::rows::columns::{
    PROCESS, PROCESSOR, STACK, THREAD, address, bytes, count, duration, end_of, frame, id, stack, start_of,
    text, thread, time,
};

/// Microsoft-Windows-Kernel-Memory.
const KERNEL_MEMORY: Guid = Guid::from_u128(0xd1d93ef7_e1f2_4f45_9943_03d245fe6c00);
/// Bytes of a page, on all processors that Windows runs on.
const PAGE: u64 = 4096;

pub(super) static PAGE_FAULTS: Declared = Declared {
    schema: &TableSchema::new(
        "page_faults",
        "Page Faults",
        "One row for each page fault, resolved from memory or not.",
        columns![
            time("When it happened."),
            THREAD,
            PROCESSOR,
            text(
                "type",
                "`Transition`, `DemandZero`, `CopyOnWrite`, `GuardPage`, `Hard` or `AccessViolation`."
            ),
            address("address", "Virtual address."),
            frame("instruction", "Instruction that accessed it."),
            STACK,
        ],
    ),
    starts: &[Kinds {
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
    }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Processor),
        Fill::Start(Of::Name),
        Fill::Start(Of::Property(&["VirtualAddress"])),
        Fill::Start(Of::Frame(&["ProgramCounter"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static POOL: Declared = Declared {
    schema: &TableSchema::new(
        "pool",
        "Pool",
        "One row for each allocation from the kernel's pools.",
        columns![
            start_of("alloc_time", "When it was allocated."),
            end_of("free_time", "When it was freed, if that was during the trace."),
            duration("lifetime", "Time between the two."),
            thread("thread", "Thread that allocated it."),
            id("type", "Type of the pool (`POOL_TYPE`)."),
            text("tag", "Tag of the allocation, four characters."),
            bytes("size", "Number of bytes."),
            address("address", "Address."),
            stack("alloc_stack", "Stack of the allocation."),
            stack("free_stack", "Stack of the release."),
        ],
    ),
    starts: &[Kinds {
        provider: Class::Pool.guid(),
        events: &[
            (opcode(ids::Pool::ALLOCATEPOOL), "Allocate"),
            (opcode(ids::Pool::ALLOCATEPOOL_SESSION), "Allocate"),
        ],
        key: &["Entry"],
    }],
    stops: &[Kinds {
        provider: Class::Pool.guid(),
        events: &[(opcode(ids::Pool::FREEPOOL), "Free"), (opcode(ids::Pool::FREEPOOL_SESSION), "Free")],
        key: &["Entry"],
    }],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::Thread),
        Fill::Start(Of::Property(&["Type"])),
        Fill::Start(Of::Tag("Tag")),
        Fill::Start(Of::Property(&["NumberOfBytes"])),
        Fill::Start(Of::Property(&["Entry"])),
        Fill::Start(Of::Stack),
        Fill::Stop(Of::Stack),
    ],
};

pub(super) static PROCESS_COUNTERS: Declared = Declared {
    schema: &TableSchema::new(
        "process_counters",
        "Process Counters",
        "One row for each process that ends during the trace or is there at its end: what it used.",
        columns![
            time("When the counters were read."),
            PROCESS,
            text("event", "`End` of the process, or `Rundown` at the end of the trace."),
            count("page_faults", "Number of page faults."),
            count("handles", "Number of handles."),
            bytes("working_set", "Working set."),
            bytes("peak_working_set", "Greatest working set."),
            bytes("virtual_size", "Size of the address space that is used."),
            bytes("peak_virtual_size", "Greatest size of it."),
            bytes("commit", "Memory that is backed by a paging file."),
            bytes("peak_commit", "Greatest size of it."),
            bytes("paged_pool", "Charge for the paged pool."),
            bytes("peak_paged_pool", "Greatest charge for it."),
            bytes("nonpaged_pool", "Charge for the nonpaged pool."),
            bytes("peak_nonpaged_pool", "Greatest charge for it."),
            bytes("private_size", "Private memory."),
        ],
    ),
    starts: &[Kinds {
        provider: Class::Process.guid(),
        events: &[
            (opcode(ids::Process::PERF_CTR), "End"),
            (opcode(ids::Process::PERF_CTR_RUNDOWN), "Rundown"),
        ],
        key: &[],
    }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::OnlyProcessIn(&["ProcessId"])),
        Fill::Start(Of::Name),
        Fill::Start(Of::Property(&["PageFaultCount"])),
        Fill::Start(Of::Property(&["HandleCount"])),
        Fill::Start(Of::Property(&["WorkingSetSize"])),
        Fill::Start(Of::Property(&["PeakWorkingSetSize"])),
        Fill::Start(Of::Property(&["VirtualSize"])),
        Fill::Start(Of::Property(&["PeakVirtualSize"])),
        Fill::Start(Of::Property(&["PagefileUsage"])),
        Fill::Start(Of::Property(&["PeakPagefileUsage"])),
        Fill::Start(Of::Property(&["QuotaPagedPoolUsage"])),
        Fill::Start(Of::Property(&["QuotaPeakPagedPoolUsage"])),
        Fill::Start(Of::Property(&["QuotaNonPagedPoolUsage"])),
        Fill::Start(Of::Property(&["QuotaPeakNonPagedPoolUsage"])),
        Fill::Start(Of::Property(&["PrivatePageCount"])),
    ],
};

pub(super) static UTILIZATION: Declared = Declared {
    schema: &TableSchema::new(
        "memory_utilization",
        "Memory Utilization",
        "One row for each time at which the memory manager counted its pages.",
        columns![
            time("When they were counted."),
            bytes("zero", "Pages filled with zeros."),
            bytes("free", "Free pages."),
            bytes("standby", "Standby pages of all priorities."),
            bytes("modified", "Modified pages."),
            bytes("modified_no_write", "Modified pages that are not written."),
            bytes("bad", "Bad pages."),
            bytes("paged_pool", "Pages of the paged pool."),
            bytes("nonpaged_pool", "Pages of the nonpaged pool."),
            bytes("mdl", "Pages that drivers have locked."),
            bytes("commit", "Memory that is committed."),
        ],
    ),
    starts: &[
        Kinds {
            provider: Class::PageFault.guid(),
            events: &[(opcode(ids::PageFault::MEMINFO), "MemInfo")],
            key: &[],
        },
        Kinds { provider: KERNEL_MEMORY, events: &[(1, "MemInfo")], key: &[] },
    ],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Scaled(&["ZeroPageCount"], PAGE)),
        Fill::Start(Of::Scaled(&["FreePageCount"], PAGE)),
        Fill::Start(Of::SumScaled(&["PageCountByPriority", "StandbyPageCounts"], PAGE)),
        Fill::Start(Of::Scaled(&["ModifiedPageCount"], PAGE)),
        Fill::Start(Of::Scaled(&["ModifiedNoWritePageCount"], PAGE)),
        Fill::Start(Of::Scaled(&["BadPageCount"], PAGE)),
        Fill::Start(Of::Scaled(&["PagedPoolPageCount"], PAGE)),
        Fill::Start(Of::Scaled(&["NonPagedPoolPageCount"], PAGE)),
        Fill::Start(Of::Scaled(&["MdlPageCount"], PAGE)),
        Fill::Start(Of::Scaled(&["CommitPageCount"], PAGE)),
    ],
};
