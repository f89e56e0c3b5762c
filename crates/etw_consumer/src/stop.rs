//! Ending a pass over a trace from elsewhere.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends reading, from any thread: the pass that is under way returns before its next record, and so does every later
/// one until [`StopHandle::reset`]. Cheap to clone; clones act as one.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Asks for the end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes the wish back.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a callback may return: nothing, or whether to go on.
pub trait CallbackResult {
    /// Whether reading ends here.
    fn ends(self) -> bool;

    /// The same as a `ControlFlow`.
    #[inline]
    fn into_flow(self) -> ControlFlow<()>
    where
        Self: Sized,
    {
        if self.ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl CallbackResult for () {
    #[inline]
    fn ends(self) -> bool {
        false
    }
}

impl CallbackResult for ControlFlow<()> {
    #[inline]
    fn ends(self) -> bool {
        self.is_break()
    }
}
