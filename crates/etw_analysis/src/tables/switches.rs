//! How long threads ran.

use etw_event::FileTime;
use etw_machine::{Duration, HashMap, Ran, Switched, ThreadIndex, Window};

use crate::activity::SpanSums;

/// The running time of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) time: Duration,
    /// Number of switches to it.
    pub(crate) switches: u64,
}

/// Counts of how long threads ran.
#[derive(Debug, Default)]
pub(crate) struct SwitchSums {
    pub(crate) run: HashMap<ThreadIndex, Run>,
    /// The same over time.
    pub(crate) timeline: SpanSums<ThreadIndex>,
    /// Switches away from a thread that was not known to run.
    pub(crate) gaps: u64,
    /// Missing switches, inferred from samples.
    pub(crate) found: u64,
}

impl SwitchSums {
    /// Counts a switch.
    pub(crate) fn add(&mut self, switched: &Switched, time: FileTime, window: &Window) {
        let Switched { from, since, to, .. } = *switched;
        match since {
            Some(since) => self.ran(Ran { thread: from, since, until: time }, window),
            None => self.gaps += 1,
        }
        if window.has(time) {
            self.run.entry(to).or_default().switches += 1;
        }
    }

    /// Counts time that a thread ran.
    #[inline]
    pub(crate) fn ran(&mut self, Ran { thread, since, until }: Ran, window: &Window) {
        self.run.entry(thread).or_default().time += window.part(since, until);
        self.timeline.add_time(thread, since.max(window.from), until.min(window.to));
    }
}
