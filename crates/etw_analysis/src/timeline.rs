//! The sequence of events in a trace, each with the thread it is about.
//!
//! A trace is read twice. The first reading results in a [`Survey`] with the processes, the threads, and the samples
//! with the function names of their stacks, since names may be at the end of a trace. The second reading returns the
//! [`Moment`] of each event, with the same numbers for processes, threads and files.

use std::collections::BTreeSet;

use etw_consumer::Event;
use etw_event::{FileTime, Record};
use etw_symbols::{Frame, Symbolizer};

use crate::class::{Group, class};
use crate::file_names::{FileIndex, FileNames};
use crate::images::Images;
use crate::kernel_functions::KernelFunctions;
use crate::managed::{ClrEvent, ClrProvider, JitEvent, Methods};
use crate::names::{Names, Sources, Space};
use crate::payload::Payload;
use crate::processes::{ProcessIndex, Processes, ThreadIndex};
use crate::samples::{Samples, TakenStack};
use crate::tables::functions::{self, Weighed};
use crate::tables::syscalls::call_name;
use crate::{Duration, Machines, Window};

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
        // Both readings look up threads in the same order, whatever is kept, so the numbers are the same.
        let moment = match class(event.record) {
            Some((Group::Stack, kind)) => {
                self.stack(kind, event.record);
                return (Moment::Context, None);
            }
            Some((Group::PerfInfo, 46)) => {
                let thread = self.sample(event.record, wanted);
                return (if thread.is_some() { Moment::Sample } else { Moment::Other }, thread);
            }
            Some((group, kind)) => self.event(group, kind, event),
            None if self.kernel_functions.is_about(event.record) => {
                self.kernel_functions.event(event, machine);
                // Both readings look up processes in the same order.
                let jit = JitEvent::of(event, &mut self.processes);
                if self.is_first {
                    self.images.names.event(event);
                }
                if let Some(jit) = jit.filter(|_| self.is_first) {
                    self.methods.jit(jit, &mut self.samples.versions);
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
        let Some(provider) = ClrProvider::of(event.record) else { return };
        // Both readings look up threads in the same order, so the numbers are the same.
        let event = ClrEvent::new(provider, event, &mut self.processes);
        if let Some(event) = event.filter(|_| self.is_first) {
            self.methods.event(&event, &mut self.samples.versions);
        }
    }

    /// Handles a kernel event.
    fn event(&mut self, group: Group, kind: u8, event: &Event<'_>) -> Option<Moment> {
        let record = event.record;
        let Timeline { processes, images, samples, files, .. } = self;
        match (group, kind) {
            (Group::Thread, 36) => return self.switch(record),
            (Group::Thread, 50) => return self.ready(record),
            (Group::Disk, 10 | 11 | 14) => return self.disk(kind, record),
            (Group::PerfInfo, 51) => {
                let address = Payload::of(record).pointer()?;
                if self.calls.len() < MAX_CALLS {
                    self.calls.insert((processes.machine(), address));
                }
                return Some(Moment::CallBegin { address });
            }
            (Group::PerfInfo, 52) => {
                return Payload::of(record).u32().map(|status| Moment::CallEnd { status });
            }
            (Group::Thread, 72) => processes.thread_name(event),
            (Group::Thread, kind) => processes.thread_event(kind, event),
            (Group::Process, kind) => processes.process_event(kind, event),
            (Group::Image, kind) => images.event(kind, event, processes),
            (Group::ImageId, kind) => images.id_event(kind, event, processes),
            (Group::PerfInfo, 72..=74) => samples.set_interval(record, processes.machine()),
            (Group::File, 0 | 32 | 35 | 36) => files.name_event(kind, event),
            (Group::ConfigEx, 35) => files.volumes.event(event, processes.machine()),
            _ => {}
        }
        Some(match (group, kind) {
            // Rundowns of what existed before the trace or exists at its end.
            (Group::Process | Group::Thread, 3 | 4 | 39) | (Group::Image, 3 | 4 | 33) => Moment::Context,
            (Group::ImageId, _) | (Group::File, 36) => Moment::Context,
            _ => Moment::Other,
        })
    }

    fn sample(&mut self, record: &Record<'_>, wanted: bool) -> Option<ThreadIndex> {
        let mut payload = Payload::of(record);
        let (_, thread) = (payload.pointer()?, payload.u32()?);
        if wanted && self.is_first {
            let _sampled = self.samples.sample(record, &mut self.processes, &Window::ALL);
        }
        Some(self.processes.thread_at(thread))
    }

    /// Adds stacks, their keys, or the frames of keys.
    fn stack(&mut self, kind: u8, record: &Record<'_>) {
        if matches!(kind, 32 | 37 | 38) {
            let mut payload = Payload::of(record);
            let (Some(_), Some(process), Some(thread)) = (payload.u64(), payload.u32(), payload.u32()) else {
                return;
            };
            self.processes.thread_of(thread, process);
        }
        if !self.is_first {
            return;
        }
        let Timeline { processes, samples, .. } = self;
        match kind {
            32 => samples.stack(record, processes),
            34..=36 => samples.key_frames(record, processes.machine()),
            37 | 38 => samples.stack_key(record, kind == 38, processes),
            _ => {}
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
        self.samples.finish(&self.processes);
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
        let of_samples = functions::addresses(Weighed::of_samples(&self.samples), &self.processes);
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
            tree: self.samples,
            processes: self.processes,
            files: self.files,
            names,
        }
    }

    fn switch(&mut self, record: &Record<'_>) -> Option<Moment> {
        let mut payload = Payload::of(record);
        let (to, from) = (payload.u32()?, payload.u32()?);
        let (to_priority, from_priority) = (payload.u8()? as i8, payload.u8()? as i8);
        let _idle = payload.u16()?;
        let (wait_reason, _mode, from_state) = (payload.u8()?, payload.u8()?, payload.u8()?);
        let (to, from) = (self.processes.thread_at(to), self.processes.thread_at(from));
        let processor = self.processes.machines.processor(record);
        if processor >= self.running.len() {
            self.running.resize((processor + 1).min(MAX_PROCESSORS), None);
        }
        *self.running.get_mut(processor)? = Some(to);
        Some(Moment::Switch(Switch { from, to, from_priority, to_priority, from_state, wait_reason }))
    }

    fn ready(&mut self, record: &Record<'_>) -> Option<Moment> {
        let mut payload = Payload::of(record);
        let (thread, _adjust, flags) = (payload.u32()?, payload.u16()?, payload.u8()?);
        let thread = self.processes.thread_at(thread);
        // Interrupts can make threads ready too.
        let by = if flags & 1 == 0 { self.thread_of(record) } else { None };
        Some(Moment::Ready { thread, by })
    }

    fn disk(&mut self, kind: u8, record: &Record<'_>) -> Option<Moment> {
        let version = record.descriptor().version;
        let mut payload = Payload::of(record);
        let (disk, _flags) = (payload.u32()?, payload.u32()?);
        let (operation, bytes, file, took) = if kind == 14 {
            let took = payload.u64()?;
            let _irp = payload.pointer()?;
            ("Flush", 0, 0, took)
        } else {
            let (bytes, _reserved) = (payload.u32()?, payload.u32()?);
            let (_offset, file) = (payload.u64()?, payload.pointer()?);
            let _irp = if version >= 2 { payload.pointer()? } else { 0 };
            let took = if version >= 1 { payload.u64()? } else { 0 };
            (if kind == 10 { "Read" } else { "Write" }, bytes, file, took)
        };
        let thread = payload.u32().map(|id| self.processes.thread_at(id));
        let took = record.origin().clock.to_100ns(i64::try_from(took).unwrap_or(i64::MAX)).max(0);
        let begin = FileTime(record.time().0.saturating_sub(took));
        let file = (file != 0).then(|| self.files.of_key(file));
        Some(Moment::Disk(DiskRequest { disk, operation, bytes, begin, thread, file }))
    }
}

/// The processes, threads, samples and names of a trace.
#[derive(Debug)]
pub struct Survey {
    samples: Vec<Sample>,
    /// The thread of each stack node.
    stack_threads: Vec<ThreadIndex>,
    tree: Samples,
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
        let nodes = self.tree.tree.nodes().iter().zip(&self.stack_threads);
        nodes.map(|(node, thread)| {
            let space = functions::space(node, *thread, &self.tree, &self.processes);
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
        self.tree.interval(0)
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
        self.processes.machines.of_record(record)
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
