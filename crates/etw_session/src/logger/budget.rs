//! The buffers that a session may have, shared out to processes, output and memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many buffers a session has and may have. Whoever makes use of a buffer takes it here first, so that all together
/// never exceed the maximum.
#[derive(Debug)]
pub(super) struct Budget {
    maximum: AtomicU32,
    used: AtomicU32,
}

impl Budget {
    pub(super) fn new(maximum: u32) -> Budget {
        Budget { maximum: AtomicU32::new(maximum), used: AtomicU32::new(0) }
    }

    /// Changes the maximum. What is in use beyond it stays in use until it is given back.
    pub(super) fn set_maximum(&self, maximum: u32) {
        self.maximum.store(maximum, Relaxed);
    }

    pub(super) fn maximum(&self) -> u32 {
        self.maximum.load(Relaxed)
    }

    /// Buffers in use.
    pub(super) fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Buffers that can still be taken.
    pub(super) fn left(&self) -> u32 {
        self.maximum().saturating_sub(self.used())
    }

    /// Takes up to `count` buffers; answers how many.
    pub(super) fn take(&self, count: usize) -> usize {
        self.take_of(|left| count.min(left))
    }

    /// Takes what a new process gets before anyone knows what it needs: half of what is left, at most `most`.
    pub(super) fn take_first_share(&self, most: usize) -> usize {
        self.take_of(|left| (left / 2).min(most))
    }

    fn take_of(&self, share: impl Fn(usize) -> usize) -> usize {
        let mut taken = 0;
        let maximum = self.maximum();
        // The update never refuses, so that its result says nothing.
        let _ = self.used.fetch_update(Relaxed, Relaxed, |used| {
            let left = maximum.saturating_sub(used);
            taken = share(left as usize).min(left as usize);
            Some(used + taken as u32)
        });
        taken
    }

    pub(super) fn give_back(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let _ = self.used.fetch_update(Relaxed, Relaxed, |used| Some(used.saturating_sub(count)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_maximum() {
        let budget = Budget::new(10);
        assert_eq!((budget.take_first_share(100), budget.take_first_share(1)), (5, 1));
        assert_eq!((budget.take(3), budget.take(3), budget.left()), (3, 1, 0));
        budget.set_maximum(4);
        budget.give_back(7);
        assert_eq!((budget.used(), budget.take(5), budget.take(5)), (3, 1, 0));
    }
}
