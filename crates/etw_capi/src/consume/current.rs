//! What this thread does: the event whose callback it runs, which TDH decodes without a search, and what to call when a
//! session has no events.

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
    /// Called at the moments when a session has no events.
    static IDLE: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Called when everything that sessions have sent is delivered.
pub(super) fn idle() {
    // The call may process another trace.
    if let Some(idle) = IDLE.with_borrow(Clone::clone) {
        idle();
    }
}

/// Sets what [`idle`] calls on this thread while `work` runs.
pub(super) fn with_idle<R>(idle: Rc<dyn Fn()>, work: impl FnOnce() -> R) -> R {
    let outer = IDLE.replace(Some(idle));
    let result = work();
    IDLE.set(outer);
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
