//! The analysis of a trace's events in one pass.

use etw_consumer::{Event, Stack};
use etw_event::FileTime;

use crate::activity::{Providers, SpanSums};
use crate::by_stack::{ByStack, StackWeight};
use crate::class::{Group, class};
use crate::file_names::FileNames;
use crate::images::Images;
use crate::kernel_functions::KernelFunctions;
use crate::managed::{ClrEvent, ClrProvider, Methods};
use crate::processes::{Processes, ThreadIndex};
use crate::samples::Samples;
use crate::switches::Switches;
use crate::tables::disk::DiskIo;
use crate::tables::dotnet::DotNet;
use crate::tables::faults::HardFaults;
use crate::tables::file_io::FileIo;
use crate::tables::interrupts::Interrupts;
use crate::tables::network::Network;
use crate::tables::syscalls::SystemCalls;
use crate::{Duration, Machines, Window};

/// The counters behind the tables, filled from the events of a trace in time order.
///
/// Memory grows with the number of distinct processes, files, stacks and endpoints, not with the number of events.
/// Events of several machines need [`Analysis::of_machines`].
#[derive(Debug)]
pub struct Analysis {
    pub(crate) window: Window,
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
    pub(crate) providers: Providers,
    pub(crate) by_stack: Option<ByStack>,
    /// The thread that the last switch went to, and the time for which it had waited.
    waited: Option<(ThreadIndex, Duration)>,
}

impl Analysis {
    /// Returns an analysis of a time window.
    pub fn new(window: Window) -> Analysis {
        Analysis {
            window,
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
            providers: Providers::default(),
            by_stack: None,
            waited: None,
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

    /// Counts a weight by stack, for [`TableKind::ByFunction`](crate::TableKind::ByFunction) and folded stacks. Events
    /// must come with their stacks, by [`Analysis::add_with_stack`].
    #[must_use]
    pub fn by_stack(mut self, weight: StackWeight) -> Analysis {
        self.by_stack = Some(ByStack::new(weight));
        self
    }

    /// Adds an event. Events that no table uses are ignored.
    pub fn add(&mut self, event: &Event<'_>) {
        let record = event.record;
        self.last = self.last.max(record.time());
        self.providers.event(event, &self.window);
        let machine = self.processes.enter(record);
        self.files.enter(machine);
        let Some((group, kind)) = class(record) else {
            self.kernel_functions.event(event, machine);
            return self.clr(event);
        };
        let Analysis { window, processes, images, samples, switches, files, .. } = self;
        // Payloads that are too short are ignored: such events are damaged, or of an unknown version.
        match (group, kind) {
            (Group::Thread, 36) => self.waited = switches.switch(record, processes, window),
            (Group::Thread, 50) => switches.ready(record, processes),
            (Group::Thread, 72) => processes.thread_name(event),
            (Group::Thread, kind) => processes.thread_event(kind, event),
            (Group::PerfInfo, 46) => {
                switches.sampled(record, processes, window);
                samples.sample(record, processes, window);
            }
            (Group::PerfInfo, 51) => drop(self.calls.enter(record, processes, switches, window)),
            (Group::PerfInfo, 52) => drop(self.calls.exit(record, processes, switches, window)),
            (Group::PerfInfo, 50 | 66..=69 | 95) => {
                let _ = self.interrupts.event(kind, record, machine, window);
            }
            (Group::PerfInfo, 72..=74) => samples.set_interval(record, machine),
            (Group::Stack, 32) => samples.stack(record, processes),
            (Group::Stack, 34..=36) => samples.key_frames(record, machine),
            (Group::Stack, 37 | 38) => samples.stack_key(record, kind == 38, processes),
            (Group::File, 0 | 32 | 35 | 36) => files.name_event(kind, event),
            (Group::File, kind) => self.file_io.event(kind, event, processes, files, window),
            (Group::Disk, kind) => self.disk.event(kind, record, processes, files, window),
            (Group::Tcp, kind) => drop(self.network.event(false, kind, record, processes, window)),
            (Group::Udp, kind) => drop(self.network.event(true, kind, record, processes, window)),
            (Group::Fault, 32) => drop(self.faults.event(record, processes, files, window)),
            (Group::Process, kind) => processes.process_event(kind, event),
            (Group::Image, kind) => images.event(kind, event, processes),
            (Group::Config, 11) => self.disk.name(event, machine),
            (Group::ConfigEx, 35) => files.volumes.event(event, machine),
            (Group::ImageId, kind) => images.id_event(kind, event, processes),
            _ => {}
        }
    }

    /// Adds an event with its stack, after [`Analysis::by_stack`].
    pub fn add_with_stack(&mut self, event: &Event<'_>, stack: &Stack<'_>) {
        self.waited = None;
        self.add(event);
        let Analysis { window, processes, samples, by_stack, waited, .. } = self;
        if let Some(by_stack) = by_stack {
            by_stack.add(event, stack, *waited, samples, processes, window);
        }
    }

    /// Adds an event if it is of a .NET runtime.
    fn clr(&mut self, event: &Event<'_>) {
        let Some(provider) = ClrProvider::of(event.record) else { return };
        let Some(event) = ClrEvent::new(provider, event, &mut self.processes) else { return };
        let method = self.methods.event(&event, &mut self.samples.versions);
        self.dotnet.event(&event, method, &self.samples.versions, &self.window);
    }
}
