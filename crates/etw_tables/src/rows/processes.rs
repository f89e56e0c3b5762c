//! Processes and threads.

use etw_event::FileTime;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;
use etw_machine::{ControlGroup, HashMap, ProcessIndex, Processes as ProcessIndices, ThreadIndex};

use super::columns::{Address, End, Frame, Id, Process, Signed, Span, Stack, Start, Text};
use super::labels::RowLabel;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::table;

table! {
    /// One row for each process.
    ProcessRow: "processes", "Processes",
        label RowLabel { in_all_traces: Some("name"), ..RowLabel::single(&["process"]) };
    /// Name of the executable, with the id in parentheses.
    process: Text,
    /// Name of the executable.
    name: Option<Text>,
    /// Process id.
    process_id: Id,
    /// Process that started it.
    parent: Option<Process>,
    /// Id of the process that started it.
    parent_id: Option<Id>,
    /// When it started, if that was during the trace.
    start: Option<Start>,
    /// When it ended, if that was during the trace.
    end: Option<End>,
    /// Exit status.
    exit_status: Option<Signed>,
    /// Command line.
    command_line: Option<Text>,
    /// Time from its start to its end, if both were during the trace.
    duration: Option<Span>,
    /// Program that the process ran before, if it replaced that by this one (`exec` of Linux).
    replaced: Option<Process>,
    /// Session of its user.
    session_id: Option<Id>,
    /// Package of a modern program.
    package_full_name: Option<Text>,
    /// Path of its control group, on Linux.
    cgroup: Option<Text>,
    /// Container that it runs in: its name, or the first digits of its id.
    container: Option<Text>,
    /// Id of the container.
    container_id: Option<Text>,
    /// What manages the container, such as `docker`.
    container_runtime: Option<Text>,
    /// Image of the container.
    container_image: Option<Text>,
    /// Kubernetes pod that it runs in: `NAMESPACE/NAME`, or its id.
    pod: Option<Text>,
    /// Stack of its creation.
    creation_stack: Option<Stack>,
}

table! {
    /// One row for each thread.
    ThreadRow: "threads", "Threads", label RowLabel {
        columns: &["process", "thread_id"],
        separator: " / ",
        otherwise: None,
        text: "process.process",
        is_group: false,
        in_all_traces: Some("name"),
    };
    /// Thread id.
    thread_id: Id,
    /// Process of the thread.
    process: Option<Process>,
    /// Name of the thread, if it has one.
    name: Option<Text>,
    /// When it started, if that was during the trace.
    start_time: Option<Start>,
    /// When it ended, if that was during the trace.
    end_time: Option<End>,
    /// Time between the two.
    lifetime: Option<Span>,
    /// Function that it starts with.
    start_function: Option<Frame>,
    /// Address of its environment block.
    teb_base: Option<Address>,
    /// Stack of its creation.
    creation_stack: Option<Stack>,
}

/// Makes rows of processes and threads, with what starts and ends say besides their names.
#[derive(Debug, Default)]
pub(super) struct Processes {
    processes: HashMap<ProcessIndex, ProcessLife>,
    threads: HashMap<ThreadIndex, ThreadLife>,
}

#[derive(Debug, Clone, Default)]
struct ProcessLife {
    session: Option<u32>,
    package: Option<String>,
    stack: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ThreadLife {
    start: Option<FileTime>,
    end: Option<FileTime>,
    start_address: Option<u64>,
    teb: Option<u64>,
    stack: Option<u32>,
}

impl RowSource for Processes {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id().is_some_and(|id| read::ProcessInfo::reads(id) || read::ThreadInfo::reads(id))
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let processes = &mut context.model.processes;
        match event.any_id() {
            // What is defunct has ended before.
            None | Some(ids::Process::DEFUNCT) => {}
            Some(id) if read::ProcessInfo::reads(id) => self.process(id, event, processes),
            Some(id) => self.thread(id, event, processes),
        }
    }

    fn finish(&mut self, context: &mut RowContext<'_>) {
        for (index, process) in context.model.processes.all() {
            let name = process.shown_name();
            let life = self.processes.remove(&index).unwrap_or_default();
            let group = process.control_group.as_deref();
            let text = |text: fn(&ControlGroup) -> &str| group.map(text).filter(|text| !text.is_empty());
            let pod = group.and_then(ControlGroup::shown_pod);
            context.writer.add(ProcessRow {
                process: &format!("{} ({})", name.unwrap_or("?"), process.id),
                name,
                process_id: process.id,
                parent: process.parent,
                parent_id: process.parent_id,
                start: process.start,
                end: process.end,
                exit_status: process.exit_status.map(i64::from),
                command_line: process.command_line.as_deref(),
                duration: process.start.zip(process.end).map(|(start, end)| between(start, end)),
                replaced: process.replaced,
                session_id: life.session,
                package_full_name: life.package.as_deref(),
                cgroup: text(ControlGroup::path),
                container: group.and_then(ControlGroup::container),
                container_id: text(ControlGroup::container_id),
                container_runtime: text(ControlGroup::runtime),
                container_image: text(ControlGroup::image),
                pod: pod.as_deref(),
                creation_stack: life.stack,
            });
        }
        for index in context.model.processes.threads() {
            let thread = context.model.processes.thread(index);
            let life = self.threads.remove(&index).unwrap_or_default();
            let (machine, process) = (thread.machine, thread.process);
            let start_function = life.start_address.map(|address| {
                context.frames.row(context.model.addresses.space(machine, process, address), address)
            });
            let (start, end) = (life.start.or(thread.program_start), life.end.or(thread.program_end));
            context.writer.add(ThreadRow {
                thread_id: thread.id,
                process,
                name: thread.name.as_deref(),
                start_time: start,
                end_time: end,
                lifetime: start.zip(end).map(|(start, end)| between(start, end)),
                start_function,
                teb_base: life.teb,
                creation_stack: life.stack,
            });
        }
    }
}

impl Processes {
    fn process(&mut self, id: EventId, event: &EventContext<'_, '_>, processes: &mut ProcessIndices) {
        let Some(number) = event.get::<u32>(&["ProcessId", "ProcessID"]) else { return };
        let life = self.processes.entry(processes.at(number)).or_default();
        life.session = life.session.or_else(|| event.get(&["SessionId", "SessionID"]));
        if life.package.is_none() {
            life.package = event.get::<String>(&["PackageFullName"]).filter(|name| !name.is_empty());
        }
        if id == ids::Process::START {
            life.stack = life.stack.or(event.stack);
        }
    }

    fn thread(&mut self, id: EventId, event: &EventContext<'_, '_>, processes: &mut ProcessIndices) {
        let Some(number) = event.get::<u32>(&["TThreadId", "ThreadID"]).filter(|number| *number != 0) else {
            return;
        };
        let life = self.threads.entry(processes.thread_at(number)).or_default();
        let time = event.record().time();
        life.start_address =
            life.start_address.or_else(|| event.get(&["Win32StartAddr", "Win32StartAddress"]));
        life.teb = life.teb.or_else(|| event.get(&["TebBase"]));
        match id {
            ids::Thread::START => {
                life.start = Some(time);
                life.stack = life.stack.or(event.stack);
            }
            ids::Thread::END => life.end = Some(time),
            _ => {}
        }
    }
}
