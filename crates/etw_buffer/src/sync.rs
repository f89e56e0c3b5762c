//! The atomics of the standard library, or loom's under the model checker; the word at a position.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Returns the word at a position of the layout of a region or a ring. Whoever formats or attaches one checks that the
/// memory is as long as its layout.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "positions come from the layout, not from words that others write"
)]
pub(crate) fn word_of(words: &[AtomicU64], position: usize) -> &AtomicU64 {
    &words[position]
}
