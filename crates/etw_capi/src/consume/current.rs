//! What this thread does: the event whose callback it runs, which TDH decodes without a search, and the trace that it
//! processes.

// UNSAFETY: keeps an address while the value lives on the stack below.
#![expect(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;

use etw_schema::Event;
use windows_sys::Win32::System::Diagnostics::Etw::EVENT_RECORD;

use super::record;

thread_local! {
    /// The record that the callback got, and the event that it shows.
    static CURRENT: Cell<(*const EVENT_RECORD, *const Event<'static>)> =
        const { Cell::new((ptr::null(), ptr::null())) };
    /// The trace that this thread processes.
    static ACTIVE: RefCell<Option<Rc<dyn Active>>> = const { RefCell::new(None) };
}

/// What the trace that a thread processes does between events.
pub(super) trait Active {
    /// Called when everything that sessions have sent is delivered.
    fn idle(&self);
    /// Called when a session has sent a buffer.
    fn buffer(&self, buffer: &[u8]);
}

/// Called when everything that sessions have sent is delivered.
pub(super) fn idle() {
    // The call may process another trace.
    if let Some(active) = ACTIVE.with_borrow(Clone::clone) {
        active.idle();
    }
}

/// Called when a session has sent a buffer.
pub(super) fn buffer(buffer: &[u8]) {
    if let Some(active) = ACTIVE.with_borrow(Clone::clone) {
        active.buffer(buffer);
    }
}

/// Makes a trace the one that this thread processes while `work` runs.
pub(super) fn with_active<R>(trace: Rc<dyn Active>, work: impl FnOnce() -> R) -> R {
    let outer = ACTIVE.replace(Some(trace));
    let result = work();
    ACTIVE.set(outer);
    result
}

/// Makes an event the thread's current one while `work` runs.
pub(crate) fn during<R>(record: *const EVENT_RECORD, event: &Event<'_>, work: impl FnOnce() -> R) -> R {
    struct Restore((*const EVENT_RECORD, *const Event<'static>));
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace((record, ptr::from_ref(event).cast())));
    work()
}

/// Calls `work` with the event whose callback this thread runs, if a record still is that event, or is a copy of it: a program
/// may have changed the header, which then says what the record is.
pub(crate) fn with_event<R>(record: &EVENT_RECORD, work: impl FnOnce(&Event<'_>) -> R) -> Option<R> {
    let (current, event) = CURRENT.get();
    if current.is_null() {
        return None;
    }
    // SAFETY: `during` set this, and has not returned: the callback runs below it on this stack. `work` cannot keep the
    // reference, since it must accept every lifetime.
    let event = unsafe { &*event };
    record::shows(record, event.record).then(|| work(event))
}
