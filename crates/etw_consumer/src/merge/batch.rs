//! The records of a stream that are parsed ahead of delivery.

use std::collections::VecDeque;

use etw_etl::Damage;
use etw_event::Outline;

/// Maximum number of items parsed ahead in a stream. Their bytes are read sequentially, which suits caches, and are
/// still in a cache at delivery.
pub(super) const MOST_ITEMS: usize = 256;

/// Maximum number of items of all streams together, as long as each has [`LEAST_ITEMS`].
const ITEMS_OF_ALL: usize = 1 << 16;
const LEAST_ITEMS: usize = 16;

/// An item to deliver: a record of the open buffer, or damage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// Its time, or that of an earlier record of the stream if that is later: a stream keeps its order.
    pub(super) key: i64,
    /// Parts of the record; `None` for damage.
    pub(super) outline: Option<Outline>,
    /// Offset of the record in the buffer's events, or the number of damage items that this one represents.
    pub(super) at: u32,
    /// Whether the record's time is before that of the record before it.
    pub(super) steps_back: bool,
}

/// The parsed items of a stream, in order.
#[derive(Debug)]
pub(super) struct Batch {
    items: Vec<Item>,
    /// Maximum number of items.
    room: usize,
    damage: VecDeque<Damage>,
    /// Number of delivered items.
    taken: usize,
}

impl Batch {
    /// Returns an empty batch for one of `streams` streams, which share the memory.
    pub(super) fn new(streams: usize) -> Batch {
        let room = (ITEMS_OF_ALL / streams.max(1)).clamp(LEAST_ITEMS, MOST_ITEMS);
        Batch { items: Vec::with_capacity(room), room, damage: VecDeque::new(), taken: 0 }
    }

    /// Returns the maximum number of items.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Whether items may be added.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.items.len() < self.room
    }

    /// Adds an item.
    #[inline]
    pub(super) fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    /// Adds damage.
    #[cold]
    pub(super) fn push_damage(&mut self, key: i64, damage: impl IntoIterator<Item = Damage>) {
        let before = self.damage.len();
        self.damage.extend(damage);
        if self.damage.len() > before {
            let count = (self.damage.len() - before) as u32;
            self.push(Item { key, outline: None, at: count, steps_back: false });
        }
    }

    /// Returns the items that are not delivered yet.
    #[inline]
    pub(super) fn waiting(&self) -> &[Item] {
        self.items.get(self.taken..).unwrap_or_default()
    }

    /// Takes the first waiting item if its key is not after `last`.
    #[inline]
    pub(super) fn take_first(&mut self, last: i64) -> Option<Item> {
        let item = *self.items.get(self.taken).filter(|item| item.key <= last)?;
        self.taken += 1;
        Some(item)
    }

    /// Takes `count` items. Returns the number of the first of them, and the items.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> (usize, &[Item]) {
        let first = self.taken;
        self.taken += count;
        (first, self.items.get(first..self.taken).unwrap_or_default())
    }

    /// Returns the item with a number.
    #[inline]
    pub(super) fn item(&self, number: usize) -> Option<&Item> {
        self.items.get(number)
    }

    /// Takes the next `count` damage items.
    #[cold]
    pub(super) fn take_damage(&mut self, count: u32) -> impl Iterator<Item = Damage> {
        let count = self.damage.len().min(count as usize);
        self.damage.drain(..count)
    }

    /// Removes delivered items. The numbers of the others change.
    pub(super) fn make_room(&mut self) {
        self.items.drain(..self.taken);
        self.taken = 0;
    }
}
