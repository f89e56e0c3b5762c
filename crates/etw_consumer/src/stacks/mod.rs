//! Stacks of events, joined across a trace.
//!
//! A stack may be part of its event. More often it comes in events of its own, after the event that it belongs to: the
//! kernel's part at once, the user part when the thread returns to user mode, and the frames of a stack that is known by
//! a key when the key ends. One pass over the files collects all of them, sorted by the time of the event that they
//! name, in temporary files; memory does not grow with the trace.

mod collect;
mod runs;

use std::fmt;
use std::iter::Peekable;

use etw_event::{Fields, Record, StackTrace};

use crate::trace::Verdict;
use crate::{Trace, TraceError};
use collect::Collector;
use runs::{Entry, Frames, Merged};

/// The stacks of a trace's events.
///
/// ```no_run
/// use etw_consumer::Trace;
///
/// let mut trace = Trace::open_file("trace.etl")?;
/// let mut stacks = trace.stacks()?;
/// trace.for_each_record(|record| {
///     for address in stacks.of(record).addresses() {
///         println!("{} {address:#x}", record.time());
///     }
/// })?;
/// # Ok::<(), etw_consumer::TraceError>(())
/// ```
pub struct Stacks {
    frames: Frames,
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

/// The stacks of one source, read forwards.
struct Source {
    entries: Peekable<Merged>,
    /// Those of the time that was asked for last, by thread.
    current: Vec<Entry>,
}

/// The stack of an event.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    own: Option<StackTrace<'a>>,
    joined: &'a [Entry],
    frames: &'a Frames,
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
        let frames = self.frames;
        let own = self.own.into_iter().flat_map(|own| own.addresses());
        own.chain(self.joined.iter().flat_map(|entry| frames.of(entry)))
    }

    /// Returns the thread that the stack is of, if it came in events of its own.
    pub fn thread(&self) -> Option<u32> {
        self.joined.first().map(|entry| entry.thread)
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
    fn new(frames: Frames, sources: Vec<Merged>, counts: StackCounts) -> Stacks {
        let source = |entries: Merged| Source { entries: entries.peekable(), current: Vec::new() };
        Stacks { frames, sources: sources.into_iter().map(source).collect(), counts }
    }

    /// Returns what was found.
    pub fn counts(&self) -> StackCounts {
        self.counts
    }

    /// Returns the stack of a record. Records of a file must be asked for in the order of their times, in which a pass
    /// delivers them; those in between may be left out.
    ///
    /// A stack belongs to the event of its thread with the time that it names. Of several such events each has it. The
    /// stack of a switch is that of the thread that it goes to, in traces of Windows, or of the one that it comes from, in
    /// traces of Linux: [`Stack::thread`] tells.
    pub fn of<'a>(&'a mut self, record: &Record<'a>) -> Stack<'a> {
        let own = record.stack_trace();
        let frames = &self.frames;
        // A whole stack in the event itself needs no other part.
        let is_whole = own.is_some_and(|own| own.match_id == 0);
        let source = self.sources.get_mut(record.origin().source as usize);
        let joined = match source.filter(|_| !is_whole && collect::stack_walk(record).is_none()) {
            Some(source) => source.of(record.raw_time().0, threads_of(record)),
            None => &[],
        };
        Stack { own, joined, frames }
    }
}

impl Source {
    /// Returns the entries of the first thread that has any at a time.
    fn of(&mut self, time: i64, threads: [Option<u32>; 2]) -> &[Entry] {
        if self.current.first().is_none_or(|entry| entry.time < time) {
            self.advance(time);
        }
        let Some(first) = self.current.first().filter(|entry| entry.time == time) else { return &[] };
        let threads = if threads == [None; 2] { [Some(first.thread), None] } else { threads };
        let of_thread = |thread: u32| {
            let start = self.current.partition_point(|entry| entry.thread < thread);
            let end = self.current.partition_point(|entry| entry.thread <= thread);
            self.current.get(start..end).filter(|found| !found.is_empty())
        };
        threads.into_iter().flatten().find_map(of_thread).unwrap_or_default()
    }

    /// Moves on to the stacks of a time, or to those of the next time that has any.
    #[inline]
    fn advance(&mut self, time: i64) {
        self.current.clear();
        while self.entries.next_if(|entry| entry.time < time).is_some() {}
        let Some(first) = self.entries.next() else { return };
        self.current.push(first);
        while let Some(same) = self.entries.next_if(|entry| entry.time == first.time) {
            self.current.push(same);
        }
    }
}

/// Returns the threads that the stack of an event may name; none if that is unknown.
fn threads_of(record: &Record<'_>) -> [Option<u32>; 2] {
    /// Group and type of SampledProfile and CSwitch, whose headers have no thread.
    const SAMPLE: (u8, u8) = (0x0F, 46);
    const SWITCH: (u8, u8) = (0x05, 36);
    let payload = record.payload();
    match record.hook_id().map(|hook| (hook.group(), hook.event_type())) {
        // After the instruction.
        Some(SAMPLE) => [payload.u32_at(record.pointer_size().bytes()), None],
        // Windows takes the stack of the thread that is switched to, Linux that of the one before.
        Some(SWITCH) => [payload.u32_at(0), payload.u32_at(4)],
        _ => [record.thread_id(), None],
    }
}

#[cfg(test)]
mod tests;
