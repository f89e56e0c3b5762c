//! Tables of .NET (Microsoft-Windows-DotNETRuntime).

use etw_columns::{Column, ColumnType, TableSchema};
use etw_event::Guid;

use super::{Declared, Fill, Kinds, Of, Scope};
use crate::rows::columns::{
    PROCESS, STACK, THREAD, address, bytes, code, count, duration, end_of, id, start_of, text, time,
};

const RUNTIME: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);

pub(super) static JIT: Declared = Declared {
    schema: &TableSchema::new(
        "jit",
        ".NET JIT",
        "One row for each method that began to be compiled during the trace.",
        columns![
            start_of("start_time", "When the compilation began."),
            end_of("end_time", "When it ended, if that was during the trace."),
            duration("duration", "Time between the two."),
            PROCESS,
            THREAD,
            text("type", "Namespace and type of the method."),
            text("method", "Name of the method."),
            text("signature", "Its arguments and result."),
            bytes("il_size", "Size of its intermediate code."),
            bytes("native_size", "Size of the compiled code."),
            address("address", "Start of the compiled code."),
            STACK,
        ],
    ),
    starts: &[Kinds { provider: RUNTIME, events: &[(145, "Start")], key: &["MethodID"] }],
    stops: &[Kinds { provider: RUNTIME, events: &[(143, "Stop")], key: &["MethodID"] }],
    scope: Scope::Thread,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Property(&["MethodNamespace"])),
        Fill::Start(Of::Property(&["MethodName"])),
        Fill::Start(Of::Property(&["MethodSignature"])),
        Fill::Start(Of::Property(&["MethodILSize"])),
        Fill::Stop(Of::Property(&["MethodSize"])),
        Fill::Stop(Of::Property(&["MethodStartAddress"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static ALLOCATIONS: Declared = Declared {
    schema: &TableSchema::new(
        "allocations",
        ".NET Allocations",
        "One row for about each 100 KB that a program of .NET allocates; it names the last object.",
        columns![
            time("When the object was allocated."),
            PROCESS,
            THREAD,
            text("type", "Type of the object."),
            text("heap", "`Small`, `Large` or `Pinned`."),
            bytes("size", "Bytes allocated since the event before it."),
            bytes("object_size", "Size of the object, if the runtime is new enough."),
            address("address", "Address of the object."),
            STACK,
        ],
    ),
    starts: &[Kinds { provider: RUNTIME, events: &[(10, "Allocation")], key: &[] }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Property(&["TypeName"])),
        Fill::Start(Of::Property(&["AllocationKind"])),
        // The amount of 32 bits overflows for large objects.
        Fill::Start(Of::Property(&["AllocationAmount64", "AllocationAmount"])),
        Fill::Start(Of::Property(&["ObjectSize"])),
        Fill::Start(Of::Property(&["Address"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static EXCEPTIONS: Declared = Declared {
    schema: &TableSchema::new(
        "exceptions",
        ".NET Exceptions",
        "One row for each exception that a program of .NET throws.",
        columns![
            time("When it was thrown."),
            PROCESS,
            THREAD,
            text("type", "Type of the exception."),
            text("message", "Its message."),
            code("hresult", "Its HRESULT."),
            text("flags", "Whether it has an inner exception, is nested, or is thrown again."),
            address("instruction", "Instruction that threw it."),
            STACK,
        ],
    ),
    starts: &[Kinds { provider: RUNTIME, events: &[(80, "Thrown")], key: &[] }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Property(&["ExceptionType"])),
        Fill::Start(Of::Property(&["ExceptionMessage"])),
        Fill::Start(Of::Property(&["ExceptionHRESULT"])),
        Fill::Start(Of::Property(&["ExceptionFlags"])),
        Fill::Start(Of::Property(&["ExceptionEIP"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static CONTENTION: Declared = Declared {
    schema: &TableSchema::new(
        "contention",
        ".NET Contention",
        "One row for each wait for a lock of .NET.",
        columns![
            start_of("start_time", "When the thread began to wait."),
            end_of("end_time", "When it had the lock, if that was during the trace."),
            duration("duration", "Time between the two."),
            PROCESS,
            THREAD,
            text("lock", "Whether the lock is of the program (`Managed`) or of the runtime (`Native`)."),
            STACK,
        ],
    ),
    starts: &[Kinds { provider: RUNTIME, events: &[(81, "Start")], key: &[] }],
    stops: &[Kinds { provider: RUNTIME, events: &[(91, "Stop")], key: &[] }],
    scope: Scope::Thread,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Property(&["ContentionFlags"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static THREAD_POOL: Declared = Declared {
    schema: &TableSchema::new(
        "threadpool",
        ".NET Thread Pool",
        "One row for each start, stop and wait of a thread of a pool of .NET, and each change of their number.",
        columns![
            time("When it happened."),
            PROCESS,
            THREAD,
            text("operation", "`ThreadStart`, `ThreadStop`, `ThreadWait` or `Adjustment`."),
            count("active_threads", "Number of threads that work."),
            count("new_threads", "Number of threads that is wanted now."),
            text("reason", "Why the number changes."),
            Column::new("throughput", ColumnType::F64, "Work that the threads finished per second."),
            STACK,
        ],
    ),
    starts: &[Kinds {
        provider: RUNTIME,
        events: &[(50, "ThreadStart"), (51, "ThreadStop"), (57, "ThreadWait"), (55, "Adjustment")],
        key: &[],
    }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Name),
        Fill::Start(Of::Property(&["ActiveWorkerThreadCount"])),
        Fill::Start(Of::Property(&["NewWorkerThreadCount"])),
        Fill::Start(Of::Property(&["Reason"])),
        Fill::Start(Of::Property(&["AverageThroughput"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static ASSEMBLIES: Declared = Declared {
    schema: &TableSchema::new(
        "dotnet_modules",
        ".NET Modules",
        "One row for each module of .NET that is loaded or unloaded, or is there at the end.",
        columns![
            time("When it happened."),
            PROCESS,
            THREAD,
            text("operation", "`Load`, `Unload` or `Rundown`."),
            text("path", "Path of its intermediate code."),
            text("native_path", "Path of its compiled code, if it has a file."),
            text("flags", "Flags of the module."),
            id("runtime", "Number of the runtime in its process."),
            STACK,
        ],
    ),
    starts: &[
        Kinds { provider: RUNTIME, events: &[(152, "Load"), (153, "Unload")], key: &[] },
        Kinds { provider: RUNDOWN, events: &[(153, "Rundown"), (154, "Rundown")], key: &[] },
    ],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Name),
        Fill::Start(Of::Property(&["ModuleILPath"])),
        Fill::Start(Of::Property(&["ModuleNativePath"])),
        Fill::Start(Of::Property(&["ModuleFlags"])),
        Fill::Start(Of::Property(&["ClrInstanceID"])),
        Fill::Start(Of::Stack),
    ],
};
