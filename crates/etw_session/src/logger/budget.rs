//! The buffers that a session may have, divided among processes, output and memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of buffers that a session has and may have. Every buffer is taken here before it is used, so that the
/// total never exceeds the maximum.
#[derive(Debug)]
pub(super) struct Budget {
    maximum: AtomicU32,
    used: AtomicU32,
    /// Number of used buffers that belong to processes.
    of_regions: AtomicU32,
    /// The share of the maximum that processes may have, in eighths.
    eighths: u32,
}

impl Budget {
    /// Creates a budget of `maximum` buffers. If the session `keeps` full buffers in memory, processes get half of
    /// them.
    pub(super) fn new(maximum: u32, keeps: bool) -> Budget {
        let zero = || AtomicU32::new(0);
        let eighths = if keeps { 4 } else { 7 };
        Budget { maximum: AtomicU32::new(maximum), used: zero(), of_regions: zero(), eighths }
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

    /// Returns the number of buffers that can still be taken.
    pub(super) fn left(&self) -> u32 {
        self.maximum().saturating_sub(self.used())
    }

    /// Takes up to `count` buffers for output or memory; returns how many.
    pub(super) fn take(&self, count: usize) -> usize {
        raise(&self.used, self.maximum(), |left| count.min(left))
    }

    /// Takes one buffer even if none is left; needed to order a processor's events.
    pub(super) fn take_always(&self) {
        self.used.fetch_add(1, Relaxed);
    }

    /// Takes up to `count` buffers for a process.
    pub(super) fn take_for_regions(&self, count: usize) -> usize {
        self.take_share(|left| count.min(left))
    }

    /// Takes the first share of a new process, before its demand is known: half of the remaining buffers, at most
    /// `most`.
    pub(super) fn take_first_share(&self, most: usize) -> usize {
        self.take_share(|left| left.div_ceil(2).min(most))
    }

    fn take_share(&self, share: impl Fn(usize) -> usize) -> usize {
        let for_regions = raise(&self.of_regions, self.for_regions(), share);
        let taken = self.take(for_regions);
        lower(&self.of_regions, for_regions - taken);
        taken
    }

    /// Gives back buffers of processes.
    pub(super) fn give_back(&self, count: usize) {
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
        assert_eq!((budget.take_first_share(100), budget.take_first_share(2)), (7, 2));
        assert_eq!((budget.take_for_regions(9), budget.take(3), budget.left()), (5, 2, 0));
        budget.set_maximum(4);
        budget.give_back(14);
        assert_eq!((budget.used(), budget.take(1), budget.take(5)), (2, 1, 1));
        budget.release(4);
        assert_eq!((budget.used(), budget.for_regions()), (0, 4));
        assert_eq!(Budget::new(16, true).take_for_regions(100), 8);
    }
}
