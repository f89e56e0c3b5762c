//! Tables of what happens around files: filters of file systems, the loader of images, and requests of WinINet.

use etw_columns::TableSchema;
use etw_event::Guid;
use etw_kernel_events::ids::{self, Class};

use super::{Declared, Fill, Kinds, Of, Scope, opcode};
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
        provider: Class::FileIo.guid(),
        events: &[
            (opcode(ids::FileIo::FLT_PREOP_COMPLETION), "PreOperation"),
            (opcode(ids::FileIo::FLT_POSTOP_COMPLETION), "PostOperation"),
            (opcode(ids::FileIo::FLT_PREOP_FAILURE), "PreOperationFailure"),
            (opcode(ids::FileIo::FLT_POSTOP_FAILURE), "PostOperationFailure"),
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
    (opcode(ids::Image::LDR_LOCK_ACQUIRE_ATTEMPT), "LockAcquireAttempt"),
    (opcode(ids::Image::LDR_LOCK_ACQUIRE_SUCCESS), "LockAcquireSuccess"),
    (opcode(ids::Image::LDR_LOCK_ACQUIRE_FAIL), "LockAcquireFail"),
    (opcode(ids::Image::LDR_LOCK_ACQUIRE_WAIT), "LockAcquireWait"),
    (opcode(ids::Image::LDR_PROC_INIT_DONE), "ProcessInitDone"),
    (opcode(ids::Image::LDR_CREATE_SECTION), "CreateSection"),
    (opcode(ids::Image::LDR_SECTION_CREATED), "SectionCreated"),
    (opcode(ids::Image::LDR_MAP_VIEW), "MapView"),
    (opcode(ids::Image::LDR_RELOCATE_IMAGE), "RelocateImage"),
    (opcode(ids::Image::LDR_IMAGE_RELOCATED), "ImageRelocated"),
    (opcode(ids::Image::LDR_HANDLE_OLD_DESCRIPTORS), "HandleOldDescriptors"),
    (opcode(ids::Image::LDR_OLD_DESCRIPTORS_HANDLED), "OldDescriptorsHandled"),
    (opcode(ids::Image::LDR_HANDLE_NEW_DESCRIPTORS), "HandleNewDescriptors"),
    (opcode(ids::Image::LDR_NEW_DESCRIPTORS_HANDLED), "NewDescriptorsHandled"),
    (opcode(ids::Image::LDR_DLLMAIN_EXIT), "DllMainExit"),
    (opcode(ids::Image::LDR_FIND_DLL), "FindDll"),
    (opcode(ids::Image::LDR_VIEW_MAPPED), "ViewMapped"),
    (opcode(ids::Image::LDR_LOCK_RELEASE), "LockRelease"),
    (opcode(ids::Image::LDR_DLLMAIN_ENTER), "DllMainEnter"),
    (opcode(ids::Image::LDR_ERROR), "Error"),
    (opcode(ids::Image::LDR_VIEW_MAPPING), "ViewMapping"),
    (opcode(ids::Image::LDR_SNAPPING), "Snapping"),
    (opcode(ids::Image::LDR_SNAPPED), "Snapped"),
    (opcode(ids::Image::LDR_LOADING), "Loading"),
    (opcode(ids::Image::LDR_LOADED), "Loaded"),
    (opcode(ids::Image::LDR_FOUND_KNOWN_DLL), "FoundKnownDll"),
    (opcode(ids::Image::LDR_ABNORMAL), "Abnormal"),
    (opcode(ids::Image::LDR_RDY_TO_INIT), "ReadyToInit"),
    (opcode(ids::Image::LDR_RDY_TO_RUN), "ReadyToRun"),
    (opcode(ids::Image::LDR_NEW_DLL_LOAD), "NewDllLoad"),
    (opcode(ids::Image::LDR_NEW_DLL_AS_DATA), "NewDllAsData"),
    (opcode(ids::Image::LDR_EXTERNAL_PATH), "ExternalPath"),
    (opcode(ids::Image::LDR_GENERATED_PATH), "GeneratedPath"),
    (opcode(ids::Image::LDR_APISET_RESOLVING), "ApisetResolving"),
    (opcode(ids::Image::LDR_APISET_HOSTED), "ApisetHosted"),
    (opcode(ids::Image::LDR_APISET_UNHOSTED), "ApisetUnhosted"),
    (opcode(ids::Image::LDR_APISET_UNRESOLVED), "ApisetUnresolved"),
    (opcode(ids::Image::LDR_SEARCH_SECURITY), "SearchSecurity"),
    (opcode(ids::Image::LDR_SEARCH_PATH_SECURITY), "SearchPathSecurity"),
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
    starts: &[Kinds { provider: Class::Image.guid(), events: STEPS, key: &[] }],
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
