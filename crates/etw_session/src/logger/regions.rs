//! The regions of processes: their buffers, demand and end.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use etw_buffer::{Peek, RegionReader, Wanted};
use etw_sys::{EventFd, SharedWords};

use super::RegionId;
use super::budget::Budget;
use super::command::NewRegion;
use super::statistics::Counters;
use super::threads::Threads;

/// How long a record may stay reserved without being committed before it is abandoned.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How long a closed region is read at most. By then everything in it has been read or abandoned, unless its process is
/// hostile.
const CLOSING: Duration = Duration::from_millis(2500);

/// A region of one process.
#[derive(Debug)]
pub(super) struct RegionEntry {
    pub(super) id: RegionId,
    pub(super) reader: RegionReader<SharedWords>,
    pub(super) doorbell: Option<EventFd>,
    /// For each processor, since when its next record has been reserved but not committed.
    pub(super) pending_since: Vec<Option<Instant>>,
    /// Since when it rejects records.
    pub(super) closed_since: Option<Instant>,
    /// The process's threads, if it is in another PID namespace.
    pub(super) threads: Option<Threads>,
    /// For regions that this program itself writes, with a delay: the bell that wakes the writer.
    late: Option<EventFd>,
}

impl RegionEntry {
    pub(super) fn new(id: RegionId, region: NewRegion) -> RegionEntry {
        let NewRegion { reader, doorbell, threads, late } = region;
        let pending_since = vec![None; usize::from(reader.geometry().processors)];
        RegionEntry { id, reader, doorbell, pending_since, closed_since: None, threads, late }
    }

    /// Returns the time up to which all events are in a delayed region. Regions of processes are not considered: they
    /// could block everything.
    pub(super) fn complete_until(&self) -> Option<u64> {
        if self.late.is_some() && self.closed_since.is_none() { self.reader.complete_until() } else { None }
    }

    /// Wakes the writer of a delayed region if it is not complete up to `time`.
    pub(super) fn hurry(&self, time: u64) {
        if self.complete_until().is_some_and(|complete| complete < time)
            && let Some(bell) = &self.late
        {
            bell.signal();
        }
    }

    /// Returns whether much of it is unread.
    pub(super) fn is_filling(&self) -> bool {
        self.free() * 4 < self.reader.granted() * 3
    }

    /// Rejects all further records.
    pub(super) fn close(&mut self, now: Instant) {
        if self.closed_since.is_none() {
            self.reader.close();
            self.closed_since = Some(now);
        }
    }

    /// Returns whether a closed region was read completely. `now` is the current time on the session's clock.
    pub(super) fn is_done(&mut self, now: u64, instant: Instant) -> bool {
        let Some(since) = self.closed_since else { return false };
        let elapsed = instant.saturating_duration_since(since);
        if elapsed > GRACE {
            self.reader.process_ended();
        }
        let processors = self.pending_since.len();
        elapsed > CLOSING || (0..processors).all(|processor| self.reader.peek(processor, now) == Peek::Empty)
    }

    /// Returns the next record of a processor. A record that has been pending for too long is abandoned.
    #[inline]
    pub(super) fn peek(&mut self, processor: usize, now: u64, instant: Instant) -> Peek {
        let peek = self.reader.peek(processor, now);
        let Some(since) = self.pending_since.get_mut(processor) else { return peek };
        match (peek, &since) {
            (Peek::Pending, None) => *since = Some(instant),
            (Peek::Pending, Some(begun)) if instant.saturating_duration_since(*begun) > GRACE => {
                *since = None;
                self.reader.skip_pending(processor);
                return self.reader.peek(processor, now);
            }
            (Peek::Time(_) | Peek::Empty, Some(_)) => *since = None,
            _ => {}
        }
        peek
    }

    /// Returns whether the process may soon have no free buffer.
    pub(super) fn is_short(&self) -> bool {
        self.free() * 2 < self.reader.granted()
    }

    fn free(&self) -> usize {
        // A hostile process may claim more free buffers than it has.
        self.reader.free().min(self.reader.granted())
    }

    /// Takes free buffers back and returns their memory to the system.
    fn reclaim(&mut self, count: usize) -> usize {
        let count = self.reader.reclaim(count);
        if count > 0 {
            for range in self.reader.withheld() {
                // If that fails, only memory is wasted.
                let _ = self.reader.words().discard(range);
            }
        }
        count
    }
}

/// Gives more buffers to processes that run short, from the remaining ones or from processes that do not need theirs.
pub(super) fn rebalance(regions: &mut [RegionEntry], budget: &Budget, counters: &Counters) {
    let mut all_free = 0;
    let mut short = Vec::new();
    let count = regions.len().max(1);
    for (index, region) in regions.iter_mut().enumerate() {
        let (granted, free) = (region.reader.granted(), region.free());
        all_free += free;
        if free * 4 < granted || granted == 0 {
            let most = usize::from(region.reader.geometry().buffers) - granted;
            let needed = granted.max(4).min(most);
            let got = region.reader.grant(budget.take_for_regions(needed));
            all_free += got;
            if got < needed {
                short.push(index);
            }
        }
    }
    counters.free_buffers.store(all_free as u32 + budget.left(), Relaxed);
    if short.is_empty() || regions.len() == short.len() {
        return;
    }
    let share = (budget.for_regions() as usize / count).max(1);
    for (index, region) in regions.iter_mut().enumerate() {
        let granted = region.reader.granted();
        if granted > share && !short.contains(&index) {
            let free = region.free();
            // Some free buffers stay, so that the region can absorb its next burst.
            budget.give_back(region.reclaim((granted - share).min(free / 2)));
        }
    }
    for index in short {
        let Some(region) = regions.get_mut(index) else { continue };
        let needed = share.saturating_sub(region.reader.granted());
        let taken = budget.take_for_regions(needed);
        budget.give_back(taken - region.reader.grant(taken));
    }
}

/// Sets for all writers when to wake the logger.
pub(super) fn set_wanted(regions: &[RegionEntry], wanted: Wanted) {
    for region in regions {
        region.reader.set_wanted(wanted);
    }
}
