//! What events weigh, counted by their stacks.

use etw_consumer::{Event, Stack};
use etw_event::{Guid, Record, Ticks};
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::read;
use etw_machine::{
    Addresses, ClrProvider, Duration, Fact, HashMap, Model, Processes, Readied, Switched, ThreadIndex, Window,
};

use crate::stacks::{NodeIndex, SampleCount, StackTree};
use crate::wait_chains::{Counted, Place, WaitChains};
use crate::weight::StackWeight;

/// Microsoft-DotNETCore-SampleProfiler, whose only event is a sample of a thread.
const SAMPLE_PROFILER: Guid = Guid::from_u128(0x3c530d44_97ae_513a_1e6d_783e8f8e03a9);
/// AllocationTick and ExceptionThrown of .NET.
const ALLOCATION_TICK: u16 = 10;
const EXCEPTION_THROWN: u16 = 80;
/// Maximum number of disk requests remembered between start and end.
const MAX_BEGUN: usize = 1 << 16;
/// Maximum number of frames in a stack.
const MAX_FRAMES: usize = 1024;

/// Weights by stack.
#[derive(Debug)]
pub struct ByStack {
    /// What is counted.
    pub weight: StackWeight,
    /// The stacks with their counts.
    pub tree: StackTree,
    /// The sum, of events without a stack too.
    pub all: SampleCount,
    /// The stacks of disk requests, by machine and request.
    begun: HashMap<(u32, u64), NodeIndex>,
    /// The stacks at which threads were left, where switches have those.
    left: HashMap<ThreadIndex, NodeIndex>,
    /// The stacks at which threads were entered, where switches have those.
    entered: HashMap<ThreadIndex, NodeIndex>,
    /// The chains of waits, of [`StackWeight::WaitChains`].
    pub chains: WaitChains,
    frames: Vec<u64>,
}

impl ByStack {
    /// Returns no counts of a weight.
    pub fn new(weight: StackWeight) -> ByStack {
        ByStack {
            weight,
            tree: StackTree::default(),
            all: SampleCount::default(),
            begun: HashMap::default(),
            left: HashMap::default(),
            entered: HashMap::default(),
            chains: WaitChains::default(),
            frames: Vec::new(),
        }
    }

    /// Adds an event with what it tells.
    pub fn add(&mut self, event: &Event<'_>, stack: &Stack<'_>, fact: Option<&Fact>, model: &mut Model) {
        let record = event.record;
        let Model { addresses, processes, window, .. } = model;
        let switched = match fact {
            Some(Fact::Switch(switched)) => Some(*switched),
            _ => None,
        };
        // The times are limited to the window already.
        match (self.weight, switched) {
            (StackWeight::Waits, Some(Switched { to, waited, .. })) => {
                return self.switch(stack, to, waited, addresses, processes);
            }
            (StackWeight::OffCpu, Some(Switched { to, waited, ready, .. })) => {
                let off = waited.0.saturating_add(ready.0);
                return self.switch(stack, to, Duration(off), addresses, processes);
            }
            (StackWeight::WaitChains, switched) => {
                let readied = match fact {
                    Some(Fact::Ready(readied)) => Some(*readied),
                    _ => None,
                };
                return self.chain(record, stack, switched, readied, (addresses, processes, window));
            }
            (StackWeight::Running, Some(switched)) => {
                return self.run(stack, switched, addresses, processes);
            }
            _ => {}
        }
        if !window.has(record.time()) {
            return;
        }
        if let (StackWeight::Disk, Some(ids::DiskIo::READ | ids::DiskIo::WRITE)) =
            (self.weight, EventId::from_record(record))
        {
            return self.end_request(record, processes.machine());
        }
        let interrupted = match fact {
            Some(Fact::Interrupt(interrupted)) => Some(interrupted.took.0),
            _ => None,
        };
        let weight = match self.weight {
            StackWeight::Interrupts => interrupted,
            _ => self.weight_of(event),
        };
        let Some(weight) = weight else { return };
        let Some(id) = stack.thread().or(record.thread_id()) else { return };
        let thread = match record.process_id().filter(|_| record.thread_id() == Some(id)) {
            Some(process_id) => processes.thread_of(id, process_id),
            None => processes.thread_at(id),
        };
        let sum = SampleCount { count: 1, weight: Duration(weight) };
        let node = self.put(stack, thread, sum, addresses, processes);
        if self.weight == StackWeight::Disk
            && let Some(node) = node
            && let Some(request) = read::DiskInit::new(record).irp()
            && self.begun.len() < MAX_BEGUN
        {
            self.begun.insert((processes.machine(), request), node);
        }
    }

    /// Counts a stack; returns the node of its innermost address, or `None` if there is no stack.
    fn put(
        &mut self,
        stack: &Stack<'_>,
        thread: ThreadIndex,
        sum: SampleCount,
        addresses: &Addresses,
        processes: &Processes,
    ) -> Option<NodeIndex> {
        self.take_frames(stack);
        if self.frames.is_empty() {
            return None;
        }
        self.all.count += sum.count;
        self.all.weight += sum.weight;
        self.tree.count(thread, &self.frames, None, sum, (processes, addresses))
    }

    fn take_frames(&mut self, stack: &Stack<'_>) {
        self.frames.clear();
        self.frames.extend(stack.addresses().take(MAX_FRAMES));
    }

    /// Counts the wait that a switch ends, or keeps what made a thread ready.
    fn chain(
        &mut self,
        record: &Record<'_>,
        stack: &Stack<'_>,
        switched: Option<Switched>,
        readied: Option<Readied>,
        (addresses, processes, window): (&Addresses, &mut Processes, &Window),
    ) {
        if switched.is_none() && readied.is_none() {
            return;
        }
        self.take_frames(stack);
        let thread = stack.thread().filter(|_| !self.frames.is_empty());
        let thread = thread.map(|id| processes.thread_at(id));
        let at = thread.map(|thread| Place::new(thread, &self.frames, addresses, processes));
        if let Some(readied) = readied {
            return self.chains.ready(readied, record.time(), at, addresses);
        }
        let Some(switched) = switched else { return };
        let (of_to, of_from) = match thread == Some(switched.to) {
            true => (at, None),
            false => (None, at),
        };
        let context = (addresses, &*processes, window);
        let counted = self.chains.enter(&switched, record.time(), of_to, &mut self.tree, context);
        if let Some(Counted { node, weight }) = counted {
            self.tree.add_weight(node, 1, weight);
            self.all.count += 1;
            self.all.weight += weight;
        }
        if let Some(at) = of_from {
            self.chains.leave(at);
        }
    }

    /// Counts the wait of the thread that a switch goes to: by its stack now, or by that at which it was left.
    fn switch(
        &mut self,
        stack: &Stack<'_>,
        to: ThreadIndex,
        waited: Duration,
        addresses: &Addresses,
        processes: &mut Processes,
    ) {
        let of = stack.thread().map(|id| processes.thread_at(id));
        let left = self.left.remove(&to);
        let sum = SampleCount { count: 1, weight: waited };
        if waited != Duration::default() {
            if of == Some(to) {
                self.put(stack, to, sum, addresses, processes);
            } else if let Some(left) = left {
                self.tree.add_weight(left, sum.count, sum.weight);
                self.all.count += sum.count;
                self.all.weight += sum.weight;
            }
        }
        if let Some(from) = of.filter(|from| *from != to)
            && let Some(node) = self.put(stack, from, SampleCount::default(), addresses, processes)
        {
            self.left.insert(from, node);
        }
    }

    /// Counts the time that the thread ran from which a switch goes away: by its stack now, or by that at which it was
    /// entered.
    fn run(
        &mut self,
        stack: &Stack<'_>,
        Switched { from, ran, to, .. }: Switched,
        addresses: &Addresses,
        processes: &mut Processes,
    ) {
        let of = stack.thread().map(|id| processes.thread_at(id));
        let entered = self.entered.remove(&from);
        let sum = SampleCount { count: 1, weight: ran };
        if ran != Duration::default() {
            if of == Some(from) {
                self.put(stack, from, sum, addresses, processes);
            } else if let Some(entered) = entered {
                self.tree.add_weight(entered, sum.count, sum.weight);
                self.all.count += sum.count;
                self.all.weight += sum.weight;
            }
        }
        if of == Some(to)
            && to != from
            && let Some(node) = self.put(stack, to, SampleCount::default(), addresses, processes)
        {
            self.entered.insert(to, node);
        }
    }

    /// Returns what an event weighs; `None` if it does not count.
    fn weight_of(&self, event: &Event<'_>) -> Option<u64> {
        let record = event.record;
        match (self.weight, EventId::from_record(record)) {
            // A stack is counted with the event that it belongs to.
            (StackWeight::Events, Some(id)) if id.class() == Class::StackWalk => None,
            (StackWeight::Events, _) => Some(1),
            (StackWeight::DotNet, None) if record.provider_id() == SAMPLE_PROFILER => Some(1),
            (StackWeight::Ready, Some(ids::Thread::READY_THREAD)) => Some(1),
            // The bytes come with the end of the request.
            (StackWeight::Disk, Some(id)) if read::DiskInit::reads(id) => Some(0),
            (StackWeight::Files, Some(ids::FileIo::READ | ids::FileIo::WRITE)) => {
                Some(read::FileOperation::new(record).io_size().map_or(0, u64::from))
            }
            (StackWeight::Files, Some(id)) if read::FileOperation::reads(id) => Some(0),
            (StackWeight::Network, Some(id)) => match id {
                ids::UdpIp::SEND_IPV4
                | ids::UdpIp::RECV_IPV4
                | ids::UdpIp::SEND_IPV6
                | ids::UdpIp::RECV_IPV6 => read::UdpTransfer::new(record).size().map(u64::from),
                ids::TcpIp::SEND_IPV4
                | ids::TcpIp::RECV_IPV4
                | ids::TcpIp::SEND_IPV6
                | ids::TcpIp::RECV_IPV6 => read::TcpTransfer::new(record).size().map(u64::from),
                _ => None,
            },
            (StackWeight::Faults, Some(ids::PageFault::HARD_FAULT)) => {
                let begun = Ticks(read::HardFault::new(record).initial_time()?);
                Some(Window::ALL.part(record.origin().clock.to_filetime(begun), record.time()).0)
            }
            (
                StackWeight::SoftFaults,
                Some(
                    ids::PageFault::TRANSITION_FAULT
                    | ids::PageFault::DEMAND_ZERO_FAULT
                    | ids::PageFault::COPY_ON_WRITE
                    | ids::PageFault::GUARD_PAGE_FAULT,
                ),
            ) => Some(1),
            // A block that changes its size is allocated anew.
            (StackWeight::Heap, Some(ids::Heap::HEAP_ALLOC)) => read::HeapAlloc::new(record).size(),
            (StackWeight::Heap, Some(ids::Heap::HEAP_REALLOC)) => read::HeapRealloc::new(record).new_size(),
            (StackWeight::Exceptions, None) => {
                let is_runtime = ClrProvider::from_record(record) == Some(ClrProvider::Runtime);
                (is_runtime && record.descriptor().id == EXCEPTION_THROWN).then_some(1)
            }
            (StackWeight::Allocations, None) => {
                let is_runtime = ClrProvider::from_record(record) == Some(ClrProvider::Runtime);
                if !is_runtime || record.descriptor().id != ALLOCATION_TICK {
                    return None;
                }
                let bytes = event.get::<u64>("AllocationAmount64").ok();
                bytes.or_else(|| event.get::<u32>("AllocationAmount").ok().map(u64::from))
            }
            (StackWeight::Memory, Some(ids::PageFault::VIRTUAL_ALLOC)) => {
                read::VirtualAlloc::new(record).region_size()
            }
            (StackWeight::Syscalls, Some(ids::PerfInfo::SYS_CL_ENTER)) => Some(1),
            _ => None,
        }
    }

    /// Adds the bytes of a request to the stack that sent it.
    fn end_request(&mut self, record: &Record<'_>, machine: u32) {
        let done = read::DiskTransfer::new(record);
        let (Some(bytes), Some(request)) = (done.transfer_size(), done.irp()) else { return };
        let Some(node) = self.begun.remove(&(machine, request)) else { return };
        let bytes = Duration(bytes.into());
        self.tree.add_weight(node, 0, bytes);
        self.all.weight += bytes;
    }
}
