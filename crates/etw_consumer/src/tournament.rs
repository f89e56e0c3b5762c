//! A tournament tree that finds the stream with the earliest record.

/// A tournament tree of heads. If times are equal, the stream with the lower number comes first.
///
/// The tree is an implicit array: leaf `i` is node `capacity + i`, the winner is node 1. Replaying takes
/// one minimum for each doubling of the number of streams, without branches that depend on times.
#[derive(Debug)]
pub(crate) struct Tournament {
    nodes: Vec<u128>,
}

/// Returns a head: the time in the upper half, then the stream's number.
fn head(time: i64, stream: u32) -> u128 {
    let unsigned = (time as u64) ^ (1 << 63);
    u128::from(unsigned) << 64 | u128::from(stream)
}

/// Returns the time of a head.
fn time_of(head: u128) -> i64 {
    ((head >> 64) as u64 ^ (1 << 63)) as i64
}

/// The head of a stream without further records.
const NONE: u128 = u128::MAX;

impl Tournament {
    /// Returns a tournament of `streams` streams without heads.
    pub(crate) fn new(streams: usize) -> Tournament {
        Tournament { nodes: vec![NONE; 2 * streams.next_power_of_two().max(1)] }
    }

    /// Sets the head of a stream.
    #[inline]
    pub(crate) fn set(&mut self, stream: u32, time: i64) {
        self.replay(stream, head(time, stream));
    }

    /// Removes a stream.
    pub(crate) fn remove(&mut self, stream: u32) {
        self.replay(stream, NONE);
    }

    #[inline]
    fn replay(&mut self, stream: u32, head: u128) {
        let mut node = self.nodes.len() / 2 + stream as usize;
        let mut best = head;
        // The leaf is in the array, so all nodes above it are too; `get` avoids a panic path.
        while let Some(slot) = self.nodes.get_mut(node) {
            *slot = best;
            if node <= 1 {
                return;
            }
            best = best.min(self.nodes.get(node ^ 1).copied().unwrap_or(NONE));
            node /= 2;
        }
    }

    /// Returns the stream whose turn it is and how long the turn lasts, or `None` if no stream has a head.
    #[inline]
    pub(crate) fn turn(&self) -> Option<Turn> {
        let winner = self.nodes.get(1).copied().filter(|winner| *winner != NONE)?;
        let stream = winner as u32;
        let mut node = self.nodes.len() / 2 + stream as usize;
        let mut second = NONE;
        while node > 1 {
            second = second.min(self.nodes.get(node ^ 1).copied().unwrap_or(NONE));
            node /= 2;
        }
        let time = time_of(second);
        let is_before = stream <= second as u32;
        let last = if is_before { time } else { time.saturating_sub(1) };
        Some(Turn { stream, first: time_of(winner), last })
    }
}

/// The turn of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The stream.
    pub(crate) stream: u32,
    /// The time of its first record.
    pub(crate) first: i64,
    /// Records up to and at this time come before the next stream's first.
    pub(crate) last: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wins_and_numbers_decide_ties() {
        for streams in 1..20u32 {
            let mut tournament = Tournament::new(streams as usize);
            assert_eq!(tournament.turn().map(|turn| turn.stream), None);
            // Each stream counts from its own start in its own steps, so ties are frequent.
            let mut times: Vec<i64> = (0..streams).map(|stream| i64::from(stream % 3) - 2).collect();
            (0..streams).for_each(|stream| tournament.set(stream, times[stream as usize]));
            for _ in 0..200 {
                let expected = (0..streams).min_by_key(|stream| (times[*stream as usize], *stream));
                assert_eq!(tournament.turn().map(|turn| turn.stream), expected);
                let stream = expected.unwrap();
                times[stream as usize] += i64::from(stream % 4);
                if stream % 4 == 0 {
                    times[stream as usize] += 2;
                }
                tournament.set(stream, times[stream as usize]);
            }
            (0..streams).for_each(|stream| tournament.remove(stream));
            assert_eq!(tournament.turn().map(|turn| turn.stream), None);
        }
    }
}
