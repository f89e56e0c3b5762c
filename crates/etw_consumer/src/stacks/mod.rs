//! Stacks of events, joined across a trace.
//!
//! A stack may be part of its event. More often it comes in events of its own, after the event that it belongs to: the
//! kernel's part at once, the user part when the thread returns to user mode, and the frames of a stack that is known by
//! a key when the key ends. One pass over the files collects all of them, sorted by the time of the event that they
//! name, in temporary files; memory does not grow with the trace.

mod collect;
mod runs;

use std::fmt;

use etw_event::{Record, StackTrace};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;
use etw_sys::FileMap;

use crate::trace::Verdict;
use crate::{Trace, TraceError};
use collect::Collector;
use runs::{Frames, Source};

/// The stacks of a trace's events.
///
/// ```no_run
/// use etw_consumer::Trace;
///
/// let mut trace = Trace::open_file("trace.etl")?;
/// let stacks = trace.stacks()?;
/// trace.for_each_record(|record| {
///     for address in stacks.of(record).addresses() {
///         println!("{} {address:#x}", record.time());
///     }
/// })?;
/// # Ok::<(), etw_consumer::TraceError>(())
/// ```
pub struct Stacks {
    frames: Frames,
    entries: FileMap,
    /// By source.
    sources: Vec<Source>,
    counts: StackCounts,
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// What was found of stacks in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StackCounts {
    /// Number of stacks, or halves of stacks, in events of their own.
    pub apart: u64,
    /// Number of keys that no event defines, and of stacks whose keys are too many to be remembered.
    pub undefined_keys: u64,
    /// Number of events of stacks that are too short to be read.
    pub damaged: u64,
}

/// The stack of an event.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    own: Option<StackTrace<'a>>,
    /// The numbers of its first entry, and of the one after its last.
    joined: (usize, usize),
    all: &'a Stacks,
}

impl fmt::Debug for Stack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.addresses()).finish()
    }
}

impl<'a> Stack<'a> {
    /// Returns the addresses, innermost first: those in the kernel, then those in the program.
    ///
    /// The first is that of the event, the others are return addresses, except where user mode was left.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<'a> {
        let Stack { own, joined: (start, end), all } = *self;
        let own = own.into_iter().flat_map(|own| own.addresses());
        own.chain(runs::entries(&all.entries, start..end).flat_map(|entry| all.frames.of(&entry)))
    }

    /// Returns the thread that the stack is of, if it came in events of its own.
    pub fn thread(&self) -> Option<u32> {
        let (start, end) = self.joined;
        runs::entries(&self.all.entries, start..end).next().map(|entry| entry.thread)
    }

    /// Returns whether the event has no stack.
    pub fn is_empty(&self) -> bool {
        self.addresses().next().is_none()
    }
}

impl Trace {
    /// Collects the stacks of all events in one pass over the files. Filters and limits of the trace do not matter.
    ///
    /// # Errors
    ///
    /// Fails if the trace has live sessions, a file has changed since it was opened, or there is no room for the
    /// temporary files.
    pub fn stacks(&mut self) -> Result<Stacks, TraceError> {
        if self.is_live() {
            return Err(TraceError::ReadsFilesOnly);
        }
        let mut collector = Collector::new(self.inputs().len()).map_err(TraceError::Stacks)?;
        let mut failed = Ok(());
        self.pass_over_all(|record| match collector.add(record) {
            Ok(()) => Verdict::Passed,
            Err(error) => {
                failed = Err(error);
                Verdict::End
            }
        })?;
        failed.and_then(|()| collector.finish()).map_err(TraceError::Stacks)
    }
}

impl Stacks {
    /// Returns what was found.
    pub fn counts(&self) -> StackCounts {
        self.counts
    }

    /// Returns the stack of a record. Asking in the order of times, in which a pass delivers records, is fastest.
    ///
    /// A stack belongs to the event of its thread with the time that it names. Of several such events each has it. An event
    /// whose header has no thread takes the stack with its time from its processor: a stack with frames in the kernel is
    /// written there at once. The stack of a switch is that of the thread that it goes to, in traces of Windows, or of
    /// the one that it comes from, in traces of Linux: [`Stack::thread`] tells.
    pub fn of<'a>(&'a self, record: &Record<'a>) -> Stack<'a> {
        let own = record.stack_trace();
        // A whole stack in the event itself needs no other part.
        let is_whole = own.is_some_and(|own| own.match_id == 0);
        let source = self.sources.get(record.origin().source as usize);
        let joined = match source.filter(|_| !is_whole && collect::stack_walk(record).is_none()) {
            Some(source) => {
                source.of(&self.entries, record.raw_time().0, threads_of(record), record.processor())
            }
            None => 0..0,
        };
        Stack { own, joined: (joined.start, joined.end), all: self }
    }
}

/// Returns the threads that the stack of an event may name; none if that is unknown.
fn threads_of(record: &Record<'_>) -> [Option<u32>; 2] {
    match record.hook_id().and_then(EventId::from_hook) {
        // The headers of these have no thread.
        Some(ids::PerfInfo::SAMPLE_PROFILE) => [read::SampledProfile::new(record).thread_id(), None],
        // Windows takes the stack of the thread that is switched to, Linux that of the one before.
        Some(ids::Thread::C_SWITCH) => {
            let switch = read::CSwitch::new(record);
            [switch.new_thread_id(), switch.old_thread_id()]
        }
        _ => [record.thread_id(), None],
    }
}

#[cfg(test)]
mod tests;
