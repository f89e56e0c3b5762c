//! What events weigh, counted by their stacks.

use std::collections::HashMap;

use etw_consumer::{Event, Stack};
use etw_event::{Guid, PointerSize, Record, Ticks};

use crate::class::{Group, class};
use crate::payload::Payload;
use crate::processes::{Processes, ThreadIndex};
use crate::samples::{SampleCount, Samples};
use crate::stacks::{NodeIndex, StackTree};
use crate::{Duration, Window};

/// Microsoft-DotNETCore-SampleProfiler, whose only event is a sample of a thread.
const SAMPLE_PROFILER: Guid = Guid::from_u128(0x3c530d44_97ae_513a_1e6d_783e8f8e03a9);
/// Maximum number of disk requests remembered between start and end.
const MAX_BEGUN: usize = 1 << 16;
/// Maximum number of frames in a stack.
const MAX_FRAMES: usize = 1024;

/// What is counted by stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StackWeight {
    /// Time that threads waited, by the stack at which they did: that of the switch to the thread (Windows), or of the
    /// one away from it (Linux).
    Waits,
    /// Times that a thread made another ready, by its stack.
    Ready,
    /// Bytes of disk requests, by the stack that sent them.
    Disk,
    /// Bytes of reads and writes of files, and other operations with no bytes.
    Files,
    /// Bytes sent and received over TCP and UDP.
    Network,
    /// Time that hard faults took.
    Faults,
    /// Bytes of address space that was allocated (VirtualAlloc).
    Memory,
    /// Number of system calls.
    Syscalls,
    /// Number of samples of .NET's threads, running or not (Microsoft-DotNETCore-SampleProfiler in EventPipe traces).
    DotNet,
    /// Number of events of every kind that have a stack.
    Events,
}

/// The unit of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Time,
    Bytes,
    Count,
}

impl StackWeight {
    /// All that can be counted, in the order of reports.
    pub const ALL: [StackWeight; 10] = [
        StackWeight::Waits,
        StackWeight::Ready,
        StackWeight::Disk,
        StackWeight::Files,
        StackWeight::Network,
        StackWeight::Faults,
        StackWeight::Memory,
        StackWeight::Syscalls,
        StackWeight::DotNet,
        StackWeight::Events,
    ];

    pub(crate) fn unit(self) -> Unit {
        match self {
            StackWeight::Waits | StackWeight::Faults => Unit::Time,
            StackWeight::Disk | StackWeight::Files | StackWeight::Network | StackWeight::Memory => {
                Unit::Bytes
            }
            StackWeight::Ready | StackWeight::Syscalls | StackWeight::DotNet | StackWeight::Events => {
                Unit::Count
            }
        }
    }
}

/// Weights by stack.
#[derive(Debug)]
pub(crate) struct ByStack {
    pub(crate) weight: StackWeight,
    pub(crate) tree: StackTree,
    pub(crate) all: SampleCount,
    /// The stacks of disk requests, by machine and request.
    begun: HashMap<(u32, u64), NodeIndex>,
    /// The stacks at which threads were left, where switches have those.
    left: HashMap<ThreadIndex, NodeIndex>,
    frames: Vec<u64>,
}

impl ByStack {
    pub(crate) fn new(weight: StackWeight) -> ByStack {
        ByStack {
            weight,
            tree: StackTree::default(),
            all: SampleCount::default(),
            begun: HashMap::new(),
            left: HashMap::new(),
            frames: Vec::new(),
        }
    }

    /// Adds an event that the other counters have seen. `waited` is the time for which the thread has waited that a
    /// switch goes to.
    pub(crate) fn add(
        &mut self,
        event: &Event<'_>,
        stack: &Stack<'_>,
        waited: Option<(ThreadIndex, Duration)>,
        samples: &mut Samples,
        processes: &mut Processes,
        window: &Window,
    ) {
        let record = event.record;
        if let (StackWeight::Waits, Some((thread, waited))) = (self.weight, waited) {
            // The wait is limited to the window already.
            return self.switch(record, stack, thread, waited, samples, processes);
        }
        if !window.has(record.time()) {
            return;
        }
        if let (StackWeight::Disk, Some((Group::Disk, 10 | 11))) = (self.weight, class(record)) {
            return self.end_request(record, processes.machine());
        }
        let Some(weight) = self.weight_of(event) else { return };
        let Some(id) = stack.thread().or(record.thread_id()) else { return };
        let thread = match record.process_id().filter(|_| record.thread_id() == Some(id)) {
            Some(process_id) => processes.thread_of(id, process_id),
            None => processes.thread_at(id),
        };
        let sum = SampleCount { count: 1, weight: Duration(weight) };
        let node = self.put(record, stack, thread, sum, samples, processes);
        if self.weight == StackWeight::Disk
            && let Some(node) = node
            && let Some(request) = Payload::of(record).pointer()
            && self.begun.len() < MAX_BEGUN
        {
            self.begun.insert((processes.machine(), request), node);
        }
    }

    /// Counts a stack; returns the node of its innermost address, or `None` if there is no stack.
    fn put(
        &mut self,
        record: &Record<'_>,
        stack: &Stack<'_>,
        thread: ThreadIndex,
        sum: SampleCount,
        samples: &mut Samples,
        processes: &Processes,
    ) -> Option<NodeIndex> {
        self.frames.clear();
        self.frames.extend(stack.addresses().take(MAX_FRAMES));
        if self.frames.is_empty() {
            return None;
        }
        samples.is_32_bit = record.pointer_size() == PointerSize::Four;
        self.all.count += sum.count;
        self.all.weight += sum.weight;
        samples.add_to(&mut self.tree, thread, &self.frames, None, sum, processes)
    }

    /// Counts the wait of the thread that a switch goes to: by its stack now, or by that at which it was left.
    fn switch(
        &mut self,
        record: &Record<'_>,
        stack: &Stack<'_>,
        to: ThreadIndex,
        waited: Duration,
        samples: &mut Samples,
        processes: &mut Processes,
    ) {
        let of = stack.thread().map(|id| processes.thread_at(id));
        let left = self.left.remove(&to);
        let sum = SampleCount { count: 1, weight: waited };
        if waited != Duration::default() {
            if of == Some(to) {
                self.put(record, stack, to, sum, samples, processes);
            } else if let Some(left) = left {
                self.tree.add_weight(left, sum.count, sum.weight);
                self.all.count += sum.count;
                self.all.weight += sum.weight;
            }
        }
        if let Some(from) = of.filter(|from| *from != to)
            && let Some(node) = self.put(record, stack, from, SampleCount::default(), samples, processes)
        {
            self.left.insert(from, node);
        }
    }

    /// Returns what an event weighs; `None` if it does not count.
    fn weight_of(&self, event: &Event<'_>) -> Option<u64> {
        let record = event.record;
        let mut payload = Payload::of(record);
        match (self.weight, class(record)) {
            // A stack is counted with the event that it belongs to.
            (StackWeight::Events, Some((Group::Stack, _))) => None,
            (StackWeight::Events, _) => Some(1),
            (StackWeight::DotNet, None) if record.provider_id() == SAMPLE_PROFILER => Some(1),
            (StackWeight::Ready, Some((Group::Thread, 50))) => Some(1),
            // The bytes come with the end of the request.
            (StackWeight::Disk, Some((Group::Disk, 12 | 13 | 15))) => Some(0),
            (StackWeight::Files, Some((Group::File, 67 | 68))) => {
                Some(event.get::<u32>("IoSize").map_or(0, u64::from))
            }
            (StackWeight::Files, Some((Group::File, 64..=66 | 69..=75 | 77))) => Some(0),
            (StackWeight::Network, Some((Group::Tcp | Group::Udp, 10 | 11 | 26 | 27))) => {
                let (_process, size) = (payload.u32()?, payload.u32()?);
                Some(size.into())
            }
            (StackWeight::Faults, Some((Group::Fault, 32))) => {
                let begun = record.origin().clock.to_filetime(Ticks(payload.u64()? as i64));
                Some(Window::ALL.part(begun, record.time()).0)
            }
            (StackWeight::Memory, Some((Group::Fault, 98))) => {
                let (_base, size) = (payload.pointer()?, payload.pointer()?);
                Some(size)
            }
            (StackWeight::Syscalls, Some((Group::PerfInfo, 51))) => Some(1),
            _ => None,
        }
    }

    /// Adds the bytes of a request to the stack that sent it.
    fn end_request(&mut self, record: &Record<'_>, machine: u32) {
        let mut payload = Payload::of(record);
        let (Some(_disk), Some(_flags), Some(bytes)) = (payload.u32(), payload.u32(), payload.u32()) else {
            return;
        };
        let (Some(_), Some(_offset), Some(_file)) = (payload.u32(), payload.u64(), payload.pointer()) else {
            return;
        };
        let Some(node) = payload.pointer().and_then(|request| self.begun.remove(&(machine, request))) else {
            return;
        };
        let bytes = Duration(bytes.into());
        self.tree.add_weight(node, 0, bytes);
        self.all.weight += bytes;
    }
}
