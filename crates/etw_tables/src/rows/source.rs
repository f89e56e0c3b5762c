//! What rows are made of: events with what is known of them, and the sources that make rows of these.

use std::fmt::Debug;

use etw_consumer::Event;
use etw_event::Record;
use etw_kernel_events::ids::EventId;
use etw_machine::{Fact, Model, ProcessIndex, Processes, Ran, Space, ThreadIndex};
use etw_schema::FromValue;

use super::frames::Frames;
use super::objects::Objects;
use super::table::RowWriter;

/// An event with what is known of it.
#[derive(Debug, Clone, Copy)]
pub(in crate::rows) struct EventContext<'e, 'r> {
    pub(in crate::rows) event: &'e Event<'r>,
    /// The event of the kernel's classes that it is.
    pub(in crate::rows) id: Option<EventId>,
    /// What it says.
    pub(in crate::rows) fact: Option<&'e Fact>,
    pub(in crate::rows) machine: u32,
    /// Row of its kind.
    pub(in crate::rows) kind: u32,
    pub(in crate::rows) process: Option<ProcessIndex>,
    pub(in crate::rows) thread: Option<ThreadIndex>,
    pub(in crate::rows) processor: u32,
    pub(in crate::rows) stack: Option<u32>,
    /// The thread that its stack is of, if that is said.
    pub(in crate::rows) stack_thread: Option<ThreadIndex>,
    /// Time that a thread ran until the event, which is no switch.
    pub(in crate::rows) ran: Option<Ran>,
}

impl<'e> EventContext<'_, 'e> {
    pub(in crate::rows) fn record(&self) -> &'e Record<'e> {
        self.event.record
    }

    /// Returns the event of the kernel's classes that it is, or that a provider of a manifest repeats.
    pub(in crate::rows) fn any_id(&self) -> Option<EventId> {
        self.id.or_else(|| EventId::from_provider_record(self.record()))
    }

    /// Returns the first of some properties that the event has.
    pub(in crate::rows) fn get<T: FromValue<'e>>(&self, names: &[&str]) -> Option<T> {
        let properties = self.event.properties.as_ref().ok()?;
        names.iter().find_map(|name| properties.try_get(name))
    }
}

/// Returns the thread in the header of an event.
pub(in crate::rows) fn thread_of(record: &Record<'_>, processes: &mut Processes) -> Option<ThreadIndex> {
    let id = record.thread_id()?;
    // -1 stands for no process.
    Some(match record.process_id().filter(|process| *process != u32::MAX) {
        Some(process) if id != 0 => processes.thread_of(id, process),
        _ => processes.thread_at(id),
    })
}

/// Returns the process of an event's thread, or else that of its header.
pub(in crate::rows) fn process_of(
    thread: Option<ThreadIndex>,
    record: &Record<'_>,
    processes: &mut Processes,
) -> Option<ProcessIndex> {
    let of_thread = thread.and_then(|thread| processes.thread(thread).process);
    let of_header = record.process_id().filter(|process| *process != u32::MAX);
    of_thread.or_else(|| of_header.map(|id| processes.at(id)))
}

/// What rows are made with.
pub(in crate::rows) struct RowContext<'c> {
    pub(in crate::rows) writer: &'c mut RowWriter,
    pub(in crate::rows) model: &'c mut Model,
    pub(in crate::rows) frames: &'c mut Frames,
    pub(in crate::rows) objects: &'c mut Objects,
}

impl RowContext<'_> {
    /// Returns the process with an id; -1 stands for none.
    pub(in crate::rows) fn process(&mut self, id: u32) -> Option<ProcessIndex> {
        (id != u32::MAX).then(|| self.model.processes.at(id))
    }

    /// Returns the frame of a routine of the kernel.
    pub(in crate::rows) fn kernel_frame(&mut self, machine: u32, address: u64) -> u32 {
        self.frames.row(Space::Kernel(machine), address)
    }

    /// Returns the frame of an instruction of a process, or of its machine's kernel.
    pub(in crate::rows) fn frame(
        &mut self,
        machine: u32,
        process: Option<ProcessIndex>,
        instruction: u64,
    ) -> u32 {
        self.frames.row(self.model.addresses.space(machine, process, instruction), instruction)
    }
}

/// Makes rows of events, with what must be known between them.
pub(in crate::rows) trait RowSource: Debug {
    /// Whether rows are made of events of the same kind as this one: of the same provider, descriptor and schema.
    fn wants(&self, event: &EventContext<'_, '_>) -> bool;

    /// Adds an event of a kind that is wanted.
    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>);

    /// Adds the rows that are known at the end.
    fn finish(&mut self, _context: &mut RowContext<'_>) {}
}
