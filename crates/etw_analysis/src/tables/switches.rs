//! How long threads ran and waited.

use etw_event::FileTime;

use crate::activity::SpanSums;
use crate::maps::HashMap;
use crate::model::facts::Switched;
use crate::model::switches::{Ran, ReadiedBy};
use crate::processes::ThreadIndex;
use crate::{Duration, Window};

/// The waits of one kind of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waits {
    pub(crate) count: u64,
    pub(crate) wait: Duration,
    pub(crate) max_wait: Duration,
    pub(crate) ready: Duration,
    pub(crate) max_ready: Duration,
}

/// The running time of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) time: Duration,
    /// Number of switches to it.
    pub(crate) switches: u64,
}

/// Counts of how long threads ran and waited.
#[derive(Debug, Default)]
pub(crate) struct SwitchSums {
    pub(crate) run: HashMap<ThreadIndex, Run>,
    /// The same over time.
    pub(crate) timeline: SpanSums<ThreadIndex>,
    /// By thread, reason of the wait, and source that ended it.
    pub(crate) waits: HashMap<(ThreadIndex, u8, ReadiedBy), Waits>,
    /// Switches away from a thread that was not known to run.
    pub(crate) gaps: u64,
    /// Missing switches, inferred from samples.
    pub(crate) found: u64,
}

impl SwitchSums {
    /// Counts a switch.
    pub(crate) fn add(&mut self, switched: &Switched, time: FileTime, window: &Window) {
        let Switched { from, since, to, waited, ready, reason, readied_by, .. } = *switched;
        match since {
            Some(since) => self.ran(Ran { thread: from, since, until: time }, window),
            None => self.gaps += 1,
        }
        if window.has(time) {
            self.run.entry(to).or_default().switches += 1;
        } else if waited == Duration::default() && ready == Duration::default() {
            return;
        }
        let Some(reason) = reason else { return };
        let waits = self.waits.entry((to, reason, readied_by)).or_default();
        waits.count += 1;
        waits.wait += waited;
        waits.ready += ready;
        waits.max_wait = waits.max_wait.max(waited);
        waits.max_ready = waits.max_ready.max(ready);
    }

    /// Counts time that a thread ran.
    #[inline]
    pub(crate) fn ran(&mut self, Ran { thread, since, until }: Ran, window: &Window) {
        self.run.entry(thread).or_default().time += window.part(since, until);
        self.timeline.add_time(thread, since.max(window.from), until.min(window.to));
    }
}
