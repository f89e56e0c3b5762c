//! The event whose callback this thread runs, which TDH decodes without a search.

// UNSAFETY: keeps an address while the value lives on the stack below.
#![expect(unsafe_code)]

use std::cell::Cell;
use std::ptr;

use etw_schema::Event;
use windows_sys::Win32::System::Diagnostics::Etw::EVENT_RECORD;

thread_local! {
    /// The record that the callback got, and the event that it shows.
    static CURRENT: Cell<(*const EVENT_RECORD, *const Event<'static>)> =
        const { Cell::new((ptr::null(), ptr::null())) };
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

/// Calls `work` with the event of a record, if it is the one whose callback this thread runs.
pub(crate) fn with_event<R>(record: *const EVENT_RECORD, work: impl FnOnce(&Event<'_>) -> R) -> Option<R> {
    let (current, event) = CURRENT.get();
    if current.is_null() || current != record {
        return None;
    }
    // SAFETY: `during` set this, and has not returned: the callback runs below it on this stack. `work` cannot keep the
    // reference, since it must accept every lifetime.
    Some(work(unsafe { &*event }))
}
