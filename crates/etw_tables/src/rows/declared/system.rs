//! Tables of the system: handles, services, marks, power and windows.

use etw_event::Guid;
use etw_kernel_events::ids::{self, Class};

use super::{EventValue, Kinds, Scope, ValueSource, opcode};
use crate::rows::columns::{
    Address, End, Hex, Id, Number, ObjectType, Process, Processor, ShortPercent, Span, Stack, Start, Text,
    Thread, Time,
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

property_table! {
    /// One row for each handle that was created during the trace, or that was there at its start.
    HANDLES: "handles", "Handles", Scope::ProcessIn(&["TargetProcessId", "ProcessId"]);
    summary by ["owning_process", "object_type", "origin"] values ["rows", "mean(lifetime)"];
    starts &[
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
    ];
    stops &[Kinds {
        provider: Class::Object.guid(),
        events: &[(opcode(ids::Object::CLOSE_HANDLE), "Close")],
        key: &["Handle"],
    }];
    /// When it was created; of one that was there, when the trace said so.
    create_time: Start = ValueSource::Start(EventValue::Time),
    /// When it was closed, if that was during the trace.
    close_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    lifetime: Span = ValueSource::Lasted,
    /// Process that the handle is of.
    owning_process: Process = ValueSource::Start(EventValue::ProcessIn(&["TargetProcessId", "ProcessId"])),
    /// Process that created it.
    creating_process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that created it.
    creating_thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Thread that closed it.
    closing_thread: Thread = ValueSource::Stop(EventValue::Thread),
    /// The handle.
    handle: Hex = ValueSource::Start(EventValue::Property(&["Handle", "TargetHandle"])),
    /// Type of the object.
    object_type: ObjectType = ValueSource::Start(EventValue::ObjectType("ObjectType")),
    /// Name of the object, if it has one.
    object_name: Text = ValueSource::Start(EventValue::Property(&["ObjectName"])),
    /// Address of the object.
    object: Address = ValueSource::Start(EventValue::Property(&["Object"])),
    /// `Create`, `Duplicate`, or `Rundown` for one that was there at the start.
    origin: Text = ValueSource::Start(EventValue::Name),
    /// Stack of the creation.
    create_stack: Stack = ValueSource::Start(EventValue::Stack),
    /// Stack of the closing.
    close_stack: Stack = ValueSource::Stop(EventValue::Stack),
}

property_table! {
    /// One row for each service that the trace lists.
    SERVICES: "services", "Services", Scope::Machine;
    starts &[Kinds {
        provider: Class::SystemConfig.guid(),
        events: &[(opcode(ids::SystemConfig::SERVICES), "Services")],
        key: &[],
    }];
    stops &[];
    /// When it was listed.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Name of the service.
    service_name: Text = ValueSource::Start(EventValue::Property(&["ServiceName"])),
    /// Name for display.
    display_name: Text = ValueSource::Start(EventValue::Property(&["DisplayName"])),
    /// Process that hosts it, if it runs.
    process: Process = ValueSource::Start(EventValue::RunningProcessIn("ProcessId")),
    /// State: 1 stopped, 2 starts, 3 stops, 4 runs, 7 paused.
    state: Id = ValueSource::Start(EventValue::Property(&["ServiceState"])),
    /// Number by which threads refer to the service.
    sub_process_tag: Id = ValueSource::Start(EventValue::Property(&["SubProcessTag"])),
    /// Name of the hosting program.
    process_name: Text = ValueSource::Start(EventValue::Property(&["ProcessName"])),
    /// Group in which it is started.
    load_order_group: Text = ValueSource::Start(EventValue::Property(&["LoadOrderGroup"])),
    /// Group of services that share a process.
    host_group: Text = ValueSource::Start(EventValue::Property(&["SvchostGroup"])),
}

property_table! {
    /// One row for each mark that a tool put into the trace.
    MARKS: "marks", "Marks", Scope::Machine;
    starts &[Kinds {
        provider: Class::PerfInfo.guid(),
        events: &[(opcode(ids::PerfInfo::MARK), "Mark")],
        key: &[],
    }];
    stops &[];
    /// When it was put.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// Text of the mark.
    label: Text = ValueSource::Start(EventValue::Property(&["Message"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

property_table! {
    /// One row for each time that a processor spent in an idle state.
    IDLE_STATES: "cpu_idle_states", "CPU Idle States", Scope::Processor;
    summary by ["processor", "state"]
        values ["sum(duration)", "percent(sum(duration))", "rows", "max(duration)"];
    starts &[Kinds {
        provider: Class::Power.guid(),
        events: &[(opcode(ids::Power::PPM_IDLE_STATE_ENTER), "Enter")],
        key: &[],
    }];
    stops &[Kinds {
        provider: Class::Power.guid(),
        events: &[(opcode(ids::Power::PPM_IDLE_STATE_EXIT), "Exit")],
        key: &[],
    }];
    /// When the state was entered.
    enter_time: Start = ValueSource::Start(EventValue::Time),
    /// When it was left, if that was during the trace.
    exit_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Lasted,
    /// Processor that logged the event.
    processor: Processor = ValueSource::Start(EventValue::Processor),
    /// Number of the state, greater for deeper ones.
    state: Id = ValueSource::Start(EventValue::Property(&["State"])),
    /// Flags of the entry.
    flags: Hex = ValueSource::Start(EventValue::Property(&["Flags"])),
    /// Status of the exit.
    status: Hex = ValueSource::Stop(EventValue::Property(&["Status"])),
}

property_table! {
    /// One row for each change of a processor's frequency.
    FREQUENCY: "cpu_frequency", "CPU Frequency", Scope::Machine;
    starts &[Kinds { provider: PROCESSOR_POWER, events: &[(10, "Change")], key: &[] }];
    stops &[];
    /// When it changed.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Group of the processor.
    group: Id = ValueSource::Start(EventValue::Property(&["Group"])),
    /// Number of the processor in its group.
    processor: Id = ValueSource::Start(EventValue::Property(&["Number"])),
    /// New frequency in MHz.
    frequency: Number = ValueSource::Start(EventValue::Property(&["Speed"])),
    /// Number of the performance state.
    state: Id = ValueSource::Start(EventValue::Property(&["State"])),
    /// Performance that was asked for.
    performance: ShortPercent = ValueSource::Start(EventValue::Property(&["Performance"])),
}

property_table! {
    /// One row for each step of a change of the system's power state.
    POWER: "power", "System Power State", Scope::Machine;
    starts &[Kinds {
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
    }];
    stops &[];
    /// When it happened.
    time: Time = ValueSource::Start(EventValue::Time),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// What happened, such as `SetPowerAction` or `Presleep`.
    operation: Text = ValueSource::Start(EventValue::Name),
    /// Action that was asked for (`POWER_ACTION`).
    action: Id = ValueSource::Start(EventValue::Property(&["PowerAction", "SystemAction"])),
    /// State of the system (`SYSTEM_POWER_STATE`).
    state: Id = ValueSource::Start(EventValue::Property(&["SystemState", "LightestState", "MinSystemState"])),
    /// NTSTATUS of the end of an operation.
    status: Hex = ValueSource::Start(EventValue::Property(&["Status"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}

const FOCUS: [Kinds; 2] = [
    Kinds { provider: WIN32K[0], events: &[(2, "FocusChange")], key: &[] },
    Kinds { provider: WIN32K[1], events: &[(2, "FocusChange")], key: &[] },
];

property_table! {
    /// One row for each time that a thread's window had the focus.
    WINDOW_FOCUS: "window_in_focus", "Window in Focus", Scope::Machine;
    summary by ["thread.process"] values ["sum(duration)", "percent(sum(duration))", "rows"];
    starts &FOCUS;
    stops &FOCUS;
    /// When it got the focus.
    start_time: Start = ValueSource::Start(EventValue::Time),
    /// When it lost the focus, if that was during the trace.
    end_time: End = ValueSource::Stop(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Lasted,
    /// Thread of the window.
    thread: Thread = ValueSource::Start(EventValue::ThreadIn(&["NewThreadId"])),
    /// Thread whose window lost the focus.
    previous_thread: Thread = ValueSource::Start(EventValue::ThreadIn(&["OldThreadId"])),
}

const DELAYS: &[(u16, &str)] = &[
    (37, "InputDelay"),
    (38, "MessageCheckDelay"),
    (172, "ImmersiveInputDelay"),
    (173, "ImmersiveMessageCheckDelay"),
];

property_table! {
    /// One row for each time that a thread with windows did not look at its messages.
    UI_DELAYS: "ui_delays", "UI Delays", Scope::Machine;
    summary by ["process", "delay_type"] values ["rows", "sum(duration)", "max(duration)"];
    starts &[
        Kinds { provider: WIN32K[0], events: DELAYS, key: &[] },
        Kinds { provider: WIN32K[1], events: DELAYS, key: &[] },
    ];
    stops &[];
    /// When it began, if the event says how long it took.
    start_time: Time = ValueSource::Start(EventValue::TimeBefore(&["DelayTimeMs"], MILLISECOND)),
    /// When it ended.
    end_time: End = ValueSource::Start(EventValue::Time),
    /// Time between the two.
    duration: Span = ValueSource::Start(EventValue::Scaled(&["DelayTimeMs"], NANOSECONDS_PER_MILLISECOND)),
    /// Process that did it.
    process: Process = ValueSource::Start(EventValue::Process),
    /// Thread that did it.
    thread: Thread = ValueSource::Start(EventValue::Thread),
    /// `InputDelay`, `MessageCheckDelay`, or the same of a modern program.
    delay_type: Text = ValueSource::Start(EventValue::Name),
    /// Time since a message of input was taken.
    since_input_remove: Span = ValueSource::Start(EventValue::Scaled(&["TimeSinceInputRemoveMs"], NANOSECONDS_PER_MILLISECOND)),
    /// Time since the oldest message of input that waits.
    since_oldest_input: Span = ValueSource::Start(EventValue::Scaled(&["TimeSinceOldestInputMs"], NANOSECONDS_PER_MILLISECOND)),
    /// Class of the window.
    class_name: Text = ValueSource::Start(EventValue::Property(&["ClassName"])),
    /// Class of the window at its top.
    top_level_class_name: Text = ValueSource::Start(EventValue::Property(&["TopLevelClassName"])),
    /// Path or package of the program.
    image_path: Text = ValueSource::Start(EventValue::Property(&["ImagePath", "PackageMoniker"])),
    /// Id of a modern program.
    program_id: Text = ValueSource::Start(EventValue::Property(&["AppUserModelId"])),
    /// The message.
    message_id: Hex = ValueSource::Start(EventValue::Property(&["MessageId"])),
    /// Its parameter.
    wparam: Hex = ValueSource::Start(EventValue::Property(&["WParam"])),
    /// Flags of the thread.
    thread_flags: Hex = ValueSource::Start(EventValue::Property(&["Flags"])),
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Stack = ValueSource::Start(EventValue::Stack),
}
