//! Processes and threads over time. Ids are reused, so each process and thread has its own number for counting.

use std::sync::Arc;

use etw_consumer::Event;
use etw_event::{FileTime, Record};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;
use etw_sys::is_thread_name;

use crate::Machines;
use crate::control_groups::{ControlGroup, ControlGroups};
use crate::maps::HashMap;

/// Two events say that the same process starts if they are less apart than this.
const SAME_START_100NS: u64 = FileTime::PER_SECOND.unsigned_abs() / 100;

/// Number of a process, in order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIndex(pub u32);

/// Number of a thread, in order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIndex(pub u32);

impl ProcessIndex {
    /// Returns the number.
    pub fn number(self) -> u64 {
        self.0.into()
    }
}

impl ThreadIndex {
    /// Returns the number.
    pub fn number(self) -> u64 {
        self.0.into()
    }
}

/// A process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Its id, which another process may get when it has ended.
    pub id: u32,
    /// Number of its machine.
    pub machine: u32,
    /// Id of the process that started it.
    pub parent_id: Option<u32>,
    /// The process with the parent's id when this one first appeared.
    pub parent: Option<ProcessIndex>,
    /// Name of its program.
    pub name: Option<Box<str>>,
    /// The name with the machine, if there are several.
    labelled: Option<Box<str>>,
    /// Its command line, if the trace has it.
    pub command_line: Option<Box<str>>,
    /// When it started, if the trace has that.
    pub start: Option<FileTime>,
    /// When it ended, if the trace has that.
    pub end: Option<FileTime>,
    /// What it has returned; of Linux, the status that `wait` gives.
    pub exit_status: Option<i32>,
    /// The number that tells it from others with its id.
    key: Option<u64>,
    /// What it ran before it replaced its program by this one.
    pub replaced: Option<ProcessIndex>,
    /// The control group in which it was last, on Linux.
    pub control_group: Option<Arc<ControlGroup>>,
}

/// A thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Its id, which another thread may get when it has ended.
    pub id: u32,
    /// Number of its machine.
    pub machine: u32,
    /// Its process, if that is known.
    pub process: Option<ProcessIndex>,
    /// Its last name, if it has one.
    pub name: Option<Box<str>>,
    /// The name before.
    former_name: Option<Box<str>>,
    /// The begin of the time in which it ran one program of several of its process.
    pub program_start: Option<FileTime>,
    /// The end of that time, if the process went on with another program.
    pub program_end: Option<FileTime>,
    has_ended: bool,
    /// Time of the event that it first appeared in.
    since: FileTime,
}

/// A thread that goes on in another program of its process (`exec` of Linux), and counts as another one from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramChange {
    /// The thread in the program that was replaced.
    pub before: ThreadIndex,
    /// The thread in the new program.
    pub after: ThreadIndex,
}

/// The meaning of an event about a process or a thread (opcodes of both classes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifeEvent {
    Start,
    End,
    IsThere,
}

impl LifeEvent {
    fn from_id(id: EventId) -> Option<LifeEvent> {
        match id {
            ids::Process::START | ids::Thread::START => Some(LifeEvent::Start),
            ids::Process::END | ids::Thread::END => Some(LifeEvent::End),
            id if read::ProcessInfo::reads(id) || read::ThreadInfo::reads(id) => Some(LifeEvent::IsThere),
            _ => None,
        }
    }
}

/// The processes and threads of a trace.
#[derive(Debug, Default)]
pub struct Processes {
    /// The machines of the events.
    pub machines: Machines,
    /// The machine of the current event.
    machine: u32,
    /// Time of the last event of each machine.
    last: Vec<FileTime>,
    processes: Vec<Process>,
    /// By machine and id.
    process_by_id: HashMap<(u32, u32), ProcessIndex>,
    threads: Vec<Thread>,
    thread_by_id: HashMap<(u32, u32), ThreadIndex>,
    control_groups: ControlGroups,
}

impl Processes {
    /// Sets the event to which all ids belong until the next one; returns its machine.
    #[inline]
    pub fn enter(&mut self, record: &Record<'_>) -> u32 {
        self.machine = self.machines.machine(record);
        let machine = self.machine as usize;
        if machine >= self.last.len() {
            self.last.resize(machine + 1, FileTime(i64::MIN));
        }
        self.last[machine] = record.time();
        self.machine
    }

    /// Returns the machine of the current event.
    #[inline]
    pub fn machine(&self) -> u32 {
        self.machine
    }

    /// Returns the time at which a thread ends at the latest: the end of its process, of its machine if there are several,
    /// or of the trace.
    pub(crate) fn end_for(&self, thread: ThreadIndex, end: FileTime) -> FileTime {
        let thread = self.thread(thread);
        let last = self.last.get(thread.machine as usize).copied();
        let last = last.filter(|_| self.machines.are_several()).unwrap_or(end);
        let of_process = thread.process.and_then(|process| self.process(process).end);
        of_process.map_or(last, |ended| ended.min(last))
    }

    /// Adds the machine to the names of all processes, if there are several.
    pub fn label(&mut self) {
        if !self.machines.are_several() {
            return;
        }
        for process in &mut self.processes {
            let name = process.name.as_deref().unwrap_or("?");
            process.labelled = Some(self.machines.labelled(name, process.machine).into());
        }
    }

    /// Adds an event of class Process. Returns the thread that goes on, if a process replaces its program.
    pub fn process_event(&mut self, id: EventId, event: &Event<'_>) -> Option<ProgramChange> {
        let said = LifeEvent::from_id(id)?;
        let id = any::<u32>(event, ["ProcessId", "ProcessID"])?;
        // The manifest provider has the path.
        let path = || get::<String>(event, "ImageName");
        let of_path = || Some(path()?.rsplit(['\\', '/']).next()?.to_owned());
        let (name, time) = (get::<String>(event, "ImageFileName").or_else(of_path), event.record.time());
        let parent_id = any::<u32>(event, ["ParentId", "ParentProcessID"]);
        let name = name.filter(|name| !name.is_empty());
        let command_line = get::<String>(event, "CommandLine").filter(|text| !text.is_empty());
        let key = any::<u64>(event, ["UniqueProcessKey", "ProcessSequenceNumber"]);
        let texts = (name.as_deref(), command_line.as_deref());
        let replaced = match said {
            LifeEvent::Start => self.replaced((id, key), event.record, texts),
            _ => None,
        };
        let index = match said {
            LifeEvent::Start if replaced.is_some() => self.new_process(id),
            LifeEvent::Start => self.start(id, time),
            LifeEvent::End => self.at(id),
            // A rundown at the end may be about a process that came after another one with the same id.
            LifeEvent::IsThere => self.at(id),
        };
        let parent = parent_id.and_then(|parent| self.process_by_id.get(&(self.machine, parent)).copied());
        let process = &mut self.processes[index.0 as usize];
        match said {
            // Events about threads may come before the one about their process.
            LifeEvent::Start => process.start = Some(process.start.map_or(time, |start| start.min(time))),
            LifeEvent::End => {
                process.end = Some(time);
                let status = any::<i64>(event, ["ExitStatus", "ExitCode"]);
                // The manifest provider has the same bits without a sign.
                process.exit_status = status.map(|status| status as i32);
            }
            LifeEvent::IsThere => {}
        }
        process.parent_id = process.parent_id.or(parent_id);
        process.parent = process.parent.or(parent).filter(|parent| *parent != index);
        process.name = process.name.take().or(name.map(String::into_boxed_str));
        process.command_line = process.command_line.take().or(command_line.map(String::into_boxed_str));
        process.key = process.key.or(key);
        process.replaced = process.replaced.or(replaced);
        replaced.map(|replaced| self.change_program(replaced, index, event.record))
    }

    /// Returns the program that a process replaces by one with this name and command line: the process has started before
    /// and has not ended, and now starts itself, which only Linux does.
    fn replaced(
        &self,
        (id, key): (u32, Option<u64>),
        record: &Record<'_>,
        (name, command_line): (Option<&str>, Option<&str>),
    ) -> Option<ProcessIndex> {
        let known = *self.process_by_id.get(&(self.machine, id))?;
        let process = self.process(known);
        let differs =
            |one: Option<&str>, other: Option<&str>| one.zip(other).is_some_and(|(one, other)| one != other);
        let is_other = !process.starts_at(record.time())
            || differs(process.name.as_deref(), name)
            || differs(process.command_line.as_deref(), command_line);
        // Another process with the id, if the end of this one was lost, has another key.
        let is_same = process.key.is_none() || key.is_none() || process.key == key;
        let is_running = process.name.is_some() && process.end.is_none();
        (is_running && is_same && is_other && record.process_id() == Some(id)).then_some(known)
    }

    /// Ends a program of a process, and lets the thread that replaced it go on.
    fn change_program(
        &mut self,
        replaced: ProcessIndex,
        process: ProcessIndex,
        record: &Record<'_>,
    ) -> ProgramChange {
        let time = record.time();
        self.processes[replaced.0 as usize].end = Some(time);
        let Process { id, name, .. } = self.process(process);
        let (id, program) = (record.thread_id().unwrap_or(*id), name.clone().unwrap_or_default());
        let before = self.thread_at(id);
        let after = self.new_thread(id);
        let ended = &mut self.threads[before.0 as usize];
        (ended.has_ended, ended.program_end) = (true, Some(time));
        ended.process = ended.process.or(Some(replaced));
        // Threads of Linux have got the name of the program already.
        let name = ended.name.take_if(|name| is_thread_name(name.as_bytes(), program.as_bytes()));
        if name.is_some() {
            ended.name = ended.former_name.take();
        }
        let begun = &mut self.threads[after.0 as usize];
        (begun.process, begun.name, begun.program_start) = (Some(process), name, Some(time));
        ProgramChange { before, after }
    }

    /// Returns the process that starts: a new one, unless so far only events about its threads came, or another event said
    /// that it starts now.
    fn start(&mut self, id: u32, time: FileTime) -> ProcessIndex {
        let known = self.process_by_id.get(&(self.machine, id)).copied();
        let is_it = |index: &ProcessIndex| {
            let process = self.process(*index);
            process.is_unnamed() || process.end.is_none() && process.starts_at(time)
        };
        match known.filter(is_it) {
            Some(index) => index,
            None => self.new_process(id),
        }
    }

    fn new_process(&mut self, id: u32) -> ProcessIndex {
        let index = ProcessIndex(self.processes.len() as u32);
        self.processes.push(Process { id, machine: self.machine, ..Process::default() });
        self.process_by_id.insert((self.machine, id), index);
        index
    }

    /// Returns the process that has an id now.
    #[inline]
    pub fn at(&mut self, id: u32) -> ProcessIndex {
        match self.process_by_id.get(&(self.machine, id)) {
            Some(index) => *index,
            None => self.new_process(id),
        }
    }

    /// Adds an event of a program, which may tell the control group of a process.
    #[inline]
    pub fn control_group_event(&mut self, event: &Event<'_>) {
        if self.control_groups.is_about(event.record)
            && let Some((id, group)) = self.control_groups.read(event)
        {
            let index = self.at(id);
            self.processes[index.0 as usize].control_group = Some(group);
        }
    }

    /// Adds an event of class Thread about a thread.
    pub fn thread_event(&mut self, id: EventId, event: &Event<'_>) {
        let Some(said) = LifeEvent::from_id(id) else { return };
        let process_id = any::<u32>(event, ["ProcessId", "ProcessID"]);
        let id = any::<u32>(event, ["TThreadId", "ThreadID"]);
        let (Some(process_id), Some(id)) = (process_id, id) else { return };
        let is_new = said == LifeEvent::Start
            && self.thread_by_id.get(&(self.machine, id)).is_some_and(|index| {
                let thread = self.thread(*index);
                thread.has_ended || thread.process.is_some()
            });
        // Thread 0 is the idle thread of each processor.
        let index = if is_new && id != 0 { self.new_thread(id) } else { self.thread_at(id) };
        let mut process = self.at(process_id);
        if said == LifeEvent::Start && self.process(process).end.is_some() {
            // The thread's id was reused, and the event about the new process has not come yet.
            process = self.new_process(process_id);
            self.processes[process.0 as usize].start = Some(event.record.time());
        }
        let thread = &mut self.threads[index.0 as usize];
        thread.process = thread.process.or(Some(process));
        thread.has_ended |= said == LifeEvent::End;
        let name = get::<String>(event, "ThreadName").filter(|name| !name.is_empty());
        if let Some(name) = name.filter(|_| thread.name.is_none()) {
            thread.name = Some(name.into_boxed_str());
        }
    }

    /// Adds the name of a thread.
    pub fn thread_name(&mut self, event: &Event<'_>) {
        let Some(id) = get::<u32>(event, "ThreadId") else { return };
        if let Some(name) = get::<String>(event, "ThreadName") {
            let index = self.thread_at(id);
            let thread = &mut self.threads[index.0 as usize];
            thread.former_name = thread.name.replace(name.into_boxed_str());
        }
    }

    fn new_thread(&mut self, id: u32) -> ThreadIndex {
        let index = ThreadIndex(self.threads.len() as u32);
        let since = self.last.get(self.machine as usize).copied().unwrap_or_default();
        self.threads.push(Thread { id, machine: self.machine, since, ..Thread::default() });
        self.thread_by_id.insert((self.machine, id), index);
        index
    }

    /// Returns the thread that has an id now.
    #[inline]
    pub fn thread_at(&mut self, id: u32) -> ThreadIndex {
        match self.thread_by_id.get(&(self.machine, id)) {
            Some(index) => *index,
            None => self.new_thread(id),
        }
    }

    /// Returns the thread that has an id now, whose event names its process.
    pub fn thread_of(&mut self, id: u32, process_id: u32) -> ThreadIndex {
        let index = self.thread_at(id);
        if self.thread(index).process.is_none() {
            let process = self.at(process_id);
            self.threads[index.0 as usize].process = Some(process);
        }
        index
    }

    /// Returns a process of these.
    #[inline]
    pub fn process(&self, index: ProcessIndex) -> &Process {
        &self.processes[index.0 as usize]
    }

    /// Returns a thread of these.
    #[inline]
    pub fn thread(&self, index: ThreadIndex) -> &Thread {
        &self.threads[index.0 as usize]
    }

    /// Returns a process, or `None` if the index is of others.
    pub fn get(&self, index: ProcessIndex) -> Option<&Process> {
        self.processes.get(index.0 as usize)
    }

    /// Returns a thread, or `None` if the index is of others.
    pub fn get_thread(&self, index: ThreadIndex) -> Option<&Thread> {
        self.threads.get(index.0 as usize)
    }

    /// Returns the processes of thread ids over time, by machine and id: each with the time from which on it had the id. The
    /// first one had it from the start.
    pub(crate) fn of_threads(&self) -> HashMap<(u32, u32), Vec<(FileTime, Option<ProcessIndex>)>> {
        let mut all: HashMap<_, Vec<_>> = HashMap::default();
        for thread in &self.threads {
            let of_id = all.entry((thread.machine, thread.id)).or_default();
            let since = if of_id.is_empty() { FileTime(i64::MIN) } else { thread.since };
            of_id.push((since, thread.process));
        }
        all
    }

    /// Returns all threads, in order of first appearance.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = ThreadIndex> + use<> {
        (0..self.threads.len() as u32).map(ThreadIndex)
    }

    /// Returns all processes, in order of first appearance.
    pub fn all(&self) -> impl Iterator<Item = (ProcessIndex, &Process)> {
        self.processes.iter().enumerate().map(|(index, process)| (ProcessIndex(index as u32), process))
    }
}

impl Process {
    fn is_unnamed(&self) -> bool {
        self.name.is_none() && self.end.is_none()
    }

    /// Whether it started at this time, as far as two events about the same start tell.
    fn starts_at(&self, time: FileTime) -> bool {
        self.start.is_some_and(|start| time.0.abs_diff(start.0) < SAME_START_100NS)
    }

    /// Returns the name to show.
    pub fn shown_name(&self) -> Option<&str> {
        self.labelled.as_deref().or(self.name.as_deref())
    }

    /// Whether an event described the process; otherwise only its id is known.
    pub fn is_told(&self) -> bool {
        self.name.is_some() || self.start.is_some() || self.end.is_some()
    }
}

/// Returns the first of two fields that an event has: as the class names it, and as the manifest provider does.
fn any<'e, T: etw_schema::FromValue<'e>>(event: &Event<'e>, names: [&str; 2]) -> Option<T> {
    names.into_iter().find_map(|name| get(event, name))
}

fn get<'e, T: etw_schema::FromValue<'e>>(event: &Event<'e>, name: &str) -> Option<T> {
    event.properties.as_ref().ok()?.try_get(name)
}
