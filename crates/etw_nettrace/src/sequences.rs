//! The sequence numbers of threads, which show what was lost.
//!
//! Each thread numbers the events that it writes or loses from 1. A sequence point gives lower bounds for the numbers.

use std::collections::HashMap;

/// Maximum number of threads whose numbers are known at a time.
const MAX_THREADS: usize = 1 << 20;

/// The last sequence number of each thread.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    last: HashMap<u64, u32>,
    /// Whether a thread that is not known may have had events before (format 6, whose threads can be removed).
    is_partial: bool,
    /// Whether there were too many threads, so that not all losses are known.
    pub(crate) is_full: bool,
}

impl Sequences {
    /// Forgets a thread that ended; its index may be used again.
    pub(crate) fn remove(&mut self, thread: u64) {
        self.last.remove(&thread);
        self.is_partial = true;
    }

    /// Forgets all threads.
    pub(crate) fn clear(&mut self) {
        self.last.clear();
        self.is_partial = true;
    }

    /// Adds an event, and returns the number of events lost before it.
    #[inline]
    pub(crate) fn event(&mut self, thread: u64, number: u32) -> u32 {
        let is_full = self.last.len() >= MAX_THREADS;
        match self.last.get_mut(&thread) {
            Some(last) => {
                let before = std::mem::replace(last, number);
                // A number of 1 starts a new thread with an id that was used before.
                if number == 1 { 0 } else { distance(before, number).saturating_sub(1) }
            }
            None if is_full => {
                self.is_full = true;
                0
            }
            None => {
                self.last.insert(thread, number);
                if self.is_partial { 0 } else { distance(0, number).saturating_sub(1) }
            }
        }
    }

    /// Adds the lower bound of a sequence point, and returns the number of events lost before it.
    pub(crate) fn bound(&mut self, thread: u64, number: u32) -> u32 {
        let is_full = self.last.len() >= MAX_THREADS;
        match self.last.get_mut(&thread) {
            Some(last) => {
                let lost = distance(*last, number);
                if lost > 0 {
                    *last = number;
                }
                lost
            }
            None if is_full => {
                self.is_full = true;
                0
            }
            None => {
                self.last.insert(thread, number);
                if self.is_partial { 0 } else { distance(0, number) }
            }
        }
    }
}

/// Returns how far `to` is after `from`, or 0 if it is not. Numbers wrap.
fn distance(from: u32, to: u32) -> u32 {
    let distance = to.wrapping_sub(from);
    if distance > u32::MAX / 2 { 0 } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_losses() {
        let mut sequences = Sequences::default();
        assert_eq!([1, 2, 5, 6].map(|number| sequences.event(7, number)), [0, 0, 2, 0]);
        assert_eq!(sequences.bound(7, 6), 0);
        assert_eq!(sequences.bound(7, 9), 3);
        assert_eq!(sequences.event(7, 10), 0, "counted already");
        assert_eq!(sequences.bound(7, 4), 0, "a lower bound may be low");
        assert_eq!(sequences.event(7, 11), 0);
        assert_eq!(sequences.event(7, 1), 0, "a new thread with the same id");
        assert_eq!(sequences.event(8, 3), 2, "a thread starts with 1");
        assert_eq!(sequences.bound(9, 4), 4, "a thread lost all its events");
        assert_eq!(sequences.event(10, u32::MAX / 2), u32::MAX / 2 - 1);
        sequences.clear();
        assert_eq!(sequences.event(7, 30), 0, "a thread may have been removed before");
        let mut wrapping = Sequences::default();
        wrapping.last.insert(1, u32::MAX);
        assert_eq!([0, 2].map(|number| wrapping.event(1, number)), [0, 1]);
    }
}
