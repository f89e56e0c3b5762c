//! The analysis of a trace's events in one pass.

use etw_consumer::{Event, Stack};
use etw_event::FileTime;
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::read;

use crate::activity::{Providers, SpanSums};
use crate::by_stack::{ByStack, Found};
use crate::facts::Fact;
use crate::file_names::FileNames;
use crate::images::Images;
use crate::kernel_functions::KernelFunctions;
use crate::managed::{ClrEvent, ClrProvider, JitEvent, Methods};
use crate::processes::Processes;
use crate::samples::Samples;
use crate::switches::{Readied, Switches};
use crate::tables::disk::DiskIo;
use crate::tables::dotnet::DotNet;
use crate::tables::faults::HardFaults;
use crate::tables::file_io::FileIo;
use crate::tables::http::Http;
use crate::tables::interrupts::Interrupts;
use crate::tables::network::Network;
use crate::tables::syscalls::SystemCalls;
use crate::weight::StackWeight;
use crate::{Machines, Window};

// `Analysis::classes` has a bit for each.
const _: () = assert!(Class::ALL.len() <= u64::BITS as usize);

/// The counters behind the tables, filled from the events of a trace in time order.
///
/// Memory grows with the number of distinct processes, files, stacks and endpoints, not with the number of events.
/// Events of several machines need [`Analysis::of_machines`].
#[derive(Debug)]
pub struct Analysis {
    pub(crate) window: Window,
    /// Number of events in the window.
    pub(crate) events: u64,
    /// A bit for each class of which the trace has events.
    classes: u64,
    /// Earliest and latest time of an event.
    pub(crate) first: FileTime,
    pub(crate) last: FileTime,
    pub(crate) processes: Processes,
    pub(crate) images: Images,
    pub(crate) kernel_functions: KernelFunctions,
    pub(crate) samples: Samples,
    pub(crate) switches: Switches,
    pub(crate) files: FileNames,
    pub(crate) disk: DiskIo,
    pub(crate) file_io: FileIo,
    pub(crate) network: Network,
    pub(crate) faults: HardFaults,
    pub(crate) interrupts: Interrupts,
    pub(crate) calls: SystemCalls,
    pub(crate) methods: Methods,
    pub(crate) dotnet: DotNet,
    pub(crate) http: Http,
    pub(crate) providers: Providers,
    pub(crate) by_stack: Vec<ByStack>,
    /// What the event says, if it is one of the kernel's that are counted singly.
    pub(crate) fact: Option<Fact>,
    /// The wait that the event ended.
    readied: Option<Readied>,
}

impl Analysis {
    /// Returns an analysis of a time window.
    pub fn new(window: Window) -> Analysis {
        Analysis {
            window,
            events: 0,
            classes: 0,
            first: FileTime(i64::MAX),
            last: FileTime(i64::MIN),
            processes: Processes::default(),
            images: Images::default(),
            kernel_functions: KernelFunctions::default(),
            samples: Samples::new(),
            switches: Switches::default(),
            files: FileNames::default(),
            disk: DiskIo::default(),
            file_io: FileIo::default(),
            network: Network::default(),
            faults: HardFaults::default(),
            interrupts: Interrupts::default(),
            calls: SystemCalls::default(),
            methods: Methods::default(),
            dotnet: DotNet::default(),
            http: Http::new(),
            providers: Providers::default(),
            by_stack: Vec::new(),
            fact: None,
            readied: None,
        }
    }

    /// Sets the machines of the events; without it, all events are of one machine.
    ///
    /// With several machines, the names of processes, disks and kinds of interrupts in tables end in the name of the
    /// machine's first file: `make [build.etl]`.
    pub fn of_machines(mut self, machines: Machines) -> Analysis {
        self.processes.machines = machines;
        self
    }

    /// Enables counting over time, for [`Report::activity`](crate::Report::activity).
    ///
    /// Counts from `start` on, up to `end` if it is known.
    pub fn over_time(mut self, start: FileTime, end: Option<FileTime>) -> Analysis {
        let start = start.max(self.window.from);
        let end = end.map(|end| end.min(self.window.to));
        self.switches.timeline = SpanSums::new(start, end);
        self.samples.timeline = SpanSums::new(start, end);
        self.providers = Providers::new(start, end);
        self
    }

    /// Counts a weight by stack, besides those it counts already, for
    /// [`TableKind::ByFunction`](crate::TableKind::ByFunction), [`Report::stacks`](crate::Report::stacks) and, of the
    /// first one, folded stacks. Events must come with their stacks, by [`Analysis::add_with_stack`].
    #[must_use]
    pub fn by_stack(mut self, weight: StackWeight) -> Analysis {
        self.by_stack.push(ByStack::new(weight));
        self
    }

    /// Adds an event. Events that no table uses are ignored.
    pub fn add(&mut self, event: &Event<'_>) {
        let record = event.record;
        (self.fact, self.readied) = (None, None);
        let time = record.time();
        self.events += u64::from(self.window.has(time));
        (self.first, self.last) = (self.first.min(time), self.last.max(time));
        self.providers.event(event, &self.window);
        let machine = self.processes.enter(record);
        self.files.enter(machine);
        let told = EventId::from_record(record).inspect(|id| self.classes |= 1 << id.class() as u32);
        // Where both tell the same, the classes tell more.
        let repeated =
            || EventId::from_provider_record(record).filter(|id| self.classes >> id.class() as u32 & 1 == 0);
        let Some(id) = told.or_else(repeated) else {
            self.kernel_functions.event(event, machine);
            self.code(event);
            return self.clr(event);
        };
        let Analysis { window, processes, images, samples, switches, files, fact, readied, .. } = self;
        // Payloads that are too short are ignored: such events are damaged, or of an unknown version.
        match id {
            ids::Thread::C_SWITCH => *fact = switches.switch(record, processes, window).map(Fact::Switch),
            ids::Thread::READY_THREAD => *readied = switches.ready(record, processes),
            ids::Thread::SET_NAME => processes.thread_name(event),
            ids::PerfInfo::SAMPLE_PROFILE => {
                switches.sampled(record, processes, window);
                *fact = samples.sample(record, processes, window).map(Fact::Sample);
            }
            ids::PerfInfo::SYS_CL_ENTER => drop(self.calls.enter(record, processes, switches, window)),
            ids::PerfInfo::SYS_CL_EXIT => {
                *fact = self.calls.exit(record, processes, switches, window).map(Fact::Call);
            }
            id if read::Interrupt::reads(id) => {
                *fact = self.interrupts.event(id, record, machine, window).map(Fact::Interrupt);
            }
            id if read::ProfileInterval::reads(id) => samples.set_interval(record, machine),
            ids::StackWalk::STACK => samples.stack(record, processes),
            id if read::StackFrames::reads(id) => samples.key_frames(record, machine),
            ids::StackWalk::STACK_KEY_KERNEL => samples.stack_key(record, false, processes),
            ids::StackWalk::STACK_KEY_USER => samples.stack_key(record, true, processes),
            id if read::FileName::reads(id) => files.name_event(id, event),
            ids::PageFault::HARD_FAULT => {
                *fact = self.faults.event(record, processes, files, window).map(Fact::Fault);
            }
            ids::SystemConfig::PHY_DISK => self.disk.name(event, machine),
            ids::SysConfigEx::VOLUME_MAPPING => files.volumes.event(event, machine),
            _ => match id.class() {
                Class::Thread => processes.thread_event(id, event),
                Class::FileIo => {
                    *fact = self.file_io.event(id, event, processes, files, window).map(Fact::File);
                }
                Class::DiskIo => {
                    *fact = self.disk.event(id, record, processes, files, window).map(Fact::Disk);
                }
                Class::TcpIp | Class::UdpIp => {
                    *fact = self.network.event(id, record, processes, window).map(Fact::Network);
                }
                Class::Process => processes.process_event(id, event),
                Class::Image => images.event(id, event, processes),
                Class::ImageID => images.id_event(id, event, processes),
                _ => {}
            },
        }
    }

    /// Adds an event with its stack, after [`Analysis::by_stack`].
    pub fn add_with_stack(&mut self, event: &Event<'_>, stack: &Stack<'_>) {
        self.add(event);
        let Analysis { window, processes, samples, by_stack, fact, readied, .. } = self;
        let found = Found { fact: *fact, readied: *readied };
        for by_stack in by_stack {
            by_stack.add(event, stack, &found, samples, processes, window);
        }
    }

    /// Adds a function of a JIT compiler or names of code in an image, if the event is about such.
    #[inline]
    fn code(&mut self, event: &Event<'_>) {
        if !self.kernel_functions.is_about(event.record) {
            return;
        }
        self.images.names.event(event);
        if let Some(event) = JitEvent::of(event, &mut self.processes) {
            self.methods.jit(event, &mut self.samples.versions);
        }
    }

    /// Adds an event if it is of a .NET runtime, or about an HTTP request.
    fn clr(&mut self, event: &Event<'_>) {
        let Some(provider) = ClrProvider::of(event.record) else {
            return self.http.event(event, &mut self.processes, &self.window);
        };
        let Some(event) = ClrEvent::new(provider, event, &mut self.processes) else { return };
        let method = self.methods.event(&event, &mut self.samples.versions);
        self.dotnet.event(&event, method, &self.samples.versions, &self.window);
    }
}
