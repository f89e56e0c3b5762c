//! Tables of .NET (Microsoft-Windows-DotNETRuntime).

use etw_event::Guid;

use super::{EventValue, Kinds, Scope, ValueSource};
use crate::rows::columns::{
    Address, Bytes, Count, End, Float, Hex, Id, Process, Span, Stack, Start, Text, Thread, Time,
};

const RUNTIME: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);

property_table! {
    /// One row for each method that began to be compiled during the trace.
    JIT: "jit", ".NET JIT", Scope::Thread;
    summary by ["process", "type", "method"]
        values ["rows", "sum(duration)", "max(duration)", "sum(native_size)"];
    starts &[Kinds { provider: RUNTIME, events: &[(145, "Start")], key: &["MethodID"] }];
    stops &[Kinds { provider: RUNTIME, events: &[(143, "Stop")], key: &["MethodID"] }];
    /// When the compilation began.
    start_time: Start = ValueSource::Start(EventValue::Time),
    /// When it ended, if that was during the trace.
    end_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Lasted,
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Namespace and type of the method.
    r#type: Text = ValueSource::Start(EventValue::Property(&["MethodNamespace"])),
    /// Name of the method.
    method: Text = ValueSource::Start(EventValue::Property(&["MethodName"])),
    /// Its arguments and result.
    signature: Text = ValueSource::Start(EventValue::Property(&["MethodSignature"])),
    /// Size of its intermediate code.
    il_size: Bytes = ValueSource::Start(EventValue::Property(&["MethodILSize"])),
    /// Size of the compiled code.
    native_size: Bytes = ValueSource::Stop(EventValue::Property(&["MethodSize"])),
    /// Start of the compiled code.
    address: Address = ValueSource::Stop(EventValue::Property(&["MethodStartAddress"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for about each 100 KB that a program of .NET allocates; it names the last object.
    ALLOCATIONS: "allocations", ".NET Allocations", Scope::Machine;
    summary by ["process", "type", "heap"] values ["sum(size)", "percent(sum(size))", "rows"];
    starts &[Kinds { provider: RUNTIME, events: &[(10, "Allocation")], key: &[] }];
    stops &[];
    /// When the object was allocated.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Type of the object.
    r#type: Text = ValueSource::Start(EventValue::Property(&["TypeName"])),
    /// `Small`, `Large` or `Pinned`.
    heap: Text = ValueSource::Start(EventValue::Property(&["AllocationKind"])),
    /// Bytes allocated since the event before it.
    // The amount of 32 bits overflows for large objects.
    size: Bytes = ValueSource::Start(EventValue::Property(&["AllocationAmount64", "AllocationAmount"])),
    /// Size of the object, if the runtime is new enough.
    object_size: Bytes = ValueSource::Start(EventValue::Property(&["ObjectSize"])),
    /// Address of the object.
    address: Address = ValueSource::Start(EventValue::Property(&["Address"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for each exception that a program of .NET throws.
    EXCEPTIONS: "exceptions", ".NET Exceptions", Scope::Machine;
    summary by ["process", "type", "message"] values ["rows", "percent(rows)", "min(time)", "max(time)"];
    starts &[Kinds { provider: RUNTIME, events: &[(80, "Thrown")], key: &[] }];
    stops &[];
    /// When it was thrown.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Type of the exception.
    r#type: Text = ValueSource::Start(EventValue::Property(&["ExceptionType"])),
    /// Its message.
    message: Text = ValueSource::Start(EventValue::Property(&["ExceptionMessage"])),
    /// Its HRESULT.
    hresult: Hex = ValueSource::Start(EventValue::Property(&["ExceptionHRESULT"])),
    /// Whether it has an inner exception, is nested, or is thrown again.
    flags: Text = ValueSource::Start(EventValue::Property(&["ExceptionFlags"])),
    /// Instruction that threw it.
    instruction: Address = ValueSource::Start(EventValue::Property(&["ExceptionEIP"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for each wait for a lock of .NET.
    CONTENTION: "contention", ".NET Contention", Scope::Thread;
    summary by ["process", "thread", "lock"] values ["rows", "sum(duration)", "max(duration)"];
    starts &[Kinds { provider: RUNTIME, events: &[(81, "Start")], key: &[] }];
    stops &[Kinds { provider: RUNTIME, events: &[(91, "Stop")], key: &[] }];
    /// When the thread began to wait.
    start_time: Start = ValueSource::Start(EventValue::Time),
    /// When it had the lock, if that was during the trace.
    end_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Lasted,
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Whether the lock is of the program (`Managed`) or of the runtime (`Native`).
    lock: Text = ValueSource::Start(EventValue::Property(&["ContentionFlags"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for each start, stop and wait of a thread of a pool of .NET, and each change of their number.
    THREAD_POOL: "threadpool", ".NET Thread Pool", Scope::Machine;
    starts &[Kinds {
        provider: RUNTIME,
        events: &[(50, "ThreadStart"), (51, "ThreadStop"), (57, "ThreadWait"), (55, "Adjustment")],
        key: &[],
    }];
    stops &[];
    /// When it happened.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// `ThreadStart`, `ThreadStop`, `ThreadWait` or `Adjustment`.
    operation: Text = ValueSource::Start(EventValue::Name),
    /// Number of threads that work.
    active_threads: Count = ValueSource::Start(EventValue::Property(&["ActiveWorkerThreadCount"])),
    /// Number of threads that is wanted now.
    new_threads: Count = ValueSource::Start(EventValue::Property(&["NewWorkerThreadCount"])),
    /// Why the number changes.
    reason: Text = ValueSource::Start(EventValue::Property(&["Reason"])),
    /// Work that the threads finished per second.
    throughput: Float = ValueSource::Start(EventValue::Property(&["AverageThroughput"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for each module of .NET that is loaded or unloaded, or is there at the end.
    ASSEMBLIES: "dotnet_modules", ".NET Modules", Scope::Machine;
    starts &[
        Kinds { provider: RUNTIME, events: &[(152, "Load"), (153, "Unload")], key: &[] },
        Kinds { provider: RUNDOWN, events: &[(153, "Rundown"), (154, "Rundown")], key: &[] },
    ];
    stops &[];
    /// When it happened.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// `Load`, `Unload` or `Rundown`.
    operation: Text = ValueSource::Start(EventValue::Name),
    /// Path of its intermediate code.
    path: Text = ValueSource::Start(EventValue::Property(&["ModuleILPath"])),
    /// Path of its compiled code, if it has a file.
    native_path: Text = ValueSource::Start(EventValue::Property(&["ModuleNativePath"])),
    /// Flags of the module.
    flags: Text = ValueSource::Start(EventValue::Property(&["ModuleFlags"])),
    /// Number of the runtime in its process.
    runtime: Id = ValueSource::Start(EventValue::Property(&["ClrInstanceID"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}
