//! The pool of what sorts, groups and joins keep.
//!
//! Some can write what they keep to temporary files, others cannot. The engine's own pools either let the first that comes
//! have everything, or give each that can write an equal part, also if the others need nothing: of many, each then has too
//! little for a batch. This one gives more than an equal part as long as some is free for the others.

use std::fmt::{Debug, Display, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::{Result, resources_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

use crate::memory;

/// What is kept free for those that have not yet what they need: this part of the pool.
const FREE_PART: usize = 4;
/// Bytes that each may have, so that it can take a batch and write it, or merge some.
const LEAST_BYTES: usize = 512 << 10;
/// How the engine calls the part of a sort that merges its files. It takes what it gets, and merges that many files at a
/// time.
const MERGE: &str = "ExternalSorterMerge";

/// The memory of all queries of a process.
#[derive(Debug)]
pub(crate) struct SharedPool {
    bytes: usize,
    /// Of it, what those may have that can write files. What they work on is about as much again.
    spilling_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of those that can write files.
    spilling: usize,
    reserved: usize,
    /// Of it, what cannot be written to files.
    unspillable: usize,
}

impl SharedPool {
    /// Of all bytes, those that can write files may have `spilling_bytes`.
    pub(crate) fn new(bytes: usize, spilling_bytes: usize) -> SharedPool {
        SharedPool { bytes, spilling_bytes, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one that has some bytes may have more.
    fn has_room(&self, state: &State, consumer: &MemoryConsumer, has: usize, additional: usize) -> bool {
        let free = |bytes: usize| bytes.saturating_sub(state.reserved);
        let wanted = has.saturating_add(additional);
        if !consumer.can_spill() {
            let all = match consumer.name().starts_with(MERGE) {
                true => self.spilling_bytes / 2 * 3,
                false => self.bytes,
            };
            return additional <= free(all) || wanted <= LEAST_BYTES;
        }
        let equal = self.spilling_bytes.saturating_sub(state.unspillable) / state.spilling.max(1);
        let more = additional.saturating_add(self.spilling_bytes / FREE_PART);
        wanted <= equal.max(LEAST_BYTES) || more <= free(self.spilling_bytes)
    }
}

impl Display for SharedPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MiB for queries", self.bytes >> 20)
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &str {
        "shared"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.state().spilling += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut state = self.state();
        state.spilling = state.spilling.saturating_sub(usize::from(consumer.can_spill()));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut state = self.state();
        state.reserved += additional;
        if !reservation.consumer().can_spill() {
            state.unspillable += additional;
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut state = self.state();
        state.reserved = state.reserved.saturating_sub(shrink);
        if !reservation.consumer().can_spill() {
            state.unspillable = state.unspillable.saturating_sub(shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        memory::check()?;
        let consumer = reservation.consumer();
        let mut state = self.state();
        if !self.has_room(&state, consumer, reservation.size(), additional) {
            let name = consumer.name();
            let (has, free) = (reservation.size() >> 10, self.bytes.saturating_sub(state.reserved) >> 10);
            return resources_err!(
                "{name} has {has} KiB and needs {} KiB more; of {self}, {free} KiB are free; --memory gives more",
                additional >> 10
            );
        }
        state.reserved += additional;
        if !consumer.can_spill() {
            state.unspillable += additional;
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.state().reserved
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn one_gets_more_than_an_equal_part_while_the_others_need_nothing() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(70 << 20, 64 << 20));
        let sort = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (one, other, _idle) = (sort("one"), sort("other"), [sort("a"), sort("b"), sort("c"), sort("d")]);
        one.try_grow(40 << 20).unwrap();
        // A part stays free, of which each can have its own.
        assert!(one.try_grow(20 << 20).is_err());
        other.try_grow(10 << 20).unwrap();
        let merge = MemoryConsumer::new("merge").register(&pool);
        merge.try_grow(20 << 20).unwrap();
        let error = merge.try_grow(1 << 20).unwrap_err().to_string();
        assert!(error.contains("merge has 20480 KiB and needs 1024 KiB more"), "{error}");
        // Also when nothing is free, a batch can be taken and written.
        let late = sort("late");
        late.try_grow(400 << 10).unwrap();
        assert!(late.try_grow(400 << 20).is_err());
        drop((one, other, merge, late));
        assert_eq!(pool.reserved(), 0);
    }
}
