//! The declarations of the tables.

use std::sync::LazyLock;

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, Role, TableId, TableSchema, Unit};

use super::activities::ACTIVITIES;
use super::columns::{
    FILE, PROCESSOR, STACK, THREAD, address, bytes, code, duration, end_of, frame, id, process, stack,
    start_of, text, thread, time,
};
use super::commits::VIRTUAL_ALLOC;
use super::connections::CONNECTIONS;
use super::declared;
use super::disks::DISK_QUEUE;
use super::heaps::HEAP;
use super::losses::LOSSES;
use super::regions::REGIONS_OF_INTEREST;
use super::registry::{REGISTRY, REGISTRY_KEYS};
use super::sources::{BUFFERS, PROCESS_NAMES, TRACES};

const EVENTS_COLUMNS: &[Column] = &[
    time("When the event was logged."),
    Column::row_of("event_kinds", "kind", "Provider, name and descriptor of the event."),
    Column::row_of("processes", "process", "Process in the event's header, or that of its thread."),
    thread("thread", "Thread in the event's header, or what a kernel event is about."),
    PROCESSOR,
    Column::new("size", ColumnType::U32, "Size of the record.").unit(Unit::Bytes).role(Role::Measure),
    STACK,
];
static EVENTS: TableSchema = TableSchema::new(
    "events",
    "Generic Events",
    "One row for each event, except stacks, which are in the column of the event that they belong to.",
    EVENTS_COLUMNS,
);

const EVENT_KINDS_COLUMNS: &[Column] = &[
    text("provider", "Name of the provider, or its GUID."),
    Column::new("provider_guid", ColumnType::Guid, "GUID of the provider."),
    text("event", "Name of the event, or its task and opcode; `Class/Type` for classic events."),
    id("id", "Id of the event; 0 for classic events."),
    id("version", "Version of the event."),
    id("opcode", "Opcode; the type of a classic event."),
    id("level", "Level, from 1 (critical) to 5 (verbose)."),
    id("task", "Task."),
    id("channel", "Channel."),
    Column::new("keywords", ColumnType::U64, "Keywords.").unit(Unit::Hex),
    Column::new("is_decoded", ColumnType::Bool, "Whether a schema describes the payload."),
];
static EVENT_KINDS: TableSchema = TableSchema::new(
    "event_kinds",
    "Event kinds",
    "One row for each kind of event: each event descriptor of a provider.",
    EVENT_KINDS_COLUMNS,
);

const PROCESSES_COLUMNS: &[Column] = &[
    text("process", "Name of the executable, with the id in parentheses."),
    text("name", "Name of the executable."),
    id("process_id", "Process id."),
    Column::row_of("processes", "parent", "Process that started it."),
    id("parent_id", "Id of the process that started it."),
    start_of("start", "When it started, if that was during the trace."),
    end_of("end", "When it ended, if that was during the trace."),
    Column::new("exit_status", ColumnType::I64, "Exit status."),
    text("command_line", "Command line."),
    duration("duration", "Time from its start to its end, if both were during the trace."),
    id("session_id", "Session of its user."),
    text("package_full_name", "Package of a modern program."),
    stack("creation_stack", "Stack of its creation."),
];
static PROCESSES: TableSchema =
    TableSchema::new("processes", "Processes", "One row for each process.", PROCESSES_COLUMNS);

const THREADS_COLUMNS: &[Column] = &[
    id("thread_id", "Thread id."),
    Column::row_of("processes", "process", "Process of the thread."),
    text("name", "Name of the thread, if it has one."),
    start_of("start_time", "When it started, if that was during the trace."),
    end_of("end_time", "When it ended, if that was during the trace."),
    duration("lifetime", "Time between the two."),
    frame("start_function", "Function that it starts with."),
    address("teb_base", "Address of its environment block."),
    stack("creation_stack", "Stack of its creation."),
];
static THREADS: TableSchema =
    TableSchema::new("threads", "Threads", "One row for each thread.", THREADS_COLUMNS);

const FILES_COLUMNS: &[Column] = &[text("path", "Path, on a drive of Windows by its letter.")];
static FILES: TableSchema =
    TableSchema::new("files", "Files", "One row for each file that events name.", FILES_COLUMNS);

const IMAGES_COLUMNS: &[Column] = &[
    Column::row_of("processes", "process", "Process; missing for the kernel."),
    text("path", "Path of the file."),
    text("image", "Name of the file."),
    address("base", "First address."),
    Column::new("size", ColumnType::U64, "Number of addresses.").unit(Unit::Bytes),
    start_of("load_time", "When it was loaded, if that was during the trace."),
    end_of("unload_time", "When it was unloaded, if that was during the trace."),
    stack("load_stack", "Stack of the loading."),
    code("time_date_stamp", "Time stamp in the file's header."),
    text("company_name", "Company in the file's version."),
    text("product_name", "Product in the file's version."),
    text("product_version", "Version of the product."),
    text("file_version", "Version of the file."),
    text("file_description", "Description in the file's version."),
    text("original_file_name", "Name of the file in its version."),
];
static IMAGES: TableSchema = TableSchema::new(
    "images",
    "Images",
    "One row for each range of addresses with an image, of a process or of the kernel.",
    IMAGES_COLUMNS,
);

const FRAMES_COLUMNS: &[Column] = &[
    Column::row_of("processes", "process", "Process; missing for the kernel."),
    address("address", "Instruction; of a caller, the last byte of its call."),
    text("module", "Name of the image's file."),
    text("function", "`module!function`, or the module and the offset in it."),
    Column::new("offset", ColumnType::U64, "Offset from the start of the function.").unit(Unit::Hex),
    text("inlined", "Functions inlined there, innermost first, separated by `;`."),
    text("file", "Source file."),
    id("line", "Source line."),
    Column::new("is_system", ColumnType::Bool, "Whether the module is a part of the system or of .NET."),
];
static FRAMES: TableSchema = TableSchema::new(
    "frames",
    "Frames",
    "One row for each address in stacks, of one process or the kernel.",
    FRAMES_COLUMNS,
);

const CPU_SAMPLED_COLUMNS: &[Column] = &[
    time("When the sample was taken."),
    thread("thread", "Thread that was running."),
    PROCESSOR,
    Column::row_of("frames", "frame", "Instruction that was running, and its function."),
    duration("weight", "Time that the sample stands for."),
    Column::new("count", ColumnType::U64, "Number of samples that this one stands for.")
        .unit(Unit::Count)
        .role(Role::Measure),
    STACK,
];
static CPU_SAMPLED: TableSchema = TableSchema::new(
    "cpu_sampled",
    "CPU Usage (Sampled)",
    "One row for each sample of a processor.",
    CPU_SAMPLED_COLUMNS,
);

const CPU_PRECISE_COLUMNS: &[Column] = &[
    Column::new("time", ColumnType::Time, "When the processor switched to the new thread."),
    thread("new_thread", "Thread that was switched to."),
    thread("old_thread", "Thread that was switched from."),
    PROCESSOR,
    duration("ran", "Time that the old thread had been running."),
    duration("waits", "Time that the new thread had waited."),
    duration("ready", "Time that the new thread was ready to run before the switch."),
    text("new_wait_reason", "Why the new thread had waited."),
    text("readied_by", "What ended the wait: `thread`, `interrupt`, or nothing if the thread did not wait."),
    thread("readying_thread", "Thread that ended the wait of the new thread."),
    id("new_priority", "Priority of the new thread."),
    text("old_wait_reason", "Why the old thread waits, if it does."),
    id("old_state", "State of the old thread (`KTHREAD_STATE`)."),
    STACK,
    stack(
        "new_thread_stack",
        "Where the new thread waited or was ready: the stack of this switch, or of the one away from the thread.",
    ),
];
static CPU_PRECISE: TableSchema = TableSchema::new(
    "cpu_precise",
    "CPU Usage (Precise)",
    "One row for each context switch.",
    CPU_PRECISE_COLUMNS,
);

const DISK_COLUMNS: &[Column] = &[
    time("When the request was completed."),
    thread("thread", "Thread that sent it."),
    text("disk", "Name of the disk, or its number."),
    text("operation", "`Read`, `Write` or `Flush`."),
    FILE,
    bytes("size", "Number of bytes."),
    Column::new("offset", ColumnType::U64, "Place on the disk.").unit(Unit::Hex),
    duration("duration", "Time from when it was sent to its completion."),
    code("irp_flags", "Flags of the request (`IRP_*`)."),
    Column::new("init_time", ColumnType::Time, "When it was sent."),
    duration(
        "disk_service_time",
        "Time for which the disk worked: since it was sent, or since the disk completed the request before it.",
    ),
    text("priority", "`VeryLow`, `Low`, `Normal`, `High` or `Critical`, if its flags have one."),
    stack("init_stack", "Stack of the sending."),
];
static DISK: TableSchema = TableSchema::new(
    "disk",
    "Disk Usage",
    "One row for each request that a disk completed; optical drives are left out.",
    DISK_COLUMNS,
);

const FILE_IO_COLUMNS: &[Column] = &[
    time("When the operation started."),
    thread("thread", "Thread that did it."),
    text(
        "operation",
        "What was done, such as `Create`, `Read`, `Write`, `Close` or `Delete`; cleanups are left out.",
    ),
    FILE,
    bytes("size", "Number of bytes read or written; of an operation without an end, the requested number."),
    duration("duration", "Time until its end, if the trace has it."),
    code("status", "NTSTATUS of its end; from 0xC0000000 on a failure."),
    end_of("end_time", "When it ended, if the trace has it."),
    stack("stack", "Stack of its start, if the trace has its end."),
];
static FILE_IO: TableSchema =
    TableSchema::new("file_io", "File I/O", "One row for each operation on a file.", FILE_IO_COLUMNS);

const HARD_FAULTS_COLUMNS: &[Column] = &[
    time("When the page was there."),
    THREAD,
    FILE,
    bytes("size", "Number of bytes read."),
    duration("duration", "Time that it took."),
    address("address", "Virtual address."),
    STACK,
    Column::new("offset", ColumnType::U64, "Place in the file.").unit(Unit::Hex),
];
static HARD_FAULTS: TableSchema = TableSchema::new(
    "hard_faults",
    "Hard Faults",
    "One row for each page fault that read from a disk.",
    HARD_FAULTS_COLUMNS,
);

const DPC_ISR_COLUMNS: &[Column] = &[
    time("When it ended."),
    PROCESSOR,
    text("type", "`ISR`, `DPC`, `ThreadDPC`, `TimerDPC` or `PassiveISR`."),
    Column::row_of("frames", "routine", "Routine that ran."),
    id("vector", "Number of the interrupt."),
    duration("duration", "Time that it took."),
];
static DPC_ISR: TableSchema = TableSchema::new(
    "dpc_isr",
    "DPC/ISR Duration",
    "One row for each interrupt or deferred procedure call.",
    DPC_ISR_COLUMNS,
);

const SYSCALLS_COLUMNS: &[Column] = &[
    time("When the call returned."),
    THREAD,
    Column::row_of("frames", "routine", "Function that implements the call."),
    duration("duration", "Time from entry to exit."),
    code("status", "Return value."),
];
static SYSCALLS: TableSchema = TableSchema::new(
    "syscalls",
    "System Calls",
    "One row for each system call that ended in the trace.",
    SYSCALLS_COLUMNS,
);

const NETWORK_COLUMNS: &[Column] = &[
    time("When it happened."),
    Column::row_of("processes", "process", "Process that owns the socket."),
    text("protocol", "`TCP` or `UDP`."),
    text("operation", "`Send`, `Receive`, `Connect`, `Accept`, `Disconnect`, `Retransmit` or `Reconnect`."),
    text("local_address", "Address on this machine."),
    id("local_port", "Port on this machine."),
    text("remote_address", "Address of the peer."),
    id("remote_port", "Port of the peer."),
    bytes("size", "Number of bytes."),
    STACK,
];
static NETWORK: TableSchema = TableSchema::new(
    "network",
    "TCP/IP and UDP/IP",
    "One row for each transfer, and for each step of a connection.",
    NETWORK_COLUMNS,
);

const OBJECT_TYPES_COLUMNS: &[Column] = &[
    text("object_type", "Name of the type, or its number if the trace does not name it."),
    id("number", "Number of the type in events."),
];
static OBJECT_TYPES: TableSchema = TableSchema::new(
    "object_types",
    "Object Types",
    "One row for each type of kernel objects that handles are of.",
    OBJECT_TYPES_COLUMNS,
);

const GPU_CONTEXTS_COLUMNS: &[Column] = &[
    address("context", "Address of the context."),
    process("process", "Process of its device."),
    address("device", "Address of its device."),
    address("adapter", "Address of the adapter."),
    id("node", "Number of the engine."),
];
static GPU_CONTEXTS: TableSchema = TableSchema::new(
    "gpu_contexts",
    "GPU Contexts",
    "One row for each context of the graphics kernel: the queue of a process to an engine.",
    GPU_CONTEXTS_COLUMNS,
);

const GC_COLUMNS: &[Column] = &[
    start_of("start_time", "When the collection started."),
    end_of("end_time", "When it ended, if that was during the trace."),
    duration("duration", "Time between the two."),
    process("process", "Process whose memory was collected."),
    id("number", "Number of the collection in its process."),
    id("generation", "Oldest generation that was collected."),
    text("type", "Whether it ran in the background."),
    text("reason", "Why it was started."),
    duration("pause", "Time for which all threads of the program were suspended."),
    duration("suspension", "Part of the pause that the suspension took."),
    bytes("size_before", "Size of the heap before it."),
    bytes("size_after", "Size of the heap after it."),
    bytes("promoted", "Bytes that survived."),
];
static GC: TableSchema =
    TableSchema::new("gc", ".NET GC", "One row for each garbage collection of .NET.", GC_COLUMNS);

const SNAPSHOTS_COLUMNS: &[Column] = &[
    time("When the counters were read."),
    process("process", "Process."),
    bytes("working_set", "Memory of the process that is resident."),
    bytes("private_working_set", "Part of it that is private."),
    bytes("commit", "Private memory that is committed."),
    bytes("shared_commit", "Shared memory that is committed."),
    bytes("total_commit", "Sum of the two."),
    bytes("virtual_size", "Size of the address space that is used."),
];
static SNAPSHOTS: TableSchema = TableSchema::new(
    "virtual_memory_snapshots",
    "Virtual Memory Snapshots",
    "One row for each process, each time that the memory manager counted its pages.",
    SNAPSHOTS_COLUMNS,
);

/// All tables, in the order of lists.
pub(super) static ALL: LazyLock<Vec<&'static TableSchema>> =
    LazyLock::new(|| OWN.into_iter().chain(declared::ALL.iter().map(|table| table.schema)).collect());

/// The tables whose rows are written one by one.
static OWN: [&TableSchema; 31] = [
    &EVENTS,
    &EVENT_KINDS,
    &PROCESSES,
    &THREADS,
    &IMAGES,
    &FILES,
    &FRAMES,
    &CPU_SAMPLED,
    &CPU_PRECISE,
    &DISK,
    &DISK_QUEUE,
    &FILE_IO,
    &HARD_FAULTS,
    &DPC_ISR,
    &SYSCALLS,
    &NETWORK,
    &CONNECTIONS,
    &REGISTRY,
    &REGISTRY_KEYS,
    &VIRTUAL_ALLOC,
    &SNAPSHOTS,
    &HEAP,
    &OBJECT_TYPES,
    &ACTIVITIES,
    &REGIONS_OF_INTEREST,
    &GPU_CONTEXTS,
    &GC,
    &LOSSES,
    &TRACES,
    &BUFFERS,
    &PROCESS_NAMES,
];

/// The tables of a writer.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) events: TableId,
    pub(super) event_kinds: TableId,
    pub(super) processes: TableId,
    pub(super) threads: TableId,
    pub(super) images: TableId,
    pub(super) files: TableId,
    pub(super) frames: TableId,
    pub(super) cpu_sampled: TableId,
    pub(super) cpu_precise: TableId,
    pub(super) disk: TableId,
    pub(super) disk_queue: TableId,
    pub(super) file_io: TableId,
    pub(super) hard_faults: TableId,
    pub(super) dpc_isr: TableId,
    pub(super) syscalls: TableId,
    pub(super) network: TableId,
    pub(super) connections: TableId,
    pub(super) registry: TableId,
    pub(super) registry_keys: TableId,
    pub(super) virtual_alloc: TableId,
    pub(super) snapshots: TableId,
    pub(super) heap: TableId,
    pub(super) object_types: TableId,
    pub(super) activities: TableId,
    pub(super) regions_of_interest: TableId,
    pub(super) gpu_contexts: TableId,
    pub(super) gc: TableId,
    pub(super) losses: TableId,
    pub(super) traces: TableId,
    pub(super) buffers: TableId,
    pub(super) process_names: TableId,
}

impl Tables {
    pub(super) fn new(writer: &mut IndexWriter) -> Result<Tables, ColumnsError> {
        Ok(Tables {
            events: writer.table(&EVENTS)?,
            event_kinds: writer.table(&EVENT_KINDS)?,
            processes: writer.table(&PROCESSES)?,
            threads: writer.table(&THREADS)?,
            images: writer.table(&IMAGES)?,
            files: writer.table(&FILES)?,
            frames: writer.table(&FRAMES)?,
            cpu_sampled: writer.table(&CPU_SAMPLED)?,
            cpu_precise: writer.table(&CPU_PRECISE)?,
            disk: writer.table(&DISK)?,
            disk_queue: writer.table(&DISK_QUEUE)?,
            file_io: writer.table(&FILE_IO)?,
            hard_faults: writer.table(&HARD_FAULTS)?,
            dpc_isr: writer.table(&DPC_ISR)?,
            syscalls: writer.table(&SYSCALLS)?,
            network: writer.table(&NETWORK)?,
            connections: writer.table(&CONNECTIONS)?,
            registry: writer.table(&REGISTRY)?,
            registry_keys: writer.table(&REGISTRY_KEYS)?,
            virtual_alloc: writer.table(&VIRTUAL_ALLOC)?,
            snapshots: writer.table(&SNAPSHOTS)?,
            heap: writer.table(&HEAP)?,
            object_types: writer.table(&OBJECT_TYPES)?,
            activities: writer.table(&ACTIVITIES)?,
            regions_of_interest: writer.table(&REGIONS_OF_INTEREST)?,
            gpu_contexts: writer.table(&GPU_CONTEXTS)?,
            gc: writer.table(&GC)?,
            losses: writer.table(&LOSSES)?,
            traces: writer.table(&TRACES)?,
            buffers: writer.table(&BUFFERS)?,
            process_names: writer.table(&PROCESS_NAMES)?,
        })
    }
}
