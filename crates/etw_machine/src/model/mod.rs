//! What events tell of machines: processes, images, files and code, and what has begun and not ended.

pub(crate) mod addresses;
pub(crate) mod calls;
pub(crate) mod collections;
pub(crate) mod disks;
pub(crate) mod facts;
mod faults;
pub(crate) mod file_operations;
mod interrupts;
pub(crate) mod network;
pub(crate) mod samples;
pub(crate) mod switches;

use etw_consumer::Event;
use etw_event::{PointerSize, Record};
use etw_kernel_events::classes::GroupMasksEvent;
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::{EnableFlags, read};

use crate::Window;
use crate::addresses::has_pointers_of_system;
use crate::file_names::FileNames;
use crate::images::Images;
use crate::kernel_functions::KernelFunctions;
use crate::managed::{ClrEvent, ClrProvider, JitEvent, MethodIndex, Methods};
use crate::processes::Processes;
use addresses::Addresses;
use calls::SystemCalls;
use collections::Collections;
use disks::DiskRequests;
use facts::Fact;
use file_operations::FileOperations;
use network::Network;
use samples::Intervals;
use switches::{Ran, Switches};

/// The events with the masks of a session: when it starts or changes them, and when it stops.
const GROUP_MASKS: [EventId; 2] = [
    EventId::new(Class::EventTrace, GroupMasksEvent::Extension as u8),
    EventId::new(Class::EventTrace, GroupMasksEvent::EndExtension as u8),
];

// `Model::classes` has a bit for each.
const _: () = assert!(Class::ALL.len() <= u64::BITS as usize);

/// The state of machines, from the events of a trace in time order.
///
/// Memory grows with the number of distinct processes, images, files and methods, not with the number of events.
#[derive(Debug)]
pub struct Model {
    /// Facts are those of this time.
    pub window: Window,
    /// A bit for each class of which the trace has events.
    classes: u64,
    /// The enable flags that sessions say they had; `None` if none says so.
    pub enabled: Option<EnableFlags>,
    /// The processes and threads.
    pub processes: Processes,
    /// The images of processes and kernels.
    pub images: Images,
    /// The functions that the trace itself names in kernels of Linux.
    pub kernel_functions: KernelFunctions,
    /// The names of files.
    pub files: FileNames,
    /// The functions that JIT compilers have made.
    pub methods: Methods,
    /// The widths of addresses, and the versions of code that was replaced.
    pub addresses: Addresses,
    pub(crate) intervals: Intervals,
    /// The threads that run and wait.
    pub switches: Switches,
    /// The disks, and the requests that they have begun.
    pub disks: DiskRequests,
    /// The operations on files that have begun.
    pub file_operations: FileOperations,
    /// The connections.
    pub network: Network,
    /// The system calls that have begun.
    pub calls: SystemCalls,
    /// The garbage collections of .NET.
    pub collections: Collections,
    /// HTTP requests whose events have no activity id, which would say which end is theirs.
    pub requests_without_activity: u64,
}

/// What an event of the kernel tells.
#[derive(Debug, Default)]
pub struct Observation {
    /// The kernel's event that it is, or that a provider of a manifest repeats.
    pub id: Option<EventId>,
    /// What it states, if that is a fact in the window.
    pub fact: Option<Fact>,
    /// Time that a thread ran, up to a switch which the trace lacks, or in a program that it replaces.
    pub ran: Option<Ran>,
}

/// An event of a .NET runtime.
pub struct ClrObservation<'e> {
    /// The event, if its fields are known.
    pub event: Option<ClrEvent<'e>>,
    /// The method that it describes, if that is in place.
    pub method: Option<MethodIndex>,
}

impl Model {
    /// Returns the state before the first event.
    pub fn new(window: Window) -> Model {
        Model {
            window,
            classes: 0,
            enabled: None,
            processes: Processes::default(),
            images: Images::default(),
            kernel_functions: KernelFunctions::default(),
            files: FileNames::default(),
            methods: Methods::default(),
            addresses: Addresses::default(),
            intervals: Intervals::default(),
            switches: Switches::default(),
            disks: DiskRequests::default(),
            file_operations: FileOperations::default(),
            network: Network::default(),
            calls: SystemCalls::default(),
            collections: Collections::default(),
            requests_without_activity: 0,
        }
    }

    /// Adds an event. Those that are not of the kernel must be added with [`Model::program_event`] too.
    #[inline]
    pub fn add(&mut self, event: &Event<'_>) -> Observation {
        let record = event.record;
        let machine = self.processes.enter(record);
        self.files.enter(machine);
        let own = EventId::from_record(record).inspect(|id| self.classes |= 1 << id.class() as u32);
        // Where both tell the same, the classes tell more.
        let repeated =
            || EventId::from_provider_record(record).filter(|id| self.classes >> id.class() as u32 & 1 == 0);
        let Some(id) = own.or_else(repeated) else {
            return Observation::default();
        };
        if has_pointers_of_system(id) {
            self.addresses.is_32_bit = record.pointer_size() == PointerSize::Four;
        }
        let ran = match id {
            ids::PerfInfo::SAMPLE_PROFILE => self.switches.sampled(record, &mut self.processes),
            id if id.class() == Class::Process => self.process_event(id, event),
            _ => None,
        };
        Observation { id: Some(id), fact: self.kernel_event(id, event, machine), ran }
    }

    /// Adds an event of class Process; returns the time that its thread ran in the program that it replaces.
    fn process_event(&mut self, id: EventId, event: &Event<'_>) -> Option<Ran> {
        let change = self.processes.process_event(id, event)?;
        self.calls.change_program(change);
        self.switches.change_program(change, event.record, &self.processes)
    }

    /// Adds an event of the kernel. Payloads that are too short are ignored: such events are damaged, or of an unknown
    /// version.
    fn kernel_event(&mut self, id: EventId, event: &Event<'_>, machine: u32) -> Option<Fact> {
        let record = event.record;
        let Model { window, processes, images, switches, files, calls, .. } = self;
        match id {
            ids::Thread::C_SWITCH => return switches.switch(record, processes, window).map(Fact::Switch),
            ids::Thread::READY_THREAD => return switches.ready(record, processes).map(Fact::Ready),
            ids::Thread::SET_NAME => processes.thread_name(event),
            ids::PerfInfo::SAMPLE_PROFILE => {
                return self.intervals.sample(record, processes, window).map(Fact::Sample);
            }
            ids::PerfInfo::SYS_CL_ENTER => {
                return calls.enter(record, processes, switches, window).map(Fact::UnendedCall);
            }
            ids::PerfInfo::SYS_CL_EXIT => {
                return calls.exit(record, processes, switches, window).map(Fact::Call);
            }
            id if read::Interrupt::reads(id) => {
                return interrupts::interrupt(id, record, window).map(Fact::Interrupt);
            }
            id if read::ProfileInterval::reads(id) => self.intervals.set(record, machine),
            id if read::StackEvent::reads(id) => stack(record, processes),
            id if read::FileName::reads(id) => files.name_event(id, event),
            ids::PageFault::HARD_FAULT => {
                return faults::hard_fault(record, processes, files, window).map(Fact::Fault);
            }
            ids::SystemConfig::PHY_DISK => self.disks.name(event, machine),
            ids::SysConfigEx::VOLUME_MAPPING => files.volumes.event(event, machine),
            _ => match id.class() {
                Class::EventTrace if GROUP_MASKS.contains(&id) => self.group_masks(event),
                Class::Thread => processes.thread_event(id, event),
                Class::FileIo => {
                    return self.file_operations.event(id, event, processes, files, window).map(Fact::File);
                }
                Class::DiskIo => {
                    return self.disks.event(id, record, processes, files, window).map(Fact::Disk);
                }
                Class::TcpIp | Class::UdpIp => {
                    return self.network.event(id, record, processes, window).map(Fact::Network);
                }
                Class::Image => images.event(id, event, processes),
                Class::ImageID => images.id_event(id, event, processes),
                _ => {}
            },
        }
        None
    }

    /// Adds the flags of an event about the masks of a session, of which the first has them.
    fn group_masks(&mut self, event: &Event<'_>) {
        let mask = event.properties.as_ref().ok().and_then(|of| of.try_get::<u32>("GroupMask1"));
        if let Some(mask) = mask {
            self.enabled = Some(self.enabled.unwrap_or_default() | EnableFlags(mask));
        }
    }

    /// Adds a function of a JIT compiler or names of code in an image, if the event is about such.
    #[inline]
    fn code(&mut self, event: &Event<'_>) {
        if !self.kernel_functions.is_about(event.record) {
            return;
        }
        self.images.names.event(event);
        if let Some(event) = JitEvent::from_event(event, &mut self.processes) {
            self.methods.jit(event, &mut self.addresses.versions);
        }
    }

    /// Adds an event of a program after [`Model::add`]; returns what it tells if it is of a .NET runtime.
    pub fn program_event<'e>(&mut self, event: &Event<'e>) -> Option<ClrObservation<'e>> {
        self.kernel_functions.event(event, self.processes.machine());
        self.processes.control_group_event(event);
        self.code(event);
        let provider = ClrProvider::from_record(event.record)?;
        let Some(event) = ClrEvent::new(provider, event, &mut self.processes) else {
            return Some(ClrObservation { event: None, method: None });
        };
        let method = self.methods.event(&event, &mut self.addresses.versions);
        self.collections.event(&event, &self.window);
        Some(ClrObservation { event: Some(event), method })
    }
}

/// Adds the process of the thread that a stack is of.
fn stack(record: &Record<'_>, processes: &mut Processes) {
    let stack = read::StackEvent::new(record);
    if let (Some(process), Some(thread)) = (stack.stack_process(), stack.stack_thread())
        && ![process, thread].contains(&u32::MAX)
    {
        processes.thread_of(thread, process);
    }
}
