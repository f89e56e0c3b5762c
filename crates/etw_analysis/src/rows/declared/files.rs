//! Tables of what happens around files: filters of file systems, the loader of images, and requests of WinINet.

use etw_columns::TableSchema;
use etw_event::{Guid, classes};

use super::{Declared, Fill, Kinds, Of, Scope};
use crate::rows::columns::{
    FILE, PROCESS, STACK, THREAD, address, code, duration, end_of, frame, stack, start_of, text, thread, time,
};

/// Microsoft-Windows-WinINet.
const WININET: Guid = Guid::from_u128(0x43d1a55c_76d6_4f7e_995c_64c711e5cafe);

pub(super) static MINI_FILTERS: Declared = Declared {
    schema: &TableSchema::new(
        "mini_filters",
        "Mini-Filter Delays",
        "One row for each call of a filter of file systems that ended in the trace.",
        columns![
            start_of("start_time", "When it started, if the event says so."),
            end_of("end_time", "When it ended."),
            duration("duration", "Time between the two."),
            PROCESS,
            THREAD,
            text("type", "`PreOperation` or `PostOperation`, with `Failure` if it failed."),
            text("major_function", "What is done with the file (`IRP_MJ_*`)."),
            frame("routine", "Routine of the filter; its module is the driver."),
            FILE,
            code("status", "NTSTATUS of a failure."),
            STACK,
        ],
    ),
    starts: &[Kinds {
        provider: classes::FILE_IO,
        events: &[
            (98, "PreOperation"),
            (99, "PostOperation"),
            (100, "PreOperationFailure"),
            (101, "PostOperationFailure"),
        ],
        key: &[],
    }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Property(&["InitialTime"])),
        Fill::Start(Of::Time),
        Fill::Start(Of::Since("InitialTime")),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Name),
        Fill::Start(Of::MajorFunction("MajorFunction")),
        Fill::Start(Of::Frame(&["RoutineAddr"])),
        Fill::Start(Of::FileAt("FileObject")),
        Fill::Start(Of::Property(&["Status"])),
        Fill::Start(Of::Stack),
    ],
};

const STEPS: &[(u16, &str)] = &[
    (128, "LockAcquireAttempt"),
    (129, "LockAcquireSuccess"),
    (130, "LockAcquireFail"),
    (131, "LockAcquireWait"),
    (132, "ProcessInitDone"),
    (133, "CreateSection"),
    (134, "SectionCreated"),
    (135, "MapView"),
    (144, "RelocateImage"),
    (145, "ImageRelocated"),
    (146, "HandleOldDescriptors"),
    (147, "OldDescriptorsHandled"),
    (148, "HandleNewDescriptors"),
    (149, "NewDescriptorsHandled"),
    (150, "DllMainExit"),
    (160, "FindDll"),
    (161, "ViewMapped"),
    (162, "LockRelease"),
    (163, "DllMainEnter"),
    (164, "Error"),
    (165, "ViewMapping"),
    (166, "Snapping"),
    (167, "Snapped"),
    (168, "Loading"),
    (169, "Loaded"),
    (170, "FoundKnownDll"),
    (171, "Abnormal"),
    (173, "ReadyToInit"),
    (174, "ReadyToRun"),
    (176, "NewDllLoad"),
    (177, "NewDllAsData"),
    (192, "ExternalPath"),
    (193, "GeneratedPath"),
    (208, "ApisetResolving"),
    (209, "ApisetHosted"),
    (210, "ApisetUnhosted"),
    (211, "ApisetUnresolved"),
    (212, "SearchSecurity"),
    (213, "SearchPathSecurity"),
];

pub(super) static LOADER: Declared = Declared {
    schema: &TableSchema::new(
        "loader",
        "Loader",
        "One row for each step of the loader of images in a process.",
        columns![
            time("When it happened."),
            PROCESS,
            THREAD,
            text("step", "What the loader does, such as `Loading`, `Snapping` or `DllMainEnter`."),
            text("path", "Path or name of the image."),
            text("other_path", "Second path, of a search."),
            address("base", "Address of the image."),
            address("parent_base", "Address of the image that needs it."),
            code("load_reason", "Why it is loaded (`LDR_DLL_LOAD_REASON`)."),
            code("error_opcode", "What failed, of steps with a code."),
            STACK,
        ],
    ),
    starts: &[Kinds { provider: classes::IMAGE, events: STEPS, key: &[] }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Name),
        Fill::Start(Of::Property(&["FilePath", "String", "String1", "FullDllName", "DllDir"])),
        Fill::Start(Of::Property(&["String2", "DllLoadDir"])),
        Fill::Start(Of::Property(&["NewDllBaseAddress", "BaseAddress"])),
        Fill::Start(Of::Property(&["ParentDllBaseAddress"])),
        Fill::Start(Of::Property(&["LoadReason"])),
        Fill::Start(Of::Property(&["ErrorOpcode"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static WININET_REQUESTS: Declared = Declared {
    schema: &TableSchema::new(
        "wininet_requests",
        "WinINet Requests",
        "One row for each HTTP request that a program sent with WinINet.",
        columns![
            start_of("start_time", "When it was sent."),
            end_of("end_time", "When the response began, if that was during the trace."),
            duration("duration", "Time between the two."),
            PROCESS,
            thread("thread", "Thread that sent it."),
            thread("end_thread", "Thread that got the response."),
            address("request", "Handle of the request."),
            text("address_name", "Server and what is asked of it."),
            text("status_line", "First line of the response."),
            stack("stack", "Stack of the sending."),
        ],
    ),
    starts: &[Kinds { provider: WININET, events: &[(1007, "Send")], key: &["Request"] }],
    stops: &[Kinds { provider: WININET, events: &[(1008, "Send")], key: &["Request"] }],
    scope: Scope::Process,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Stop(Of::Thread),
        Fill::Start(Of::Property(&["Request"])),
        Fill::Start(Of::Property(&["AddressName"])),
        Fill::Stop(Of::Property(&["StatusLine"])),
        Fill::Start(Of::Stack),
    ],
};
