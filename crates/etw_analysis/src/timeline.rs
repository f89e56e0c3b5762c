//! The sequence of events in a trace, each with the thread it is about.
//!
//! A trace is read twice. The first reading results in a [`Survey`] with the processes, the threads, and the samples
//! with the function names of their stacks, since names may be at the end of a trace. The second reading returns the
//! [`Moment`] of each event, with the same numbers for processes, threads and files.

use std::collections::BTreeSet;

use etw_consumer::Event;
use etw_event::{FileTime, PointerSize, Record};
use etw_kernel_events::classes::state;
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::read;
use etw_machine::{
    Addresses, ClrEvent, ClrProvider, Duration, FileIndex, FileNames, Images, Intervals, JitEvent,
    KernelFunctions, Machines, Methods, Names, ProcessIndex, Processes, ProgramChange, Sources, Space,
    ThreadIndex, Window, has_pointers_of_system,
};
use etw_stacks::StackTree;
use etw_symbols::{Frame, Symbolizer};
use etw_tables::call_name;

use crate::samples::{Samples, TakenStack};
use crate::tables::functions::{self, Weighed};

/// Maximum number of addresses of system calls to be named; systems have a few hundred calls.
const MAX_CALLS: usize = 1 << 14;
/// Maximum number of processors.
const MAX_PROCESSORS: usize = 1 << 16;
/// Distance between the ids of two machines in a survey. Linux has ids up to 2^22, and Windows rarely larger ones.
const ID_STEP: u32 = 100_000_000;

/// The meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// A processor switches from one thread to another.
    Switch(Switch),
    /// A thread is made ready to run.
    Ready {
        /// The thread.
        thread: ThreadIndex,
        /// The thread that made it ready, if there is one and the trace contains it.
        by: Option<ThreadIndex>,
    },
    /// A sample; its data is in the survey.
    Sample,
    /// The stack of another event, or the name of an existing process, thread, image, file or function.
    Context,
    /// A system call starts.
    CallBegin {
        /// Address of the function that implements the call.
        address: u64,
    },
    /// The last system call of the thread ends.
    CallEnd {
        /// The return value.
        status: u32,
    },
    /// A disk request completes.
    Disk(DiskRequest),
    /// Any other event.
    Other,
}

/// A context switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// The thread that ran.
    pub from: ThreadIndex,
    /// The thread that runs afterwards.
    pub to: ThreadIndex,
    /// Priority of the thread that ran.
    pub from_priority: i8,
    /// Priority of the thread that runs afterwards.
    pub to_priority: i8,
    /// State of the thread that ran (`KTHREAD_STATE`).
    pub from_state: u8,
    /// The reason why it waits (`KWAIT_REASON`).
    pub wait_reason: u8,
}

/// A completed disk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRequest {
    /// Number of the disk.
    pub disk: u32,
    /// `Read`, `Write` or `Flush`.
    pub operation: &'static str,
    /// Number of bytes.
    pub bytes: u32,
    /// Time at which the request was sent.
    pub begin: FileTime,
    /// The thread that sent it, if the event contains it.
    pub thread: Option<ThreadIndex>,
    /// The file, if the event contains it.
    pub file: Option<FileIndex>,
}

/// Tracks the events of a trace, in time order.
#[derive(Debug)]
pub struct Timeline {
    processes: Processes,
    images: Images,
    kernel_functions: KernelFunctions,
    methods: Methods,
    addresses: Addresses,
    intervals: Intervals,
    samples: Samples,
    files: FileNames,
    /// The running thread of each processor, from the switches.
    running: Vec<Option<ThreadIndex>>,
    /// By machine and address.
    calls: BTreeSet<(u32, u64)>,
    /// Whether to keep samples and their stacks.
    is_first: bool,
}

impl Timeline {
    /// Returns the state before the first reading.
    pub fn first() -> Timeline {
        Timeline::new(true)
    }

    /// Returns the state before the second reading, which keeps no samples.
    pub fn second() -> Timeline {
        Timeline::new(false)
    }

    /// Sets the machines of the events; without it, all events are of one machine.
    pub fn of_machines(mut self, machines: Machines) -> Timeline {
        self.processes.machines = machines;
        self
    }

    fn new(is_first: bool) -> Timeline {
        let mut samples = Samples::new();
        samples.taken = Some(Vec::new());
        Timeline {
            is_first,
            processes: Processes::default(),
            images: Images::default(),
            kernel_functions: KernelFunctions::default(),
            methods: Methods::default(),
            addresses: Addresses::default(),
            intervals: Intervals::default(),
            samples,
            files: FileNames::default(),
            running: Vec::new(),
            calls: BTreeSet::new(),
        }
    }

    /// Adds an event; returns its meaning and the thread it is about.
    ///
    /// Keeps only samples with `wanted` set.
    ///
    /// Events that are damaged, or of unknown versions, are [`Moment::Other`].
    pub fn add(&mut self, event: &Event<'_>, wanted: bool) -> (Moment, Option<ThreadIndex>) {
        let machine = self.processes.enter(event.record);
        self.files.enter(machine);
        let id = EventId::from_record(event.record);
        if id.is_some_and(has_pointers_of_system) {
            self.addresses.is_32_bit = event.record.pointer_size() == PointerSize::Four;
        }
        // Both readings look up threads in the same order, whatever is kept, so the numbers are the same.
        let moment = match id {
            Some(id) if id.class() == Class::StackWalk => {
                self.stack(id, event.record);
                return (Moment::Context, None);
            }
            Some(ids::PerfInfo::SAMPLE_PROFILE) => {
                let thread = self.sample(event.record, wanted);
                return (if thread.is_some() { Moment::Sample } else { Moment::Other }, thread);
            }
            Some(id) => self.event(id, event),
            None if self.kernel_functions.is_about(event.record) => {
                self.kernel_functions.event(event, machine);
                // Both readings look up processes in the same order.
                let jit = JitEvent::from_event(event, &mut self.processes);
                if self.is_first {
                    self.images.names.event(event);
                }
                if let Some(jit) = jit.filter(|_| self.is_first) {
                    self.methods.jit(jit, &mut self.addresses.versions);
                }
                return (Moment::Context, None);
            }
            None => {
                self.clr(event);
                None
            }
        };
        (moment.unwrap_or(Moment::Other), self.thread_of(event.record))
    }

    /// Adds the method or module of an event of a .NET runtime.
    fn clr(&mut self, event: &Event<'_>) {
        let Some(provider) = ClrProvider::from_record(event.record) else { return };
        // Both readings look up threads in the same order, so the numbers are the same.
        let event = ClrEvent::new(provider, event, &mut self.processes);
        if let Some(event) = event.filter(|_| self.is_first) {
            self.methods.event(&event, &mut self.addresses.versions);
        }
    }

    /// Handles a kernel event.
    fn event(&mut self, id: EventId, event: &Event<'_>) -> Option<Moment> {
        let record = event.record;
        let Timeline { processes, images, intervals, files, .. } = self;
        match id {
            ids::Thread::C_SWITCH => return self.switch(record),
            ids::Thread::READY_THREAD => return self.ready(record),
            ids::DiskIo::READ => return self.transfer("Read", record),
            ids::DiskIo::WRITE => return self.transfer("Write", record),
            ids::DiskIo::FLUSH_BUFFERS => return self.flush(record),
            ids::PerfInfo::SYS_CL_ENTER => {
                let address = read::SysCallEnter::new(record).sys_call_address()?;
                if self.calls.len() < MAX_CALLS {
                    self.calls.insert((processes.machine(), address));
                }
                return Some(Moment::CallBegin { address });
            }
            ids::PerfInfo::SYS_CL_EXIT => {
                let status = read::SysCallExit::new(record).sys_call_nt_status();
                return status.map(|status| Moment::CallEnd { status });
            }
            ids::Thread::SET_NAME => processes.thread_name(event),
            id if read::ProfileInterval::reads(id) => intervals.set(record, processes.machine()),
            id if read::FileName::reads(id) => files.name_event(id, event),
            ids::SysConfigEx::VOLUME_MAPPING => files.volumes.event(event, processes.machine()),
            _ => match id.class() {
                Class::Thread => processes.thread_event(id, event),
                Class::Process => {
                    let change = processes.process_event(id, event);
                    if let Some(switch) = change.and_then(|change| self.change_program(change, record)) {
                        return Some(switch);
                    }
                }
                Class::Image => images.event(id, event, processes),
                Class::ImageID => images.id_event(id, event, processes),
                _ => {}
            },
        }
        Some(match id {
            // Rundowns of what existed before the trace or exists at its end.
            ids::Process::DC_START
            | ids::Process::DC_END
            | ids::Process::DEFUNCT
            | ids::Thread::DC_START
            | ids::Thread::DC_END
            | ids::Image::DC_START
            | ids::Image::DC_END
            | ids::Image::IMAGE_KERNEL_BASE
            | ids::FileIo::FILE_RUNDOWN => Moment::Context,
            id if id.class() == Class::ImageID => Moment::Context,
            _ => Moment::Other,
        })
    }

    fn sample(&mut self, record: &Record<'_>, wanted: bool) -> Option<ThreadIndex> {
        let thread = read::SampledProfile::new(record).thread_id()?;
        if wanted && self.is_first {
            let Timeline { processes, samples, addresses, intervals, .. } = self;
            if let Some(sampled) = intervals.sample(record, processes, &Window::ALL) {
                samples.add(record, &sampled, processes, addresses);
            }
        }
        Some(self.processes.thread_at(thread))
    }

    /// Adds stacks, their keys, or the frames of keys.
    fn stack(&mut self, id: EventId, record: &Record<'_>) {
        if read::StackEvent::reads(id) {
            let stack = read::StackEvent::new(record);
            let (Some(process), Some(thread)) = (stack.stack_process(), stack.stack_thread()) else { return };
            self.processes.thread_of(thread, process);
        }
        if self.is_first {
            self.samples.stack_event(id, record, &self.processes, &self.addresses);
        }
    }

    /// Returns the thread that an event is about, from the header or else from the switches before.
    fn thread_of(&mut self, record: &Record<'_>) -> Option<ThreadIndex> {
        let Some(id) = record.thread_id() else {
            return self.running.get(self.processes.machines.processor(record)).copied().flatten();
        };
        Some(match record.process_id() {
            Some(process) if id != 0 => self.processes.thread_of(id, process),
            _ => self.processes.thread_at(id),
        })
    }

    /// Ends the first reading and looks up the names.
    pub fn survey(mut self, symbolizer: &Symbolizer) -> Survey {
        self.samples.finish(&self.processes, &self.addresses);
        self.methods.finish();
        self.processes.label();
        let sources = Sources {
            images: &self.images,
            kernel_functions: &self.kernel_functions,
            methods: &self.methods,
            has_tiers: false,
            processes: &self.processes,
            symbolizer,
        };
        let of_samples =
            functions::addresses(Weighed::of_samples(&self.samples, &self.addresses), &self.processes);
        let of_calls = self.calls.iter().map(|(machine, address)| (Space::Kernel(*machine), *address));
        let names = Names::find(&sources, of_samples.chain(of_calls));
        let samples = self.samples.taken.take().unwrap_or_default();
        let samples = samples.into_iter().map(|taken| Sample {
            time: taken.time,
            thread: taken.thread,
            processor: taken.processor,
            count: taken.count,
            weight: taken.weight,
            stack: match taken.stack {
                TakenStack::Known(node) => node.map(|node| node.index()),
                TakenStack::Keyed(..) => None,
            },
        });
        Survey {
            samples: samples.collect(),
            stack_threads: self.samples.tree.threads(),
            tree: self.samples.tree,
            addresses: self.addresses,
            intervals: self.intervals,
            processes: self.processes,
            files: self.files,
            names,
        }
    }

    fn switch(&mut self, record: &Record<'_>) -> Option<Moment> {
        let switch = read::CSwitch::new(record);
        let (to, from) = (switch.new_thread_id()?, switch.old_thread_id()?);
        let (to_priority, from_priority) = (switch.new_thread_priority()?, switch.old_thread_priority()?);
        let (wait_reason, from_state) =
            (switch.old_thread_wait_reason()? as u8, switch.old_thread_state()? as u8);
        let (to, from) = (self.processes.thread_at(to), self.processes.thread_at(from));
        let processor = self.processes.machines.processor(record);
        if processor >= self.running.len() {
            self.running.resize((processor + 1).min(MAX_PROCESSORS), None);
        }
        *self.running.get_mut(processor)? = Some(to);
        Some(Moment::Switch(Switch { from, to, from_priority, to_priority, from_state, wait_reason }))
    }

    /// Lets a thread go on in another program: if it is known to run, that is a switch to the thread of that.
    fn change_program(&mut self, change: ProgramChange, record: &Record<'_>) -> Option<Moment> {
        let ProgramChange { before, after } = change;
        let running = self.running.get_mut(self.processes.machines.processor(record))?.as_mut()?;
        if *running != before {
            return None;
        }
        *running = after;
        Some(Moment::Switch(Switch {
            from: before,
            to: after,
            from_priority: 0,
            to_priority: 0,
            from_state: state::TERMINATED as u8,
            wait_reason: 0,
        }))
    }

    fn ready(&mut self, record: &Record<'_>) -> Option<Moment> {
        let ready = read::ReadyThread::new(record);
        let (thread, flags) = (ready.t_thread_id()?, ready.flag()?);
        let thread = self.processes.thread_at(thread);
        // Interrupts can make threads ready too.
        let by = if flags & 1 == 0 { self.thread_of(record) } else { None };
        Some(Moment::Ready { thread, by })
    }

    fn transfer(&mut self, operation: &'static str, record: &Record<'_>) -> Option<Moment> {
        let done = read::DiskTransfer::new(record);
        let (disk, bytes, file) = (done.disk_number()?, done.transfer_size()?, done.file_object()?);
        let took = done.high_res_response_time().unwrap_or(0);
        self.disk(record, (disk, operation), (bytes, file), took, done.issuing_thread_id())
    }

    fn flush(&mut self, record: &Record<'_>) -> Option<Moment> {
        let done = read::DiskFlush::new(record);
        let (disk, took) = (done.disk_number()?, done.high_res_response_time()?);
        self.disk(record, (disk, "Flush"), (0, 0), took, done.issuing_thread_id())
    }

    fn disk(
        &mut self,
        record: &Record<'_>,
        (disk, operation): (u32, &'static str),
        (bytes, file): (u32, u64),
        took: u64,
        thread: Option<u32>,
    ) -> Option<Moment> {
        let thread = thread.map(|id| self.processes.thread_at(id));
        let took = record.origin().clock.to_100ns(i64::try_from(took).unwrap_or(i64::MAX)).max(0);
        let begin = FileTime(record.time().0.saturating_sub(took));
        let file = (file != 0).then(|| self.files.at_key(file));
        Some(Moment::Disk(DiskRequest { disk, operation, bytes, begin, thread, file }))
    }
}

/// The processes, threads, samples and names of a trace.
#[derive(Debug)]
pub struct Survey {
    samples: Vec<Sample>,
    /// The thread of each stack node.
    stack_threads: Vec<ThreadIndex>,
    tree: StackTree,
    addresses: Addresses,
    intervals: Intervals,
    processes: Processes,
    files: FileNames,
    names: Names,
}

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub time: FileTime,
    /// The thread that was running.
    pub thread: ThreadIndex,
    /// The processor it was running on.
    pub processor: u16,
    /// Number of samples that this one represents.
    pub count: u64,
    /// Time that these samples represent.
    pub weight: Duration,
    /// Index of its innermost address in [`Survey::stacks`]; `None` if the stack did not fit.
    pub stack: Option<usize>,
}

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadInfo<'a> {
    /// Its id, by which a viewer tells the threads of all machines apart: that of the events plus a distance for each
    /// machine before its own; 0 for idle threads. Earlier threads may have had the same.
    pub id: u32,
    /// Its id in events.
    pub own_id: u32,
    /// Its name.
    pub name: Option<&'a str>,
    /// Its process, if the trace contains it.
    pub process: Option<ProcessIndex>,
}

/// An address in a stack.
#[derive(Debug, Clone, Copy)]
pub struct StackNode<'a> {
    /// The index of its caller, which comes before; `None` for a thread's outermost address.
    pub outer: Option<usize>,
    /// The thread.
    pub thread: ThreadIndex,
    /// The instruction; for a caller, the last byte of its call.
    pub address: u64,
    /// Functions inlined there, innermost first, then the function itself; empty without symbols.
    pub frames: &'a [Frame],
    /// File name of the image.
    pub module: Option<&'a str>,
    /// Offset from the image's base, or from zero if there is no image.
    pub offset: u64,
}

impl Survey {
    /// Returns the samples in time order.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the addresses in the samples' stacks, each after its caller.
    pub fn stacks(&self) -> impl ExactSizeIterator<Item = StackNode<'_>> {
        let nodes = self.tree.nodes().iter().zip(&self.stack_threads);
        nodes.map(|(node, thread)| {
            let space = functions::space(node, *thread, &self.addresses, &self.processes);
            let code = self.names.code(space, node.address);
            StackNode {
                outer: node.parent.node(),
                thread: *thread,
                address: node.address,
                frames: code.map_or(&[], |code| &code.frames),
                module: code.and_then(|code| self.names.get(code.function).module.as_deref()),
                offset: code.map_or(node.address, |code| code.offset),
            }
        })
    }

    /// Returns the length of the sampling interval; that of the first machine if there are several.
    pub fn interval(&self) -> Duration {
        self.intervals.at_machine(0)
    }

    /// Returns the threads in order of first appearance.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = ThreadIndex> + use<> {
        self.processes.threads()
    }

    /// Returns a thread, or `None` if the number is not from this trace.
    pub fn thread(&self, index: ThreadIndex) -> Option<ThreadInfo<'_>> {
        let thread = self.processes.get_thread(index)?;
        let (id, own_id) = (shown_id(thread.machine, thread.id), thread.id);
        Some(ThreadInfo { id, own_id, name: thread.name.as_deref(), process: thread.process })
    }

    /// Returns the processes with their ids and names, in order of first appearance. Ids are those by which a viewer
    /// tells the processes of all machines apart ([`ThreadInfo::id`]), and with several machines the names end in the
    /// machine's: `make [build.etl]`.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessIndex, u32, Option<&str>)> {
        self.processes
            .all()
            .map(|(index, process)| (index, shown_id(process.machine, process.id), process.shown_name()))
    }

    /// Returns the id and name of a process as [`Survey::processes`] does, or `None` if the number is not from this
    /// trace.
    pub fn process(&self, index: ProcessIndex) -> Option<(u32, Option<&str>)> {
        let process = self.processes.get(index)?;
        Some((shown_id(process.machine, process.id), process.shown_name()))
    }

    /// Returns the id and name of a process in events, or `None` if the number is not from this trace.
    pub fn own_process(&self, index: ProcessIndex) -> Option<(u32, Option<&str>)> {
        self.processes.get(index).map(|process| (process.id, process.name.as_deref()))
    }

    /// Returns the number of a record's machine.
    pub fn machine(&self, record: &Record<'_>) -> u32 {
        self.processes.machines.machine(record)
    }

    /// Returns the number of a record's processor; those of the second machine follow those of the first.
    pub fn processor(&self, record: &Record<'_>) -> u16 {
        u16::try_from(self.processes.machines.processor(record)).unwrap_or(u16::MAX)
    }

    /// Adds the machine to a name, if there are several: `Disk 0 [build.etl]`.
    pub fn labelled(&self, name: &str, machine: u32) -> String {
        self.processes.machines.labelled(name, machine)
    }

    /// Returns the name of a file, or its key.
    pub fn file(&self, index: FileIndex) -> String {
        self.files.label(index)
    }

    /// Returns the name of a system call, by the machine and the address in its start event.
    pub fn call(&self, machine: u32, address: u64) -> String {
        match (address, self.names.code(Space::Kernel(machine), address)) {
            (0, _) => "[unknown]".to_owned(),
            (_, Some(code)) => call_name(&self.names.label(code)).to_owned(),
            (_, None) => format!("{address:#x}"),
        }
    }
}

/// Returns the id by which the processes and threads of all machines are told apart.
fn shown_id(machine: u32, id: u32) -> u32 {
    if id == 0 { 0 } else { id.wrapping_add(machine.wrapping_mul(ID_STEP)) }
}
