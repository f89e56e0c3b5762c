//! Stopping a pass over a trace from another thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle that stops reading from any thread.
///
/// The current pass returns before its next record, and so does every later one until [`StopHandle::reset`]. Cheap to
/// clone; all clones share one state.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<AtomicBool>);

impl StopHandle {
    /// Requests the stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Withdraws the stop request.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The return value of a callback: nothing, or whether to go on.
pub trait CallbackResult {
    /// Whether to end reading.
    fn ends(self) -> bool;

    /// Returns the result as a `ControlFlow`.
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
