//! Attribution of kernel events to processes and threads if their headers do not name them.

use std::sync::Arc;

use etw_consumer::{
    Event, EventFilter, Predicate, ProcessTable, ProviderKey, ProviderSpec, TraceBuilder, TraceError,
};
use etw_event::{FileTime, Guid, Record, classes};
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::providers::LINUX_PROVIDER;
use etw_schema::Properties;

use crate::ProcessFilter;
use crate::control_groups::{ControlGroup, ControlGroups};
use crate::maps::HashMap;

/// Maximum number of threads remembered; events of further ones are not attributed.
const MAX_THREADS: usize = 1 << 20;

/// Fields with the threads or processes of events: of switches, ready threads, samples, disk requests, hard faults,
/// files, memory, network and stacks.
const THREADS: &[&str] =
    &["NewThreadId", "OldThreadId", "TThreadId", "ThreadId", "IssuingThreadId", "TTID", "StackThread"];
const PROCESSES: &[&str] = &["ProcessId", "PID", "StackProcess"];

/// Types of Thread events: start, end, and the rundowns at the start and end of a session.
const THREAD_START: u8 = 1;
const THREAD_TYPES: [u8; 4] = [THREAD_START, 2, 3, 4];

/// The process of each thread over time, to attribute an event that names a thread only in its fields.
///
/// A system call belongs to the thread that runs on its processor, which no field names, so it is not attributed.
#[derive(Debug, Default)]
pub struct Attribution {
    /// By machine and thread id: its processes, each with the time from which it owned the thread, in order. For a
    /// thread from before the trace, this is the minimum time.
    threads: HashMap<(u32, u32), Vec<(FileTime, u32)>>,
    processes: ProcessTable,
    /// By machine and process id: its control groups, each with the time from which it was in it; none after its end.
    groups: HashMap<(u32, u32), Vec<(FileTime, Option<Arc<ControlGroup>>)>>,
    known_groups: ControlGroups,
}

impl Attribution {
    /// Reads the threads and processes of traces.
    ///
    /// # Errors
    ///
    /// Fails if the traces cannot be opened or read.
    pub fn from_traces(traces: TraceBuilder) -> Result<Attribution, TraceError> {
        let provider = |guid| ProviderSpec::new(ProviderKey::Guid(guid));
        let linux = Guid::from_provider_name(LINUX_PROVIDER);
        let providers = [classes::THREAD, classes::PROCESS, linux].map(provider).to_vec();
        let filter = EventFilter { providers, ..EventFilter::default() };
        let mut trace = traces.filter(&filter).open()?;
        let mut attribution = Attribution { processes: trace.processes()?.clone(), ..Attribution::default() };
        trace.for_each_event(|event| attribution.add(event))?;
        Ok(attribution)
    }

    /// Adds an event of class Thread or Process, or of the provider for Linux; events must come in time order.
    fn add(&mut self, event: &Event<'_>) {
        let machine = self.processes.machine_of(event.record.origin().source);
        if self.known_groups.is_about(event.record) {
            if let Some((process, group)) = self.known_groups.read(event) {
                self.groups.entry((machine, process)).or_default().push((event.record.time(), Some(group)));
            }
            return;
        }
        match EventId::from_record(event.record) {
            Some(ids::Process::END) => self.end_group(machine, event),
            Some(id) if id.class() == Class::Thread => self.thread(machine, event),
            _ => {}
        }
    }

    /// Ends the last control group of a process that has ended.
    fn end_group(&mut self, machine: u32, event: &Event<'_>) {
        let process = event.properties.as_ref().ok().and_then(|of| of.try_get::<u32>("ProcessId"));
        if let Some(groups) = process.and_then(|process| self.groups.get_mut(&(machine, process))) {
            // Events of that very time are still its own.
            groups.push((FileTime(event.record.time().0.saturating_add(1)), None));
        }
    }

    fn thread(&mut self, machine: u32, event: &Event<'_>) {
        let opcode = event.record.descriptor().opcode.0;
        let Ok(properties) = &event.properties else { return };
        let (Some(process), Some(thread)) =
            (properties.try_get::<u32>("ProcessId"), properties.try_get::<u32>("TThreadId"))
        else {
            return;
        };
        let thread = (machine, thread);
        let is_known = self.threads.contains_key(&thread);
        if !THREAD_TYPES.contains(&opcode) || !is_known && self.threads.len() >= MAX_THREADS {
            return;
        }
        let of_thread = self.threads.entry(thread).or_default();
        match of_thread.last() {
            Some((_, last)) if *last == process => {}
            None if opcode != THREAD_START => of_thread.push((FileTime(i64::MIN), process)),
            _ => of_thread.push((event.record.time(), process)),
        }
    }

    /// Returns the process that owned a thread at the time of a record.
    fn process_of(&self, thread: u32, record: &Record<'_>) -> Option<u32> {
        let machine = self.processes.machine_of(record.origin().source);
        let processes = self.threads.get(&(machine, thread))?;
        let after = processes.partition_point(|(from, _)| *from <= record.time());
        processes.get(after.checked_sub(1)?).map(|(_, process)| *process)
    }

    /// Returns the control group of a process at the time of a record. The first one also holds before.
    fn group_of(&self, process: u32, record: &Record<'_>) -> Option<&ControlGroup> {
        let groups = self.groups.get(&(self.processes.machine_of(record.origin().source), process))?;
        let after = groups.partition_point(|(from, _)| *from <= record.time());
        groups.get(after.saturating_sub(1))?.1.as_deref()
    }

    /// Returns the processes that an event is about; for a switch, those of both threads.
    fn processes<'e>(&'e self, event: &'e Event<'e>) -> impl Iterator<Item = u32> + 'e {
        let of_threads = ids(event, THREADS);
        let of_threads = of_threads.filter_map(|thread| self.process_of(thread, event.record));
        ids(event, PROCESSES).chain(of_threads)
    }

    /// Returns the filter with its processes and threads extended to attributed events.
    ///
    /// They are compared with the header. If the header names none, they are compared with the fields of kernel
    /// events. Of `groups`, only the containers and control groups are used, in the same way.
    pub fn filter(self, mut filter: EventFilter, groups: &ProcessFilter) -> EventFilter {
        let all = Arc::new(self);
        if !groups.has_all_groups() {
            let (all, groups) = (Arc::clone(&all), groups.clone());
            let is_in_group = move |event: &Event<'_>| {
                let is_in = |process| {
                    let group = all.group_of(process, event.record);
                    group.is_some_and(|group| groups.has_group(&group.names()))
                };
                match event.record.process_id() {
                    Some(process) => is_in(process),
                    None => all.processes(event).any(is_in),
                }
            };
            filter.expressions.push(Predicate::custom(is_in_group));
        }
        let process_ids = std::mem::take(&mut filter.process_ids);
        let thread_ids = std::mem::take(&mut filter.thread_ids);
        let names = std::mem::take(&mut filter.processes);
        let of = |header: EventFilter| header.predicate();
        if let Some(header) = of(EventFilter { process_ids: process_ids.clone(), ..EventFilter::default() }) {
            let all = Arc::clone(&all);
            let is_about = move |event: &Event<'_>| all.processes(event).any(|id| process_ids.contains(&id));
            filter.expressions.push(or_about(header, "not pid >= 0", is_about));
        }
        if let Some(header) = of(EventFilter { thread_ids: thread_ids.clone(), ..EventFilter::default() }) {
            let is_about = move |event: &Event<'_>| ids(event, THREADS).any(|id| thread_ids.contains(&id));
            filter.expressions.push(or_about(header, "not tid >= 0", is_about));
        }
        if let Some(header) = of(EventFilter { processes: names.clone(), ..EventFilter::default() }) {
            let wanted = ProcessFilter { names, ..ProcessFilter::default() };
            let is_about = move |event: &Event<'_>| {
                let record = event.record;
                let name = |id| all.processes.name(record.origin().source, id, record.time());
                all.processes(event).filter_map(name).any(|name| wanted.has_name(name))
            };
            filter.expressions.push(or_about(header, "not pid >= 0", is_about));
        }
        filter
    }
}

/// Returns a predicate for the header, or for the fields if `nobody` matches.
fn or_about(
    header: Predicate,
    nobody: &str,
    is_about: impl Fn(&Event<'_>) -> bool + Send + Sync + 'static,
) -> Predicate {
    // Decodes only events that the header does not decide.
    let nobody = nobody.parse::<Predicate>().ok();
    header.or(Predicate::all_of(nobody.into_iter().chain([Predicate::custom(is_about)])))
}

/// Returns the ids in the fields of a kernel event with these names; -1 means none.
fn ids<'e>(event: &'e Event<'e>, names: &'static [&'static str]) -> impl Iterator<Item = u32> + 'e {
    let properties = event.properties.as_ref().ok().filter(|_| event.record.hook_id().is_some());
    let id = |properties: &Properties<'_>, name: &str| properties.try_get::<u64>(name).map(|id| id as u32);
    let ids = properties.into_iter().flat_map(move |of| names.iter().filter_map(move |name| id(of, name)));
    ids.filter(|id| *id != u32::MAX)
}
