//! The order of records by time.

/// Records that may still be followed by earlier ones: time and offset.
///
/// perf takes records from one processor after the other, in rounds. What a round has is not earlier than all that the
/// round before had (`tools/perf/util/ordered-events.c`).
#[derive(Debug, Default)]
pub(super) struct Order {
    pending: Vec<(u64, u64)>,
    /// Latest time of all records so far.
    latest: u64,
    /// Latest time at the end of the last round.
    complete: u64,
}

impl Order {
    pub(super) fn push(&mut self, time: u64, offset: u64) {
        self.latest = self.latest.max(time);
        self.pending.push((time, offset));
    }

    /// Ends a round, and returns the offsets of the records that no later one can precede, in the order of time.
    pub(super) fn finish_round(&mut self) -> Vec<u64> {
        let complete = std::mem::replace(&mut self.complete, self.latest);
        self.take_until(complete)
    }

    /// Returns all other records.
    pub(super) fn finish(&mut self) -> Vec<u64> {
        self.take_until(u64::MAX)
    }

    fn take_until(&mut self, time: u64) -> Vec<u64> {
        self.pending.sort_unstable();
        let count = self.pending.partition_point(|(pending, _)| *pending <= time);
        self.pending.drain(..count).map(|(_, offset)| offset).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_completes_the_one_before() {
        let mut order = Order::default();
        for (time, offset) in [(5, 1), (9, 2), (3, 3)] {
            order.push(time, offset);
        }
        assert!(order.finish_round().is_empty());
        for (time, offset) in [(4, 4), (12, 5)] {
            order.push(time, offset);
        }
        assert_eq!(order.finish_round(), [3, 4, 1, 2]);
        order.push(10, 6);
        assert_eq!(order.finish(), [6, 5]);
    }
}
