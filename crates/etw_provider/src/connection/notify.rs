//! Calls of the providers' callbacks, made without holding locks.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::enables::SessionKey;
use crate::provider::Provider;

/// Interval between checks for callbacks that another thread runs.
const STEP: Duration = Duration::from_micros(50);

thread_local! {
    /// Whether this thread runs a callback.
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a callback, for callbacks that pass it to another thread: registering a provider there does not wait
/// for callbacks.
pub fn within_callback<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_CALLING.set(self.0);
        }
    }
    let _restore = Restore(IS_CALLING.replace(true));
    work()
}

/// Pending callbacks, in the order of the events that caused them.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    queue: Mutex<VecDeque<Notification>>,
    /// Held by the thread that runs callbacks.
    calling: Mutex<()>,
    /// Number of callbacks that are queued or run.
    pending: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct Notification {
    pub(super) provider: &'static Provider,
    pub(super) control: Control,
    /// The only session that receives what the callback writes.
    pub(super) scope: Option<SessionKey>,
}

impl Notifications {
    /// Queues a call if the provider has a callback.
    pub(super) fn push(&self, notification: Notification) {
        if notification.provider.place.callback.load().is_some() {
            self.pending.fetch_add(1, Ordering::AcqRel);
            lock(&self.queue).push_back(notification);
        }
    }

    /// Runs the queued calls. Returns at once if another thread is running them, or if called from a callback; the
    /// running call continues with the new ones.
    pub(super) fn deliver(&self) {
        loop {
            let calling = match self.calling.try_lock() {
                Ok(calling) => calling,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            while let Some(notification) = self.next() {
                notification.call();
                self.pending.fetch_sub(1, Ordering::AcqRel);
            }
            drop(calling);
            // A call queued between the last check and the unlock has been left for this thread.
            if lock(&self.queue).is_empty() {
                return;
            }
        }
    }

    /// Runs the queued calls, and waits for those that another thread runs, but not in a callback.
    pub(super) fn deliver_all(&self, until: Instant) {
        self.deliver();
        while self.pending.load(Ordering::Acquire) != 0 && !IS_CALLING.get() && Instant::now() < until {
            std::thread::sleep(STEP);
            self.deliver();
        }
    }

    fn next(&self) -> Option<Notification> {
        lock(&self.queue).pop_front()
    }
}

impl Notification {
    fn call(&self) {
        if let Some(callback) = self.provider.place.callback.load() {
            let _scope = self.scope.map(|key| self.provider.enables.only(key));
            // A panic in one callback must not affect others; the panic hook has reported it.
            let _ = catch_unwind(AssertUnwindSafe(|| within_callback(|| (callback.0)(&self.control))));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
