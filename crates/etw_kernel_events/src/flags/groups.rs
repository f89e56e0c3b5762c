//! xperf's groups of flags, and the flags of the other words of the group masks.

use super::NOT_YET;

/// Groups of flags, as listed by `xperf -providers KG`, plus `FILENAME`, which xperf's `DISK_IO` includes.
pub(crate) const GROUPS: &[(&str, &str)] = &[
    ("Base", "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+PROFILE+MEMINFO+MEMINFO_WS"),
    (
        "Diag",
        "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PERF_COUNTER+COMPACT_CSWITCH",
    ),
    ("DiagEasy", "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PERF_COUNTER"),
    ("Latency", "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PROFILE"),
    ("FileIO", "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+FILE_IO+FILE_IO_INIT"),
    ("IOTrace", "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+CSWITCH"),
    ("ResumeTrace", "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+PROFILE+POWER"),
    ("SysProf", "PROC_THREAD+LOADER+PROFILE"),
    (
        "ResidentSet",
        "PROC_THREAD+LOADER+DISK_IO+FILENAME+HARD_FAULTS+MEMORY+MEMINFO+VAMAP+SESSION+VIRT_ALLOC",
    ),
    (
        "ReferenceSet",
        "PROC_THREAD+LOADER+HARD_FAULTS+MEMORY+FOOTPRINT+VIRT_ALLOC+MEMINFO+VAMAP+SESSION+REFSET+MEMINFO_WS",
    ),
    ("Network", "PROC_THREAD+LOADER+NETWORKTRACE"),
];

const NO_PAGE_LISTS: &str = "Linux does not report single pages that change their list";
const NO_FILTERS: &str = "Linux has no filter drivers between programs and file systems";
const NO_POOL: &str = "Linux has no pools";

/// Flags of the other words of the group masks (`PERF_*`) that are not synonyms of others: the name in xperf, the name
/// in recording profiles, and why they are not supported.
pub(crate) const OF_FURTHER_WORDS: &[(&str, &str, &str)] = &[
    ("MEMORY", "Memory", NO_PAGE_LISTS),
    ("FOOTPRINT", "FootPrint", NO_PAGE_LISTS),
    ("REFSET", "ReferenceSet", NO_PAGE_LISTS),
    ("POOL", "Pool", NO_POOL),
    ("COMPACT_CSWITCH", "CompactCSwitch", "CSWITCH has the same information, and more"),
    ("PMC_PROFILE", "PMCProfile", NOT_YET),
    ("PRIORITY", "ThreadPriority", NOT_YET),
    ("SPINLOCK", "SpinLock", NOT_YET),
    ("MEMINFO", "MemoryInfo", NOT_YET),
    ("MEMINFO_WS", "MemoryInfoWS", NOT_YET),
    ("CONTMEMGEN", "ContiguousMemoryGeneration", NO_PAGE_LISTS),
    ("SESSION", "Session", NO_PAGE_LISTS),
    ("KQUEUE", "KernelQueue", "Linux has no queues of this kind in its kernel"),
    ("IDLE_STATES", "IdleStates", NOT_YET),
    ("TIMER", "Timer", NOT_YET),
    ("CLOCKINT", "ClockInterrupt", NOT_YET),
    ("IPI", "IPI", NOT_YET),
    ("OB_HANDLE", "Handle", "Linux has no handles to objects of the kernel"),
    ("OB_OBJECT", "Object", "Linux has no objects of the kernel"),
    ("POWER", "Power", NOT_YET),
    ("IDEAL_PROCESSOR", "IdealProcessor", "Linux threads have no ideal processor"),
    ("FLT_IO_INIT", "FilterIOInit", NO_FILTERS),
    ("FLT_IO", "FilterIO", NO_FILTERS),
    ("FLT_FASTIO", "FilterIOFastIO", NO_FILTERS),
    ("FLT_IO_FAILURE", "FilterIOFailure", NO_FILTERS),
    ("CC", "CC", "Linux has no cache manager of this kind"),
];
