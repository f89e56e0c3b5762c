//! The groups of lanes that there can be: of which table, how its rows lie in time, and what their height means.

use serde::Serialize;

/// What the height of a lane means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measure {
    /// The mean number of things at once: running processors, requests in flight.
    Busy,
    /// Bytes.
    Bytes,
    /// Number of rows.
    Count,
    /// The mean of an amount over time, such as of memory.
    Level,
}

/// A group of lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) table: &'static str,
    /// The column that separates the lanes; empty if each of `columns` is a lane.
    pub(crate) key: &'static str,
    /// The columns that are lanes.
    pub(crate) columns: &'static [&'static str],
    /// The column with the time of a row.
    pub(crate) time: &'static str,
    /// The column with the duration that ends at the time of a row, or the weight of a sample, or a size.
    pub(crate) value: Option<&'static str>,
    pub(crate) shape: Shape,
    pub(crate) measure: Measure,
    /// The column with the process whose time does not count if it is the idle process.
    pub(crate) idle: &'static str,
    pub(crate) unit: &'static str,
    /// The group whose lanes it has, as a further part of their height; empty for a group of its own.
    pub(crate) part_of: &'static str,
    /// What the part is called.
    pub(crate) part: &'static str,
    /// The only rows that count: those with a number from the first to the last in a column.
    pub(crate) only: Option<(&'static str, u32, u32)>,
}

/// How the rows of a table lie in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// At one point, with an amount.
    Point,
    /// For a duration that ends at the time; of each row, the duration in the column ended that much earlier, if there is one.
    Ends(Option<&'static str>),
    /// For a duration that starts at the time.
    Starts,
    /// From the time to that in a column, with an amount; a time that is missing was before or after the trace.
    Until(&'static str),
    /// With an amount that holds until the next row of the lane.
    Holds,
}

const KIND: Kind = Kind {
    name: "",
    title: "",
    summary: "",
    table: "",
    key: "",
    columns: &[],
    time: "time",
    value: None,
    shape: Shape::Point,
    measure: Measure::Count,
    idle: "",
    unit: "",
    part_of: "",
    part: "",
    only: None,
};

/// The idle states of processors.
const CORE: Kind = Kind {
    table: "cpu_idle_states",
    key: "processor",
    time: "enter_time",
    shape: Shape::Until("exit_time"),
    measure: Measure::Busy,
    unit: "of the time",
    ..KIND
};

/// All groups, in the order of the page, each before its further parts.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "cpu_processor",
        title: "CPU by processor",
        summary: "Part of the time in which a processor ran a thread, from context switches.",
        table: "cpu_precise",
        key: "processor",
        value: Some("ran"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        idle: "old_thread.process",
        unit: "of a processor",
        ..KIND
    },
    Kind {
        name: "cpu_process",
        title: "CPU by process",
        summary: "Number of processors that threads of a process ran on, from context switches.",
        table: "cpu_precise",
        key: "old_thread.process",
        value: Some("ran"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        idle: "old_thread.process",
        unit: "processors",
        ..KIND
    },
    Kind {
        name: "cpu_thread",
        title: "Threads by state",
        summary: "Parts of the time in which a thread ran, was ready, and waited, from context switches. What a thread does \
                  from its last switch to the end of the trace is not known.",
        table: "cpu_precise",
        key: "old_thread",
        value: Some("ran"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        idle: "old_thread.process",
        unit: "of the time",
        part: "running",
        ..KIND
    },
    Kind {
        name: "thread_ready",
        table: "cpu_precise",
        key: "new_thread",
        value: Some("ready"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        idle: "new_thread.process",
        part_of: "cpu_thread",
        part: "ready",
        ..KIND
    },
    Kind {
        name: "thread_waits",
        table: "cpu_precise",
        key: "new_thread",
        value: Some("waits"),
        shape: Shape::Ends(Some("ready")),
        measure: Measure::Busy,
        idle: "new_thread.process",
        part_of: "cpu_thread",
        part: "waiting",
        ..KIND
    },
    Kind {
        name: "ready_process",
        title: "Ready by process",
        summary: "Mean number of threads that could run and waited for a processor.",
        table: "cpu_precise",
        key: "new_thread.process",
        value: Some("ready"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        idle: "new_thread.process",
        unit: "threads",
        ..KIND
    },
    Kind {
        name: "waits",
        title: "Waits by reason",
        summary: "Mean number of threads that waited for something and were switched to later.",
        table: "cpu_precise",
        key: "new_wait_reason",
        value: Some("waits"),
        shape: Shape::Ends(Some("ready")),
        measure: Measure::Busy,
        idle: "new_thread.process",
        unit: "threads",
        ..KIND
    },
    Kind {
        name: "core_states",
        title: "Core states",
        summary: "Mean number of processors in an idle state, by its number; greater ones are deeper.",
        table: "cpu_idle_states",
        key: "state",
        time: "enter_time",
        shape: Shape::Until("exit_time"),
        measure: Measure::Busy,
        unit: "processors",
        ..KIND
    },
    Kind {
        name: "core_processor",
        title: "Processors by idle state",
        summary: "Parts of the time in which a processor was in an idle state, by its number; greater ones are deeper.",
        part: "state 0 or 1",
        only: Some(("state", 0, 1)),
        ..CORE
    },
    Kind {
        name: "core_second",
        part_of: "core_processor",
        part: "state 2",
        only: Some(("state", 2, 2)),
        ..CORE
    },
    Kind {
        name: "core_deeper",
        part_of: "core_processor",
        part: "deeper",
        only: Some(("state", 3, u32::MAX)),
        ..CORE
    },
    Kind {
        name: "cpu_frequency",
        title: "CPU frequency",
        summary: "Frequency of a processor since its last change.",
        table: "cpu_frequency",
        key: "processor",
        value: Some("frequency"),
        shape: Shape::Holds,
        measure: Measure::Level,
        unit: "MHz",
        ..KIND
    },
    Kind {
        name: "samples_process",
        title: "Samples by process",
        summary: "Number of processors that a process used; a sample stands for the time before it.",
        table: "cpu_sampled",
        key: "thread.process",
        value: Some("weight"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        idle: "thread.process",
        unit: "processors",
        ..KIND
    },
    Kind {
        name: "samples_processor",
        title: "Samples by processor",
        summary: "Part of the time in which a processor was busy; a sample stands for the time before it.",
        table: "cpu_sampled",
        key: "processor",
        value: Some("weight"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        idle: "thread.process",
        unit: "of a processor",
        ..KIND
    },
    Kind {
        name: "dpc_isr",
        title: "DPC and ISR",
        summary: "Number of processors that ran interrupts and deferred procedure calls.",
        table: "dpc_isr",
        key: "type",
        value: Some("duration"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        unit: "processors",
        ..KIND
    },
    Kind {
        name: "disk",
        title: "Disk queue",
        summary: "Mean number of requests that a disk had at once.",
        table: "disk",
        key: "disk",
        value: Some("duration"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        unit: "requests",
        ..KIND
    },
    Kind {
        name: "disk_bytes",
        title: "Disk I/O",
        summary: "Bytes that disks read and wrote.",
        table: "disk",
        key: "operation",
        value: Some("size"),
        measure: Measure::Bytes,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "file_io",
        title: "File operations",
        summary: "Operations on files at once.",
        table: "file_io",
        key: "operation",
        value: Some("duration"),
        shape: Shape::Starts,
        measure: Measure::Busy,
        unit: "operations",
        ..KIND
    },
    Kind {
        name: "hard_faults",
        title: "Hard faults",
        summary: "Page faults that wait for a disk, at once.",
        table: "hard_faults",
        key: "thread.process",
        value: Some("duration"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        unit: "faults",
        ..KIND
    },
    Kind {
        name: "page_faults",
        title: "Page faults",
        summary: "Number of page faults by their type.",
        table: "page_faults",
        key: "type",
        unit: "faults",
        ..KIND
    },
    Kind {
        name: "memory",
        title: "Memory",
        summary: "Memory of the system by what it is used for, since it was last counted.",
        table: "memory_utilization",
        columns: &["commit", "free", "zero", "standby", "modified", "paged_pool", "nonpaged_pool"],
        shape: Shape::Holds,
        measure: Measure::Level,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "working_set",
        title: "Working set by process",
        summary: "Resident memory of a process, since it was last counted.",
        table: "virtual_memory_snapshots",
        key: "process",
        value: Some("working_set"),
        shape: Shape::Holds,
        measure: Measure::Level,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "virtual_alloc",
        title: "Committed memory by process",
        summary: "Memory that a process committed and has not freed yet, as far as the trace says.",
        table: "virtual_alloc",
        key: "process",
        time: "commit_time",
        value: Some("size"),
        shape: Shape::Until("decommit_time"),
        measure: Measure::Level,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "heap",
        title: "Heap by process",
        summary: "Blocks of heaps that were allocated in the trace and are not freed yet.",
        table: "heap",
        key: "process",
        time: "alloc_time",
        value: Some("size"),
        shape: Shape::Until("free_time"),
        measure: Measure::Level,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "pool",
        title: "Pool by tag",
        summary: "Memory of the kernel's pools that was allocated in the trace and is not freed yet.",
        table: "pool",
        key: "tag",
        time: "alloc_time",
        value: Some("size"),
        shape: Shape::Until("free_time"),
        measure: Measure::Level,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "handles",
        title: "Handles by process",
        summary: "Mean number of handles that are open, as far as the trace says.",
        table: "handles",
        key: "owning_process",
        time: "create_time",
        shape: Shape::Until("close_time"),
        measure: Measure::Busy,
        unit: "handles",
        ..KIND
    },
    Kind {
        name: "syscalls",
        title: "System calls",
        summary: "Number of system calls that ended.",
        table: "syscalls",
        key: "thread.process",
        unit: "calls",
        ..KIND
    },
    Kind {
        name: "network",
        title: "Network",
        summary: "Bytes sent and received.",
        table: "network",
        key: "operation",
        value: Some("size"),
        measure: Measure::Bytes,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "registry",
        title: "Registry",
        summary: "Number of operations on the registry.",
        table: "registry",
        key: "thread.process",
        unit: "operations",
        ..KIND
    },
    Kind {
        name: "mini_filters",
        title: "Mini-filters",
        summary: "Mean number of calls of filters of file systems at once.",
        table: "mini_filters",
        key: "routine.module",
        time: "end_time",
        value: Some("duration"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        unit: "calls",
        ..KIND
    },
    Kind {
        name: "gpu_process",
        title: "GPU by process",
        summary: "Mean number of packets of a process that the hardware of a graphics adapter had at once.",
        table: "gpu_dma_packets",
        key: "context.process",
        time: "start_time",
        shape: Shape::Until("end_time"),
        measure: Measure::Busy,
        unit: "packets",
        ..KIND
    },
    Kind {
        name: "gpu_node",
        title: "GPU by engine",
        summary: "Mean number of packets that an engine of a graphics adapter had at once.",
        table: "gpu_dma_packets",
        key: "context.node",
        time: "start_time",
        shape: Shape::Until("end_time"),
        measure: Measure::Busy,
        unit: "packets",
        ..KIND
    },
    Kind {
        name: "gpu_queue",
        title: "GPU queue by process",
        summary: "Mean number of packets that a process had in the queues of the graphics kernel.",
        table: "gpu_queue_packets",
        key: "context.process",
        time: "start_time",
        shape: Shape::Until("end_time"),
        measure: Measure::Busy,
        unit: "packets",
        ..KIND
    },
    Kind {
        name: "focus",
        title: "Window in focus",
        summary: "Part of the time in which a window of a process had the focus.",
        table: "window_in_focus",
        key: "thread.process",
        time: "start_time",
        shape: Shape::Until("end_time"),
        measure: Measure::Busy,
        unit: "of the time",
        ..KIND
    },
    Kind {
        name: "ui_delays",
        title: "UI delays",
        summary: "Mean number of threads with windows that did not look at their messages.",
        table: "ui_delays",
        key: "process",
        time: "end_time",
        value: Some("duration"),
        shape: Shape::Ends(None),
        measure: Measure::Busy,
        unit: "threads",
        ..KIND
    },
    Kind {
        name: "power",
        title: "Power",
        summary: "Steps of changes of the system's power state.",
        table: "power",
        key: "operation",
        unit: "steps",
        ..KIND
    },
    Kind {
        name: "gc_pause",
        title: ".NET: GC pauses",
        summary: "Part of the time in which the threads of a program were suspended for garbage collections.",
        table: "gc",
        key: "process",
        time: "start_time",
        value: Some("pause"),
        shape: Shape::Starts,
        measure: Measure::Busy,
        unit: "of the time",
        ..KIND
    },
    Kind {
        name: "gc",
        title: ".NET: GC by generation",
        summary: "Mean number of garbage collections at once, by the oldest generation that is collected.",
        table: "gc",
        key: "generation",
        time: "start_time",
        shape: Shape::Until("end_time"),
        measure: Measure::Busy,
        unit: "collections",
        ..KIND
    },
    Kind {
        name: "gc_heap",
        title: ".NET: GC heap",
        summary: "Size of the heap after the last garbage collection.",
        table: "gc",
        key: "process",
        time: "end_time",
        value: Some("size_after"),
        shape: Shape::Holds,
        measure: Measure::Level,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "allocations",
        title: ".NET: allocations",
        summary: "Bytes that a program of .NET allocated.",
        table: "allocations",
        key: "process",
        value: Some("size"),
        measure: Measure::Bytes,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "jit",
        title: ".NET: JIT",
        summary: "Mean number of methods that are compiled at once.",
        table: "jit",
        key: "process",
        time: "start_time",
        shape: Shape::Until("end_time"),
        measure: Measure::Busy,
        unit: "methods",
        ..KIND
    },
    Kind {
        name: "exceptions",
        title: ".NET: exceptions",
        summary: "Number of exceptions by type.",
        table: "exceptions",
        key: "type",
        unit: "exceptions",
        ..KIND
    },
    Kind {
        name: "contention",
        title: ".NET: lock waits",
        summary: "Mean number of threads that wait for a lock of .NET.",
        table: "contention",
        key: "process",
        time: "start_time",
        shape: Shape::Until("end_time"),
        measure: Measure::Busy,
        unit: "threads",
        ..KIND
    },
    Kind {
        name: "threadpool",
        title: ".NET: thread pool",
        summary: "Number of threads of the pool that work, since its last change.",
        table: "threadpool",
        key: "process",
        value: Some("active_threads"),
        shape: Shape::Holds,
        measure: Measure::Level,
        unit: "threads",
        ..KIND
    },
    Kind {
        name: "marks",
        title: "Marks",
        summary: "Marks that a tool put into the trace, by their text.",
        table: "marks",
        key: "label",
        unit: "marks",
        ..KIND
    },
    Kind {
        name: "regions",
        title: "Regions of interest",
        summary: "Mean number of regions of a name at once, from files of regions.",
        table: "regions_of_interest",
        key: "region",
        time: "start_time",
        shape: Shape::Until("stop_time"),
        measure: Measure::Busy,
        unit: "regions",
        ..KIND
    },
    Kind {
        name: "activities",
        title: "Activities",
        summary: "Mean number of activities of a kind at once, from events with the opcodes Start and Stop.",
        table: "activities",
        key: "kind",
        time: "start_time",
        shape: Shape::Until("stop_time"),
        measure: Measure::Busy,
        unit: "activities",
        ..KIND
    },
    Kind {
        name: "events",
        title: "Events by provider",
        summary: "Number of events.",
        table: "events",
        key: "kind.provider",
        unit: "events",
        ..KIND
    },
];
