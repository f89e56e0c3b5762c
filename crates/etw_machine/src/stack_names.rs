//! The stacks of single events, with names.
//!
//! Names may be at the end of a trace, and the process of a thread too, so traces are read several times: for their
//! stacks, for what names addresses, for the addresses in the stacks of the wanted events, and then by the caller.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use etw_consumer::{Event, EventFilter, StackCounts, Stacks, TraceBuilder, TraceError};
use etw_event::{FileTime, PointerSize, Record, StackFrame};
use etw_kernel_events::ids::{Class, EventId};
use etw_kernel_events::read;
use etw_symbols::Symbolizer;

use crate::Machines;
use crate::addresses::{KERNEL_32, KERNEL_64, has_pointers_of_system};
use crate::embedded::FoundNames;
use crate::images::Images;
use crate::kernel_functions::KernelFunctions;
use crate::managed::{ClrEvent, ClrProvider, CodeVersion, CodeVersions, JitEvent, Methods};
use crate::maps::{HashMap, HashSet};
use crate::names::{self, Names, Sources, Space};
use crate::processes::{ProcessIndex, Processes};

/// Maximum number of addresses that get names.
const MAX_ADDRESSES: usize = 1 << 20;

/// The stacks of events, with the names of their functions: as reports have them, of the kernel, programs, Windows and
/// .NET.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use etw_machine::StackNames;
/// use etw_consumer::{EventFilter, Trace};
/// use etw_symbols::Symbolizer;
///
/// let traces = Trace::builder().file("trace.etl");
/// let filter = EventFilter::default().expression("stack contains '!NtReadFile'")?;
/// let names = Arc::new(StackNames::from_traces(traces.clone(), &filter, &Symbolizer::new())?);
/// let mut trace = traces.filter(&names.filter(filter)).open()?;
/// trace.for_each_record(|record| {
///     println!("{}", record.time());
///     for frame in names.of_record(record) {
///         println!("    {frame}");
///     }
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Memory grows with the number of distinct addresses, up to a million with names, and with that of processes, threads
/// and methods, not with the number of events.
#[derive(Debug)]
pub struct StackNames {
    memory: Arc<Memory>,
    codes: HashMap<(Space, u64), Code>,
    problems: Vec<(String, String)>,
    skipped: u64,
}

/// Where the addresses of stacks are, over time.
#[derive(Debug)]
struct Memory {
    stacks: Stacks,
    machines: Machines,
    /// The machines whose kernel has pointers of 4 bytes.
    short: HashSet<u32>,
    /// The processes of thread ids, by machine and id: each with the time from which on it had the id.
    threads: HashMap<(u32, u32), Vec<(FileTime, Option<ProcessIndex>)>>,
    versions: CodeVersions,
    changes: Changes,
}

/// The changes of code in processes: their times, and the last change at each.
type Changes = HashMap<ProcessIndex, Vec<(FileTime, CodeVersion)>>;

/// An address of a stack.
struct Place {
    address: u64,
    /// Whether the address is that after a call.
    is_return: bool,
    space: Space,
}

impl Place {
    /// Returns the instruction: of a caller, the last byte of its call.
    fn instruction(&self) -> u64 {
        self.address.wrapping_sub(u64::from(self.is_return))
    }
}

/// What is known of an address.
#[derive(Debug)]
struct Code {
    module: Option<Arc<str>>,
    /// Offset from the image's base.
    pub offset: u64,
    /// Inlined functions first, each followed by the one that it is inlined into.
    functions: Box<[Function]>,
    /// Offset from the start of the last function.
    pub offset_in_function: Option<u64>,
}

#[derive(Debug)]
struct Function {
    /// `module!function`, or the function alone: a frame without numbers.
    text: Box<str>,
    /// Where the function starts in the text.
    start: usize,
    file: Option<Arc<str>>,
    line: Option<u32>,
}

impl StackNames {
    /// Reads traces, for the stacks of the events that the filter lets pass. Conditions on `stack` in the filter need no
    /// names yet.
    ///
    /// # Errors
    ///
    /// Fails if the traces cannot be opened or read, if one is a live session, or if there is no room for temporary files.
    pub fn from_traces(
        traces: TraceBuilder,
        filter: &EventFilter,
        symbolizer: &Symbolizer,
    ) -> Result<StackNames, TraceError> {
        StackNames::read(traces, filter, symbolizer, None)
    }

    /// Reads traces as [`StackNames::from_traces`], and keeps what files name.
    ///
    /// # Errors
    ///
    /// Those of [`StackNames::from_traces`].
    pub fn from_traces_keeping(
        traces: TraceBuilder,
        filter: &EventFilter,
        symbolizer: &Symbolizer,
        kept: &Rc<RefCell<FoundNames>>,
    ) -> Result<StackNames, TraceError> {
        StackNames::read(traces, filter, symbolizer, Some(kept))
    }

    fn read(
        traces: TraceBuilder,
        filter: &EventFilter,
        symbolizer: &Symbolizer,
        kept: Option<&Rc<RefCell<FoundNames>>>,
    ) -> Result<StackNames, TraceError> {
        // The kernel's classes are built in.
        let mut trace = traces.clone().look_ahead(false).open()?;
        let stacks = trace.stacks()?;
        let mut learned = Learned::new(Machines::from_trace(&trace));
        trace.for_each_event(|event| learned.add(event))?;
        drop(trace);
        learned.methods.finish();
        if let Some(kept) = kept {
            learned.images.names.keep(kept);
        }
        let Learned { processes, images, kernel_functions, methods, versions, changes, short } = learned;
        let (machines, threads) = (processes.machines.clone(), processes.of_threads());
        let memory = Arc::new(Memory { stacks, machines, short, threads, versions, changes });
        let wanted = Arc::new(Mutex::new(Wanted::default()));
        let add = |memory: &Memory, wanted: &Mutex<Wanted>, record: &Record<'_>| {
            wanted.lock().unwrap_or_else(PoisonError::into_inner).add(memory, record);
        };
        let mut filter = filter.clone();
        if filter.needs_stacks() {
            // Which events the conditions let pass is not known yet, so the limit says nothing.
            filter.limit = None;
            let (memory, wanted) = (Arc::clone(&memory), Arc::clone(&wanted));
            filter = filter.with_stacks(move |record, _| add(&memory, &wanted, record));
        }
        traces.filter(&filter).open()?.for_each_record(|record| add(&memory, &wanted, record))?;
        let wanted = std::mem::take(&mut *wanted.lock().unwrap_or_else(PoisonError::into_inner));
        let sources = Sources {
            images: &images,
            kernel_functions: &kernel_functions,
            methods: &methods,
            has_tiers: false,
            processes: &processes,
            symbolizer,
        };
        let names = Names::find(&sources, wanted.addresses);
        let mut problems: Vec<(String, String)> =
            names.problems.iter().map(|(module, why)| (module.to_string(), why.clone())).collect();
        problems.sort();
        Ok(StackNames { memory, codes: codes(&names), problems, skipped: wanted.skipped })
    }

    /// Returns the frames of a record's stack, innermost first. Frames have no names if the filter of [`StackNames::from_traces`]
    /// leaves the record out.
    pub fn of_record<'a>(&'a self, record: &Record<'a>) -> impl Iterator<Item = StackFrame<'a>> + use<'a> {
        self.memory.places(record).flat_map(|place| {
            let code = self.codes.get(&(place.space, place.instruction()));
            let functions = code.map_or(&[][..], |code| &code.functions);
            let unnamed = functions.is_empty().then(|| Code::unnamed(code, &place));
            let count = functions.len();
            let named = functions.iter().zip(1..);
            named.map(move |(function, number)| function.frame(code, &place, number < count)).chain(unnamed)
        })
    }

    /// Returns the filter with its conditions on `stack` compared with these names.
    pub fn filter(self: &Arc<Self>, filter: EventFilter) -> EventFilter {
        let names = Arc::clone(self);
        filter.with_stacks(move |record, each| names.for_each_text(record, each))
    }

    /// Calls `each` with `module!function` of each frame, or the part of it that is known.
    fn for_each_text(&self, record: &Record<'_>, each: &mut dyn FnMut(&str)) {
        for place in self.memory.places(record) {
            let Some(code) = self.codes.get(&(place.space, place.instruction())) else { continue };
            code.functions.iter().for_each(|function| each(&function.text));
            if let (Some(module), []) = (&code.module, &*code.functions) {
                each(module);
            }
        }
    }

    /// Returns what was found of stacks.
    pub fn counts(&self) -> StackCounts {
        self.memory.stacks.counts()
    }

    /// Returns the images whose symbols cannot be read, with the reasons.
    pub fn problems(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.problems.iter().map(|(module, why)| (module.as_str(), why.as_str()))
    }

    /// Returns how often an address has no names because there are too many.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// Returns what was found of each address, free of what other threads cannot use.
fn codes(names: &Names) -> HashMap<(Space, u64), Code> {
    let mut texts: HashSet<Arc<str>> = HashSet::default();
    let mut shared = |text: &str| match texts.get(text) {
        Some(known) => Arc::clone(known),
        None => {
            let text: Arc<str> = text.into();
            texts.insert(Arc::clone(&text));
            text
        }
    };
    let code = |(at, code): ((Space, u64), &names::Code)| {
        let module = names.get(code.function).module.as_deref().filter(|module| !module.is_empty());
        let function = |frame: &etw_symbols::Frame| {
            // Names of methods have a module already.
            let whole = frame.function.as_str();
            let name = whole.split_once('!').filter(|_| code.is_managed).map_or(whole, |(_, name)| name);
            let text = StackFrame { module, function: Some(name), ..StackFrame::default() }.to_string();
            let start = text.len() - name.len();
            (text.into_boxed_str(), start)
        };
        let functions = code.frames.iter().map(|frame| {
            let (text, start) = function(frame);
            Function { text, start, file: frame.file.as_deref().map(&mut shared), line: frame.line }
        });
        let functions = functions.collect();
        let module = module.map(&mut shared);
        let (offset, offset_in_function) = (code.offset, code.offset_in_function);
        (at, Code { module, offset, functions, offset_in_function })
    };
    names.all().map(code).collect()
}

impl Code {
    /// Returns the frame of an address without a function.
    fn unnamed<'a>(code: Option<&'a Code>, place: &Place) -> StackFrame<'a> {
        let module = code.and_then(|code| code.module.as_deref());
        let offset = code
            .filter(|_| module.is_some())
            .map(|code| code.offset.wrapping_add(u64::from(place.is_return)));
        StackFrame { address: place.address, module, offset, ..StackFrame::default() }
    }
}

impl Function {
    fn frame<'a>(&'a self, code: Option<&'a Code>, place: &Place, is_inlined: bool) -> StackFrame<'a> {
        let offset = code.filter(|_| !is_inlined).and_then(|code| code.offset_in_function);
        StackFrame {
            address: place.address,
            module: code.and_then(|code| code.module.as_deref()),
            function: self.text.get(self.start..),
            offset: offset.map(|offset| offset.wrapping_add(u64::from(place.is_return))),
            file: self.file.as_deref(),
            line: self.line,
            is_inlined,
        }
    }
}

impl Memory {
    /// Returns the addresses of a record's stack, innermost first, with the memory that each is in.
    fn places<'a>(&'a self, record: &Record<'a>) -> impl Iterator<Item = Place> + use<'a> {
        let stack = self.stacks.of(record);
        let machine = self.machines.machine(record);
        let time = record.time();
        let thread = stack.thread().or(record.thread_id());
        let process = thread.and_then(|thread| *last(self.threads.get(&(machine, thread))?, time)?);
        let change = process.and_then(|process| last(self.changes.get(&process)?, time));
        let change = change.copied().unwrap_or_default();
        let limit = if self.short.contains(&machine) { KERNEL_32 } else { KERNEL_64 };
        let mut inner = None;
        stack.addresses().map(move |address| {
            let is_kernel = address >= limit;
            // The address at which user mode was left is the next instruction itself.
            let is_return = inner.replace(is_kernel) == Some(is_kernel);
            let instruction = address.wrapping_sub(u64::from(is_return));
            let space = match process {
                _ if is_kernel => Space::Kernel(machine),
                Some(of) => Space::Process(of, self.versions.at(process, instruction, change)),
                None => Space::Unknown,
            };
            Place { address, is_return, space }
        })
    }
}

/// Returns what was so at a time.
fn last<T>(history: &[(FileTime, T)], time: FileTime) -> Option<&T> {
    let after = history.partition_point(|(since, _)| *since <= time);
    history.get(after.checked_sub(1)?).map(|(_, value)| value)
}

/// The addresses that need names.
#[derive(Debug, Default)]
struct Wanted {
    addresses: HashSet<(Space, u64)>,
    skipped: u64,
}

impl Wanted {
    fn add(&mut self, memory: &Memory, record: &Record<'_>) {
        for place in memory.places(record) {
            let at = (place.space, place.instruction());
            if self.addresses.len() < MAX_ADDRESSES {
                self.addresses.insert(at);
            } else {
                self.skipped += u64::from(!self.addresses.contains(&at));
            }
        }
    }
}

/// What names the addresses of a trace, from its events in time order.
struct Learned {
    processes: Processes,
    images: Images,
    kernel_functions: KernelFunctions,
    methods: Methods,
    versions: CodeVersions,
    changes: Changes,
    /// The machines whose kernel has pointers of 4 bytes.
    short: HashSet<u32>,
}

impl Learned {
    fn new(machines: Machines) -> Learned {
        let mut processes = Processes::default();
        processes.machines = machines;
        Learned {
            processes,
            images: Images::default(),
            kernel_functions: KernelFunctions::default(),
            methods: Methods::default(),
            versions: CodeVersions::default(),
            changes: Changes::default(),
            short: HashSet::default(),
        }
    }

    fn add(&mut self, event: &Event<'_>) {
        let Learned { processes, images, kernel_functions, .. } = self;
        let record = event.record;
        let machine = processes.enter(record);
        let id = EventId::from_record(record);
        // The events that programs write, such as those of a merge, have the pointers of the program.
        let is_of_system = id.is_some_and(has_pointers_of_system);
        if is_of_system && record.pointer_size() == PointerSize::Four {
            self.short.insert(machine);
        }
        match id {
            Some(id) if read::StackEvent::reads(id) => {
                let stack = read::StackEvent::new(record);
                if let (Some(process), Some(thread)) = (stack.stack_process(), stack.stack_thread()) {
                    processes.thread_of(thread, process);
                }
                return;
            }
            Some(id) => match id.class() {
                Class::Process => {
                    processes.process_event(id, event);
                }
                Class::Thread => processes.thread_event(id, event),
                Class::Image => images.event(id, event, processes),
                Class::ImageID => images.id_event(id, event, processes),
                _ => {}
            },
            None => {
                if kernel_functions.is_about(record) {
                    kernel_functions.event(event, machine);
                    images.names.event(event);
                    self.jit(event);
                } else {
                    self.clr(event);
                }
            }
        }
        // -1 stands for no process.
        let process = record.process_id().filter(|process| *process != u32::MAX);
        if let (Some(thread), Some(process)) = (record.thread_id(), process) {
            self.processes.thread_of(thread, process);
        }
    }

    /// Adds the methods of an event of a .NET runtime.
    fn clr(&mut self, event: &Event<'_>) {
        let Some(provider) = ClrProvider::from_record(event.record) else { return };
        let Some(event) = ClrEvent::new(provider, event, &mut self.processes) else { return };
        self.methods.event(&event, &mut self.versions);
        self.changed(event.process, event.time);
    }

    /// Adds the function of a JIT compiler that an event names, if any.
    fn jit(&mut self, event: &Event<'_>) {
        let Some(function) = JitEvent::from_event(event, &mut self.processes) else { return };
        let process = function.process;
        self.methods.jit(function, &mut self.versions);
        self.changed(process, event.record.time());
    }

    /// Notes the time of the last change of a process's code.
    fn changed(&mut self, process: ProcessIndex, time: FileTime) {
        let now = self.versions.now(Some(process));
        if now != CodeVersion::default() {
            let changes = self.changes.entry(process).or_default();
            if changes.last().is_none_or(|(_, last)| *last != now) {
                changes.push((time, now));
            }
        }
    }
}
