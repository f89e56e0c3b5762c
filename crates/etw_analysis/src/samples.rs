//! Samples and their stacks.

use std::collections::VecDeque;

use etw_event::{FileTime, PointerSize, Record, Ticks};
use etw_kernel_events::read;

use crate::activity::SpanSums;
use crate::addresses::{KERNEL_32, KERNEL_64};
use crate::facts::Sampled;
use crate::managed::{CodeVersion, CodeVersions};
use crate::maps::HashMap;
use crate::processes::{Processes, ThreadIndex};
use crate::stacks::{NodeIndex, Parent, StackTree};
use crate::{Duration, Window};

/// Maximum number of samples waiting for the rest of their stacks. Beyond it, the oldest are counted as they are.
const MAX_WAITING: usize = 4096;
/// Maximum number of frames in a stack: two events of the 192 that ETW allows.
const MAX_FRAMES: usize = 384;
/// Default sampling interval if the trace does not contain it: 1 ms.
const DEFAULT_INTERVAL: u64 = 10_000;

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

/// Counts of samples without their stacks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SampleCount {
    pub(crate) count: u64,
    pub(crate) weight: Duration,
}

/// The machine, time and thread id of a sample, to which its stack refers.
type SampleKey = (u32, Ticks, u32);

/// Counts of samples by thread and stack.
#[derive(Debug)]
pub(crate) struct Samples {
    /// Length of a sampling interval of each machine in units of 100 ns, if its events contain it.
    intervals: Vec<u64>,
    pub(crate) is_32_bit: bool,
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
    /// Changes of code, by which stacks are counted.
    pub(crate) versions: CodeVersions,
    pub(crate) by_thread: HashMap<ThreadIndex, SampleCount>,
    /// Their weight over time.
    pub(crate) timeline: SpanSums<ThreadIndex>,
    pub(crate) all: SampleCount,
}

impl Samples {
    pub(crate) fn new() -> Samples {
        Samples {
            intervals: Vec::new(),
            is_32_bit: false,
            waiting: HashMap::default(),
            order: VecDeque::new(),
            spare: Vec::new(),
            keys: HashMap::default(),
            definitions: Vec::new(),
            halves: HashMap::default(),
            keyed: HashMap::default(),
            taken: None,
            tree: StackTree::default(),
            versions: CodeVersions::default(),
            by_thread: HashMap::default(),
            timeline: SpanSums::default(),
            all: SampleCount::default(),
        }
    }

    /// Whether an address is in the kernel.
    pub(crate) fn is_kernel(&self, address: u64) -> bool {
        address >= if self.is_32_bit { KERNEL_32 } else { KERNEL_64 }
    }

    /// Returns the length of the sampling interval of a machine.
    pub(crate) fn interval(&self, machine: u32) -> Duration {
        Duration(self.intervals.get(machine as usize).copied().unwrap_or(DEFAULT_INTERVAL))
    }

    /// Sets the sampling interval from an event.
    pub(crate) fn set_interval(&mut self, record: &Record<'_>, machine: u32) {
        let set = read::ProfileInterval::new(record);
        if let (Some(0), Some(interval @ 1..)) = (set.source(), set.new_interval()) {
            let machine = machine as usize;
            if machine >= self.intervals.len() {
                self.intervals.resize(machine + 1, DEFAULT_INTERVAL);
            }
            self.intervals[machine] = interval.into();
        }
    }

    /// Adds a sample.
    pub(crate) fn sample(
        &mut self,
        record: &Record<'_>,
        processes: &mut Processes,
        window: &Window,
    ) -> Option<Sampled> {
        let sample = read::SampledProfile::new(record);
        let (instruction, thread_id) = (sample.instruction_pointer()?, sample.thread_id()?);
        if !window.has(record.time()) {
            return None;
        }
        self.is_32_bit = record.pointer_size() == PointerSize::Four;
        let count = u64::from(sample.count().unwrap_or(1).max(1));
        let weight = Duration(count.saturating_mul(self.interval(processes.machine()).0));
        let thread = processes.thread_at(thread_id);
        for sum in [&mut self.all, self.by_thread.entry(thread).or_default()] {
            sum.count += count;
            sum.weight += weight;
        }
        self.timeline.add(thread, record.time(), weight.0);
        if self.order.len() >= MAX_WAITING
            && let Some(oldest) = self.order.pop_front()
        {
            self.complete(oldest, None, processes);
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
            version: self.versions.now(processes.thread(thread).process),
        };
        if let Some(same) = self.waiting.insert(key, waiting) {
            self.count(same, None, processes);
        } else {
            self.order.push_back(key);
        }
        Some(Sampled { thread, instruction, count, weight })
    }

    /// Adds a stack, or the kernel or user half of one.
    pub(crate) fn stack(&mut self, record: &Record<'_>, processes: &mut Processes) {
        let stack = read::StackEvent::new(record);
        let sample = (stack.event_time_stamp(), stack.stack_process(), stack.stack_thread());
        let Some((key, process_id)) = stack_of(sample, processes) else { return };
        let is_32_bit = self.is_32_bit;
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        processes.thread_of(key.2, process_id);
        let room = MAX_FRAMES - waiting.frames.len().min(MAX_FRAMES);
        waiting.frames.extend(stack.stack().into_iter().flatten().take(room));
        let limit = if is_32_bit { KERNEL_32 } else { KERNEL_64 };
        // The user half comes last.
        if waiting.frames.last().is_some_and(|last| *last < limit) {
            self.complete(key, None, processes);
        }
    }

    /// Adds the key of the kernel or user half of a stack.
    pub(crate) fn stack_key(&mut self, record: &Record<'_>, is_user: bool, processes: &mut Processes) {
        let stack = read::StackEvent::new(record);
        let sample = (stack.event_time_stamp(), stack.stack_process(), stack.stack_thread());
        let (Some((sample, process_id)), Some(key)) = (stack_of(sample, processes), stack.stack_key()) else {
            return;
        };
        let Some(waiting) = self.waiting.get_mut(&sample) else { return };
        processes.thread_of(sample.2, process_id);
        let next = KeyUse(self.definitions.len() as u32);
        let used = *self.keys.entry((processes.machine(), key)).or_insert(next);
        if used == next {
            self.definitions.push(Vec::new());
        }
        match is_user {
            true => self.complete(sample, Some(used), processes),
            false => waiting.kernel_key = Some(used),
        }
    }

    /// Adds the frames of a key.
    pub(crate) fn key_frames(&mut self, record: &Record<'_>, machine: u32) {
        let stack = read::StackFrames::new(record);
        let used = stack.key().and_then(|key| self.keys.remove(&(machine, key)));
        if let Some(frames) = used.and_then(|used| self.definitions.get_mut(used.0 as usize)) {
            frames.extend(stack.stack_frame().into_iter().flatten().take(MAX_FRAMES));
        }
    }

    /// Counts a sample that no longer waits for its stack.
    fn complete(&mut self, sample: SampleKey, user_key: Option<KeyUse>, processes: &Processes) {
        if let Some(waiting) = self.waiting.remove(&sample) {
            self.count(waiting, user_key, processes);
        }
        // Most samples are completed in order.
        while self.order.front().is_some_and(|first| !self.waiting.contains_key(first)) {
            self.order.pop_front();
        }
    }

    fn count(&mut self, mut waiting: Waiting, user_key: Option<KeyUse>, processes: &Processes) {
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
            let node = self.add(thread, &waiting.frames, version, sum, processes);
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

    fn add(
        &mut self,
        thread: ThreadIndex,
        frames: &[u64],
        version: CodeVersion,
        sum: SampleCount,
        processes: &Processes,
    ) -> Option<NodeIndex> {
        let mut tree = std::mem::take(&mut self.tree);
        let node = self.add_to(&mut tree, thread, frames, Some(version), sum, processes);
        self.tree = tree;
        node
    }

    /// Counts a stack in a tree. `version` is the last change of code before it; `None` for the newest so far.
    pub(crate) fn add_to(
        &self,
        tree: &mut StackTree,
        thread: ThreadIndex,
        frames: &[u64],
        version: Option<CodeVersion>,
        SampleCount { count, weight }: SampleCount,
        processes: &Processes,
    ) -> Option<NodeIndex> {
        let version = version.unwrap_or_else(|| self.versions.now(processes.thread(thread).process));
        let of = (thread, version);
        let (parent, is_cut) = self.path_in(tree, Parent::Thread(thread), of, frames, processes);
        tree.cut += if is_cut { count } else { 0 };
        let Parent::Node(innermost) = parent else { return None };
        tree.add_weight(innermost, count, weight);
        Some(innermost)
    }

    /// Returns the node of the innermost address of a stack that continues another one, and whether the tree was full
    /// before it was reached. The stack is of a thread, and the version is the last change of code before it.
    pub(crate) fn path_in(
        &self,
        tree: &mut StackTree,
        parent: Parent,
        (thread, version): (ThreadIndex, CodeVersion),
        frames: &[u64],
        processes: &Processes,
    ) -> (Parent, bool) {
        let process = processes.thread(thread).process;
        let version_of = |address| match self.is_kernel(address) {
            true => CodeVersion::default(),
            false => self.versions.at(process, address, version),
        };
        tree.path(parent, frames, |address| self.is_kernel(address), version_of)
    }

    /// Counts the samples that still wait.
    pub(crate) fn finish(&mut self, processes: &Processes) {
        while let Some(sample) = self.order.pop_front() {
            self.complete(sample, None, processes);
        }
        let keyed = std::mem::take(&mut self.keyed);
        for ((thread, keyed), sum) in keyed {
            let frames = self.keyed_frames(keyed);
            self.add(thread, &frames, keyed.version, sum, processes);
        }
        let mut taken = self.taken.take();
        for sample in taken.iter_mut().flatten() {
            if let TakenStack::Keyed(keyed) = sample.stack {
                let frames = self.keyed_frames(keyed);
                let sum = SampleCount { count: sample.count, weight: sample.weight };
                let node = self.add(sample.thread, &frames, keyed.version, sum, processes);
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

/// Returns the sample that a stack belongs to, and its process.
fn stack_of(
    (time, process_id, thread_id): (Option<u64>, Option<u32>, Option<u32>),
    processes: &Processes,
) -> Option<(SampleKey, u32)> {
    Some(((processes.machine(), Ticks(time? as i64), thread_id?), process_id?))
}
