//! Ordering of the records that are parsed ahead.

use super::batch::{Item, MOST_ITEMS};

/// Maximum distance of the keys in one window, so that a distance and a place fit into one integer.
pub(super) const SPAN: i64 = u32::MAX as i64;

/// Bits for the number of an item in its batch.
const NUMBER_BITS: u32 = MOST_ITEMS.ilog2();

/// Number of items at the start of a window used to check whether turns are long.
const SAMPLE: usize = 128;

/// Items of several streams in order.
///
/// An item is one integer: the distance of its key from the first, above its place. Places increase with
/// the streams' ranks and within each stream, so no two items are equal, and equal times keep their order.
/// Sorted runs of integers merge without branches that depend on times, which would be unpredictable.
#[derive(Debug, Default)]
pub(super) struct Window {
    items: Vec<u64>,
    /// The ends of the runs.
    runs: Vec<usize>,
    spare: Vec<u64>,
}

/// The place of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Index of the stream among those that were added.
    pub(super) stream: usize,
    /// Number in the stream's batch.
    pub(super) number: usize,
}

impl Window {
    /// Returns a window with capacity for a number of items of some streams.
    pub(super) fn with_capacity(streams: usize, items: usize) -> Window {
        let [items, spare] = [Vec::with_capacity(items), Vec::with_capacity(items)];
        Window { items, runs: Vec::with_capacity(streams), spare }
    }

    /// Removes all items.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.runs.clear();
    }

    /// Adds items of a stream, which have numbers from `first` on. No key may be before `base` or more than [`SPAN`]
    /// after it.
    #[inline]
    pub(super) fn add(&mut self, stream: usize, first: usize, items: &[Item], base: i64) {
        let place = (stream << NUMBER_BITS | first) as u64;
        let items = items.iter().zip(place..);
        self.items.extend(items.map(|(item, place)| (item.key.wrapping_sub(base) as u64) << 32 | place));
        self.runs.push(self.items.len());
    }

    /// Sorts the items.
    pub(super) fn sort(&mut self) {
        self.spare.resize(self.items.len(), 0);
        while self.runs.len() > 1 {
            let mut start = 0;
            for pair in self.runs.chunks(2) {
                let (middle, end) = (pair[0], pair[pair.len() - 1]);
                let (left, right) = (&self.items[start..middle], &self.items[middle..end]);
                merge(left, right, &mut self.spare[start..end]);
                start = end;
            }
            std::mem::swap(&mut self.items, &mut self.spare);
            let pairs = self.runs.len().div_ceil(2);
            for pair in 0..pairs {
                self.runs[pair] = self.runs[(2 * pair + 1).min(self.runs.len() - 1)];
            }
            self.runs.truncate(pairs);
        }
    }

    /// Whether streams have turns of more than `turn` items, judged by the first items.
    pub(super) fn has_long_turns(&self, turn: usize) -> bool {
        let sample = self.items.get(..SAMPLE.min(self.items.len())).unwrap_or_default();
        let stream = |item: &u64| *item as u32 >> NUMBER_BITS;
        let changes = sample.windows(2).filter(|pair| stream(&pair[0]) != stream(&pair[1])).count();
        sample.len() >= 4 * turn && changes * turn <= sample.len()
    }

    /// Returns the places of the items, in order.
    #[inline]
    pub(super) fn spots(&self) -> impl Iterator<Item = Spot> {
        self.items.iter().map(|item| Spot::from_item(*item))
    }

    /// Returns the place of the item at `index` in the order.
    #[inline]
    pub(super) fn spot(&self, index: usize) -> Option<Spot> {
        self.items.get(index).map(|item| Spot::from_item(*item))
    }
}

impl Spot {
    #[inline]
    fn from_item(item: u64) -> Spot {
        let place = item as u32 as usize;
        Spot { stream: place >> NUMBER_BITS, number: place & ((1 << NUMBER_BITS) - 1) }
    }
}

/// Merges two sorted runs into `out`, whose length is the sum of theirs.
#[inline]
fn merge(left: &[u64], right: &[u64], out: &mut [u64]) {
    if left.last() <= right.first() {
        let (first, second) = out.split_at_mut(left.len());
        first.copy_from_slice(left);
        second.copy_from_slice(right);
        return;
    }
    // Merges from both ends at once, as two independent dependency chains. A position past the end of a run reads as
    // greater than every item, one before its start as less.
    let (mut l, mut r) = (0, 0);
    let (mut l_end, mut r_end) = (left.len(), right.len());
    let half = out.len() / 2;
    let (front, back) = out.split_at_mut(half);
    let (odd, back) = back.split_at_mut(back.len() - half);
    for (low, high) in front.iter_mut().zip(back.iter_mut().rev()) {
        let (a, b) = (at(left, l).unwrap_or(u64::MAX), at(right, r).unwrap_or(u64::MAX));
        *low = a.min(b);
        l += usize::from(a < b);
        r += usize::from(b < a);
        let (a, b) =
            (at(left, l_end.wrapping_sub(1)).unwrap_or(0), at(right, r_end.wrapping_sub(1)).unwrap_or(0));
        *high = a.max(b);
        l_end -= usize::from(a > b);
        r_end -= usize::from(b >= a);
    }
    for slot in odd {
        *slot = at(left, l).filter(|_| l < l_end).or(at(right, r)).unwrap_or_default();
    }
}

#[inline(always)]
fn at(run: &[u64], index: usize) -> Option<u64> {
    run.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_is_that_of_a_stable_sort(runs in prop::collection::vec(prop::collection::vec(0..40i64, 0..100), 0..20)) {
            let mut window = Window::default();
            let mut expected = Vec::new();
            for (stream, run) in runs.into_iter().enumerate() {
                let mut keys = run;
                keys.sort();
                let items: Vec<Item> = keys.iter().map(|key| Item { key: *key, outline: None, at: 0, steps_back: false }).collect();
                window.add(stream, 3, &items, -5);
                expected.extend(keys.into_iter().enumerate().map(|(number, key)| (key, Spot { stream, number: number + 3 })));
            }
            window.sort();
            expected.sort_by_key(|(key, _)| *key);
            prop_assert!(window.spots().eq(expected.into_iter().map(|(_, spot)| spot)));
        }
    }
}
