//! The regions of processes: their buffers, demand and end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use etw_buffer::{Peek, RegionReader, Taken, Wanted};
use etw_sys::{EventFd, SharedWords};

use super::RegionId;
use super::budget::Budget;
use super::command::NewRegion;
use super::rights::Checker;
use super::statistics::{Counters, add};
use super::threads::Threads;
use super::users::Place;

/// How long a record may stay reserved without being committed before it is abandoned.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How long a closed region is read at most. By then everything in it has been read or abandoned, unless its process is
/// hostile.
const CLOSING: Duration = Duration::from_millis(1500);

/// More events than a processor can try to write in a microsecond: an honest loss is never cut.
const MOST_LOST_A_MICROSECOND: u64 = 1000;

/// A region of one process.
#[derive(Debug)]
pub(super) struct RegionEntry {
    pub(super) id: RegionId,
    pub(super) reader: RegionReader<SharedWords>,
    pub(super) doorbell: Option<Arc<EventFd>>,
    /// What its process may write; `None` for this program itself.
    pub(super) checker: Option<Checker>,
    place: Place,
    /// Whether records of it were read in the last cycle.
    has_given: bool,
    /// When it was added, and the events lost since.
    since: Instant,
    lost: u64,
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
        let NewRegion { reader, doorbell, checker, place, threads, late } = region;
        let pending_since = vec![None; usize::from(reader.geometry().processors)];
        RegionEntry {
            id,
            reader,
            doorbell,
            checker,
            place,
            has_given: false,
            since: Instant::now(),
            lost: 0,
            pending_since,
            closed_since: None,
            threads,
            late,
        }
    }

    /// Prepares for a pass. Returns when something ends that the process may write now.
    pub(super) fn begin_pass(&mut self) -> Option<Instant> {
        self.has_given = false;
        self.reader.begin_pass();
        self.checker.as_mut().and_then(Checker::refresh)
    }

    /// Counts records for the user.
    pub(super) fn count(&mut self, taken: &Taken) {
        self.has_given |= taken.records > 0;
        let user = &self.place.user;
        add(&user.written, taken.records);
        if taken.refused > 0 {
            self.place.refuse(taken.refused);
        }
    }

    /// Returns the number of events lost since the last call, and counts them for the user.
    pub(super) fn lost(&mut self) -> u64 {
        let lost = self.reader.lost();
        if lost == 0 {
            return 0;
        }
        // The process says how many: those of a hostile one are not more than it can have tried to write.
        let user = &self.place.user;
        let processors = self.pending_since.len() as u64;
        let most = (self.since.elapsed().as_micros() as u64 + 1) * MOST_LOST_A_MICROSECOND * processors;
        let lost = if user.is_bound() { lost.min(most.saturating_sub(self.lost)) } else { lost };
        self.lost += lost;
        add(&user.lost, lost);
        lost
    }

    /// Gives the buffers back with which it ends.
    pub(super) fn end(&self, budget: &Budget) {
        let user = &self.place.user;
        user.granted.fetch_sub(self.reader.granted() as u32, Relaxed);
        budget.give_back(self.reader.granted(), user.is_bound());
    }

    fn grant(&mut self, buffers: usize, budget: &Budget) -> usize {
        let user = &self.place.user;
        let most = usize::from(self.reader.geometry().buffers) - self.reader.granted();
        let got = self.reader.grant(budget.take_for_regions(buffers.min(most), user.is_bound()));
        user.granted.fetch_add(got as u32, Relaxed);
        got
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

    /// Returns whether the process may soon have no free buffer, by its own account.
    pub(super) fn is_short(&self) -> bool {
        self.free() * 2 < self.reader.granted()
    }

    /// Returns whether it runs short while it is being read.
    pub(super) fn is_pressing(&self) -> bool {
        self.has_given && self.is_short()
    }

    fn free(&self) -> usize {
        self.reader.free()
    }

    /// Takes free buffers back and returns their memory to the system.
    fn reclaim(&mut self, count: usize, budget: &Budget) {
        let count = self.reader.reclaim(count);
        let user = &self.place.user;
        user.granted.fetch_sub(count as u32, Relaxed);
        budget.give_back(count, user.is_bound());
        if count > 0 {
            for range in self.reader.withheld() {
                // If that fails, only memory is wasted.
                let _ = self.reader.words().discard(range);
            }
        }
    }
}

/// Gives more buffers to processes that run short, from the remaining ones or from processes that do not need theirs.
///
/// A process says itself how many buffers it has left, so its word counts only up to its share; beyond that, what it has been
/// seen to use counts.
pub(super) fn rebalance(regions: &mut [RegionEntry], budget: &Budget, counters: &Counters) {
    let mut all_free = 0;
    let mut short = Vec::new();
    let mut shares = None;
    for index in 0..regions.len() {
        let Some(region) = regions.get_mut(index) else { continue };
        let (granted, free, used) = (region.reader.granted(), region.free(), region.reader.take_used());
        all_free += free;
        let says_so = free * 4 < granted;
        let was_seen = used * 4 >= granted * 3;
        if region.closed_since.is_some() || !says_so && !was_seen {
            continue;
        }
        let shares = shares.get_or_insert_with(|| Shares::new(regions, budget));
        let Some(region) = regions.get_mut(index) else { continue };
        let share = shares.of_region(region);
        let needed = match was_seen {
            true => granted.max(4),
            false => granted.max(4).min(share.saturating_sub(granted)),
        };
        let got = region.grant(needed, budget);
        all_free += got;
        if got < needed && granted + got < share.min(region.reader.geometry().buffers.into()) {
            short.push(index);
        }
    }
    counters.free_buffers.store(all_free as u32, Relaxed);
    let Some(shares) = shares.filter(|_| !short.is_empty() && regions.len() > short.len()) else { return };
    for (index, region) in regions.iter_mut().enumerate() {
        let (granted, share) = (region.reader.granted(), shares.of_region(region));
        if granted > share && !short.contains(&index) {
            let free = region.free();
            // Some free buffers stay, so that the region can absorb its next burst.
            region.reclaim((granted - share).min(free / 2), budget);
        }
    }
    for index in short {
        let Some(region) = regions.get_mut(index) else { continue };
        let needed = shares.of_region(region).saturating_sub(region.reader.granted());
        region.grant(needed, budget);
    }
}

/// The shares of regions: the users who are bound to one share half of the buffers, and each divides its share among its
/// regions. The regions of others have the rest.
struct Shares {
    of_others: usize,
    of_user: usize,
    regions: BTreeMap<u32, usize>,
}

impl Shares {
    fn new(regions: &[RegionEntry], budget: &Budget) -> Shares {
        let mut of_users = BTreeMap::new();
        let mut others = 0;
        for region in regions {
            match region.place.user.is_bound() {
                true => *of_users.entry(region.place.user.uid()).or_default() += 1,
                false => others += 1,
            }
        }
        let all = budget.for_regions() as usize;
        let bound = if of_users.is_empty() { 0 } else { all / 2 };
        Shares {
            of_others: ((all - bound) / others.max(1)).max(1),
            of_user: bound / of_users.len().max(1),
            regions: of_users,
        }
    }

    fn of_region(&self, region: &RegionEntry) -> usize {
        let user = &region.place.user;
        match self.regions.get(&user.uid()) {
            Some(regions) if user.is_bound() => (self.of_user / regions.max(&1)).max(1),
            _ => self.of_others,
        }
    }
}

/// Sets for all writers when to wake the logger.
pub(super) fn set_wanted(regions: &[RegionEntry], wanted: Wanted) {
    for region in regions {
        region.reader.set_wanted(wanted);
    }
}
