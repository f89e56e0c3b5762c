//! Tables of the system: handles, services, marks, power and windows.

use etw_columns::{Column, ColumnType, TableSchema, Unit};
use etw_event::Guid;
use etw_kernel_events::ids::{self, Class};

use super::{Declared, Fill, Kinds, Of, Scope, opcode};
use crate::rows::columns::{
    PROCESS, PROCESSOR, STACK, THREAD, address, code, duration, end_of, id, process, stack, start_of, text,
    thread, time,
};

/// Microsoft-Windows-Kernel-Processor-Power.
const PROCESSOR_POWER: Guid = Guid::from_u128(0x0f67e49f_fe51_4e9f_b490_6f2948cc6027);
/// Microsoft-Windows-Win32k, of Windows 8 and later, and of Windows 7.
const WIN32K: [Guid; 2] = [
    Guid::from_u128(0x8c416c79_d49b_4f01_a467_e56d3aa8234c),
    Guid::from_u128(0xe7ef96be_969f_414f_97d7_3ddb7b558ccc),
];
/// Units of 100 ns in a millisecond.
const MILLISECOND: i64 = 10_000;
const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

pub(super) static HANDLES: Declared = Declared {
    schema: &TableSchema::new(
        "handles",
        "Handles",
        "One row for each handle that was created during the trace, or that was there at its start.",
        columns![
            start_of("create_time", "When it was created; of one that was there, when the trace said so."),
            end_of("close_time", "When it was closed, if that was during the trace."),
            duration("lifetime", "Time between the two."),
            process("owning_process", "Process that the handle is of."),
            process("creating_process", "Process that created it."),
            thread("creating_thread", "Thread that created it."),
            thread("closing_thread", "Thread that closed it."),
            code("handle", "The handle."),
            Column::row_of("object_types", "object_type", "Type of the object."),
            text("object_name", "Name of the object, if it has one."),
            address("object", "Address of the object."),
            text("origin", "`Create`, `Duplicate`, or `Rundown` for one that was there at the start."),
            stack("create_stack", "Stack of the creation."),
            stack("close_stack", "Stack of the closing."),
        ],
    ),
    starts: &[
        Kinds {
            provider: Class::Object.guid(),
            events: &[
                (opcode(ids::Object::CREATE_HANDLE), "Create"),
                (opcode(ids::Object::OBJECT_HANDLE_DC_START), "Rundown"),
            ],
            key: &["Handle"],
        },
        Kinds {
            provider: Class::Object.guid(),
            events: &[(opcode(ids::Object::DUPLICATE_HANDLE), "Duplicate")],
            key: &["TargetHandle"],
        },
    ],
    stops: &[Kinds {
        provider: Class::Object.guid(),
        events: &[(opcode(ids::Object::CLOSE_HANDLE), "Close")],
        key: &["Handle"],
    }],
    scope: Scope::ProcessIn(&["TargetProcessId", "ProcessId"]),
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::ProcessIn(&["TargetProcessId", "ProcessId"])),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Stop(Of::Thread),
        Fill::Start(Of::Property(&["Handle", "TargetHandle"])),
        Fill::Start(Of::ObjectType("ObjectType")),
        Fill::Start(Of::Property(&["ObjectName"])),
        Fill::Start(Of::Property(&["Object"])),
        Fill::Start(Of::Name),
        Fill::Start(Of::Stack),
        Fill::Stop(Of::Stack),
    ],
};

pub(super) static SERVICES: Declared = Declared {
    schema: &TableSchema::new(
        "services",
        "Services",
        "One row for each service that the trace lists.",
        columns![
            time("When it was listed."),
            text("service_name", "Name of the service."),
            text("display_name", "Name for display."),
            process("process", "Process that hosts it, if it runs."),
            id("state", "State: 1 stopped, 2 starts, 3 stops, 4 runs, 7 paused."),
            id("sub_process_tag", "Number by which threads refer to the service."),
            text("process_name", "Name of the hosting program."),
            text("load_order_group", "Group in which it is started."),
            text("host_group", "Group of services that share a process."),
        ],
    ),
    starts: &[Kinds {
        provider: Class::SystemConfig.guid(),
        events: &[(opcode(ids::SystemConfig::SERVICES), "Services")],
        key: &[],
    }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Property(&["ServiceName"])),
        Fill::Start(Of::Property(&["DisplayName"])),
        Fill::Start(Of::RunningProcessIn("ProcessId")),
        Fill::Start(Of::Property(&["ServiceState"])),
        Fill::Start(Of::Property(&["SubProcessTag"])),
        Fill::Start(Of::Property(&["ProcessName"])),
        Fill::Start(Of::Property(&["LoadOrderGroup"])),
        Fill::Start(Of::Property(&["SvchostGroup"])),
    ],
};

pub(super) static MARKS: Declared = Declared {
    schema: &TableSchema::new(
        "marks",
        "Marks",
        "One row for each mark that a tool put into the trace.",
        columns![time("When it was put."), PROCESS, THREAD, text("label", "Text of the mark."), STACK],
    ),
    starts: &[Kinds {
        provider: Class::PerfInfo.guid(),
        events: &[(opcode(ids::PerfInfo::MARK), "Mark")],
        key: &[],
    }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Property(&["Message"])),
        Fill::Start(Of::Stack),
    ],
};

pub(super) static IDLE_STATES: Declared = Declared {
    schema: &TableSchema::new(
        "cpu_idle_states",
        "CPU Idle States",
        "One row for each time that a processor spent in an idle state.",
        columns![
            start_of("enter_time", "When the state was entered."),
            end_of("exit_time", "When it was left, if that was during the trace."),
            duration("duration", "Time between the two."),
            PROCESSOR,
            Column::new("state", ColumnType::U32, "Number of the state, greater for deeper ones.")
                .unit(Unit::Id),
            code("flags", "Flags of the entry."),
            code("status", "Status of the exit."),
        ],
    ),
    starts: &[Kinds {
        provider: Class::Power.guid(),
        events: &[(opcode(ids::Power::PPM_IDLE_STATE_ENTER), "Enter")],
        key: &[],
    }],
    stops: &[Kinds {
        provider: Class::Power.guid(),
        events: &[(opcode(ids::Power::PPM_IDLE_STATE_EXIT), "Exit")],
        key: &[],
    }],
    scope: Scope::Processor,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::Processor),
        Fill::Start(Of::Property(&["State"])),
        Fill::Start(Of::Property(&["Flags"])),
        Fill::Stop(Of::Property(&["Status"])),
    ],
};

pub(super) static FREQUENCY: Declared = Declared {
    schema: &TableSchema::new(
        "cpu_frequency",
        "CPU Frequency",
        "One row for each change of a processor's frequency.",
        columns![
            time("When it changed."),
            Column::new("group", ColumnType::U32, "Group of the processor.").unit(Unit::Id),
            Column::new("processor", ColumnType::U32, "Number of the processor in its group.").unit(Unit::Id),
            Column::new("frequency", ColumnType::U64, "New frequency in MHz."),
            Column::new("state", ColumnType::U32, "Number of the performance state.").unit(Unit::Id),
            Column::new("performance", ColumnType::U32, "Performance that was asked for.")
                .unit(Unit::Percent),
        ],
    ),
    starts: &[Kinds { provider: PROCESSOR_POWER, events: &[(10, "Change")], key: &[] }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Property(&["Group"])),
        Fill::Start(Of::Property(&["Number"])),
        Fill::Start(Of::Property(&["Speed"])),
        Fill::Start(Of::Property(&["State"])),
        Fill::Start(Of::Property(&["Performance"])),
    ],
};

pub(super) static POWER: Declared = Declared {
    schema: &TableSchema::new(
        "power",
        "System Power State",
        "One row for each step of a change of the system's power state.",
        columns![
            time("When it happened."),
            THREAD,
            text("operation", "What happened, such as `SetPowerAction` or `Presleep`."),
            id("action", "Action that was asked for (`POWER_ACTION`)."),
            id("state", "State of the system (`SYSTEM_POWER_STATE`)."),
            code("status", "NTSTATUS of the end of an operation."),
            STACK,
        ],
    ),
    starts: &[Kinds {
        provider: Class::Power.guid(),
        events: &[
            (opcode(ids::Power::SET_POWER_ACTION), "SetPowerAction"),
            (opcode(ids::Power::SET_POWER_ACTION_RET), "SetPowerActionReturn"),
            (opcode(ids::Power::SET_DEVICES_STATE), "SetDevicesState"),
            (opcode(ids::Power::SET_DEVICES_STATE_RET), "SetDevicesStateReturn"),
            (opcode(ids::Power::PO_SESSION_CALLOUT), "SessionCallout"),
            (opcode(ids::Power::PO_SESSION_CALLOUT_RET), "SessionCalloutReturn"),
            (opcode(ids::Power::PO_PRESLEEP), "Presleep"),
            (opcode(ids::Power::PO_POSTSLEEP), "Postsleep"),
        ],
        key: &[],
    }],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Name),
        Fill::Start(Of::Property(&["PowerAction", "SystemAction"])),
        Fill::Start(Of::Property(&["SystemState", "LightestState", "MinSystemState"])),
        Fill::Start(Of::Property(&["Status"])),
        Fill::Start(Of::Stack),
    ],
};

const FOCUS: [Kinds; 2] = [
    Kinds { provider: WIN32K[0], events: &[(2, "FocusChange")], key: &[] },
    Kinds { provider: WIN32K[1], events: &[(2, "FocusChange")], key: &[] },
];

pub(super) static WINDOW_FOCUS: Declared = Declared {
    schema: &TableSchema::new(
        "window_in_focus",
        "Window in Focus",
        "One row for each time that a thread's window had the focus.",
        columns![
            start_of("start_time", "When it got the focus."),
            end_of("end_time", "When it lost the focus, if that was during the trace."),
            duration("duration", "Time between the two."),
            thread("thread", "Thread of the window."),
            thread("previous_thread", "Thread whose window lost the focus."),
        ],
    ),
    starts: &FOCUS,
    stops: &FOCUS,
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::Time),
        Fill::Stop(Of::Time),
        Fill::Lasted,
        Fill::Start(Of::ThreadIn(&["NewThreadId"])),
        Fill::Start(Of::ThreadIn(&["OldThreadId"])),
    ],
};

const DELAYS: &[(u16, &str)] = &[
    (37, "InputDelay"),
    (38, "MessageCheckDelay"),
    (172, "ImmersiveInputDelay"),
    (173, "ImmersiveMessageCheckDelay"),
];

pub(super) static UI_DELAYS: Declared = Declared {
    schema: &TableSchema::new(
        "ui_delays",
        "UI Delays",
        "One row for each time that a thread with windows did not look at its messages.",
        columns![
            Column::new("start_time", ColumnType::Time, "When it began, if the event says how long it took."),
            end_of("end_time", "When it ended."),
            duration("duration", "Time between the two."),
            PROCESS,
            THREAD,
            text("delay_type", "`InputDelay`, `MessageCheckDelay`, or the same of a modern program."),
            duration("since_input_remove", "Time since a message of input was taken."),
            duration("since_oldest_input", "Time since the oldest message of input that waits."),
            text("class_name", "Class of the window."),
            text("top_level_class_name", "Class of the window at its top."),
            text("image_path", "Path or package of the program."),
            text("program_id", "Id of a modern program."),
            code("message_id", "The message."),
            code("wparam", "Its parameter."),
            code("thread_flags", "Flags of the thread."),
            STACK,
        ],
    ),
    starts: &[
        Kinds { provider: WIN32K[0], events: DELAYS, key: &[] },
        Kinds { provider: WIN32K[1], events: DELAYS, key: &[] },
    ],
    stops: &[],
    scope: Scope::Machine,
    values: &[
        Fill::Start(Of::TimeBefore(&["DelayTimeMs"], MILLISECOND)),
        Fill::Start(Of::Time),
        Fill::Start(Of::Scaled(&["DelayTimeMs"], NANOSECONDS_PER_MILLISECOND)),
        Fill::Start(Of::Process),
        Fill::Start(Of::Thread),
        Fill::Start(Of::Name),
        Fill::Start(Of::Scaled(&["TimeSinceInputRemoveMs"], NANOSECONDS_PER_MILLISECOND)),
        Fill::Start(Of::Scaled(&["TimeSinceOldestInputMs"], NANOSECONDS_PER_MILLISECOND)),
        Fill::Start(Of::Property(&["ClassName"])),
        Fill::Start(Of::Property(&["TopLevelClassName"])),
        Fill::Start(Of::Property(&["ImagePath", "PackageMoniker"])),
        Fill::Start(Of::Property(&["AppUserModelId"])),
        Fill::Start(Of::Property(&["MessageId"])),
        Fill::Start(Of::Property(&["WParam"])),
        Fill::Start(Of::Property(&["Flags"])),
        Fill::Start(Of::Stack),
    ],
};
