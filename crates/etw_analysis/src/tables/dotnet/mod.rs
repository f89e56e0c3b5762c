//! Tables of .NET: garbage collections, compiled methods, allocations, exceptions, contention and thread pools.

mod allocations;
mod contention;
mod event_stacks;
mod exceptions;
pub(crate) mod gc;
mod jit;
mod thread_pool;

use allocations::Allocations;
use contention::Contention;
use etw_machine::{
    ClrEvent, ClrProvider, CodeVersions, Collections, HashMap, MethodIndex, Methods, Processes, Space,
    ThreadIndex, Window,
};
use etw_stacks::NodeIndex;
use etw_tables::ReportContext;
use event_stacks::{EventStacks, stack_walk};
use exceptions::Exceptions;
use jit::Jit;
use thread_pool::ThreadPools;

use crate::tables::table::{Table, TableKind};

/// CLRStackWalk: the stack of the event before it of the same thread.
const STACK_WALK: u16 = 82;

/// The counts behind the tables of .NET.
#[derive(Debug, Default)]
pub(crate) struct DotNet {
    jit: Jit,
    allocations: Allocations,
    exceptions: Exceptions,
    contention: Contention,
    thread_pools: ThreadPools,
    stacks: EventStacks,
    /// The last event of each thread, if it is counted by its stack and that can still come.
    waiting: HashMap<ThreadIndex, Occurrence>,
}

/// An event that is counted by its stack.
#[derive(Debug)]
enum Occurrence {
    Allocation(allocations::Allocation),
    Exception(exceptions::Exception),
    Contention(contention::Begun),
}

impl DotNet {
    /// Adds an event; `method` is the method that it describes, if it is in place.
    pub(crate) fn event(
        &mut self,
        event: &ClrEvent<'_>,
        method: Option<MethodIndex>,
        versions: &CodeVersions,
        window: &Window,
    ) {
        let waiting = self.waiting.remove(&event.thread);
        if event.provider == ClrProvider::Runtime && event.id == STACK_WALK {
            if let (Some(waiting), Some(addresses)) = (waiting, stack_walk(event.record())) {
                let stack = self.stacks.add(event, addresses, versions);
                self.count(event.thread, waiting, stack);
            }
            return;
        }
        if let Some(waiting) = waiting {
            self.count(event.thread, waiting, None);
        }
        if let Some(occurrence) = occurrence(event).filter(|_| window.has(event.time)) {
            match event.record().stack_trace() {
                Some(trace) => {
                    let stack = self.stacks.add(event, trace.addresses(), versions);
                    self.count(event.thread, occurrence, stack);
                }
                None => drop(self.waiting.insert(event.thread, occurrence)),
            }
        }
        self.jit.event(event, method, window);
        self.contention.event(event);
        self.thread_pools.event(event, window);
    }

    fn count(&mut self, thread: ThreadIndex, occurrence: Occurrence, stack: Option<NodeIndex>) {
        match occurrence {
            Occurrence::Allocation(allocation) => self.allocations.add(allocation, stack),
            Occurrence::Exception(exception) => self.exceptions.add(exception, stack),
            Occurrence::Contention(begun) => self.contention.begin(thread, begun, stack),
        }
    }

    /// Counts the events whose stacks did not come.
    pub(crate) fn finish(&mut self) {
        for (thread, waiting) in std::mem::take(&mut self.waiting) {
            self.count(thread, waiting, None);
        }
        self.contention.finish();
    }

    /// Returns the addresses of the stacks in tables.
    pub(crate) fn addresses(&self, processes: &Processes) -> impl Iterator<Item = (Space, u64)> {
        self.stacks.addresses(processes)
    }

    pub(crate) fn gc_processes(&self, collections: &Collections, context: &ReportContext<'_>) -> Table {
        gc::by_process(collections, &self.allocations, context)
    }

    pub(crate) fn jit(&self, methods: &Methods, context: &ReportContext<'_>) -> Table {
        self.jit.table(methods, context)
    }

    pub(crate) fn allocations(&self, context: &ReportContext<'_>) -> Table {
        self.allocations.table(&self.stacks, context)
    }

    pub(crate) fn exceptions(&self, context: &ReportContext<'_>) -> Table {
        self.exceptions.table(&self.stacks, context)
    }

    pub(crate) fn contention(&self, context: &ReportContext<'_>) -> Table {
        self.contention.table(&self.stacks, context)
    }

    pub(crate) fn thread_pools(&self, context: &ReportContext<'_>) -> Table {
        self.thread_pools.table(context)
    }
}

/// Whether a table shows stacks of events of .NET.
pub(crate) fn has_stacks(kind: TableKind) -> bool {
    matches!(kind, TableKind::Allocations | TableKind::Exceptions | TableKind::Contention)
}

fn occurrence(event: &ClrEvent<'_>) -> Option<Occurrence> {
    match (event.provider, event.id) {
        (ClrProvider::Runtime, 10) => allocations::Allocation::from_event(event).map(Occurrence::Allocation),
        (ClrProvider::Runtime, 80) => exceptions::Exception::from_event(event).map(Occurrence::Exception),
        (ClrProvider::Runtime, 81) => Some(Occurrence::Contention(contention::Begun::from_event(event))),
        _ => None,
    }
}
