//! Context switches: how long threads ran, what they waited for, and what made them ready.

use etw_event::{FileTime, Record};
use etw_kernel_events::read;

use super::facts::Switched;
use crate::maps::HashMap;
use crate::processes::{Processes, ProgramChange, ThreadIndex};
use crate::{Duration, Window};

/// Maximum number of processors; the reader supports no more.
const MAX_PROCESSORS: usize = 1 << 16;
/// States of threads (`KTHREAD_STATE`).
const TERMINATED: u8 = 4;
const WAITING: u8 = 5;

/// The state of a processor.
#[derive(Debug, Clone, Copy, Default)]
struct Processor {
    running: Option<(ThreadIndex, FileTime)>,
    /// Another thread found by a sample, and the time of the sample.
    found: Option<(ThreadIndex, FileTime)>,
}

/// The state of a thread that is not running.
#[derive(Debug, Clone, Copy)]
enum Off {
    /// The thread waits.
    Waiting { since: FileTime, reason: u8 },
    /// The thread is ready to run.
    Ready { since: FileTime, waited: Option<FileTime>, reason: u8, readied_by: ReadiedBy },
}

/// The source that made a thread ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadiedBy {
    /// Not in the trace.
    Unknown,
    /// None, since the thread did not wait.
    Nobody,
    /// An interrupt.
    Interrupt,
    /// A thread.
    Thread(ThreadIndex),
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readied {
    /// The thread that waited.
    pub thread: ThreadIndex,
    /// When the wait began.
    pub since: FileTime,
    /// What ended the wait.
    pub by: ReadiedBy,
}

/// Time that a thread ran.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    /// The thread.
    pub thread: ThreadIndex,
    /// When it began to run.
    pub since: FileTime,
    /// When it was left.
    pub until: FileTime,
}

/// How a thread was off a processor before a switch to it.
#[derive(Debug, Clone, Copy)]
struct Away {
    reason: Option<u8>,
    readied_by: ReadiedBy,
    waited: Duration,
    ready: Duration,
}

impl Away {
    const UNKNOWN: Away =
        Away { reason: None, readied_by: ReadiedBy::Unknown, waited: Duration(0), ready: Duration(0) };
}

/// Tracks the switches of all processors.
#[derive(Debug, Default)]
pub struct Switches {
    processors: Vec<Processor>,
    off: HashMap<ThreadIndex, Off>,
    /// Time of the very first switch of each machine.
    first: Vec<Option<FileTime>>,
    /// Whether the trace has events of ends of waits.
    pub has_ready_events: bool,
}

impl Switches {
    /// Whether the trace has switches.
    pub fn are_known(&self) -> bool {
        !self.first.is_empty()
    }

    /// Returns the thread that runs on a processor, if switches show it.
    #[inline]
    pub(crate) fn running(&self, processor: usize) -> Option<ThreadIndex> {
        self.processors.get(processor)?.running.map(|(thread, _)| thread)
    }

    /// Adds a switch.
    pub(crate) fn switch(
        &mut self,
        record: &Record<'_>,
        processes: &mut Processes,
        window: &Window,
    ) -> Option<Switched> {
        let switch = read::CSwitch::new(record);
        let (new, old) = (switch.new_thread_id()?, switch.old_thread_id()?);
        let to_priority = switch.new_thread_priority()?;
        let (reason, state) = (switch.old_thread_wait_reason()? as u8, switch.old_thread_state()? as u8);
        let (new, old) = (processes.thread_at(new), processes.thread_at(old));
        let time = record.time();
        let machine = processes.machine() as usize;
        if machine >= self.first.len() {
            self.first.resize(machine + 1, None);
        }
        let first = *self.first[machine].get_or_insert(time);
        let number = processes.machines.processor(record);
        if number >= self.processors.len() {
            self.processors.resize((number + 1).min(MAX_PROCESSORS), Processor::default());
        }
        let processor = self.processors.get_mut(number)?;
        let since = match processor.running {
            Some((thread, since)) if thread == old => Some(since),
            // The thread has been running since before the first switch.
            None => Some(first),
            Some(_) => None,
        };
        *processor = Processor { running: Some((new, time)), found: None };
        let ran = since.map(|since| window.part(since, time)).unwrap_or_default();
        // The idle threads of all processors have the number 0, and neither wait nor are ready.
        if processes.thread(old).id != 0 {
            self.switch_out(old, time, state, reason);
        }
        let Away { reason: to_reason, readied_by, waited, ready } = self.switch_in(new, time, window);
        Some(Switched {
            from: old,
            since,
            ran,
            from_state: state,
            from_reason: reason,
            to: new,
            to_priority,
            waited,
            ready,
            reason: to_reason,
            readied_by,
        })
    }

    /// Adds a sample. If a switch is missing, as virtual machines may hide some, samples show the running thread. This
    /// takes two samples, since a single one may be of a thread that a switch is just about to leave. Returns how long the
    /// other thread had run then.
    pub(crate) fn sampled(&mut self, record: &Record<'_>, processes: &mut Processes) -> Option<Ran> {
        let number = processes.machines.processor(record);
        let processor = self.processors.get_mut(number)?;
        let (running, since) = processor.running?;
        let thread = processes.thread_at(read::SampledProfile::new(record).thread_id()?);
        if thread == running {
            processor.found = None;
            return None;
        }
        match processor.found {
            Some((found, first)) if found == thread => {
                *processor = Processor { running: Some((thread, first)), found: None };
                self.off.remove(&thread);
                Some(Ran { thread: running, since, until: first })
            }
            _ => {
                processor.found = Some((thread, record.time()));
                None
            }
        }
    }

    /// Lets a thread go on in another program. Returns how long it ran in the one before, if it is known to run.
    pub(crate) fn change_program(
        &mut self,
        ProgramChange { before, after }: ProgramChange,
        record: &Record<'_>,
        processes: &Processes,
    ) -> Option<Ran> {
        if let Some(off) = self.off.remove(&before) {
            self.off.insert(after, off);
        }
        let first = self.first.get(processes.machine() as usize).copied().flatten()?;
        let processor = self.processors.get_mut(processes.machines.processor(record))?;
        let since = match processor.running {
            Some((thread, since)) if thread == before => since,
            None => first,
            Some(_) => return None,
        };
        *processor = Processor { running: Some((after, record.time())), found: None };
        Some(Ran { thread: before, since, until: record.time() })
    }

    fn switch_out(&mut self, thread: ThreadIndex, time: FileTime, state: u8, reason: u8) {
        match state {
            WAITING => self.off.insert(thread, Off::Waiting { since: time, reason }),
            TERMINATED => self.off.remove(&thread),
            _ => {
                let readied_by = ReadiedBy::Nobody;
                self.off.insert(thread, Off::Ready { since: time, waited: None, reason, readied_by })
            }
        };
    }

    /// Returns how the thread was off a processor.
    fn switch_in(&mut self, thread: ThreadIndex, time: FileTime, window: &Window) -> Away {
        match self.off.remove(&thread) {
            None => Away::UNKNOWN,
            Some(Off::Waiting { since, reason }) => Away {
                reason: Some(reason),
                readied_by: ReadiedBy::Unknown,
                waited: window.part(since, time),
                ready: Duration::default(),
            },
            Some(Off::Ready { since, waited, reason, readied_by }) => Away {
                reason: Some(reason),
                readied_by,
                waited: waited.map(|waited| window.part(waited, since)).unwrap_or_default(),
                ready: window.part(since, time),
            },
        }
    }

    /// Records that a thread was made ready; returns what ended its wait, if it waited.
    pub(crate) fn ready(&mut self, record: &Record<'_>, processes: &mut Processes) -> Option<Readied> {
        let ready = read::ReadyThread::new(record);
        let (thread, flags) = (ready.t_thread_id()?, ready.flag()?);
        self.has_ready_events = true;
        let thread = processes.thread_at(thread);
        let by = record.thread_id().map(|id| processes.thread_at(id));
        let running = self.running(processes.machines.processor(record));
        let off = self.off.get_mut(&thread)?;
        let Off::Waiting { since, reason } = *off else { return None };
        let readied_by = match by.or(running) {
            _ if flags & 1 != 0 => ReadiedBy::Interrupt,
            Some(thread) => ReadiedBy::Thread(thread),
            None => ReadiedBy::Unknown,
        };
        *off = Off::Ready { since: record.time(), waited: Some(since), reason, readied_by };
        Some(Readied { thread, since, by: readied_by })
    }

    /// Returns the threads that run when the trace ends, and how long they have run.
    pub fn finish(&mut self, end: FileTime, processes: &Processes) -> Vec<Ran> {
        let running = self.processors.iter_mut().filter_map(|processor| processor.running.take());
        let ran = |(thread, since)| Ran { thread, since, until: processes.end_for(thread, end).max(since) };
        running.map(ran).collect()
    }
}

/// Returns the name of a wait reason (`KWAIT_REASON`).
pub fn reason_name(reason: u8) -> Option<&'static str> {
    const NAMES: [&str; 39] = [
        "Executive",
        "FreePage",
        "PageIn",
        "PoolAllocation",
        "DelayExecution",
        "Suspended",
        "UserRequest",
        "WrExecutive",
        "WrFreePage",
        "WrPageIn",
        "WrPoolAllocation",
        "WrDelayExecution",
        "WrSuspended",
        "WrUserRequest",
        "WrSpare0",
        "WrQueue",
        "WrLpcReceive",
        "WrLpcReply",
        "WrVirtualMemory",
        "WrPageOut",
        "WrRendezvous",
        "WrKeyedEvent",
        "WrTerminated",
        "WrProcessInSwap",
        "WrCpuRateControl",
        "WrCalloutStack",
        "WrKernel",
        "WrResource",
        "WrPushLock",
        "WrMutex",
        "WrQuantumEnd",
        "WrDispatchInt",
        "WrPreempted",
        "WrYieldExecution",
        "WrFastMutex",
        "WrGuardedMutex",
        "WrRundown",
        "WrAlertByThreadId",
        "WrDeferredPreempt",
    ];
    NAMES.get(usize::from(reason)).copied()
}
