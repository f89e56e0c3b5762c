//! The buffers that a session may have, divided among processes, output and memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Buffers that every process gets.
const LEAST: usize = 2;

/// The number of buffers that a session has and may have. Every buffer is taken here before it is used, so that the
/// total exceeds the maximum only by the buffers that every process gets.
#[derive(Debug)]
pub(super) struct Budget {
    maximum: AtomicU32,
    used: AtomicU32,
    /// Number of used buffers that belong to processes.
    of_regions: AtomicU32,
    /// Number of those that belong to processes of users who are bound to a share.
    of_bound: AtomicU32,
    /// The share of the maximum that processes may have, in eighths.
    eighths: u32,
}

impl Budget {
    /// Creates a budget of `maximum` buffers. If the session `keeps` full buffers in memory, processes get half of
    /// them.
    pub(super) fn new(maximum: u32, keeps: bool) -> Budget {
        let zero = || AtomicU32::new(0);
        let eighths = if keeps { 4 } else { 7 };
        Budget {
            maximum: AtomicU32::new(maximum),
            used: zero(),
            of_regions: zero(),
            of_bound: zero(),
            eighths,
        }
    }

    /// Changes the maximum. Buffers in use beyond it stay in use until they are given back.
    pub(super) fn set_maximum(&self, maximum: u32) {
        self.maximum.store(maximum, Relaxed);
    }

    pub(super) fn maximum(&self) -> u32 {
        self.maximum.load(Relaxed)
    }

    /// Returns the maximum number of buffers for all processes together.
    pub(super) fn for_regions(&self) -> u32 {
        let maximum = u64::from(self.maximum());
        ((maximum * u64::from(self.eighths)).div_ceil(8) as u32).max(1)
    }

    /// Returns the number of buffers in use.
    pub(super) fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Takes up to `count` buffers for output or memory; returns how many.
    pub(super) fn take(&self, count: usize) -> usize {
        raise(&self.used, self.maximum(), |left| count.min(left))
    }

    /// Takes one buffer even if none is left; needed to order a processor's events.
    pub(super) fn take_always(&self) {
        self.used.fetch_add(1, Relaxed);
    }

    /// Takes up to `count` buffers for a process. Those of users who are bound to a share get half of what processes may have.
    pub(super) fn take_for_regions(&self, count: usize, is_bound: bool) -> usize {
        self.take_share(is_bound, |left| count.min(left))
    }

    /// Takes the first share of a new process, before its demand is known: half of the remaining buffers, at most `most`.
    /// Even if none are left, it gets some: nobody takes all from others.
    pub(super) fn take_first_share(&self, most: usize, is_bound: bool) -> usize {
        let taken = self.take_share(is_bound, |left| left.div_ceil(2).min(most));
        let more = LEAST.min(most).saturating_sub(taken);
        for number in [Some(&self.used), Some(&self.of_regions), is_bound.then_some(&self.of_bound)] {
            number.map(|number| number.fetch_add(more as u32, Relaxed));
        }
        taken + more
    }

    fn take_share(&self, is_bound: bool, share: impl Fn(usize) -> usize) -> usize {
        let of_bound = match is_bound {
            true => raise(&self.of_bound, self.for_regions().div_ceil(2), &share),
            false => usize::MAX,
        };
        let for_regions = raise(&self.of_regions, self.for_regions(), |left| share(left).min(of_bound));
        let taken = self.take(for_regions);
        lower(&self.of_regions, for_regions - taken);
        if is_bound {
            lower(&self.of_bound, of_bound - taken);
        }
        taken
    }

    /// Gives back buffers of processes.
    pub(super) fn give_back(&self, count: usize, is_bound: bool) {
        if is_bound {
            lower(&self.of_bound, count);
        }
        lower(&self.of_regions, count);
        lower(&self.used, count);
    }

    /// Gives back buffers of output or memory.
    pub(super) fn release(&self, count: usize) {
        lower(&self.used, count);
    }
}

/// Raises a number by a share of the remainder up to the maximum, and returns the increase.
fn raise(number: &AtomicU32, maximum: u32, share: impl Fn(usize) -> usize) -> usize {
    let mut taken = 0;
    // The update always succeeds, so its result is irrelevant.
    let _ = number.fetch_update(Relaxed, Relaxed, |used| {
        let left = maximum.saturating_sub(used) as usize;
        taken = share(left).min(left);
        Some(used + taken as u32)
    });
    taken
}

fn lower(number: &AtomicU32, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let _ = number.fetch_update(Relaxed, Relaxed, |used| Some(used.saturating_sub(count)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_maximum() {
        let budget = Budget::new(16, false);
        assert_eq!((budget.take_first_share(100, false), budget.take_first_share(2, false)), (7, 2));
        assert_eq!(
            (budget.take_for_regions(9, false), budget.take(3), budget.maximum() - budget.used()),
            (5, 2, 0)
        );
        budget.set_maximum(4);
        budget.give_back(14, false);
        assert_eq!((budget.used(), budget.take(1), budget.take(5)), (2, 1, 1));
        budget.release(4);
        assert_eq!((budget.used(), budget.for_regions()), (0, 4));
        assert_eq!(Budget::new(16, true).take_for_regions(100, false), 8);
    }

    #[test]
    fn bound_users_leave_half_to_others() {
        let budget = Budget::new(16, false);
        assert_eq!((budget.take_for_regions(100, true), budget.take_for_regions(100, true)), (7, 0));
        assert_eq!(budget.take_first_share(100, true), LEAST);
        assert_eq!(budget.take_for_regions(100, false), 5);
        assert_eq!((budget.take_first_share(100, false), budget.take_first_share(1, true)), (LEAST, 1));
        budget.give_back(10, true);
        budget.give_back(7, false);
        assert_eq!((budget.used(), budget.take_for_regions(100, true)), (0, 7));
    }
}
