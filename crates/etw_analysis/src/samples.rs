//! Samples and their stacks.

use std::collections::VecDeque;

use etw_event::{FileTime, Record, Ticks};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;
use etw_machine::{Addresses, CodeVersion, Duration, HashMap, Processes, Sampled, ThreadIndex};
use etw_stacks::{NodeIndex, SampleCount, StackTree};

use crate::activity::SpanSums;

/// Maximum number of samples waiting for the rest of their stacks. Beyond it, the oldest are counted as they are.
const MAX_WAITING: usize = 4096;
/// Maximum number of frames in a stack: two events of the 192 that ETW allows.
const MAX_FRAMES: usize = 384;

/// Number of the frames of a stack key, from one definition of the key to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyUse(u32);

/// A single sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) time: FileTime,
    pub(crate) thread: ThreadIndex,
    pub(crate) processor: u16,
    pub(crate) count: u64,
    pub(crate) weight: Duration,
    pub(crate) stack: TakenStack,
}

/// The stack of a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TakenStack {
    /// The node of the innermost address; `None` if the tree was full.
    Known(Option<NodeIndex>),
    /// Frames that come later.
    Keyed(Keyed),
}

/// A stack whose frames come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Keyed {
    kernel: Option<KeyUse>,
    user: Option<KeyUse>,
    instruction: u64,
    /// The last change of code before the sample.
    version: CodeVersion,
}

/// A sample with an incomplete stack.
#[derive(Debug)]
struct Waiting {
    time: FileTime,
    processor: u16,
    thread: ThreadIndex,
    count: u64,
    weight: Duration,
    instruction: u64,
    frames: Vec<u64>,
    kernel_key: Option<KeyUse>,
    /// The last change of code before the sample.
    version: CodeVersion,
}

/// The machine, time and thread id of a sample, to which its stack refers.
type SampleKey = (u32, Ticks, u32);

/// Counts of samples by thread and stack.
#[derive(Debug)]
pub(crate) struct Samples {
    waiting: HashMap<SampleKey, Waiting>,
    order: VecDeque<SampleKey>,
    spare: Vec<Vec<u64>>,
    /// Uses of stack keys whose definition has not come yet.
    keys: HashMap<(u32, u64), KeyUse>,
    definitions: Vec<Vec<u64>>,
    /// The definitions of halves of stacks whose other half has a key.
    halves: HashMap<Vec<u64>, KeyUse>,
    keyed: HashMap<(ThreadIndex, Keyed), SampleCount>,
    /// The single samples, if requested, in the order in which their stacks were completed.
    pub(crate) taken: Option<Vec<Taken>>,
    pub(crate) tree: StackTree,
    pub(crate) by_thread: HashMap<ThreadIndex, SampleCount>,
    /// Their weight over time.
    pub(crate) timeline: SpanSums<ThreadIndex>,
    pub(crate) all: SampleCount,
}

impl Samples {
    pub(crate) fn new() -> Samples {
        Samples {
            waiting: HashMap::default(),
            order: VecDeque::new(),
            spare: Vec::new(),
            keys: HashMap::default(),
            definitions: Vec::new(),
            halves: HashMap::default(),
            keyed: HashMap::default(),
            taken: None,
            tree: StackTree::default(),
            by_thread: HashMap::default(),
            timeline: SpanSums::default(),
            all: SampleCount::default(),
        }
    }

    /// Adds a sample.
    pub(crate) fn add(
        &mut self,
        record: &Record<'_>,
        sampled: &Sampled,
        processes: &Processes,
        addresses: &Addresses,
    ) {
        let Sampled { thread, thread_id, instruction, count, weight } = *sampled;
        for sum in [&mut self.all, self.by_thread.entry(thread).or_default()] {
            sum.count += count;
            sum.weight += weight;
        }
        self.timeline.add(thread, record.time(), weight.0);
        if self.order.len() >= MAX_WAITING
            && let Some(oldest) = self.order.pop_front()
        {
            self.complete(oldest, None, processes, addresses);
        }
        let frames = self.spare.pop().unwrap_or_default();
        let key = (processes.machine(), record.raw_time(), thread_id);
        let waiting = Waiting {
            time: record.time(),
            processor: u16::try_from(processes.machines.processor(record)).unwrap_or(u16::MAX),
            thread,
            count,
            weight,
            instruction,
            frames,
            kernel_key: None,
            version: addresses.versions.now(processes.thread(thread).process),
        };
        if let Some(same) = self.waiting.insert(key, waiting) {
            self.count(same, None, processes, addresses);
        } else {
            self.order.push_back(key);
        }
    }

    /// Adds an event about the stack of a sample.
    pub(crate) fn stack_event(
        &mut self,
        id: EventId,
        record: &Record<'_>,
        processes: &Processes,
        addresses: &Addresses,
    ) {
        match id {
            ids::StackWalk::STACK => self.stack(record, processes, addresses),
            ids::StackWalk::STACK_KEY_KERNEL => self.stack_key(record, false, processes, addresses),
            ids::StackWalk::STACK_KEY_USER => self.stack_key(record, true, processes, addresses),
            id if read::StackFrames::reads(id) => self.key_frames(record, processes.machine()),
            _ => {}
        }
    }

    /// Adds a stack, or the kernel or user half of one.
    fn stack(&mut self, record: &Record<'_>, processes: &Processes, addresses: &Addresses) {
        let stack = read::StackEvent::new(record);
        let Some(key) = sample_of(&stack, processes) else { return };
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        let room = MAX_FRAMES - waiting.frames.len().min(MAX_FRAMES);
        waiting.frames.extend(stack.stack().into_iter().flatten().take(room));
        // The user half comes last.
        if waiting.frames.last().is_some_and(|last| !addresses.is_kernel(*last)) {
            self.complete(key, None, processes, addresses);
        }
    }

    /// Adds the key of the kernel or user half of a stack.
    fn stack_key(
        &mut self,
        record: &Record<'_>,
        is_user: bool,
        processes: &Processes,
        addresses: &Addresses,
    ) {
        let stack = read::StackEvent::new(record);
        let (Some(sample), Some(key)) = (sample_of(&stack, processes), stack.stack_key()) else { return };
        let Some(waiting) = self.waiting.get_mut(&sample) else { return };
        let next = KeyUse(self.definitions.len() as u32);
        let used = *self.keys.entry((processes.machine(), key)).or_insert(next);
        if used == next {
            self.definitions.push(Vec::new());
        }
        match is_user {
            true => self.complete(sample, Some(used), processes, addresses),
            false => waiting.kernel_key = Some(used),
        }
    }

    /// Adds the frames of a key.
    fn key_frames(&mut self, record: &Record<'_>, machine: u32) {
        let stack = read::StackFrames::new(record);
        let used = stack.key().and_then(|key| self.keys.remove(&(machine, key)));
        if let Some(frames) = used.and_then(|used| self.definitions.get_mut(used.0 as usize)) {
            frames.extend(stack.stack_frame().into_iter().flatten().take(MAX_FRAMES));
        }
    }

    /// Counts a sample that no longer waits for its stack.
    fn complete(
        &mut self,
        sample: SampleKey,
        user_key: Option<KeyUse>,
        processes: &Processes,
        addresses: &Addresses,
    ) {
        if let Some(waiting) = self.waiting.remove(&sample) {
            self.count(waiting, user_key, processes, addresses);
        }
        // Most samples are completed in order.
        while self.order.front().is_some_and(|first| !self.waiting.contains_key(first)) {
            self.order.pop_front();
        }
    }

    fn count(
        &mut self,
        mut waiting: Waiting,
        user_key: Option<KeyUse>,
        processes: &Processes,
        addresses: &Addresses,
    ) {
        let Waiting { time, processor, thread, count, weight, instruction, kernel_key, version, .. } =
            waiting;
        let is_keyed = kernel_key.is_some() || user_key.is_some();
        let half = (is_keyed && !waiting.frames.is_empty()).then(|| self.half(&waiting.frames));
        // The half without a key is the one that is left.
        let (kernel, user) = match (kernel_key, user_key) {
            (None, user) => (half, user),
            (kernel, user) => (kernel, user.or(half)),
        };
        let keyed = Keyed { kernel, user, instruction, version };
        if is_keyed && let Some(taken) = &mut self.taken {
            let stack = TakenStack::Keyed(keyed);
            taken.push(Taken { time, thread, processor, count, weight, stack });
        } else if is_keyed {
            let keyed = self.keyed.entry((thread, keyed)).or_default();
            keyed.count += count;
            keyed.weight += weight;
        } else {
            if waiting.frames.is_empty() {
                waiting.frames.push(instruction);
            }
            let sum = SampleCount { count, weight };
            let node = self.tree.count(thread, &waiting.frames, Some(version), sum, (processes, addresses));
            if let Some(taken) = &mut self.taken {
                let stack = TakenStack::Known(node);
                taken.push(Taken { time, thread, processor, count, weight, stack });
            }
        }
        waiting.frames.clear();
        self.spare.push(waiting.frames);
    }

    /// Returns a key for frames that have none.
    fn half(&mut self, frames: &[u64]) -> KeyUse {
        if let Some(known) = self.halves.get(frames) {
            return *known;
        }
        let used = KeyUse(self.definitions.len() as u32);
        self.definitions.push(frames.to_vec());
        self.halves.insert(frames.to_vec(), used);
        used
    }

    /// Counts the samples that still wait.
    pub(crate) fn finish(&mut self, processes: &Processes, addresses: &Addresses) {
        while let Some(sample) = self.order.pop_front() {
            self.complete(sample, None, processes, addresses);
        }
        let keyed = std::mem::take(&mut self.keyed);
        for ((thread, keyed), sum) in keyed {
            let frames = self.keyed_frames(keyed);
            self.tree.count(thread, &frames, Some(keyed.version), sum, (processes, addresses));
        }
        let mut taken = self.taken.take();
        for sample in taken.iter_mut().flatten() {
            if let TakenStack::Keyed(keyed) = sample.stack {
                let frames = self.keyed_frames(keyed);
                let sum = SampleCount { count: sample.count, weight: sample.weight };
                let (thread, version) = (sample.thread, Some(keyed.version));
                let node = self.tree.count(thread, &frames, version, sum, (processes, addresses));
                sample.stack = TakenStack::Known(node);
            }
        }
        if let Some(taken) = &mut taken {
            taken.sort_by_key(|sample| sample.time);
        }
        self.taken = taken;
    }

    fn keyed_frames(&self, Keyed { kernel, user, instruction, .. }: Keyed) -> Vec<u64> {
        let frames = |key: Option<KeyUse>| {
            key.and_then(|key| self.definitions.get(key.0 as usize)).into_iter().flatten()
        };
        let mut frames: Vec<u64> = frames(kernel).chain(frames(user)).copied().collect();
        if frames.is_empty() {
            frames.push(instruction);
        }
        frames
    }
}

/// Returns the sample that a stack belongs to.
fn sample_of(stack: &read::StackEvent<'_>, processes: &Processes) -> Option<SampleKey> {
    stack.stack_process()?;
    Some((processes.machine(), Ticks(stack.event_time_stamp()? as i64), stack.stack_thread()?))
}
