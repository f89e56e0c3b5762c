//! Tables of what happens around files: filters of file systems, the loader of images, and requests of WinINet.

use etw_event::Guid;
use etw_kernel_events::ids::{self, Class};

use super::{EventValue, Kinds, Scope, ValueSource, opcode};
use crate::rows::columns::{Address, End, File, Frame, Hex, Process, Span, Stack, Start, Text, Thread, Time};

/// Microsoft-Windows-WinINet.
const WININET: Guid = Guid::from_u128(0x43d1a55c_76d6_4f7e_995c_64c711e5cafe);

property_table! {
    /// One row for each call of a filter of file systems that ended in the trace.
    MINI_FILTERS: "mini_filters", "Mini-Filter Delays", Scope::Machine;
    summary by ["routine.module", "major_function", "process"]
        values ["rows", "sum(duration)", "max(duration)"];
    starts &[Kinds {
        provider: Class::FileIo.guid(),
        events: &[
            (opcode(ids::FileIo::FLT_PREOP_COMPLETION), "PreOperation"),
            (opcode(ids::FileIo::FLT_POSTOP_COMPLETION), "PostOperation"),
            (opcode(ids::FileIo::FLT_PREOP_FAILURE), "PreOperationFailure"),
            (opcode(ids::FileIo::FLT_POSTOP_FAILURE), "PostOperationFailure"),
        ],
        key: &[],
    }];
    stops &[];
    /// When it started, if the event says so.
    start_time: Start = ValueSource::Start(EventValue::Property(&["InitialTime"])),
    /// When it ended.
    end_time: End = ValueSource::Start(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Start(EventValue::Since("InitialTime")),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// `PreOperation` or `PostOperation`, with `Failure` if it failed.
    r#type: Text = ValueSource::Start(EventValue::Name),
    /// What is done with the file (`IRP_MJ_*`).
    major_function: Text = ValueSource::Start(EventValue::MajorFunction("MajorFunction")),
    /// Routine of the filter; its module is the driver.
    routine: Frame = ValueSource::Start(EventValue::Frame(&["RoutineAddr"])),
    /// File, if the trace names it.
    file: File = ValueSource::Start(EventValue::FileAt("FileObject")),
    /// NTSTATUS of a failure.
    status: Hex = ValueSource::Start(EventValue::Property(&["Status"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

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

property_table! {
    /// One row for each step of the loader of images in a process.
    LOADER: "loader", "Loader", Scope::Machine;
    summary by ["process", "step"] values ["rows"];
    starts &[Kinds { provider: Class::Image.guid(), events: STEPS, key: &[] }];
    stops &[];
    /// When it happened.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// What the loader does, such as `Loading`, `Snapping` or `DllMainEnter`.
    step: Text = ValueSource::Start(EventValue::Name),
    /// Path or name of the image.
    path: Text = ValueSource::Start(EventValue::Property(&["FilePath", "String", "String1", "FullDllName", "DllDir"])),
    /// Second path, of a search.
    other_path: Text = ValueSource::Start(EventValue::Property(&["String2", "DllLoadDir"])),
    /// Address of the image.
    base: Address = ValueSource::Start(EventValue::Property(&["NewDllBaseAddress", "BaseAddress"])),
    /// Address of the image that needs it.
    parent_base: Address = ValueSource::Start(EventValue::Property(&["ParentDllBaseAddress"])),
    /// Why it is loaded (`LDR_DLL_LOAD_REASON`).
    load_reason: Hex = ValueSource::Start(EventValue::Property(&["LoadReason"])),
    /// What failed, of steps with a code.
    error_opcode: Hex = ValueSource::Start(EventValue::Property(&["ErrorOpcode"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for each HTTP request that a program sent with WinINet.
    WININET_REQUESTS: "wininet_requests", "WinINet Requests", Scope::Process;
    starts &[Kinds { provider: WININET, events: &[(1007, "Send")], key: &["Request"] }];
    stops &[Kinds { provider: WININET, events: &[(1008, "Send")], key: &["Request"] }];
    /// When it was sent.
    start_time: Start = ValueSource::Start(EventValue::Time),
    /// When the response began, if that was during the trace.
    end_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Lasted,
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that sent it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Thread that got the response.
    end_thread: Thread = ValueSource::Stop(EventValue::Thread),
    /// Handle of the request.
    request: Address = ValueSource::Start(EventValue::Property(&["Request"])),
    /// Server and what is asked of it.
    address_name: Text = ValueSource::Start(EventValue::Property(&["AddressName"])),
    /// First line of the response.
    status_line: Text = ValueSource::Stop(EventValue::Property(&["StatusLine"])),
    /// Stack of the sending.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}
